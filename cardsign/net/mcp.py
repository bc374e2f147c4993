"""A guarded transport for the client of the mcp package, which speaks httpx2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import httpx2

from cardsign.errors import FetchFailed
from cardsign.net.fetch import FetchSettings, OtherStatus
from cardsign.net.guarded import GuardedTransport, GuardRefused


class McpTransport(GuardedTransport):
    """Asks the origin of one server, without credentials.

    Args:
        url: The server's.
        settings: How it is reached; each request has its `total_timeout`.
        max_bytes: Of one answer, and of a stream.

    Attributes:
        failure: Why a message was not answered; the client itself tells of it in a log alone.

    Raises:
        FetchFailed: ``fetch.url``.
    """

    def __init__(self, url: str, settings: FetchSettings, *, max_bytes: int) -> None:
        self.failure: FetchFailed | None = None
        super().__init__(
            settings,
            origins={settings.target(url).origin},
            max_bytes=max_bytes,
            total_timeout=settings.total_timeout,
        )

    def client(self) -> httpx2.AsyncClient:
        """Return a client that asks by nothing else."""
        return httpx2.AsyncClient(transport=self, timeout=None, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make one request."""
        content, headers = await request.aread(), request.headers.raw
        asked = httpx.Request(request.method, str(request.url), headers=headers, content=content)
        with self.noting_failure(asked):
            answer = await super().handle_async_request(asked)
        if request.method == "POST" and not answer.is_success:
            self.failure = OtherStatus(str(request.url), answer.status_code)
        body = _Body(self, answer, asked)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, stream=body)

    @contextmanager
    def noting_failure(self, asked: httpx.Request) -> Iterator[None]:
        """Keep why a message was not answered."""
        try:
            yield
        except GuardRefused as refused:
            if asked.method == "POST" and isinstance(refused.__cause__, FetchFailed):
                self.failure = refused.__cause__
            raise


class _Body(httpx2.AsyncByteStream):  # type: ignore[misc]
    """The body of a guarded answer."""

    def __init__(
        self, transport: McpTransport, answer: httpx.Response, asked: httpx.Request
    ) -> None:
        self._transport, self._answer, self._asked = transport, answer, asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._transport.noting_failure(self._asked):
            async for part in self._answer.aiter_raw():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()
