"""A2A over HTTP: documents, extended cards, JSON-RPC calls, and errors in both shapes clients read.

Calls are read as strictly as cards are. There are no batches: A2A has none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from flask import Request, Response, g, request
from werkzeug.exceptions import HTTPException, PreconditionFailed

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of, security_problems
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, ServeFault
from cardsign.publish.generation import Generation
from cardsign.server.providers import RETRY_SECONDS, Denied, Provider, Unavailable
from cardsign.urls import Headers

log = logging.getLogger(__name__)

#: Of every answer about an extended card, an error too: shared caches keep out.
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
NO_STORE: Final = {"Cache-Control": "no-store"}
NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}
#: Of these HTTP errors the client is told more than the name.
_EXPLAINED: Final = (400, 413, 415, 429, 503)
#: Bytes. A request for a card has about 100; what other methods send is refused anyway.
MAX_CALL_BYTES: Final = 64 * 1024
TOO_LONG: Final = "a request for a card has at most 64 KiB"
#: The names of the one operation that is served, in A2A 1.0 and 0.3.
CARD_METHODS: Final = frozenset({"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"})
#: The other operations, in 1.0 (9.4) and 0.3 (7): known, and no business of a card server.
_OTHER_METHODS: Final = re.compile(
    "Send(Streaming)?Message|(Get|Cancel|SubscribeTo)Task|ListTasks"
    "|(Create|Get|Delete)TaskPushNotificationConfig|ListTaskPushNotificationConfigs"
    "|message/(send|stream)|tasks/(get|list|cancel|resubscribe)"
    "|tasks/pushNotificationConfig/(set|get|list|delete)"
)
#: The realm where the card declares no scheme that a provider takes.
FALLBACK_REALM: Final = "extended-agent-card"
#: A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = ("", "0.3", "1.0")


@dataclass(frozen=True, slots=True)
class Document:
    """Final bytes with their headers.

    Attributes:
        body: What GET returns.
        headers: All of its own.
        older: What clients of A2A 0.3 get instead; None for the same.
    """

    body: bytes
    headers: Headers
    older: Document | None = None

    def respond(self) -> Response:
        """Return the answer to GET or HEAD: 200, or 304 to a client that has the document.

        Raises:
            PreconditionFailed: It asks for another by ``If-Match``; no cache may keep that.
        """
        response = Response(self.body, headers=list(self.headers))
        with suppress(OverflowError):  # of werkzeug, where If-Modified-Since has a year without end
            response.make_conditional(request)
        if response.status_code == 412:
            raise PreconditionFailed
        return response


def etag_of(body: bytes) -> str:
    """Return the strong validator of a body: its digest, signatures included."""
    return f'"{hashlib.sha256(body).hexdigest()}"'


def extended_document(body: bytes) -> Document:
    """Return the extended card of one audience.

    It has no Last-Modified: all audiences have the same, and who asked by it alone would be told
    that the card of another is still the one.
    """
    headers = {"Content-Type": "application/a2a+json", "ETag": etag_of(body), **PRIVATE, **NO_SNIFF}
    return Document(body, tuple(headers.items()))


# Errors.


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One kind of error (A2A 1.0 5.4).

    Attributes:
        rpc_code: The JSON-RPC error code.
        status: The HTTP status over REST.
        reason: A2A's reason, for errors of A2A's own.
        rpc_status: The HTTP status over JSON-RPC; 200 unless HTTP itself must know.
    """

    rpc_code: int
    status: int
    reason: str = ""
    rpc_status: int = 200


