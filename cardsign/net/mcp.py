"""One MCP server over HTTP, by the rules for strangers and without credentials.

Streamable HTTP, and the older SSE where a server does not speak that. The SDK's own client brings
its own HTTP, which keeps none of our rules, so that the few requests are made here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias
from urllib.parse import urljoin

import httpx

from cardsign.card.values import Json
from cardsign.errors import FetchFailed
from cardsign.net.connection import Deadline
from cardsign.net.fetch import FetchSettings, user_agent
from cardsign.net.guarded import EVENT_STREAM, GuardedTransport, GuardRefused

#: The version of MCP that is spoken; each newer server of handshakes knows it too.
PROTOCOL: Final = "2025-06-18"
_NOT_STREAMABLE: Final = (400, 404, 405)  # MCP 2025-06-18, transports: then it may be SSE
_SESSION: Final = re.compile(r"[\x21-\x7e]{1,1024}")  # MCP 2025-06-18, session management
SAVE_IT: Final = "Save the server's answer to tools/list as JSON, and build from that file."

Say: TypeAlias = Callable[[Mapping[str, Json]], Iterator[bytes]]
"""Sends one message at once; what follows it is read message by message."""


@contextlib.contextmanager
def mcp_peer(url: str, settings: FetchSettings, *, seconds: float, max_bytes: int) -> Iterator[Say]:
    """Talk with a server; every connection ends with the block.

    Args:
        url: Where it is; nothing is sent to another origin.
        settings: How it is reached; each request has its `total_timeout`.
        seconds: For all of it: no request is begun later, and no stream goes on.
        max_bytes: Of one answer, and of a stream.

    Raises:
        FetchFailed: As :func:`cardsign.net.fetch.fetch_document`, or ``fetch.elsewhere``.
    """
    with contextlib.ExitStack() as held:
        try:
            yield _Peer(url, settings, held, seconds, max_bytes).say
        except GuardRefused as refused:
            if not isinstance(refused.__cause__, FetchFailed):
                raise
            raise refused.__cause__ from None


class _Peer:
    """The requests to one server, and what it said of its session."""

    def __init__(
        self,
        url: str,
        settings: FetchSettings,
        held: contextlib.ExitStack,
        seconds: float,
        max_bytes: int,
    ) -> None:
        self._url = url
        self._held = held
        self._deadline = Deadline(settings.clock, seconds)
        self._session: dict[str, str] = {}
        self._events: Iterator[tuple[str, bytes]] | None = None  # of SSE: all that it says
        self._transport = GuardedTransport(
            settings,
            origins={settings.target(url).origin},
            max_bytes=max_bytes,
            total_timeout=settings.total_timeout,
            event_idle_timeout=settings.total_timeout,
            event_total_timeout=seconds,
        )

    def say(self, message: Mapping[str, Json]) -> Iterator[bytes]:
        if self._events is None:
            response = self._send("POST", self._url, message)
            if response.status_code not in _NOT_STREAMABLE or self._session:
                return self._messages_in(response)
            self._url, self._events = self._over_sse()
        self._check(self._send("POST", self._url, message))
        return (data for event, data in self._events if event == "message")

    def _messages_in(self, response: httpx.Response) -> Iterator[bytes]:
        self._check(response)
        self._session = {"MCP-Protocol-Version": PROTOCOL, **self._session}
        if session := response.headers.get("mcp-session-id"):
            if not _SESSION.fullmatch(session):
                message = f"{self._url} gave a session id that is not visible ASCII"
                raise FetchFailed("fetch.failed", message, hint=SAVE_IT)
            self._session["Mcp-Session-Id"] = session
        if _is_stream(response):
            return (data for event, data in _events(response) if event == "message")
        body = response.read()
        return iter([body] if body else [])

    def _over_sse(self) -> tuple[str, Iterator[tuple[str, bytes]]]:
        """The older transport: one stream with all answers, which names where to post."""
        stream = self._send("GET", self._url)
        self._check(stream)
        events = _events(stream) if _is_stream(stream) else iter(())
        for event, data in events:
            if event == "endpoint":
                return urljoin(self._url, data.decode(errors="replace")), events
        message = f"{self._url} is neither streamable HTTP nor SSE of MCP"
        raise FetchFailed("fetch.content_type", message, hint=SAVE_IT)

    def _send(
        self, method: str, url: str, message: Mapping[str, Json] | None = None
    ) -> httpx.Response:
        try:
            self._deadline.remaining()
        except TimeoutError as exc:
            raise FetchFailed("fetch.timeout", f"{self._url} took too long in all") from exc
        accept = EVENT_STREAM if message is None else f"application/json, {EVENT_STREAM}"
        headers = {"Accept": accept, "User-Agent": user_agent(), **self._session}
        response = self._transport.handle_request(
            httpx.Request(method, url, headers=headers, json=message)
        )
        self._held.callback(response.close)
        return response

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if not response.is_success:
            hint = f"No credential is sent. {SAVE_IT}" if status in (401, 403) else SAVE_IT
            raise FetchFailed("fetch.status", f"{self._url} answered {status}", hint=hint)


def _is_stream(response: httpx.Response) -> bool:
    declared: str = response.headers.get("content-type", "")
    return declared.partition(";")[0].strip().lower() == EVENT_STREAM


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends; what follows the last end is no line."""
    rest = bytearray()
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest += first  # in place: a peer may send a byte at a time
        for other in others:
            yield bytes(rest.removesuffix(b"\r"))
            rest = bytearray(other)


def _events(response: httpx.Response) -> Iterator[tuple[str, bytes]]:
    """The events of a stream: their names and data (HTML, 9.2.6)."""
    event, data = "", list[bytes]()
    for line in lines_of(response.iter_raw()):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            event = value.decode(errors="replace")
        elif name == b"data":
            data.append(value)
        elif not line:
            if data:
                yield event or "message", b"\n".join(data)
            event, data = "", []
