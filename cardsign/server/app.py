"""The application that answers for one generation: who may have which extended card, and routes.

Errors are as A2A has them. Nothing here logs a request, so no token reaches a log.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flask import Flask, Response, abort, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.wrappers import Request

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of, security_problems
from cardsign.card.strictjson import parse_object
from cardsign.errors import InputRefused, ServeFault
from cardsign.publish.generation import NO_SNIFF, Generation
from cardsign.server.answers import (
    BAD_CREDENTIALS,
    FORBIDDEN,
    MAX_REQUEST_BYTES,
    NOT_CONFIGURED,
    PREFLIGHT,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
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
from cardsign.server.providers import RETRY_SECONDS, Denied, Provider, Unreachable
from cardsign.server.remote import make_providers
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: The realm where the card declares no scheme that a provider takes.
FALLBACK_REALM: Final = "extended-agent-card"
# A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = frozenset({"", "0.3", "1.0"})


def check_version(request: Request) -> None:
    """Check that the protocol version of a request can be served.

    Raises:
        Refused: It cannot.
    """
    version = request.headers.get("A2A-Version") or request.args.get("A2A-Version", "")
    if version.strip() not in _VERSIONS:
        raise Refused(VERSION_NOT_SUPPORTED, "A2A-Version is not one of 1.0, 0.3")


class ExtendedCards:
    """The extended cards of one generation, by audience.

    A card that cannot be served is one line for the operator. It harms no other card.

    Args:
        generation: Where they stand.
        providers: Who may have one; any of them will do.
        now: Unix seconds.

    Raises:
        ServeFault: ``serve.schemes``: the public card demands a scheme that none of them takes,
            so callers who do as it says would be turned away (threat 26).
    """

    def __init__(
        self, generation: Generation, providers: tuple[Provider, ...], now: Callable[[], float]
    ) -> None:
        #: Whether there is any, also one that cannot be served.
        self.are_there = bool(generation.extended)
        self._providers, self._now = providers, now
        card = parse_object(generation.card)
        self._is_declared = declares_extended_card(card)
        schemes = schemes_of(card)
        #: What the card demands: alternatives, each the names of schemes that go together.
        self._alternatives = [frozenset(one.schemes) for one in requirements_of(card, schemes)]
        #: By provider: the names of the schemes of the card that it takes, and as they are shown.
        self._taken = [
            frozenset(name for name, each in schemes.items() if one.gives(each))
            for one in providers
        ]
        self._realms = [
            [re.sub(r"[^ -~]", "?", name) for name in schemes if name in names]
            for names in self._taken
        ]
        taken = frozenset[str]().union(*self._taken)
        is_asked = self.are_there and bool(providers)
        for problem in security_problems(card) if is_asked else ():
            what = f"it cannot be read what the public card demands: {problem.message}"
            raise ServeFault("serve.schemes", what)
        for alternative in self._alternatives if is_asked else ():
            for name in sorted(alternative - taken):
                what = f"the public card demands {name!r}, and no provider of the server takes it"
                raise ServeFault("serve.schemes", what)
        self._cards: dict[str, tuple[Representation, int]] = {}
        self._broken: dict[str, str] = {}
        for audience, body in generation.extended.items():
            try:
                marker = find_marker(Card.from_bytes(body).document)
            except InputRefused as refusal:
                self._broken[audience] = f"it cannot be read: {refusal.message}"
                continue
            if marker is None:
                self._broken[audience] = "it does not say for whom it is, and until when"
                continue
            document = Representation.of_extended(body, generation.published_at)
            self._cards[audience] = document, marker.exp

    def card_for(self, request: Request) -> Representation:
        """The extended card that a request's credentials open.

        What the public card says already comes before authentication, everything else after it.

        Raises:
            Refused: There is none for this request.
        """
        if not self._is_declared:
            raise Refused(UNSUPPORTED_OPERATION, "this agent has no extended card")
        if not self._providers:
            raise Refused(NOT_CONFIGURED, "no extended card is configured")
        audience = self._audience(request)
        if audience not in self._cards:
            what = "there is no extended card for the audience of this caller"
            raise Refused(NOT_CONFIGURED, what)
        document, expires = self._cards[audience]
        if expires <= self._now():
            what = "the extended card of this audience has expired, and no newer one is published"
            raise Refused(NOT_CONFIGURED, what)
        return document

    def problems(self, *, are_all: bool = True) -> Iterator[str]:
        """What of the cards and their callers does not fit together, a line each.

        Args:
            are_all: No other agent of the host has extended cards for the same callers.
        """
        if not self._is_declared:
            if self._providers:
                yield "the public card declares no extended card, so no credential opens anything"
            return
        for audience, why in self._broken.items():
            yield f"the extended card of audience {audience} is not served: {why}"
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self.are_there:
            yield "the public card declares an extended card, but none was published"
        audiences = sorted([*self._cards, *self._broken])
        tables = [one.settings.tokens for one in self._providers]
        if all(table is not None and not table.entries for table in tables):
            yield "there is no token, so the extended card cannot be asked for"
        for table in tables:
            if table is not None and (problem := table.without_card(audiences)):
                yield problem
        if self._providers and not any(self._realms):
            yield (
                "the public card declares no security scheme that the server takes, "
                "so clients cannot know how to ask for the extended card"
            )
        for one in self._providers if audiences and are_all else ():
            for audience in sorted(one.settings.audiences.difference(audiences)):
                yield (
                    f"provider {one.settings.type} opens the card of {audience!r}, which is "
                    f"not published; the audiences are {', '.join(audiences)}"
                )

    def _audience(self, request: Request) -> str:
        """Whose card the caller gets.

        By the first provider that knows the credential, if it is all that the card demands; by
        several that agree where the card demands schemes together.
        """
        denied: Denied | None = None
        is_unreachable = False
        found: dict[str, set[str]] = {}
        for provider, names in zip(self._providers, self._taken, strict=True):
            try:
                if (audience := provider.audience(request)) is None:
                    continue
            except Denied as exc:
                denied = exc if denied is None or denied.scopes is None else denied
                continue
            except Unreachable:
                is_unreachable = True
                continue
            known = found.setdefault(audience, set())
            known |= names
            # One whose schemes no alternative names is the operator's own, and opens the card too.
            is_own = not any(one & names for one in self._alternatives)
            if is_own or any(one <= known for one in self._alternatives if one):
                self._check_one_place(request)
                return audience
        if is_unreachable:
            what = f"your token cannot be checked now; try again in {RETRY_SECONDS} s"
            raise Refused(UNAVAILABLE, what, retry_after=RETRY_SECONDS)
        if denied is None:
            what = "send all credentials that the card demands together" if found else ""
            raise Refused(UNAUTHENTICATED, what or "send a credential", self._challenges(""))
        self._check_one_place(request)
        if denied.scopes is None:
            challenges = self._challenges("invalid_token")
            raise Refused(UNAUTHENTICATED, "the credential is not valid", challenges)
        wanted = f"; it lacks {' or '.join(denied.scopes)}" if denied.scopes else ""
        challenges = self._challenges("insufficient_scope", denied.scopes)
        raise Refused(FORBIDDEN, f"the credential opens no extended card{wanted}", challenges)

    def _check_one_place(self, request: Request) -> None:
        """Refuse a token in the query: queries end up in logs (RFC 6750 2)."""
        if "access_token" in request.args:
            challenges = self._challenges("invalid_request")
            raise Refused(BAD_CREDENTIALS, "send one token, in the header", challenges)

    def _challenges(self, error: str, scopes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """One challenge for each scheme that the card declares, named after it (RFC 6750 3)."""
        if not any(self._realms):
            return (self._providers[0].challenge(FALLBACK_REALM, error, scopes),)
        found = [
            provider.challenge(realm, error, scopes)
            for provider, realms in zip(self._providers, self._realms, strict=True)
            for realm in realms
        ]
        return tuple(dict.fromkeys(found))


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
        asked = Request(environ, populate_request=False) if environ else request
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
            check_version(request)
            check_asks_for_card(call)
            card = self.cards.card_for(request).body
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
