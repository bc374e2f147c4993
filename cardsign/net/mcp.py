"""A guarded transport for the client of the mcp package, which speaks httpx2."""

from __future__ import annotations

from contextlib import aclosing

import httpx
import httpx2

from cardsign.net.fetch import FetchSettings, OtherStatus
from cardsign.net.guarded import GuardedTransport, GuardRefused


class McpTransport(GuardedTransport):
    """Asks the origin of one server, without credentials.

    An answer is handed on once it is whole: a server ends a stream of events after its answer.

    Args:
        url: The server's.
        settings: How it is reached; each request has its `total_timeout` and `max_bytes`.

    Attributes:
        failure: Why a message was not answered; the client itself tells of it in a log alone.

    Raises:
        FetchFailed: ``fetch.url``.
    """

    def __init__(self, url: str, settings: FetchSettings) -> None:
        self.failure: BaseException | None = None
        super().__init__(settings, origins={settings.target(url).origin})

    def client(self) -> httpx2.AsyncClient:
        """Return a client that asks by nothing else."""
        return httpx2.AsyncClient(transport=self, timeout=None, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make one request."""
        content, headers = await request.aread(), request.headers.raw
        asked = httpx.Request(request.method, str(request.url), headers=headers, content=content)
        is_message = request.method == "POST"
        try:
            async with aclosing(await super().handle_async_request(asked)) as answer:
                body = await answer.aread()
        except GuardRefused as refused:
            self.failure = refused.__cause__ if is_message else self.failure
            raise
        if is_message and not answer.is_success:
            self.failure = OtherStatus(str(request.url), answer.status_code)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=body)
