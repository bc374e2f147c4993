"""A2A over HTTP: documents, extended cards, JSON-RPC calls, and errors in both shapes clients read.

Calls are read as strictly as cards are. There are no batches: A2A has none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from flask import Request, Response, g, request
from werkzeug.exceptions import HTTPException, PreconditionFailed, ServiceUnavailable

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of, security_problems
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, ServeFault
from cardsign.publish.generation import NO_SNIFF, Generation
from cardsign.server.providers import RETRY_SECONDS, Denied, Provider
from cardsign.urls import Headers

log = logging.getLogger(__name__)

#: Of every answer about an extended card, an error too: shared caches keep out.
PRIVATE: Final[Headers] = (("Cache-Control", "private, no-cache"), ("Vary", "Authorization"))
NO_STORE: Final[Headers] = (("Cache-Control", "no-store"),)
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


# Errors.


#: One kind of error (A2A 1.0 5.4): its JSON-RPC code; its HTTP status over REST, and over JSON-RPC
#: (200 unless HTTP itself must know); and A2A's reason, for errors of A2A's own.
ErrorKind: TypeAlias = tuple[int, int, int, str]

PARSE_ERROR: Final[ErrorKind] = (-32700, 400, 200, "")
INVALID_REQUEST: Final[ErrorKind] = (-32600, 400, 200, "")
METHOD_NOT_FOUND: Final[ErrorKind] = (-32601, 404, 200, "")
INVALID_PARAMS: Final[ErrorKind] = (-32602, 400, 200, "")
TOO_LARGE: Final[ErrorKind] = (-32600, 413, 413, "")
UNSUPPORTED: Final[ErrorKind] = (-32004, 400, 200, "UNSUPPORTED_OPERATION")
NOT_CONFIGURED: Final[ErrorKind] = (-32007, 400, 200, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
BAD_VERSION: Final[ErrorKind] = (-32009, 400, 200, "VERSION_NOT_SUPPORTED")
# A2A leaves authentication without a code; -32000 is JSON-RPC's first for servers, and A2A's
# own begin at -32001. The HTTP status and the challenge are what a client acts upon.
UNAUTHENTICATED: Final[ErrorKind] = (-32000, 401, 401, "")
FORBIDDEN: Final[ErrorKind] = (-32000, 403, 403, "")
UNAVAILABLE: Final[ErrorKind] = (-32000, 503, 503, "")


#: By the code of the reader; any other is a parse error.
_NO_CALL: Final = {
    "json.too_large": (TOO_LARGE, TOO_LONG),
    "json.not_object": (INVALID_REQUEST, "the request is not one JSON object"),
}


class A2AError(HTTPException):
    """A request is refused. The description is for a person at the other end.

    Attributes:
        rpc_code: The JSON-RPC error code.
        rpc_status: The HTTP status over JSON-RPC.
        reason: A2A's own, or empty.
        headers: Of the answer, beside those of its body.
    """

    def __init__(self, kind: ErrorKind, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.rpc_code, self.code, self.rpc_status, self.reason = kind
        self.headers = headers


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
    _, *others = error.get_headers()  # without the type of the page that werkzeug would show
    name = _GRPC_STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    is_explained = isinstance(error, A2AError) or status in _EXPLAINED
    message = (error.description if is_explained else "") or error.name
    if isinstance(error, A2AError):
        headers, others = PRIVATE, [*error.headers]
        if error.reason:
            name, info = "FAILED_PRECONDITION", "type.googleapis.com/google.rpc.ErrorInfo"
            details = [{"@type": info, "reason": error.reason, "domain": "a2a-protocol.org"}]
    shown: dict[str, Json] = {"code": status, "status": name, "message": message}
    body: dict[str, Json] = {"error": shown | ({"details": details} if details else {})}
    if isinstance(error, A2AError) and request.method == "POST":
        status, shown = error.rpc_status, {"code": error.rpc_code, "message": message}
        shown |= {"data": details} if details else {}
        body = {"jsonrpc": "2.0", "id": g.get("call_id"), "error": shown}
    response = json_response(body, status, headers)
    response.headers.extend(others)
    return response


def json_response(value: object, status: int, headers: Headers) -> Response:
    """Return a JSON response that no browser takes for anything else."""
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, [*headers, NO_SNIFF], mimetype="application/json")


# Calls.


def parse_call(untrusted_body: bytes) -> dict[str, Json]:
    """Return the call in a body (JSON-RPC 2.0 section 4); without an id it is a notification.

    Raises:
        A2AError: It is none.
    """
    try:
        call = parse_object(untrusted_body, max_bytes=MAX_CALL_BYTES)
    except JsonRefused as exc:
        kind, message = _NO_CALL.get(exc.code, (PARSE_ERROR, "the request is not strict JSON"))
        raise A2AError(kind, f"{message} ({exc.code})") from exc
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
    return Response(body, headers=[*PRIVATE, NO_SNIFF], mimetype="application/json")


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
        ServeFault: ``serve.corrupt_generation``: it is no extended card; ``serve.schemes``: none of
            the providers takes all that an alternative of the public card demands, so callers who
            do as it says would be turned away (threat 26).
    """

    def __init__(
        self,
        generation: Generation,
        card: Mapping[str, Json],
        providers: tuple[Provider, ...],
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self.is_declared = declares_extended_card(card)
        self._cards: dict[str, tuple[Document, int]] = {}
        for audience, body in generation.extended.items():
            marker = find_marker(Card.from_bytes(body).document)
            if marker is None:
                message = f"the extended card of audience {audience} does not say until when it is"
                raise ServeFault("serve.corrupt_generation", message)
            # No Last-Modified: all audiences share one, so a caller who sends only that would be
            # told that the card of another audience is unchanged.
            headers = ("Content-Type", "application/a2a+json"), ("ETag", etag_of(body))
            self._cards[audience] = Document(body, (*headers, *PRIVATE, NO_SNIFF)), marker.exp
        #: Whether there is any, also one that has expired.
        self.are_published = bool(self._cards)
        schemes = schemes_of(card)
        needs = [frozenset(need.schemes) for need in requirements_of(card, schemes) if need.schemes]
        taken = {
            provider: {name for name, scheme in schemes.items() if provider.gives(scheme)}
            for provider in providers
        }
        if self.are_published and providers:
            for problem in security_problems(card):
                message = f"the demands of the public card cannot be read: {problem.message}"
                raise ServeFault("serve.schemes", message)
            for need in needs:
                if not any(need <= names for names in taken.values()):
                    words = " with ".join(map(repr, sorted(need)))
                    message = f"the public card demands {words}, and no provider accepts that"
                    raise ServeFault("serve.schemes", message)
        #: Providers that satisfy an alternative of the card alone, or that the card does not name.
        self._providers = [
            provider
            for provider, names in taken.items()
            if any(need <= names for need in needs) or not any(need & names for need in needs)
        ]

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

        The first provider that knows the credential decides.

        Raises:
            A2AError: The caller is not known, or nobody could be.
        """
        if not self._providers:
            raise A2AError(NOT_CONFIGURED, "no extended card is configured")
        denied, is_unreachable = list[Denied](), False
        for provider in self._providers:
            try:
                if audience := provider.find_audience(request):
                    return audience
            except Denied as exc:
                log.info("refused a credential (%s): %s", provider.name, exc)
                denied.append(exc)
            except ServiceUnavailable as exc:
                log.warning("could not check a credential (%s): %s", provider.name, exc.description)
                is_unreachable = True
        if is_unreachable:
            message = "your token cannot be checked now; try again later"
            raise A2AError(UNAVAILABLE, message, (("Retry-After", str(RETRY_SECONDS)),))
        kind, error, message = UNAUTHENTICATED, "", "send a credential"
        if denied:
            error, message = "invalid_token", "the credential is not valid"
        if any(exc.is_valid for exc in denied):
            kind, error = FORBIDDEN, "insufficient_scope"
            message = "the credential opens no extended card"
        challenges = dict.fromkeys(provider.challenge(error) for provider in self._providers)
        headers = tuple(("WWW-Authenticate", challenge) for challenge in challenges)
        raise A2AError(kind, message, headers)
