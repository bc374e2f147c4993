"""The deadline, and connections that are held to it."""

from __future__ import annotations

import math
import socket
import ssl

import pytest
from peers import Names

from cardsign.net.connection import Deadline, DeadlineStream, IPAddress
from cardsign.net.fetch import Exchange, FetchSettings

FIRST, SECOND = "93.184.215.14", "93.184.215.15"


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


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


def test_what_was_stopped_is_not_prolonged() -> None:
    """A task that has left is not brought back by a stream that begins."""
    end = Deadline(Clock(), 10)
    end.stop()
    end.prolong(3600, idle=60)
    with pytest.raises(TimeoutError):
        end.remaining()


def test_each_address_gets_its_time() -> None:
    """An address gets the time for connecting, the last one what is left of the whole."""
    clock, limits = Clock(), []

    def silent(address: IPAddress, port: int, timeout: float) -> socket.socket:
        limits.append(timeout)
        clock.now += min(timeout, 4)
        raise TimeoutError

    names = Names([FIRST, SECOND, "93.184.215.16", "93.184.215.17"])
    settings = FetchSettings(resolver=names, dial=silent, clock=clock)
    with pytest.raises(TimeoutError):
        Exchange(settings, "https://agent.example/").connect_tcp("agent.example", 443)
    assert limits == [5, 5, 2]


@pytest.fixture
def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_peer_who_reads_slowly(pair: tuple[socket.socket, socket.socket]) -> None:
    """A write goes on until all is sent, and ends with the deadline."""
    clock = Clock()
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    stream = DeadlineStream(ours, Deadline(clock, 0.1), 5)
    stream.write(b"x" * 100)
    assert theirs.recv(200) == b"x" * 100
    with pytest.raises(TimeoutError):
        stream.write(b"x" * 1_000_000)
    clock.now += 1
    with pytest.raises(TimeoutError):
        stream.read(1)


def test_too_late_for_tls(pair: tuple[socket.socket, socket.socket]) -> None:
    """A connection that no time is left to secure is closed."""
    clock = Clock()
    ours, theirs = pair
    stream = DeadlineStream(ours, Deadline(clock, 10), 5)
    clock.now += 10
    with pytest.raises(TimeoutError):
        stream.start_tls(ssl.create_default_context(), "agent.example")
    assert theirs.recv(1) == b""
