"""Whole HTTP answers, refusals in the shapes that A2A clients read, and JSON-RPC 2.0 requests.

Requests are read as strictly as cards are. There are no batches: A2A has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused
from cardsign.publish.generation import ANY_ORIGIN, NO_SNIFF

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# Refused requests, in the two shapes that A2A clients read.


CallId: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One kind of error (A2A 1.0 5.4).

    Attributes:
        rpc_code: The JSON-RPC error code.
        http_status: The HTTP status over REST.
        rpc_http_status: The HTTP status over JSON-RPC; 200 unless HTTP itself must know.
        grpc_status: The name of the google.rpc code.
        reason: A2A's reason, for errors of A2A's own.
    """

    rpc_code: int
    http_status: int
    grpc_status: str
    reason: str = ""
    rpc_http_status: int = 200


PARSE_ERROR: Final = ErrorKind(-32700, 400, "INVALID_ARGUMENT")
INVALID_REQUEST: Final = ErrorKind(-32600, 400, "INVALID_ARGUMENT")
METHOD_NOT_FOUND: Final = ErrorKind(-32601, 404, "NOT_FOUND")
INVALID_PARAMS: Final = ErrorKind(-32602, 400, "INVALID_ARGUMENT")
TOO_LARGE: Final = ErrorKind(-32600, 413, "INVALID_ARGUMENT", rpc_http_status=413)
UNSUPPORTED_OPERATION: Final = ErrorKind(
    -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"
)
NOT_CONFIGURED: Final = ErrorKind(
    -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
)
VERSION_NOT_SUPPORTED: Final = ErrorKind(
    -32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"
)
# A2A leaves authentication without a code; -32000 is JSON-RPC's first for servers, and A2A's
# own begin at -32001. The HTTP status and the challenge are what a client acts upon.
UNAUTHENTICATED: Final = ErrorKind(-32000, 401, "UNAUTHENTICATED", rpc_http_status=401)
FORBIDDEN: Final = ErrorKind(-32000, 403, "PERMISSION_DENIED", rpc_http_status=403)
UNAVAILABLE: Final = ErrorKind(-32000, 503, "UNAVAILABLE", rpc_http_status=503)
BAD_CREDENTIALS: Final = ErrorKind(-32000, 400, "INVALID_ARGUMENT", rpc_http_status=400)


class Refused(Exception):
    """Why one request is refused.

    Attributes:
        kind: The kind of error.
        message: For a person at the other end; never what the request held.
        challenges: Values of ``WWW-Authenticate``, a header line each.
        call_id: Of the JSON-RPC call, as far as it could be read.
        retry_after: Seconds after which it may be tried again; None for as soon as it is fixed.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        challenges: tuple[str, ...] = (),
        call_id: CallId = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.challenges = challenges
        self.call_id = call_id
        self.retry_after = retry_after

    def rest_body(self) -> bytes:
        """The body over REST."""
        kind = self.kind
        return status_body(kind.http_status, kind.grpc_status, self.message, self._details())

    def rpc_body(self) -> bytes:
        """The body over JSON-RPC."""
        error: dict[str, Json] = {"code": self.kind.rpc_code, "message": self.message}
        if details := self._details():
            error["data"] = details
        return _json({"jsonrpc": "2.0", "id": self.call_id, "error": error})

    def _details(self) -> list[Json]:
        if not self.kind.reason:
            return []
        return [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.kind.reason,
                "domain": "a2a-protocol.org",
            }
        ]


def status_body(
    http_status: int, grpc_status: str, message: str, details: list[Json] | None = None
) -> bytes:
    """A google.rpc.Status as JSON; `details` only where there are any."""
    error: dict[str, Json] = {"code": http_status, "status": grpc_status, "message": message}
    if details:
        error["details"] = details
    return _json({"error": error})


def _json(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


#: Bytes. A request for a card has about 100; what other methods send is refused anyway.
MAX_REQUEST_BYTES: Final = 64 * 1024

#: The names of the one operation that is served, in A2A 1.0 and 0.3.
CARD_METHODS: Final = frozenset({"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"})
# The other operations, in 1.0 (9.4) and 0.3 (7): known, and no business of a card server.
_OTHER_METHODS: Final = frozenset(
    {
        "SendMessage",
        "SendStreamingMessage",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "SubscribeToTask",
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/list",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/pushNotificationConfig/set",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotificationConfig/list",
        "tasks/pushNotificationConfig/delete",
    }
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a request asks.

    Attributes:
        id: To be echoed; None where the request has none that could be.
        method: The method's name.
        params: As sent; None if absent.
        is_notification: The request has no id and must not be answered.
    """

    id: CallId
    method: str
    params: Json
    is_notification: bool


