"""The wire of :mod:`cardsign.net.transport` for event loops: the same route, the same deadline.

Names are resolved and connections opened by the same functions, in threads, so that what the
checks allow and what a test records is the same in both worlds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread
import httpcore
from anyio.streams.tls import TLSStream

from cardsign.net.transport import Route

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
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
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
    :class:`cardsign.net.transport.DeadlineStream`.
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
