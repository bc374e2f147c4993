"""The deadline, and connections that are held to it."""

from __future__ import annotations

import math
import socket
import ssl
from ipaddress import ip_address

import pytest
from peers import NoDial

from cardsign.net.connection import Deadline, DeadlineStream, IPAddress, PinnedBackend, Route

FIRST, SECOND = ip_address("93.184.215.14"), ip_address("93.184.215.15")


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def route(*addresses: IPAddress, dial, clock: Clock, seconds: float = 10) -> Route:
    return Route(addresses, dial=dial, connect_timeout=5, end=Deadline(clock, seconds))


def test_what_remains() -> None:
    """What is left shrinks, is never more than asked for, and is never nothing."""
    clock = Clock()
    end = Deadline(clock, 10)
    assert (end.remaining(), end.remaining(5)) == (10, 5)
    clock.now += 7
    assert (end.remaining(), end.remaining(5)) == (3, 3)
    clock.now = math.nextafter(1010, 0)
    assert end.remaining() > 0
    clock.now = 1010
    with pytest.raises(TimeoutError):
        end.remaining()


def test_each_address_gets_its_time() -> None:
    """An address gets the time for connecting, the last one what is left of the whole."""
    clock, limits = Clock(), []

    def silent(address: IPAddress, port: int, timeout: float) -> socket.socket:
        limits.append(timeout)
        clock.now += min(timeout, 4)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        route(FIRST, SECOND, FIRST, SECOND, dial=silent, clock=clock).connect(443)
    assert limits == [5, 5, 2]


def test_the_name_is_not_looked_at() -> None:
    """Whatever name is asked for, the connection goes to the checked addresses."""
    dial = NoDial()
    pinned = route(FIRST, SECOND, dial=dial, clock=Clock())
    with pytest.raises(ConnectionRefusedError):
        PinnedBackend(pinned).connect_tcp("localhost", 8443)
    assert dial.asked == [(str(FIRST), 8443), (str(SECOND), 8443)]
    assert pinned.address is None


def test_the_connected_address_is_known() -> None:
    """The address that answered is kept for the report."""
    ours, theirs = socket.socketpair()

    def second(address: IPAddress, port: int, timeout: float) -> socket.socket:
        if address == FIRST:
            raise ConnectionRefusedError
        return ours

    pinned = route(FIRST, SECOND, dial=second, clock=Clock())
    with theirs:
        PinnedBackend(pinned).connect_tcp("agent.example", 443).close()
        assert theirs.recv(1) == b""
    assert pinned.address == SECOND


def test_a_peer_who_reads_slowly() -> None:
    """A write goes on until all is sent, and ends with the deadline."""
    clock = Clock()
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream = DeadlineStream(ours, route(FIRST, dial=NoDial(), clock=clock, seconds=0.1))
    with ours, theirs:
        stream.write(b"x" * 100)
        assert theirs.recv(200) == b"x" * 100
        with pytest.raises(TimeoutError):
            stream.write(b"x" * 1_000_000)
        clock.now += 1
        with pytest.raises(TimeoutError):
            stream.read(1)


def test_too_late_for_tls() -> None:
    """A connection that no time is left to secure is closed."""
    clock = Clock()
    ours, theirs = socket.socketpair()
    stream = DeadlineStream(ours, route(FIRST, dial=NoDial(), clock=clock))
    clock.now += 10
    with theirs:
        with pytest.raises(TimeoutError):
            stream.start_tls(ssl.create_default_context(), "agent.example")
        assert theirs.recv(1) == b""
