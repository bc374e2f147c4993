"""The settings below httpcore: one deadline over all of it, and only to addresses checked before.

httpcore's own timeouts are each for one read or write, so that a peer who sends a byte now
and then could keep us for ever; here every step gets what is left of the whole.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import anyio
import anyio.abc
import anyio.to_thread
import httpcore
from anyio.streams.tls import TLSStream

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
        proxy: The proxy that the addresses are of; None where they are the host's own.
        address: The address that is connected, or None.
    """

    def __init__(
        self,
        addresses: Iterable[IPAddress],
        *,
        dial: Dial,
        connect_timeout: float,
        end: Deadline,
        proxy: httpcore.Proxy | None = None,
    ) -> None:
        self.end = end
        self.connect_timeout = connect_timeout
        self.proxy = proxy
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

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
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


# The settings for event loops: the same route, the same deadline.


_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result], *, abandon: bool = False) -> _Result:
    """Do blocking work in a thread that no other request waits for.

    Args:
        work: Bounded in time by itself.
        abandon: Whether a cancelled caller leaves at once; the work must hold nothing then.
    """
    limiter = anyio.CapacityLimiter(1)
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=abandon, limiter=limiter)


class AsyncPinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects along a route, whatever name httpcore has in mind."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def connect_tcp(
        self, host: str, port: int, *_: Any, **__: Any
    ) -> httpcore.AsyncNetworkStream:
        """Connect to `port` (`host` and all options are ignored); raises ``OSError``."""
        connected: socket.socket = await in_thread(lambda: self._route.connect(port))
        with contextlib.ExitStack() as unless_taken:
            unless_taken.callback(connected.close)
            stream = await anyio.abc.SocketStream.from_socket(connected)
            unless_taken.pop_all()
        return AsyncDeadlineStream(stream, self._route)


class AsyncDeadlineStream(httpcore.AsyncNetworkStream):
    """A connection whose every read, write and handshake ends with the route's deadline.

    A shorter `timeout` for one of them holds too. What goes wrong is an ``OSError``, as in
    :class:`DeadlineStream`.
    """

    def __init__(self, stream: anyio.abc.ByteStream, route: Route) -> None:
        self._stream = stream
        self._route = route

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what has arrived, at most `max_bytes`; empty at the end."""
        with _as_os_errors(), anyio.fail_after(self._route.end.remaining(timeout)):
            try:
                return await self._stream.receive(max_bytes)
            except anyio.EndOfStream:
                return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of `buffer`."""
        with _as_os_errors(), anyio.fail_after(self._route.end.remaining(timeout)):
            await self._stream.send(buffer)

    async def aclose(self) -> None:
        """Close the connection without waiting for the peer."""
        await anyio.aclose_forcefully(self._stream)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Do the handshake; the time limit is over the whole of it."""
        limit = self._route.connect_timeout
        async with contextlib.AsyncExitStack() as unless_secured:
            # httpcore forgets a stream whose handshake failed
            unless_secured.push_async_callback(self.aclose)
            with _as_os_errors(), anyio.fail_after(self._route.end.remaining(limit)):
                secured = await TLSStream.wrap(
                    self._stream,
                    server_side=False,
                    hostname=server_hostname,
                    ssl_context=ssl_context,
                    standard_compatible=False,
                )
            unless_secured.pop_all()
        return AsyncDeadlineStream(secured, self._route)


@contextlib.contextmanager
def _as_os_errors() -> Iterator[None]:
    """Convert what anyio raises of its own."""
    try:
        yield
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream) as exc:
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from exc
