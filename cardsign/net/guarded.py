"""An httpx transport for calling agents: whatever client is put on it, nothing that a peer answers
takes the client elsewhere, keeps it for ever, or fills its memory.

::

    client = httpx.Client(transport=GuardedTransport(origins={"https://a.example"}))

Every request resolves the host anew, checks every address, and has a connection of its own: none
is reused, so that no check is skipped. What a client sends is its own affair; what it may not
decide is where to (``Host``, SNI, proxies) and how answers are framed (encodings, upgrades).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import httpx

from cardsign.errors import FetchFailed
from cardsign.net.connection import in_thread
from cardsign.net.fetch import Exchange, FetchSettings, OtherStatus
from cardsign.urls import Origin

if TYPE_CHECKING:
    import httpx2

#: An agent may think before it answers, and its answer may hold files, in base64.
AGENT_SETTINGS: Final = FetchSettings(total_timeout=60.0, max_bytes=16 * 1024 * 1024)

# What would decide where a request goes or how the answer is framed; ours stand instead.
_OURS: Final = frozenset(
    {b"accept-encoding", b"connection", b"host", b"keep-alive", b"te", b"upgrade"}
    | {b"proxy-authorization", b"proxy-connection"}
)
# What a peer would like the client to remember, or to ask next.
_WITHOUT_EFFECT: Final = frozenset(
    {"alt-svc", "link", "refresh", "set-cookie", "set-cookie2", "strict-transport-security"}
)


class GuardRefused(httpx.TransportError):
    """A request that was not made, or an answer that is not handed on.

    Its ``__cause__`` is the :class:`cardsign.errors.FetchFailed`, with the code.
    """


@contextlib.contextmanager
def as_httpx(request: httpx.Request) -> Iterator[None]:
    """Convert our errors into what users of httpx catch.

    Raises:
        GuardRefused: For one of ours.
    """
    try:
        yield
    except FetchFailed as failure:
        raise GuardRefused(str(failure), request=request) from failure


class GuardedTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport for :class:`httpx.Client` and any number of threads, or for
    :class:`httpx.AsyncClient`; there each request has a thread while it waits.

    Args:
        settings: How hosts are reached. Its `total_timeout` and `max_bytes` are for one answer,
            or for all of one stream of events.
        origins: Where requests may go; None for anywhere.

    Raises:
        FetchFailed: ``fetch.tls``; the settings's TLS context does not check names.
    """

    def __init__(
        self,
        settings: FetchSettings = AGENT_SETTINGS,
        *,
        origins: Collection[Origin | str] | None = None,
    ) -> None:
        self._settings = replace(settings, ssl_context=settings.tls_context())
        self._origins = None if origins is None else {*map(str, origins)}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Make one request.

        Raises:
            GuardRefused: With one of the codes of :func:`cardsign.net.fetch.fetch_document` but
                ``fetch.content_type``, or ``fetch.elsewhere``.
        """
        return self._answer(request, self._begin(request))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make one request.

        Raises:
            GuardRefused: As :meth:`handle_request`.
        """
        exchange = self._begin(request)
        await request.aread()
        try:
            return await in_thread(partial(self._answer, request, exchange))
        except anyio.get_cancelled_exc_class():
            exchange.abort()
            raise

    def _begin(self, request: httpx.Request) -> Exchange:
        """Decide whether a request may be made, before any name is looked up.

        Raises:
            GuardRefused: ``fetch.url``, ``fetch.elsewhere``.
        """
        with as_httpx(request):
            exchange = Exchange(self._settings, str(request.url))
            origin = exchange.url.origin
            if self._origins is not None and str(origin) not in self._origins:
                message = f"{origin} is not an origin that this client may ask"
                raise FetchFailed("fetch.elsewhere", message)
        return exchange

    def _answer(self, request: httpx.Request, exchange: Exchange) -> httpx.Response:
        """Make a request, and judge the answer by its head.

        Raises:
            GuardRefused: With the code of the error: ``fetch.status`` (a redirect), and those of
                the exchange.
        """
        with contextlib.ExitStack() as unless_answered, as_httpx(request):
            unless_answered.callback(exchange.close)
            sent = [field for field in request.headers.raw if field[0].lower() not in _OURS]
            exchange.send(request.method, sent, request.stream, request.extensions.get("timeout"))
            status = exchange.status
            if 300 <= status < 400:
                raise OtherStatus(str(exchange.url), status)
            unless_answered.pop_all()
        shown = [field for field in exchange.headers if field[0] not in _WITHOUT_EFFECT]
        headers = httpx.Headers(shown, encoding="latin-1")
        return httpx.Response(status, headers=headers, stream=_Body(exchange, request))


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is counted and timed while it arrives; it holds its connection."""

    def __init__(self, exchange: Exchange, request: httpx.Request) -> None:
        self._exchange = exchange
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        with as_httpx(self._request):
            yield from self._exchange.read()

    def close(self) -> None:
        self._exchange.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = iter(self)
        while (part := await in_thread(partial(next, parts, None))) is not None:
            yield part

    async def aclose(self) -> None:
        self._exchange.abort()  # a thread that still reads lets go of it


class McpTransport(GuardedTransport):
    """A transport for the client of the mcp package, which speaks httpx2.

    It asks the origin of one server, without credentials.

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
        import httpx2

        return httpx2.AsyncClient(transport=self, timeout=None, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Make one request."""
        import httpx2

        content, headers = await request.aread(), request.headers.raw
        asked = httpx.Request(request.method, str(request.url), headers=headers, content=content)
        is_message = request.method == "POST"
        try:
            async with contextlib.aclosing(await super().handle_async_request(asked)) as answer:
                body = await answer.aread()
        except GuardRefused as refused:
            self.failure = refused.__cause__ if is_message else self.failure
            raise
        if is_message and not answer.is_success:
            self.failure = OtherStatus(str(request.url), answer.status_code)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=body)
