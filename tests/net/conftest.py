"""No test of this folder reaches beyond this machine."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from tests.net.ways_to_ask import ASKERS, CALLERS, Ask, Call


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that connects to another machine, or asks the system for a foreign name."""
    connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        assert ip_address(address[0]).is_loopback, address
        connect(self, address)

    def looked_up(host: Any, *args: Any, **more: Any) -> Any:
        assert host == "localhost" or ip_address(host).is_loopback, host
        return getaddrinfo(host, *args, **more)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", looked_up)


@pytest.fixture(params=ASKERS)
def ask(request: pytest.FixtureRequest) -> Ask:
    """A way in which this library asks."""
    return ASKERS[request.param]


@pytest.fixture(params=CALLERS)
def call(request: pytest.FixtureRequest) -> Call:
    """A client of httpx on our transport."""
    return CALLERS[request.param]
