"""A way for the client of the mcp package to ask one server, by the rules for strangers.

That client speaks httpx2. What it asks is handed to :class:`GuardedTransport`, and no byte of
a server comes to it but through that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import httpx
import httpx2

from cardsign.errors import FetchFailed
from cardsign.net.fetch import FetchSettings, OtherStatus
from cardsign.net.guarded import GuardedTransport, GuardRefused


class McpTransport(httpx2.AsyncBaseTransport):  # type: ignore[misc]
    """Asks the origin of one server, without credentials.

    Args:
        url: The server's.
        settings: How it is reached; each request has its `total_timeout`.
        seconds: For a stream of events.
        max_bytes: Of one answer, and of a stream.

    Attributes:
        failure: Why a message was not answered; the client itself tells of it in a log alone.

    Raises:
        FetchFailed: ``fetch.url``.
    """

    def __init__(
        self, url: str, settings: FetchSettings, *, seconds: float, max_bytes: int
    ) -> None:
        self.failure: FetchFailed | None = None
        self._guarded: Final = GuardedTransport(
            settings,
            origins={settings.target(url).origin},
            max_bytes=max_bytes,
            total_timeout=settings.total_timeout,
            event_idle_timeout=settings.total_timeout,
            event_total_timeout=seconds,
        )

    def client(self) -> httpx2.AsyncClient:
        """Return a client that asks by nothing else."""
        return httpx2.AsyncClient(transport=self, timeout=None, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make one request."""
        content = await request.aread()
        asked = httpx.Request(
            request.method, str(request.url), headers=request.headers.raw, content=content
        )
        try:
            answer = await self._guarded.handle_async_request(asked)
        except GuardRefused as refused:
            raise self._failed(refused, request) from refused
        if request.method == "POST" and not answer.is_success:
            self.failure = OtherStatus(str(request.url), answer.status_code)
        body = _Body(self, answer, request)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=body)

    def _failed(self, refused: GuardRefused, request: httpx2.Request) -> httpx2.TransportError:
        if request.method == "POST" and isinstance(refused.__cause__, FetchFailed):
            self.failure = refused.__cause__
        return httpx2.TransportError(str(refused), request=request)


class _Body(httpx2.AsyncByteStream):  # type: ignore[misc]
    """The body of a guarded answer."""

    def __init__(
        self, transport: McpTransport, answer: httpx.Response, request: httpx2.Request
    ) -> None:
        self._transport, self._answer, self._request = transport, answer, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._answer.aiter_raw():
                yield part
        except GuardRefused as refused:
            raise self._transport._failed(refused, self._request) from refused

    async def aclose(self) -> None:
        await self._answer.aclose()
