"""A publication in front of the agent's own application: under WSGI, ASGI, or in Flask.

The extended card is asked for at the agent's own URL, so a proxy that routes by path cannot split
it off. What stands here hands the card's paths and the one JSON-RPC method to the application of
the cards, and every other request to the agent untouched. While extended cards are published,
the agent gets no request that it could answer with its extended card: it may have one of its own,
and no guard before it. What is refused here, the application of the cards answers.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Blueprint
from flask.blueprints import BlueprintSetupState
from werkzeug import exceptions
from werkzeug.wsgi import get_content_length, get_input_stream

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused
from cardsign.server.a2a import CARD_METHODS, MAX_CALL_BYTES, TOO_LONG
from cardsign.server.app import BODY_WAS_READ, CATALOGUE_PATH, REFUSAL, create_app
from cardsign.server.providers import take_place
from cardsign.server.settings import DEFAULT_SETTINGS, INSTANT, ServerSettings
from cardsign.server.site import Publications
from cardsign.urls import EXTENDED_PATH, STATEMENTS_PATH

Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_EXTENDED_ENDS: Final = (EXTENDED_PATH, "/v1/card", "/agent/authenticatedExtendedCard")
#: gRPC-Web and Connect name their method in the path; in A2A 0.3 the second is the extended card's.
_GRPC_ENDS: Final = ("/GetExtendedAgentCard", "/GetAgentCard")
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

    A statement that is not published is 404, whatever the agent would answer.

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
    return (AsgiMount if is_asgi else WsgiMount)(app, publication, settings)


def card_blueprint(publication: Path, settings: ServerSettings = DEFAULT_SETTINGS) -> Blueprint:
    """Return a Flask blueprint that puts a publication in front of the application.

    ::

        app.register_blueprint(card_blueprint(Path("public"), settings))

    It has no rules of its own: a card says whole paths, so it is registered without a
    `url_prefix`, and answers what :func:`mount_cards` would, before the application sees it.

    Args:
        publication: As for :func:`mount_cards`.
        settings: Likewise.
    """
    blueprint = Blueprint("cardsign", __name__)

    @blueprint.record_once
    def put_in_front(state: BlueprintSetupState) -> None:
        app: Any = state.app
        app.wsgi_app = mount_cards(app.wsgi_app, publication, settings)

    return blueprint


class _Mount:
    """What decides who answers a request: the cards' application, or the agent's."""

    def __init__(self, app: Any, publication: Path, settings: ServerSettings) -> None:
        # `cardsign serve` counts; in front of an application its own server does.
        settings = settings.model_copy(update={"metrics": False})
        self._app, self._publications = app, Publications(publication, settings)
        self._cards = create_app(self._publications)

    def _is_for_cards(self, environ: WSGIEnvironment) -> bool | None:
        """Return whether a request is for the cards, by its head; None where its body decides."""
        self._publications.start_watching()
        agent, method = self._publications.site.root, environ["REQUEST_METHOD"].upper()
        if agent is None:
            return False
        script, path = (
            environ.get(name, "").encode("latin-1").decode(errors="replace")
            for name in ("SCRIPT_NAME", "PATH_INFO")
        )
        are_extended, place = agent.extended.are_published, f"{script}/{path}".rstrip("/")
        if are_extended and place.endswith(_GRPC_ENDS):
            return True
        if method == "POST" and are_extended:
            return _refuse_encoding(environ)
        if path in agent.documents or path.startswith(STATEMENTS_PATH):
            return method in ("GET", "HEAD", "OPTIONS")
        # An agent's own may be at any address, of any tenant, and of A2A 0.3; no card says so.
        return are_extended and method in ("GET", "HEAD") and place.endswith(_EXTENDED_ENDS)


def _refuse_encoding(environ: WSGIEnvironment) -> bool | None:
    """Have a body refused whose bytes are not what a reader of JSON would get."""
    content_type = environ.get("CONTENT_TYPE", "").lower()
    charsets = {charset.strip('"') for charset in _CHARSET.findall(content_type)}
    is_plain = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower() in ("", "identity")
    if is_plain and not charsets - {"utf-8", "utf8", "us-ascii"}:
        return None
    environ[REFUSAL] = exceptions.UnsupportedMediaType("send the request uncompressed, in UTF-8")
    return True


def _may_ask_for_card(body: bytes) -> bool:
    """Return whether any reader of JSON might find a card method in a body."""
    try:
        members = parse_object(body, max_bytes=MAX_CALL_BYTES)
    except JsonRefused:  # readers may disagree about it
        return _CardMethodScanner().feed(body)
    return any(isinstance(value, str) and value in CARD_METHODS for value in members.values())


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


class WsgiMount(_Mount):
    """The publication before a WSGI application."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        is_for_cards = self._is_for_cards(environ)
        if is_for_cards is None:
            is_for_cards = self._look_at_body(environ)
        if is_for_cards:
            return self._cards(environ, start_response)
        try:
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        except exceptions.RequestEntityTooLarge as error:
            if environ.get(REFUSAL) is not error:  # the agent's own
                raise
            raised = sys.exc_info()
            # The agent may have begun to answer.
            return self._cards(
                environ, lambda status, headers, _=None: start_response(status, headers, raised)
            )

    def _look_at_body(self, environ: WSGIEnvironment) -> bool:
        """Return whether a body asks for the card; a long one is looked at as the agent reads."""
        stream, body = get_input_stream(environ), b""
        is_long = (get_content_length(environ) or 0) > MAX_CALL_BYTES
        try:
            with take_place(self._publications.bodies):
                while not is_long and (piece := stream.read(MAX_CALL_BYTES + 1 - len(body))):
                    body += piece
                    is_long = len(body) > MAX_CALL_BYTES
        except exceptions.HTTPException as error:
            environ[REFUSAL] = error
            return True
        if is_long:
            environ["wsgi.input"] = BufferedReader(_ScannedInput(body, stream, environ))
            return False
        environ["wsgi.input"], environ[BODY_WAS_READ] = BytesIO(body), True
        return _may_ask_for_card(body)


