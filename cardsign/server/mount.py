"""A publication in front of the agent's own application: under WSGI, ASGI, or in Flask.

The extended card is asked for at the agent's own URL, so a proxy that routes by path cannot split
it off. What stands here answers the card's paths and the one JSON-RPC method, and passes every
other request on untouched. While extended cards are published, the agent gets no request that
it could answer with its extended card: it may have one of its own, and no guard before it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from flask import Blueprint, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused
from cardsign.server.answers import CARD_METHODS, MAX_REQUEST_BYTES, TOO_LONG, Answer, error_answer
from cardsign.server.events import to_log, to_stderr
from cardsign.server.live import LiveApplication, place_of
from cardsign.server.run import PeerThreads, answered, make_environ
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings
from cardsign.urls import EXTENDED_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
#: Settings of a server, which what stands before an application is not.
_OF_SERVE: Final = ("rate", "access_log", "metrics", "workers")
Send: TypeAlias = Callable[[Message], Awaitable[None]]


def mount_cards(
    app: Any,
    publication: Path,
    settings: ServerSettings = DEFAULT_SETTINGS,
    *,
    log: Callable[[str], None] = to_stderr,
    events: Callable[[str], None] = to_log,
) -> Any:
    """Put a publication in front of an agent's application.

    ::

        app = mount_cards(Starlette(routes=...), Path("public"), ServerSettings(tokens))

    While extended cards are published, the body of each POST is read, 64 KiB at most, and passed
    on whole if it does not ask for the card. A longer one is passed on piece by piece, and ends
    with 413 where it may name a card method. Bodies that are compressed or in another charset
    than UTF-8 get 415. Limits and deadlines of the card server do not hold for what is passed
    on. While the publication has no extended card, requests for one are passed on too: the agent
    may have its own.

    Args:
        app: A WSGI or an ASGI application. One that is called with three values is ASGI's.
        publication: The publication directory, as ``cardsign publish`` writes it; it is followed.
        settings: To whom the extended cards are served, and whether the legacy path is.
        log: Takes a line for the operator.
        events: Takes the event of each publication that is taken up.

    Returns:
        An application of the same kind.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.live.LiveApplication`.
    """
    if not settings.enabled:
        return app
    _tell_idle(settings, log)
    live = LiveApplication(publication, settings, log=log, events=events)
    # ASGI's is called with scope, receive and send, WSGI's with environ and start_response.
    is_asgi = len(inspect.signature(app).parameters) == 3
    if is_asgi:
        return _AsgiMount(app, live)

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return (_choose_answer(live, environ) or app)(environ, start_response)
        except _CardMethodInLongBody:
            start_response("413 CONTENT TOO LARGE", [*_TOO_LONG.headers], sys.exc_info())
            return [_TOO_LONG.body]

    return answer


def _tell_idle(settings: ServerSettings, log: Callable[[str], None]) -> None:
    """Say which settings do nothing here; who sets a limit would rely on it."""
    idle = [one for one in _OF_SERVE if getattr(settings, one) != getattr(DEFAULT_SETTINGS, one)]
    if idle:
        log(
            f"{', '.join(idle)}: `cardsign serve` alone does this; "
            "in front of an application, its own server has to"
        )


#: The answer to a long body that may name a card method.
_TOO_LONG: Final = error_answer(413, TOO_LONG, ("Connection", "close"))
_ENCODED: Final = error_answer(
    415, "send the request uncompressed, in UTF-8", ("Connection", "close")
)
_CHARSET: Final = re.compile(r"""charset\s*\*?=\s*([^\s;,]*)""")


_EXTENDED_ENDS: Final = (EXTENDED_PATH, "/v1/card", "/agent/authenticatedExtendedCard")


def _is_ours(live: LiveApplication, method: str, script: str, path: str) -> bool | None:
    """Return whether a request is for a card; None where its body decides."""
    live.look()
    paths, are_extended = live.views.paths, live.views.cards.are_there
    if method == "POST" and are_extended:
        return None
    kind, _ = place_of(paths, script, path)
    if kind == "public":
        return method in ("GET", "HEAD", "OPTIONS")
    if not are_extended or method not in ("GET", "HEAD"):
        return False
    # An agent's own may be at any address and of any tenant, and of A2A 0.3, which no card says.
    return kind == "extended" or f"/{path}".rstrip("/").endswith(_EXTENDED_ENDS)


def _may_ask_for_card(body: bytes) -> bool:
    """Return whether any reader of JSON might find a card method in a body."""
    try:
        members = parse_object(body, max_bytes=MAX_REQUEST_BYTES)
    except JsonRefused:  # readers may disagree about it
        return _CardMethodScanner().feed(body)
    return any(isinstance(value, str) and value in CARD_METHODS for value in members.values())


def _is_encoded(content_encoding: str, content_type: str) -> bool:
    """Return whether a body's bytes are not what a reader of JSON would get."""
    charsets = _CHARSET.findall(content_type.lower())
    return content_encoding.strip().lower() not in ("", "identity") or any(
        charset.strip('"') not in ("utf-8", "utf8", "us-ascii") for charset in charsets
    )


class _CardMethodInLongBody(RequestEntityTooLarge):
    """A body that is passed on piece by piece may name a card method."""

    description = TOO_LONG


class _CardMethodScanner:
    """Tells whether any reader of JSON, however lenient, might find a card method in a body.

    Such a reader needs a method's name, or an escaped letter, which no writer of JSON makes. Bytes
    of UTF-16 and UTF-32, byte order marks, and what a reader may overlook are left out first.
    """

    _METHOD: Final = re.compile(
        rb"get(?:extendedagent|authenticatedextended)card"
        rb"|[^\\]\\u00(?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])"
    )
    _LEFT_OUT: Final = bytes([0, *range(0x80, 0x100)])
    #: Longer than any match, so that none is missed between two pieces.
    _OVERLAP: Final = 40

    def __init__(self) -> None:
        self._tail = b""
        self._is_json: bool | None = None
        self._has_method = False

    def feed(self, piece: bytes) -> bool:
        """Return whether the body might name a card method, as far as it is known."""
        text = self._tail + piece.translate(None, self._LEFT_OUT).lower()
        if self._is_json is None and text.strip():
            self._is_json = text.lstrip().startswith((b"{", b"["))
        # A search costs more than these two, which counts where a body is read by short lines.
        if self._is_json and (b"card" in text or b"\\u00" in text):
            self._has_method = self._has_method or self._METHOD.search(text) is not None
        self._tail = text[-self._OVERLAP :]
        return self._has_method


def card_blueprint(
    publication: Path,
    settings: ServerSettings = DEFAULT_SETTINGS,
    *,
    log: Callable[[str], None] = to_stderr,
    events: Callable[[str], None] = to_log,
) -> Blueprint:
    """The card's paths as a Flask blueprint, for an agent that is a Flask application.

    ::

        app.register_blueprint(card_blueprint(Path("public"), settings))

    It has no rules of its own: before each request, and before the application's own functions
    that are called then, it looks up in the newest generation whether that is for a card, as
    :func:`mount_cards` does. All else reaches the application's views.
    Register it without a `url_prefix`: a card says whole paths.

    Args:
        publication: As for :func:`mount_cards`.
        settings: Likewise.
        log: Likewise.
        events: Likewise.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.live.LiveApplication`.
    """
    cards = Blueprint("cardsign", __name__)
    if not settings.enabled:
        return cards
    _tell_idle(settings, log)
    live = LiveApplication(publication, settings, log=log, events=events)

    def answer() -> Response | None:
        chosen = _choose_answer(live, request.environ)
        return chosen and Response.from_app(chosen, request.environ, buffered=True)

    @cards.record_once
    def put_first(state: BlueprintSetupState) -> None:
        # One of the application's own would take the body before it is looked at.
        state.app.before_request_funcs.setdefault(None, []).insert(0, answer)

    return cards


class _AsgiMount:
    """The publication before an ASGI application."""

    def __init__(self, app: Any, live: LiveApplication) -> None:
        self._app = app
        self._live = live
        self._threads = PeerThreads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, method = _split_path(scope), scope["method"].upper()
        is_ours = _is_ours(self._live, method, *path)
        body = b""
        if is_ours is None:
            if _is_encoded(*(_header(scope, n) for n in (b"content-encoding", b"content-type"))):
                await _send_answer(send, _ENCODED, method)
                return
            body, receive, is_whole = await _read_ahead(receive)
            if not is_whole:
                await _pass_scanned(self._app, scope, receive, send)
                return
            is_ours = _may_ask_for_card(body)
        if not is_ours:
            await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        client = (scope.get("client") or ("",))[0]
        fields = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
        environ = make_environ(method, path, query, client, fields, body)
        if self._live.may_wait(environ):
            answer = await self._threads.run(self._live, environ)
        else:
            answer = answered(self._live, environ)
        await _send_answer(send, answer, method)


async def _send_answer(send: Send, answer: Answer, method: str) -> None:
    raw = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})


def _header(scope: Scope, name: bytes) -> str:
    values = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return ",".join(values)


def _split_path(scope: Scope) -> tuple[str, str]:
    """Where the application is mounted, and what follows, as WSGI writes both.

    The path of ASGI is whole, `root_path` included.
    """
    raw_path = scope.get("raw_path")  # servers may leave it out
    whole = scope["path"].encode() if raw_path is None else unquote_to_bytes(raw_path)
    root = scope.get("root_path", "").encode().rstrip(b"/")
    if not whole.startswith(root + b"/"):
        root = b""
    return root.decode("latin-1"), whole[len(root) :].decode("latin-1")


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive, bool]:
    """Read a body, or its beginning where it is longer than a request for a card may be.

    Returns:
        Also what gives the same messages once more, and then all that follow; and whether the
        body is whole.
    """
    body, messages, is_whole = b"", list[Message](), False
    while not is_whole and len(body) <= MAX_REQUEST_BYTES:
        message = await receive()
        messages.append(message)
        body += message.get("body", b"")
        is_whole = message["type"] != "http.request" or not message.get("more_body", False)
    waiting = iter(messages)

    async def receive_again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return body, receive_again, is_whole


async def _pass_scanned(app: Any, scope: Scope, receive: Receive, send: Send) -> None:
    """Pass a long body on, message by message, until one may name a card method.

    For the agent the client has gone then; the client gets 413 unless the agent had begun.
    """
    scanner = _CardMethodScanner()
    is_refused = has_begun = False

    async def receive_scanned() -> Message:
        nonlocal is_refused
        message: Message = {"type": "http.disconnect"} if is_refused else await receive()
        if scanner.feed(message.get("body", b"")):
            is_refused = True
            return {"type": "http.disconnect"}
        return message

    async def send_allowed(message: Message) -> None:
        nonlocal has_begun
        if has_begun or not is_refused:
            has_begun = True
            await send(message)

    try:
        await app(scope, receive_scanned, send_allowed)
    except Exception:
        if not is_refused:
            raise
    if is_refused and not has_begun:
        await _send_answer(send, _TOO_LONG, "POST")


def _choose_answer(live: LiveApplication, environ: WSGIEnvironment) -> WSGIApplication | None:
    """Return what answers a request of WSGI before the agent does; None for the agent itself.

    A body that was read can be read once more; a longer one is looked at as the agent reads it.
    """
    path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
    is_ours = _is_ours(live, environ["REQUEST_METHOD"].upper(), *path)
    if is_ours is not None:
        return live if is_ours else None
    if _is_encoded(environ.get("HTTP_CONTENT_ENCODING", ""), environ.get("CONTENT_TYPE", "")):
        return _ENCODED.__call__
    length, stream = environ.get("CONTENT_LENGTH") or "", environ["wsgi.input"]
    limit = 0  # a body whose end nobody knows is not read, nor one that is too long for a request
    if length.isdecimal():
        limit = int(length) if int(length) <= MAX_REQUEST_BYTES else 0
    elif environ.get("wsgi.input_terminated"):
        limit = MAX_REQUEST_BYTES + 1
    body = b""
    while len(body) < limit and (piece := stream.read(limit - len(body))):
        body += piece
    if limit and len(body) <= MAX_REQUEST_BYTES:
        environ["wsgi.input"] = BytesIO(body)
        return live if _may_ask_for_card(body) else None
    environ["wsgi.input"] = _ScannedInput(body, stream)
    return None


class _ScannedInput:
    """A stream of which the beginning was read; it gives nothing that may name a card method.

    Each of its methods raises :class:`_CardMethodInLongBody` instead, and does so from then on.
    """

    def __init__(self, beginning: bytes, rest: Any) -> None:
        self._beginning = BytesIO(beginning)
        self._rest = rest
        self._scanner = _CardMethodScanner()

    def read(self, size: int | None = -1) -> bytes:
        data = self._beginning.read(size)
        if size is None or size < 0:
            data += self._rest.read()
        elif len(data) < size:
            data += self._rest.read(size - len(data))
        return self._checked(data)

    def readline(self, size: int | None = -1) -> bytes:
        data = self._beginning.readline(size)
        if not data.endswith(b"\n"):
            if size is None or size < 0:
                data += self._rest.readline()
            elif len(data) < size:
                data += self._rest.readline(size - len(data))
        return self._checked(data)

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def readinto(self, buffer: bytearray | memoryview) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _checked(self, data: bytes) -> bytes:
        if self._scanner.feed(data):
            raise _CardMethodInLongBody
        return data