#: What is said of a long body that asks for a card.
TOO_LONG: Final = "a request for a card has at most 64 KiB"


def read_call(untrusted_body: bytes) -> Call:
    """Read one request (JSON-RPC 2.0 section 4).

    Raises:
        Refused: It is none.
    """
    try:
        envelope = parse_object(untrusted_body, max_bytes=MAX_REQUEST_BYTES)
    except JsonRefused as exc:
        if exc.code == "json.too_large":
            raise Refused(TOO_LARGE, TOO_LONG) from exc
        if exc.code == "json.not_object":
            raise Refused(INVALID_REQUEST, "the request is not one JSON object") from exc
        raise Refused(PARSE_ERROR, f"the request is not strict JSON ({exc.code})") from exc
    call_id = envelope.get("id")
    if isinstance(call_id, bool | list | dict):
        raise Refused(INVALID_REQUEST, "id is not a string, number or null")
    method = envelope.get("method")
    if envelope.get("jsonrpc") != "2.0" or not isinstance(method, str):
        problem = "the request lacks jsonrpc 2.0 or the name of a method"
        raise Refused(INVALID_REQUEST, problem, call_id=call_id)
    return Call(call_id, method, envelope.get("params"), is_notification="id" not in envelope)


def check_asks_for_card(call: Call) -> None:
    """Check that a call asks for the extended card; a tenant is all that its params may name.

    Raises:
        Refused: It does not.
    """
    if call.method in _OTHER_METHODS:
        raise Refused(UNSUPPORTED_OPERATION, "this endpoint serves the agent card only")
    if call.method not in CARD_METHODS:
        raise Refused(METHOD_NOT_FOUND, "there is no such method")
    params = {} if call.params is None else call.params
    if not isinstance(params, dict) or not isinstance(params.get("tenant", ""), str):
        raise Refused(INVALID_PARAMS, "params is not an object with at most a tenant")


def call_result(call_id: CallId, card: bytes) -> bytes:
    """The answer to a call; the card's own bytes stand in it as they were signed."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call_id).encode(), card)


HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
METRICS_PATH: Final = "/metrics"
JSON: Final = ("Content-Type", "application/json")
UNCACHED: Final = ("Cache-Control", "no-store")
_METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_GRPC_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class Answer(NamedTuple):
    """A whole answer to a request; a view of Flask returns it as it is, and it answers WSGI.

    Attributes:
        body: Of the answer to GET; WSGI's to HEAD leaves it out.
        status: Of HTTP.
        headers: In their order.
    """

    body: bytes
    status: int
    headers: Sequence[tuple[str, str]]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer as an application (PEP 3333)."""
        phrase = HTTPStatus(self.status).phrase.upper()
        start_response(f"{self.status} {phrase}", list(self.headers))
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else self.body]


PREFLIGHT: Final = Answer(
    b"",
    204,
    (
        *ANY_ORIGIN,
        ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
        ("Access-Control-Allow-Headers", "A2A-Version, If-Modified-Since, If-None-Match"),
        ("Access-Control-Max-Age", "86400"),
        NO_SNIFF,
    ),
)


def error_answer(http_status: int, message: str, *headers: tuple[str, str]) -> Answer:
    """A refusal by HTTP itself, as JSON that no cache keeps."""
    grpc_status = _GRPC_STATUSES.get(http_status, "UNKNOWN")
    body = status_body(http_status, grpc_status, message)
    return json_answer(body, http_status, UNCACHED, NO_SNIFF, *headers)


def json_answer(body: bytes, http_status: int, *headers: tuple[str, str]) -> Answer:
    """An answer with its media type and its length."""
    return Answer(body, http_status, (JSON, ("Content-Length", str(len(body))), *headers))


def allow(methods: Iterable[str]) -> tuple[str, str]:
    return "Allow", ", ".join(method for method in _METHODS if method in methods)