class _ScannedInput(RawIOBase):
    """A stream of which the beginning was read; it gives nothing that may name a card method.

    It raises a refusal of the request instead, from then on, which stands in the environment too.
    """

    def __init__(self, beginning: bytes, rest: Any, environ: WSGIEnvironment) -> None:
        self._beginning, self._rest, self._environ = BytesIO(beginning), rest, environ
        self._scanner = _CardMethodScanner()
        self._refusal = exceptions.RequestEntityTooLarge(TOO_LONG)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._beginning.read(len(buffer)) or self._rest.read(len(buffer))
        if self._scanner.feed(data):
            self._rest = self._beginning  # no more of it is read
            self._environ[REFUSAL] = self._refusal
            raise self._refusal
        buffer[: len(data)] = data
        return len(data)


class AsgiMount(_Mount):
    """The publication before an ASGI application."""

    def __init__(self, app: Any, publication: Path, settings: ServerSettings) -> None:
        super().__init__(app, publication, settings)
        # Of its own, so that who waits for another host takes no thread of the agent.
        self._threads = ThreadPoolExecutor(settings.threads, "cardsign")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        environ = make_environ(scope)
        is_for_cards = self._is_for_cards(environ)
        if is_for_cards is None:
            body, receive, is_whole = await read_ahead(receive, MAX_CALL_BYTES)
            if not is_whole:
                if await _pass_scanned(self._app, scope, receive, send):
                    return
                environ[REFUSAL] = exceptions.RequestEntityTooLarge(TOO_LONG)
            environ |= {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            is_for_cards = not is_whole or _may_ask_for_card(body)
        if not is_for_cards:
            await self._app(scope, receive, send)
            return
        threads = self._threads if needs_thread(environ, self._publications.settings) else None
        await answer_by_wsgi(self._cards, environ, send, threads)


async def answer_by_wsgi(
    app: Any, environ: WSGIEnvironment, send: Send, threads: ThreadPoolExecutor | None = None
) -> None:
    """Have a WSGI application answer a request, in a thread if there are some, and send the answer.

    A thread takes half as much time again as most answers.
    """
    if threads is None:
        status, headers, body = _call_wsgi(app, environ)
    else:
        loop = asyncio.get_running_loop()
        status, headers, body = await loop.run_in_executor(threads, _call_wsgi, app, environ)
    raw = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers]
    raw += [(b"connection", b"close")] if REFUSAL in environ else []
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _call_wsgi(app: Any, environ: WSGIEnvironment) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return status, headers and body of an answer; a response of werkzeug would copy them."""
    heads: list[tuple[str, list[tuple[str, str]]]] = []
    with closing(app(environ, lambda *head: heads.append(head[:2]))) as pieces:
        body = b"".join(pieces)
    status, headers = heads[-1]
    return int(status[:3]), headers, body


def needs_thread(environ: WSGIEnvironment, settings: ServerSettings) -> bool:
    """Return whether an answer may wait for a body or another host, or is much work."""
    path = environ["SCRIPT_NAME"] + environ["PATH_INFO"]
    counts_elsewhere = settings.rate and settings.rate_storage != "memory://"
    if counts_elsewhere or not environ[BODY_WAS_READ] or path in (CATALOGUE_PATH, "/metrics"):
        return True
    is_for_known = environ["REQUEST_METHOD"] == "POST" or path.endswith(_EXTENDED_ENDS)
    return is_for_known and any(provider.type not in INSTANT for provider in settings.providers)


async def read_ahead(receive: Receive, max_bytes: int) -> tuple[bytes, Receive, bool]:
    """Read a body, or its beginning where it is longer than allowed, or no HTTP.

    Returns:
        Also what gives that once more, in one message, and then all messages that follow; and
        whether the body is whole.
    """
    body, is_whole, others = bytearray(), False, list[Message]()
    while not is_whole and len(body) <= max_bytes:
        message = await receive()
        if message["type"] != "http.request":  # it is no HTTP, or the client has gone
            others.append(message)
            break
        body += message.get("body", b"")
        is_whole = not message.get("more_body", False)
    untrusted_bytes = bytes(body)
    first = {"type": "http.request", "body": untrusted_bytes, "more_body": not is_whole}
    waiting = iter([first, *others])

    async def receive_again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return untrusted_bytes, receive_again, is_whole and len(body) <= max_bytes


async def _pass_scanned(app: Any, scope: Scope, receive: Receive, send: Send) -> bool:
    """Pass a long body on, message by message, until one may name a card method.

    For the agent the client has gone then.

    Returns:
        Whether the client has its answer; else the agent had not begun one.
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
    return has_begun or not is_refused


