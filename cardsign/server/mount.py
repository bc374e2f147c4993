"""A publication in front of the agent's own application: under WSGI, ASGI, or in Flask.

The extended card is asked for at the agent's own URL, so a proxy that routes by path cannot split
it off. What stands here answers the card's paths and the one JSON-RPC method, and passes every
other request on untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from flask import Blueprint, request
from werkzeug.wrappers import Response

from cardsign.server.answers import MAX_REQUEST_BYTES, Refused, read_call
from cardsign.server.events import to_log, to_stderr
from cardsign.server.live import LiveApplication, place_of
from cardsign.server.run import PeerThreads, answered, make_environ
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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

    A POST to an interface of the card is read until it is known not to be a request for the
    card, 64 KiB at most, and then passed on whole. Limits and deadlines of the card server do
    not hold for what is passed on. While the publication has no extended card, requests for one
    are passed on too: the agent may have its own.

    Args:
        app: A WSGI or an ASGI application. One that is called with three values is ASGI's.
        publication: The publication directory, as ``cardsign publish`` writes it; it is followed.
        settings: To whom the extended cards are served, and whether the legacy path is.
        log: Takes a line for the operator.
        events: Takes the event of each publication that is taken up.

    Returns:
        An application of the same kind.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.LiveApplication`.
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
        return (live if _is_for_card(live, environ) else app)(environ, start_response)

    return answer


def _tell_idle(settings: ServerSettings, log: Callable[[str], None]) -> None:
    """Say which settings do nothing here; who sets a limit would rely on it."""
    idle = [one for one in _OF_SERVE if getattr(settings, one) != getattr(DEFAULT_SETTINGS, one)]
    if idle:
        log(
            f"{', '.join(idle)}: `cardsign serve` alone does this; "
            "in front of an application, its own server has to"
        )


def _is_ours(live: LiveApplication, method: str, script: str, path: str) -> bool | None:
    """Whether a request is for a card; None where its body decides."""
    live.look()
    kind, _ = place_of(live.views.paths, script, path)
    if kind == "public":
        return method in ("GET", "HEAD", "OPTIONS")
    if kind is None or not live.views.cards.are_there:
        return False
    if kind == "extended":
        return method in ("GET", "HEAD")
    return None if method == "POST" else False


def _asks_for_card(body: bytes) -> bool:
    try:
        return read_call(body).asks_for_card
    except Refused:  # the agent says what is wrong with it
        return False


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

    It has no rules of its own: before each request it looks up in the newest generation whether
    that is for a card, as :func:`mount_cards` does. All else reaches the application's views.
    Register it without a `url_prefix`: a card says whole paths.

    Args:
        publication: As for :func:`mount_cards`.
        settings: Likewise.
        log: Likewise.
        events: Likewise.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.LiveApplication`.
    """
    cards = Blueprint("cardsign", __name__)
    if not settings.enabled:
        return cards
    _tell_idle(settings, log)
    live = LiveApplication(publication, settings, log=log, events=events)

    @cards.before_app_request
    def answer() -> Response | None:
        if not _is_for_card(live, request.environ):
            return None
        return Response.from_app(live, request.environ, buffered=True)

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
        path = _split_path(scope)
        is_ours = _is_ours(self._live, scope["method"], *path)
        body = b""
        if is_ours is None:
            body, receive = await _read_ahead(receive)
            is_ours = _asks_for_card(body)
        if not is_ours:
            await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        client = (scope.get("client") or ("",))[0]
        fields = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in scope["headers"]]
        environ = make_environ(scope["method"], path, query, client, fields, body)
        if self._live.may_wait(environ):
            answer = await self._threads.run(self._live, environ)
        else:
            answer = answered(self._live, environ)
        raw = [
            (name.lower().encode("latin-1"), one.encode("latin-1")) for name, one in answer.headers
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})


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


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive]:
    """The body, or its beginning where it is longer than a request for a card may be.

    Returns:
        Also what gives the same messages once more, and then all that follow.
    """
    body, seen, is_whole = b"", list[Message](), False
    while not is_whole and len(body) <= MAX_REQUEST_BYTES:
        message = await receive()
        seen.append(message)
        body += message.get("body", b"")
        is_whole = message["type"] != "http.request" or not message.get("more_body", False)
    messages = iter(seen)

    async def again() -> Message:
        for message in messages:
            return message
        return await receive()

    return body, again


def _is_for_card(live: LiveApplication, environ: WSGIEnvironment) -> bool:
    """Whether a request of WSGI is for a card; its body can be read once more."""
    path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
    is_ours = _is_ours(live, environ["REQUEST_METHOD"], *path)
    return _asks_for_card(_start_of_body(environ)) if is_ours is None else is_ours


def _start_of_body(environ: WSGIEnvironment) -> bytes:
    """As :func:`_read_ahead`; the input is exchanged for one that gives the whole body again."""
    size, stream = environ.get("CONTENT_LENGTH") or "", environ["wsgi.input"]
    body = b""
    if size.isdecimal() and int(size) <= MAX_REQUEST_BYTES:
        body = stream.read(int(size))
        environ["wsgi.input"] = BytesIO(body)
    elif not size and environ.get("wsgi.input_terminated"):
        body = stream.read(MAX_REQUEST_BYTES + 1)
        # A buffer of one byte, so that nobody waits for more than was asked for.
        environ["wsgi.input"] = BufferedReader(_Continued(body, stream), 1)
    return body  # nothing of what is too long for a request for a card


class _Continued(RawIOBase):
    """A stream of which the beginning was read already."""

    def __init__(self, beginning: bytes, rest: Any) -> None:
        self._beginning = BytesIO(beginning)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """What is left of the beginning, and then of the rest."""
        data = self._beginning.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
