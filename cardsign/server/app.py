"""The application: public documents before Flask, everything else inside it.

Nothing here logs a request, so no token reaches a log.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from cardsign.records import dataclass
from cardsign.server import jsonrpc
from cardsign.server.access import Credentials, TokenTable, open_extended_card, refuse_version
from cardsign.server.jsonrpc import Refusal, status_body
from cardsign.server.live import LiveGeneration
from cardsign.server.snapshot import NO_SNIFF, PREFLIGHT, PRIVATE, Answer, Document, Snapshot

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HEALTH_PATH: Final = "/healthz"
_JSON: Final = ("Content-Type", "application/json")
_UNCACHED: Final = ("Cache-Control", "no-store")
_GRPC_STATUSES: Final = {
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    500: "INTERNAL",
}


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What is served to whom. Holds no secret; can be pickled for a worker process.

    Attributes:
        directory: The publication directory.
        tokens: What opens the extended card; None if nothing does.
    """

    directory: Path
    tokens: TokenTable | None = None


def to_stderr(line: str) -> None:
    """Say a line to the operator."""
    print(f"cardsign: {line}", file=sys.stderr, flush=True)


def create_app(
    config: ServerConfig,
    *,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
    log: Callable[[str], None] = to_stderr,
) -> Flask:
    """Make the WSGI application that serves a publication and follows it.

    Args:
        config: What to serve.
        clock: Seconds, monotonic; when to look for a newer generation.
        now: Unix seconds; for how long caches may keep what they are given.
        log: Takes a line for the operator: each generation that is taken up, and what of the
            cards and tokens does not fit together in it. That stops nothing.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.live.LiveGeneration`.
    """
    live = LiveGeneration(
        config.directory, clock=clock, log=log, check=partial(_warnings, tokens=config.tokens)
    )
    app = Flask("cardsign", static_folder=None)
    app.extensions["cardsign"] = live
    # One byte more, to be told from the limit: a body in chunks is cut off here in silence.
    app.config["MAX_CONTENT_LENGTH"] = jsonrpc.MAX_REQUEST_BYTES + 1
    # The card decides the paths and a newer one may change them, so none is a rule of Flask's.
    app.before_request(_Site(live, config.tokens).answer)
    app.register_error_handler(HTTPException, _http_error)
    app.wsgi_app = _public_first(app.wsgi_app, live, now)  # type: ignore[assignment, method-assign]
    return app


def _warnings(snapshot: Snapshot, tokens: TokenTable | None) -> Iterator[str]:
    """What is allowed in a generation, but hardly meant."""
    if tokens is not None and not snapshot.declares_extended:
        yield "the public card declares no extended card, so no token opens anything"
    if not snapshot.declares_extended:
        return
    if not snapshot.extended:
        yield "the public card declares an extended card, but none was published"
    if tokens is None or not tokens.entries:
        yield "there is no token, so the extended card cannot be asked for"
    elif problem := tokens.without_card(snapshot.extended):
        yield problem
    if not snapshot.bearer_schemes:
        yield (
            "the public card declares no security scheme that a bearer token satisfies, "
            "so clients cannot know how to ask for the extended card"
        )


def _public_first(
    application: WSGIApplication, live: LiveGeneration, now: Callable[[], float]
) -> WSGIApplication:
    """Answer GET, HEAD and preflights of public documents before Flask is entered."""

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        document = live.snapshot().public.get(environ["PATH_INFO"])
        if document is None:
            return application(environ, start_response)
        answer = _public_answer(document, environ, now())
        start_response(answer.status, answer.headers)
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else answer.body]

    return answered


def _public_answer(document: Document, environ: WSGIEnvironment, now: float) -> Answer:
    method = environ["REQUEST_METHOD"]
    if method in ("GET", "HEAD"):
        return document.answer(
            environ.get("HTTP_IF_NONE_MATCH"), environ.get("HTTP_IF_MODIFIED_SINCE"), now=now
        )
    if method == "OPTIONS":
        return Answer("204 NO CONTENT", list(PREFLIGHT), b"")
    refused = _not_allowed(["GET", "HEAD"])
    return Answer(refused.status, list(refused.headers), refused.get_data())