PARSE_ERROR: Final = ErrorKind(-32700, 400)
INVALID_REQUEST: Final = ErrorKind(-32600, 400)
METHOD_NOT_FOUND: Final = ErrorKind(-32601, 404)
INVALID_PARAMS: Final = ErrorKind(-32602, 400)
TOO_LARGE: Final = ErrorKind(-32600, 413, rpc_status=413)
UNSUPPORTED: Final = ErrorKind(-32004, 400, "UNSUPPORTED_OPERATION")
NOT_CONFIGURED: Final = ErrorKind(-32007, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
BAD_VERSION: Final = ErrorKind(-32009, 400, "VERSION_NOT_SUPPORTED")
# A2A leaves authentication without a code; -32000 is JSON-RPC's first for servers, and A2A's
# own begin at -32001. The HTTP status and the challenge are what a client acts upon.
UNAUTHENTICATED: Final = ErrorKind(-32000, 401, rpc_status=401)
FORBIDDEN: Final = ErrorKind(-32000, 403, rpc_status=403)
UNAVAILABLE: Final = ErrorKind(-32000, 503, rpc_status=503)
BAD_CREDENTIALS: Final = ErrorKind(-32000, 400, rpc_status=400)


class A2AError(HTTPException):
    """A request is refused. The description is for a person at the other end.

    Attributes:
        kind: The kind of error.
        challenges: Values of ``WWW-Authenticate``, a header line each.
    """

    def __init__(self, kind: ErrorKind, message: str, challenges: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code, self.kind, self.challenges = kind.status, kind, challenges
        self.retry_after = RETRY_SECONDS if kind is UNAVAILABLE else None


#: Any other is INVALID_ARGUMENT, or of the server's own INTERNAL.
_GRPC_STATUSES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    410: "NOT_FOUND",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


def answer_error(error: HTTPException) -> Response:
    """Return a refusal as JSON that no cache keeps, in the shape of the protocol that was used."""
    status, headers, details = error.code or 500, NO_STORE, list[Json]()
    name = _GRPC_STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    is_explained = isinstance(error, A2AError) or status in _EXPLAINED
    message = (error.description if is_explained else "") or HTTPStatus(status).phrase
    if isinstance(error, A2AError):
        headers = PRIVATE
        if error.kind.reason:
            name, info = "FAILED_PRECONDITION", "type.googleapis.com/google.rpc.ErrorInfo"
            details = [{"@type": info, "reason": error.kind.reason, "domain": "a2a-protocol.org"}]
    shown: dict[str, Json] = {"code": status, "status": name, "message": message}
    body: dict[str, Json] = {"error": shown | ({"details": details} if details else {})}
    if isinstance(error, A2AError) and request.method == "POST":
        status, shown = error.kind.rpc_status, {"code": error.kind.rpc_code, "message": message}
        shown |= {"data": details} if details else {}
        body = {"jsonrpc": "2.0", "id": g.get("call_id"), "error": shown}
    response = json_response(body, status, headers)
    for challenge in getattr(error, "challenges", ()):
        response.headers.add("WWW-Authenticate", challenge)
    if methods := getattr(error, "valid_methods", None):
        response.headers["Allow"] = ", ".join(methods)
    if retry_after := getattr(error, "retry_after", None):
        response.headers["Retry-After"] = str(retry_after)
    return response


def json_response(value: Json, status: int, headers: dict[str, str]) -> Response:
    """Return a JSON response that no browser takes for anything else."""
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, headers | NO_SNIFF, mimetype="application/json")


# Calls.


def parse_call(untrusted_body: bytes) -> dict[str, Json]:
    """Return the call in a body (JSON-RPC 2.0 section 4); without an id it is a notification.

    Raises:
        A2AError: It is none.
    """
    try:
        call = parse_object(untrusted_body, max_bytes=MAX_CALL_BYTES)
    except JsonRefused as exc:
        if exc.code == "json.too_large":
            raise A2AError(TOO_LARGE, TOO_LONG) from exc
        if exc.code == "json.not_object":
            raise A2AError(INVALID_REQUEST, "the request is not one JSON object") from exc
        raise A2AError(PARSE_ERROR, f"the request is not strict JSON ({exc.code})") from exc
    if isinstance(call.get("id"), bool | list | dict):
        raise A2AError(INVALID_REQUEST, "id is not a string, number or null")
    g.call_id = call.get("id")  # which each answer repeats from here on
    if call.get("jsonrpc") != "2.0" or not isinstance(call.get("method"), str):
        raise A2AError(INVALID_REQUEST, "the request lacks jsonrpc 2.0 or the name of a method")
    return call


def check_call(call: Mapping[str, Json]) -> None:
    """Check that a call asks for the extended card; a tenant is all that its params may name.

    Raises:
        A2AError: It does not.
    """
    if call["method"] not in CARD_METHODS:
        if _OTHER_METHODS.fullmatch(str(call["method"])):
            raise A2AError(UNSUPPORTED, "this endpoint serves the agent card only")
        raise A2AError(METHOD_NOT_FOUND, "there is no such method")
    params = {} if call.get("params") is None else call["params"]
    if not isinstance(params, dict) or not isinstance(params.get("tenant", ""), str):
        raise A2AError(INVALID_PARAMS, "params is not an object with at most a tenant")


def answer_call(call: Mapping[str, Json], card: bytes) -> Response:
    """Return the answer to a call; the card's own bytes stand in it as they were signed."""
    body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call["id"]).encode(), card)
    return Response(body, headers=PRIVATE | NO_SNIFF, mimetype="application/json")


