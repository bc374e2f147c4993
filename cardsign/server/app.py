"""The application that answers for one generation: routes, and errors as A2A has them.

Nothing here logs a request, so no token reaches a log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from cardsign.publish.generation import NO_SNIFF, Generation
from cardsign.records import dataclass
from cardsign.server.answers import (
    MAX_REQUEST_BYTES,
    PREFLIGHT,
    Answer,
    CallId,
    Refused,
    allow,
    call_result,
    check_asks_for_card,
    error_answer,
    json_answer,
    read_call,
)
from cardsign.server.documents import PRIVATE, Paths, Representation
from cardsign.server.extended import ExtendedCards, check_version
from cardsign.server.providers import Asked
from cardsign.server.remote import make_providers
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


def create_app(
    generation: Generation,
    settings: ServerSettings = DEFAULT_SETTINGS,
    *,
    now: Callable[[], float] = time.time,
) -> Flask:
    """Make the application of one generation. A newer generation gets an application of its own.

    Args:
        generation: What is served.
        settings: To whom, and how.
        now: Unix seconds; for how long caches may keep what they are given, and cards are valid.

    Raises:
        ServeFault: ``serve.schemes``: the card demands a scheme that no provider takes.
        JsonRefused: The public card is not strict JSON.
    """
    providers = make_providers(settings.providers, settings.tokens, now)
    cards = ExtendedCards(generation, providers, now)
    return routes_of(Views(Paths.of(generation, settings), cards, now))


def routes_of(views: Views) -> Flask:
    """The application with a route for each path; its `extensions` hold ``cardsign.views``."""
    paths = views.paths
    app = Flask("cardsign", static_folder=None)
    app.extensions["cardsign.views"] = views
    app.url_map.merge_slashes = False  # which would redirect
    for path in paths.public:
        app.add_url_rule(path, view_func=views.public, methods=["GET", "OPTIONS"])
    for path in _routable(paths.extended.keys() - paths.public.keys()):
        app.add_url_rule(path, view_func=views.extended_card)
    for path in _routable(paths.rpc):
        app.add_url_rule(path, view_func=views.rpc, methods=["POST"])
    app.before_request(_refuse_double_slash)
    app.register_error_handler(HTTPException, _http_error)
    app.after_request(_finish_headers)
    return app


@dataclass(frozen=True, slots=True)
class Views:
    """What answers at the routes of one generation."""

    paths: Paths
    cards: ExtendedCards
    now: Callable[[], float]

    def public(self) -> Answer:
        """A document for everybody."""
        return public_answer(self.paths.public[request.path], request.environ, self.now())

    def extended_card(self, environ: WSGIEnvironment | None = None) -> Answer:
        """GET of the extended card (A2A 1.0 11.3), for Flask's request or another one."""
        asked = Asked(environ or request.environ)
        try:
            check_version(asked)
            document = self.cards.card_for(asked)
        except Refused as refused:
            return _refusal(refused, refused.kind.http_status, refused.rest_body())
        return document.answer(asked.environ, self.now())

    def rpc(self) -> Answer:
        """JSON-RPC (A2A 1.0 9.4)."""
        call_id: CallId = None
        try:
            # One byte more than the limit, to be told from it.
            call = read_call(request.stream.read(MAX_REQUEST_BYTES + 1))
            if call.is_notification:
                return Answer(b"", 204, ())
            call_id = call.id
            asked = Asked(request.environ)
            check_version(asked)
            check_asks_for_card(call)
            card = self.cards.card_for(asked).body
        except Refused as refused:
            refused.call_id = refused.call_id if call_id is None else call_id
            return _refusal(refused, refused.kind.rpc_http_status, refused.rpc_body())
        return json_answer(call_result(call_id, card), 200, *PRIVATE)


def _routable(paths: Iterable[str]) -> list[str]:
    """The paths that a rule can have; ``<`` would begin a variable."""
    return sorted(path for path in paths if "<" not in path)


def public_answer(document: Representation, environ: WSGIEnvironment, now: float) -> Answer:
    """Answer GET, HEAD or a preflight of a public document, or refuse any other method."""
    method = environ["REQUEST_METHOD"]
    if method in ("GET", "HEAD"):
        if document.older and environ.get("HTTP_A2A_VERSION", "").strip().startswith("0."):
            document = document.older
        return document.answer(environ, now)
    if method == "OPTIONS":
        return PREFLIGHT
    return error_answer(405, "Method Not Allowed", allow({"GET", "HEAD", "OPTIONS"}))


def _refusal(refused: Refused, http_status: int, body: bytes) -> Answer:
    challenges = [("WWW-Authenticate", challenge) for challenge in refused.challenges]
    later = [] if refused.retry_after is None else [("Retry-After", str(refused.retry_after))]
    return json_answer(body, http_status, *PRIVATE, NO_SNIFF, *challenges, *later)


def _http_error(error: HTTPException) -> Answer:
    """What werkzeug and Flask refuse themselves, as JSON."""
    allowed = [allow(error.valid_methods or ())] if isinstance(error, MethodNotAllowed) else []
    return error_answer(error.code or 500, error.name, *allowed)


def _refuse_double_slash() -> None:
    """Answer no other spelling of a path: werkzeug would overlook more slashes at its start."""
    if request.environ["PATH_INFO"].startswith("//"):
        abort(404)


def _finish_headers(response: Response) -> Response:
    """What holds for every answer."""
    response.headers.setdefault(*NO_SNIFF)
    if request.method == "OPTIONS" and response.status_code == 200:  # Flask's own answer
        response.status_code = 204
        response.headers.set(*allow(response.allow))
    if not response.get_data():
        response.headers.pop("Content-Type", None)  # Flask's default
    return response