def make_environ(scope: Scope, receive: Receive | None = None) -> WSGIEnvironment:
    """Return an ASGI request as WSGI has it (PEP 3333).

    Headers with an underscore are left out, since they would pass for others.

    Args:
        scope: Of the request.
        receive: Gives the body to the thread that reads it; to be named in its event loop. None if
            the request is to have no body.
    """
    raw_path = scope.get("raw_path")  # servers may leave it out
    path = scope["path"].encode() if raw_path is None else unquote_to_bytes(raw_path)
    root = scope.get("root_path", "").encode().rstrip(b"/")
    script = root if path.startswith(root + b"/") else b""  # ASGI's path is whole
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope["method"].upper(),
        "SCRIPT_NAME": script.decode("latin-1"),
        "PATH_INFO": path.removeprefix(script).decode("latin-1"),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "REMOTE_ADDR": (scope.get("client") or ("",))[0],
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        BODY_WAS_READ: True,
    }
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").upper().replace("-", "_")
        is_framing = name in ("CONTENT_LENGTH", "TRANSFER_ENCODING")
        if b"_" in raw_name or (is_framing and receive is None):
            continue
        if receive and is_framing and environ[BODY_WAS_READ]:
            environ |= {"wsgi.input": _ReceivedBody(receive), BODY_WAS_READ: False}
        key = name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
        value = raw_value.decode("latin-1")
        environ[key] = f"{environ[key]},{value}" if key in environ else value
    return environ


class _ReceivedBody:
    """What an event loop receives, read by another thread."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._loop = receive, asyncio.get_running_loop()

    def read(self, size: int) -> bytes:
        """Return the whole body, or the beginning of one that is longer than a size."""
        reading = read_ahead(self._receive, size)
        body, _, is_whole = asyncio.run_coroutine_threadsafe(reading, self._loop).result()
        if not is_whole and len(body) <= size:  # it is no HTTP, or the client has gone
            raise exceptions.ClientDisconnected
        return body