class _Site:
    """What Flask answers: health, the extended card, JSON-RPC, and refusals."""

    def __init__(self, live: LiveGeneration, tokens: TokenTable | None) -> None:
        self._live = live
        self._tokens = tokens

    def answer(self) -> Response:
        """Answer the request at hand."""
        snapshot = self._live.snapshot()
        handlers = self._handlers(snapshot, request.path)
        if not handlers:
            return error_response(404, "there is nothing here")
        handler = handlers.get(request.method)
        if handler is not None:
            return handler(snapshot)
        if request.method == "OPTIONS":
            return _response(204, b"", [_allow(handlers)])
        return _not_allowed(handlers)

    def _handlers(self, snapshot: Snapshot, path: str) -> dict[str, Callable[[Snapshot], Response]]:
        """What answers which methods at a path."""
        handlers: dict[str, Callable[[Snapshot], Response]] = {}
        if path == HEALTH_PATH:
            handlers |= {"GET": self._health, "HEAD": self._health}
        if path in snapshot.extended_paths:
            handlers |= {"GET": self._extended, "HEAD": self._extended}
        if path in snapshot.rpc_paths:
            handlers["POST"] = self._rpc
        return handlers

    def _health(self, snapshot: Snapshot) -> Response:
        body = b'{"status":"ok","generation":%d}' % snapshot.number
        return _response(200, body, [_JSON, _UNCACHED])

    def _extended(self, snapshot: Snapshot) -> Response:
        """GET of the extended card (A2A 1.0 11.3)."""
        credentials = _credentials()
        outcome = refuse_version(credentials) or open_extended_card(
            snapshot, self._tokens, credentials
        )
        if isinstance(outcome, Refusal):
            return _refused(outcome, outcome.kind.http_status, outcome.rest_body())
        answer = outcome.answer(
            request.headers.get("If-None-Match"),
            request.headers.get("If-Modified-Since"),
        )
        return Response(answer.body, answer.status, answer.headers)

    def _rpc(self, snapshot: Snapshot) -> Response:
        """JSON-RPC (A2A 1.0 9.4)."""
        try:
            call = jsonrpc.read_call(request.get_data(cache=False))
        except RequestEntityTooLarge:
            call = jsonrpc.TOO_LARGE_CALL
        if call.is_notification:
            return _response(204, b"", [])
        outcome = call.problem or self._card_for(snapshot, call)
        if isinstance(outcome, Refusal):
            return _refused(outcome, outcome.kind.rpc_http_status, outcome.rpc_body(call.id))
        return _response(200, jsonrpc.result(call.id, outcome.body), [_JSON, *PRIVATE])

    def _card_for(self, snapshot: Snapshot, call: jsonrpc.Call) -> Document | Refusal:
        credentials = _credentials()
        return (
            refuse_version(credentials)
            or jsonrpc.refuse_method(call)
            or jsonrpc.refuse_params(call)
            or open_extended_card(snapshot, self._tokens, credentials)
        )


def _credentials() -> Credentials:
    return Credentials(
        authorization=request.headers.get("Authorization", ""),
        has_query_token="access_token" in request.args,
        version=request.headers.get("A2A-Version") or request.args.get("A2A-Version", ""),
    )


def _refused(refusal: Refusal, http_status: int, body: bytes) -> Response:
    challenges = [("WWW-Authenticate", challenge) for challenge in refusal.challenges]
    return _response(http_status, body, [_JSON, *PRIVATE, *challenges])


def _http_error(error: HTTPException) -> Response:
    """What werkzeug and Flask refuse themselves, as JSON."""
    return error_response(error.code or 500, error.name)


def error_response(http_status: int, message: str, *headers: tuple[str, str]) -> Response:
    """A refusal by HTTP itself, as JSON that no cache keeps."""
    grpc_status = _GRPC_STATUSES.get(http_status, "UNKNOWN")
    body = status_body(http_status, grpc_status, message)
    return _response(http_status, body, [_JSON, _UNCACHED, *headers])


def _not_allowed(methods: Iterable[str]) -> Response:
    return error_response(405, "this method is not for this path", _allow(methods))


def _allow(methods: Iterable[str]) -> tuple[str, str]:
    return ("Allow", ", ".join([*methods, "OPTIONS"]))


def _response(http_status: int, body: bytes, headers: list[tuple[str, str]]) -> Response:
    response = Response(body, http_status, [*headers, NO_SNIFF])
    if not body:
        response.headers.remove("Content-Type")  # Flask's default
    return response
