"""A publication in front of the agent's own application: under WSGI, ASGI, or in Flask.

The extended card is asked for at the agent's own URL, so a proxy that routes by path cannot split
it off. What stands here hands the card's paths and the one JSON-RPC method to the application of
the cards, and every other request to the agent untouched. While extended cards are published,
the agent gets no request that it could answer with its extended card: it may have one of its own,
and no guard before it.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from urllib.parse import unquote_to_bytes

from flask import Blueprint, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge, UnsupportedMediaType
from werkzeug.wrappers import Response

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused
from cardsign.server.a2a import (
    CARD_METHODS,
    MAX_CALL_BYTES,
    TOO_LONG,
    answer_http_error,
    close_connection,
)
from cardsign.server.app import answer_busy, create_app
from cardsign.server.places import Busy
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings
from cardsign.server.site import Publications
from cardsign.urls import EXTENDED_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_EXTENDED_ENDS: Final = (EXTENDED_PATH, "/v1/card", "/agent/authenticatedExtendedCard")
_CHARSET: Final = re.compile(r"""charset\s*\*?=\s*([^\s;,]*)""")


def mount_cards(app: Any, publication: Path, settings: ServerSettings = DEFAULT_SETTINGS) -> Any:
    """Put a publication in front of an agent's application.

    ::

        app = mount_cards(Starlette(routes=...), Path("public"), ServerSettings(token_file=...))

    While extended cards are published, the body of each POST is read, 64 KiB at most, and passed
    on whole if it does not ask for the card. A longer one is passed on piece by piece, and ends
    with 413 where it may name a card method. Bodies that are compressed or in another charset
    than UTF-8 get 415. While the publication has no extended card, requests for one are passed
    on too: the agent may have its own.

    Args:
        app: A WSGI or an ASGI application. One that is called with three values is ASGI's.
        publication: The publication directory, as ``cardsign publish`` writes it; it is followed.
        settings: To whom the extended cards are served, and whether the legacy path is.

    Returns:
        An application of the same kind.

    Raises:
        ServeFault, FileFault, JsonRefused, UsageFault: As :func:`cardsign.server.create_app`.
    """
    # ASGI's is called with scope, receive and send, WSGI's with environ and start_response.
    is_asgi = len(inspect.signature(app).parameters) == 3
    gate = Gate(publication, settings)
    return AsgiMount(app, gate) if is_asgi else WsgiMount(app, gate)


class Gate:
    """Decides who answers a request: the cards' application, or the agent's.

    Args:
        publication: The publication directory.
        settings: To whom the extended cards are served.

    Attributes:
        cards: The Flask application of the cards.
        publications: What it serves.
    """

    def __init__(self, publication: Path, settings: ServerSettings) -> None:
        # `cardsign serve` counts; in front of an application its own server does.
        self.cards = create_app(publication, settings.model_copy(update={"metrics": False}))
        self.publications = cast(Publications, self.cards.extensions["cardsign"])

    def is_for_cards(self, method: str, script: str, path: str) -> bool | None:
        """Return whether a request is for the cards; None where its body decides.

        Args:
            method: Of the request, in capitals.
            script: Where the application is mounted, decoded.
            path: What follows, likewise.
        """
        self.publications.start_watching()
        agent = self.publications.site.root
        if agent is None:
            return False
        are_extended = agent.extended.are_published
        if method == "POST" and are_extended:
            return None
        if path in agent.documents:
            return method in ("GET", "HEAD", "OPTIONS")
        if not are_extended or method not in ("GET", "HEAD"):
            return False
        # An agent's own may be at any address, of any tenant, and of A2A 0.3; no card says so.
        is_listed = bool({script + path, path} & agent.extended_paths.keys())
        return is_listed or f"/{path}".rstrip("/").endswith(_EXTENDED_ENDS)


def _may_ask_for_card(body: bytes) -> bool:
    """Return whether any reader of JSON might find a card method in a body."""
    try:
        members = parse_object(body, max_bytes=MAX_CALL_BYTES)
    except JsonRefused:  # readers may disagree about it
        return _CardMethodScanner().feed(body)
    return any(isinstance(value, str) and value in CARD_METHODS for value in members.values())


def _check_encoding(content_encoding: str, content_type: str) -> None:
    """Check that a body's bytes are what a reader of JSON would get.

    Raises:
        UnsupportedMediaType: It is compressed, or in another charset than UTF-8.
    """
    charsets = {charset.strip('"') for charset in _CHARSET.findall(content_type.lower())}
    is_plain = content_encoding.strip().lower() in ("", "identity")
    if not is_plain or charsets - {"utf-8", "utf8", "us-ascii"}:
        raise UnsupportedMediaType("send the request uncompressed, in UTF-8")


def _refuse(error: HTTPException | Busy, environ: WSGIEnvironment) -> Response:
    """Return the answer to a request whose body was not read."""
    response = answer_busy(error) if isinstance(error, Busy) else answer_http_error(error)
    close_connection(response, environ)
    return response


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


def card_blueprint(publication: Path, settings: ServerSettings = DEFAULT_SETTINGS) -> Blueprint:
    """Return the card's paths as a Flask blueprint, for an agent that is a Flask application.

    ::

        app.register_blueprint(card_blueprint(Path("public"), settings))

    It has no rules of its own: before each request, and before the application's own functions
    that are called then, it looks up whether that is for a card, as :func:`mount_cards` does. All
    else reaches the application's views. Register it without a `url_prefix`: a card says whole
    paths.

    Args:
        publication: As for :func:`mount_cards`.
        settings: Likewise.

    Raises:
        ServeFault, FileFault, JsonRefused, UsageFault: As :func:`cardsign.server.create_app`.
    """
    blueprint = Blueprint("cardsign", __name__)
    gate = Gate(publication, settings)

    def answer() -> Response | None:
        chosen = _choose_application(gate, request.environ)
        return chosen and Response.from_app(chosen, request.environ, buffered=True)

    @blueprint.record_once
    def put_first(state: BlueprintSetupState) -> None:
        # One of the application's own would take the body before it is looked at.
        state.app.before_request_funcs.setdefault(None, []).insert(0, answer)

    return blueprint


class WsgiMount:
    """The publication before a WSGI application."""

    def __init__(self, app: WSGIApplication, gate: Gate) -> None:
        self._app, self.gate = app, gate

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        try:
            chosen = _choose_application(self.gate, environ) or self._app
            return chosen(environ, start_response)
        except _CardMethodInLongBody as error:
            refusal = _refuse(error, environ)
            start_response(refusal.status, [*refusal.headers], sys.exc_info())
            return [refusal.get_data()]


def _choose_application(gate: Gate, environ: WSGIEnvironment) -> WSGIApplication | None:
    """Return what answers a request of WSGI before the agent does; None for the agent itself.

    A body that was read can be read once more; a longer one is looked at as the agent reads it.
    """
    script, path = (
        str(environ.get(name, "")).encode("latin-1").decode(errors="replace")
        for name in ("SCRIPT_NAME", "PATH_INFO")
    )
    is_for_cards = gate.is_for_cards(environ["REQUEST_METHOD"].upper(), script, path)
    if is_for_cards is not None:
        return gate.cards if is_for_cards else None
    length, stream = environ.get("CONTENT_LENGTH") or "", environ["wsgi.input"]
    remaining = int(length) if length.isdecimal() else None
    has_end = remaining is not None or environ.get("wsgi.input_terminated")
    limit = MAX_CALL_BYTES + 1 if remaining is None else remaining
    if not has_end or limit > MAX_CALL_BYTES + 1:
        limit = 0  # nor is a body read that is too long for a request
    body = b""
    try:
        _check_encoding(environ.get("HTTP_CONTENT_ENCODING", ""), environ.get("CONTENT_TYPE", ""))
        with gate.publications.bodies:
            while len(body) < limit and (piece := stream.read(limit - len(body))):
                body += piece
    except (Busy, UnsupportedMediaType) as error:
        return _refuse(error, environ)
    if limit and len(body) <= MAX_CALL_BYTES:
        environ["wsgi.input"] = BytesIO(body)
        environ["cardsign.body_was_read"] = True
        return gate.cards if _may_ask_for_card(body) else None
    scanned = _ScannedInput(body, stream, None if remaining is None else remaining - len(body))
    # Nothing is read ahead of a stream of which nobody knows the end.
    environ["wsgi.input"] = BufferedReader(scanned, 8192 if has_end else 1)
    return None


class _ScannedInput(RawIOBase):
    """A stream of which the beginning was read; it gives nothing that may name a card method.

    It raises :class:`_CardMethodInLongBody` instead, and does so from then on.
    """

    def __init__(self, beginning: bytes, rest: Any, left: int | None) -> None:
        self._beginning, self._rest = BytesIO(beginning), rest
        self._left = left
        self._scanner = _CardMethodScanner()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._beginning.read(len(buffer))
        if not data and self._left != 0:
            data = self._rest.read(min(len(buffer), self._left or len(buffer)))
            self._left = self._left and self._left - len(data)
        if self._scanner.feed(data):
            raise _CardMethodInLongBody
        buffer[: len(data)] = data
        return len(data)


class AsgiMount:
    """The publication before an ASGI application."""

    def __init__(self, app: Any, gate: Gate) -> None:
        self._app, self.gate = app, gate
        # Of its own, so that who waits for another host takes no thread of the agent.
        self._threads = ThreadPoolExecutor(gate.publications.settings.threads, "cardsign")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        (script, path), method, body = _split_path(scope), scope["method"].upper(), b""
        decoded = (text.decode(errors="replace") for text in (script, path))
        is_for_cards = self.gate.is_for_cards(method, *decoded)
        if is_for_cards is None:
            try:
                _check_encoding(
                    *(_header(scope, n) for n in (b"content-encoding", b"content-type"))
                )
            except UnsupportedMediaType as error:
                await _send_response(send, answer_http_error(error), close=True)
                return
            body, receive, is_whole = await _read_ahead(receive)
            if not is_whole:
                await _pass_scanned(self._app, scope, receive, send)
                return
            is_for_cards = _may_ask_for_card(body)
        if not is_for_cards:
            await self._app(scope, receive, send)
            return
        environ = _make_environ(scope, script, path, body)
        answer = asyncio.get_running_loop().run_in_executor(
            self._threads, Response.from_app, self.gate.cards, environ, True
        )
        await _send_response(send, await answer)


async def _send_response(send: Send, response: Response, *, close: bool = False) -> None:
    raw = [(name.lower().encode(), text.encode("latin-1")) for name, text in response.headers]
    raw += [(b"connection", b"close")] if close else []
    await send({"type": "http.response.start", "status": response.status_code, "headers": raw})
    await send({"type": "http.response.body", "body": response.get_data()})


def _header(scope: Scope, name: bytes) -> str:
    values = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return ",".join(values)


def _split_path(scope: Scope) -> tuple[bytes, bytes]:
    """Return where the application is mounted, and what follows; ASGI's path is whole."""
    raw_path = scope.get("raw_path")  # servers may leave it out
    whole = scope["path"].encode() if raw_path is None else unquote_to_bytes(raw_path)
    root = scope.get("root_path", "").encode().rstrip(b"/")
    if not whole.startswith(root + b"/"):
        root = b""
    return root, whole[len(root) :]


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive, bool]:
    """Read a body, or its beginning where it is longer than a request for a card may be.

    Returns:
        Also what gives the same messages once more, and then all that follow; and whether the
        body is whole, and may be a request for a card.
    """
    body, messages, is_whole = b"", list[Message](), False
    while not is_whole and len(body) <= MAX_CALL_BYTES:
        message = await receive()
        messages.append(message)
        body += message.get("body", b"")
        is_whole = message["type"] != "http.request" or not message.get("more_body", False)
    waiting = iter(messages)

    async def receive_again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return body, receive_again, is_whole and len(body) <= MAX_CALL_BYTES


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
        await _send_response(send, answer_http_error(_CardMethodInLongBody()), close=True)


def _make_environ(scope: Scope, script: bytes, path: bytes, body: bytes) -> WSGIEnvironment:
    """Return a request whose body is there as WSGI has it (PEP 3333).

    Headers with an underscore are left out, since they would pass for others.
    """
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"].upper(),
        "SCRIPT_NAME": script.decode("latin-1"),
        "PATH_INFO": path.decode("latin-1"),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(body),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "cardsign.body_was_read": True,
    }
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        if b"_" in raw_name or name in ("CONTENT_LENGTH", "TRANSFER_ENCODING"):
            continue
        key = name if name == "CONTENT_TYPE" else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    environ["CONTENT_LENGTH"] = str(len(body))
    return environ