# Extended cards.


class ExtendedCards:
    """The extended cards of one generation, by audience.

    Args:
        generation: Where they stand.
        card: Its public card, parsed.
        providers: Who may have one; any of them will do.
        now: Unix seconds.

    Raises:
        InputRefused: One of them is no card.
        ServeFault: ``serve.corrupt_generation``: it is no extended card; ``serve.schemes``: the
            public card demands a scheme that none of them takes,
            so callers who do as it says would be turned away (threat 26).
    """

    def __init__(
        self,
        generation: Generation,
        card: Mapping[str, Json],
        providers: tuple[Provider, ...],
        now: Callable[[], float],
    ) -> None:
        self._providers, self._now = providers, now
        self.is_declared = declares_extended_card(card)
        self._cards: dict[str, tuple[Document, int]] = {}
        for audience, body in generation.extended.items():
            marker = find_marker(Card.from_bytes(body).document)
            if marker is None:
                message = f"the extended card of audience {audience} does not say until when it is"
                raise ServeFault("serve.corrupt_generation", message)
            self._cards[audience] = extended_document(body), marker.exp
        #: Whether there is any, also one that has expired.
        self.are_published = bool(self._cards)
        schemes = schemes_of(card)
        #: What the card demands: alternatives, each the names of schemes that go together.
        self._alternatives = [
            frozenset(requirement.schemes) for requirement in requirements_of(card, schemes)
        ]
        #: By provider: the names of the schemes of the card that it takes.
        self._taken = {
            provider: [name for name, scheme in schemes.items() if provider.gives(scheme)]
            for provider in providers
        }
        if self.are_published and providers:
            self._check_schemes(card)

    def _check_schemes(self, card: Mapping[str, Json]) -> None:
        for problem in security_problems(card):
            message = f"it cannot be read what the public card demands: {problem.message}"
            raise ServeFault("serve.schemes", message)
        demanded = frozenset[str]().union(*self._alternatives)
        for name in sorted(demanded.difference(*self._taken.values())):
            message = f"the public card demands {name!r}, and no provider of the server takes it"
            raise ServeFault("serve.schemes", message)

    def check_offer(self, request: Request) -> None:
        """Check what the public card says already, and may be said before authentication.

        Raises:
            A2AError: There is no extended card, or none in this version.
        """
        version = request.headers.get("A2A-Version") or request.args.get("A2A-Version", "")
        if version.strip() not in _VERSIONS:
            raise A2AError(BAD_VERSION, "A2A-Version is not one of 1.0, 0.3")
        if not self.is_declared:
            raise A2AError(UNSUPPORTED, "this agent has no extended card")

    def find_card(self, audience: str) -> Document:
        """Return the extended card of an audience.

        Raises:
            A2AError: There is none, or it has expired.
        """
        document, expires = self._cards.get(audience, (None, math.inf))
        if document is not None and self._now() < expires:
            return document
        message = "there is no extended card for the audience of this caller"
        if document is not None:
            message = "the extended card of this audience has expired, and none is newer"
        log.warning("a caller of audience %s: %s", audience, message)
        raise A2AError(NOT_CONFIGURED, message)

    def authenticate(self, request: Request) -> str:
        """Return the audience of a caller, by the head of the request alone.

        By the first provider that knows the credential, if it is all that the card demands; by
        several that agree where the card demands schemes together.

        Raises:
            A2AError: The caller is not known, or nobody could be.
        """
        if not self._providers:
            raise A2AError(NOT_CONFIGURED, "no extended card is configured")
        denied: list[Denied] = []
        audience, is_unreachable = None, False
        shown = defaultdict[str, set[str]](set)  # the schemes of the credentials, by audience
        for provider, names in self._taken.items():
            try:
                audience = provider.find_audience(request)
            except Denied as exc:
                log.info("refused a credential (%s): %s", provider.name, exc)
                denied.append(exc)
            except Unavailable as exc:
                log.warning("could not check a credential (%s): %s", provider.name, exc.description)
                is_unreachable = True
            else:
                if audience and self._are_enough(names, shown[audience]):
                    break
            audience = None
        if audience is None and is_unreachable:
            message = f"your token cannot be checked now; try again in {RETRY_SECONDS} s"
            raise A2AError(UNAVAILABLE, message)
        if (audience or denied) and "access_token" in request.args:
            # Queries end up in logs (RFC 6750 2).
            challenges = self._challenges("invalid_request")
            raise A2AError(BAD_CREDENTIALS, "send one token, in the header", challenges)
        if audience is None:
            raise self._refusal(denied, is_part=bool(shown))
        return audience

    def _are_enough(self, names: list[str], shown: set[str]) -> bool:
        """Return whether a credential for some schemes opens a card, beside those shown before."""
        shown.update(names)
        # One whose schemes no alternative names is the operator's own, and opens the card too.
        is_own = not any(alternative.intersection(names) for alternative in self._alternatives)
        return is_own or any(need and need <= shown for need in self._alternatives)

    def _refusal(self, denied: list[Denied], *, is_part: bool) -> A2AError:
        """Return the refusal of a caller who sent nothing, or nothing that opens a card."""
        scopes = next((exc.scopes for exc in denied if exc.scopes is not None), None)
        if scopes is not None:
            lacking = f"; it lacks {' or '.join(scopes)}" if scopes else ""
            message = f"the credential opens no extended card{lacking}"
            return A2AError(FORBIDDEN, message, self._challenges("insufficient_scope", scopes))
        message = "send all credentials that the card demands together"
        if not is_part or denied:
            message = "the credential is not valid" if denied else "send a credential"
        challenges = self._challenges("invalid_token" if denied else "")
        return A2AError(UNAUTHENTICATED, message, challenges)

    def _challenges(self, error: str, scopes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return one challenge for each scheme that the card declares, named after it."""
        challenges = {
            provider.challenge(re.sub(r"[^ -~]", "?", name), error, scopes): None
            for provider, names in self._taken.items()
            for name in names
        }
        fallback = self._providers[0].challenge(FALLBACK_REALM, error, scopes)
        return tuple(challenges) or (fallback,)

    def find_problems(self) -> Iterator[str]:
        """Yield what of the cards and their providers does not fit together, a line each."""
        if not self.is_declared:
            return
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self._cards:
            yield "the public card declares an extended card, but none was published"
        if not self._providers:
            yield "there is no token, so the extended card cannot be asked for"
