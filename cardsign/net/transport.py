"""The wire below httpcore: one deadline over all of it, and only to addresses checked before.

httpcore's own timeouts are each for one read or write, so that a peer who sends a byte now
and then could keep us for ever; here every step gets what is left of the whole.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import httpcore

from cardsign.net.addresses import IPAddress

Clock: TypeAlias = Callable[[], float]
"""Monotonic time in seconds."""

Dial: TypeAlias = Callable[[IPAddress, int, float], socket.socket]
"""Connect to an address and port within so many seconds; raises ``OSError``."""


class Deadline:
    """The moment at which everything must be over."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._idle = math.inf

    def remaining(self, at_most: float | None = None) -> float:
        """Return the seconds left, or `at_most` if that is less; always more than 0.

        Raises:
            TimeoutError: None are left.
        """
        left = self._end - self._clock()
        if left <= 0:
            raise TimeoutError
        return min(left, self._idle, math.inf if at_most is None else at_most)

    def prolong(self, seconds: float, *, idle: float) -> None:
        """Let it go on for so many seconds from now, if no single step takes more than `idle`."""
        self._end = self._clock() + seconds
        self._idle = idle


def tcp_dial(address: IPAddress, port: int, timeout: float) -> socket.socket:
    """Open a TCP connection; the address is no name, so nothing is looked up.

    Raises:
        OSError: There is no connection; ``TimeoutError`` after `timeout` seconds.
    """
    return socket.create_connection((str(address), port), timeout)


class Route:
    """The way to a host by the addresses that were checked, and until when it is open.

    Attributes:
        end: When everything must be over.
        connect_timeout: Seconds for one address, and for the TLS handshake.
        address: The address that is connected, or None.
    """

    def __init__(
        self, addresses: Iterable[IPAddress], *, dial: Dial, connect_timeout: float, end: Deadline
    ) -> None:
        self.end = end
        self.connect_timeout = connect_timeout
        self.address: IPAddress | None = None
        self._addresses = tuple(addresses)
        self._dial = dial

    def connect(self, port: int) -> socket.socket:
        """Connect to the first address that answers.

        Raises:
            OSError: None does; what the last one said.
        """
        failure = OSError("no address was given")
        for address in self._addresses:
            limit = self.end.remaining(self.connect_timeout)
            try:
                connected = self._dial(address, port, limit)
            except OSError as exc:
                failure = exc
                continue
            self.address = address
            return connected
        raise failure


class PinnedBackend(httpcore.NetworkBackend):
    """Connects along a route, whatever name httpcore has in mind.

    The name stays what TLS asks for (SNI) and holds the certificate against.
    """

    def __init__(self, route: Route) -> None:
        self._route = route

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to `port` (`host` and all options are ignored); raises ``OSError``."""
        return DeadlineStream(self._route.connect(port), self._route)


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every read, write and handshake ends with the route's deadline.

    A shorter `timeout` for one of them holds too. Foreign errors pass as they are: ``OSError``,
    with ``TimeoutError`` and ``ssl.SSLError``.
    """

    def __init__(self, connected: socket.socket, route: Route) -> None:
        self._socket = connected
        self._route = route

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, at most `max_bytes`; empty at the end."""
        self._socket.settimeout(self._route.end.remaining(timeout))
        return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        while buffer:
            self._socket.settimeout(self._route.end.remaining(timeout))
            buffer = buffer[self._socket.send(buffer) :]

    def close(self) -> None:
        """Close the connection without waiting for the peer."""
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Do the handshake; Python holds the time limit over the whole of it."""
        try:
            self._socket.settimeout(self._route.end.remaining(self._route.connect_timeout))
            secured = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except OSError:
            self.close()  # httpcore forgets a stream whose handshake failed
            raise
        return DeadlineStream(secured, self._route)
