"""What A2A says over HTTP: its errors in both shapes that clients read, and JSON-RPC 2.0 calls.

Calls are read as strictly as cards are. There are no batches: A2A has none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Final, TypeAlias

from flask import Response, request
from werkzeug.exceptions import HTTPException, ServiceUnavailable

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused

#: Of every answer about an extended card, an error too: shared caches keep out.
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
NO_STORE: Final = {"Cache-Control": "no-store"}
RETRY_SECONDS: Final = 5  # after which it is worth trying again
NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}

#: Bytes. A request for a card has about 100; what other methods send is refused anyway.
MAX_CALL_BYTES: Final = 64 * 1024
TOO_LONG: Final = "a request for a card has at most 64 KiB"
#: The names of the one operation that is served, in A2A 1.0 and 0.3.
CARD_METHODS: Final = frozenset({"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"})
#: The other operations, in 1.0 (9.4) and 0.3 (7): known, and no business of a card server.
_OTHER_METHODS: Final = frozenset(
    {
        *("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask"),
        *("SubscribeToTask", "CreateTaskPushNotificationConfig"),
        *("GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs"),
        *("DeleteTaskPushNotificationConfig", "message/send", "message/stream", "tasks/get"),
        *("tasks/list", "tasks/cancel", "tasks/resubscribe", "tasks/pushNotificationConfig/set"),
        *("tasks/pushNotificationConfig/get", "tasks/pushNotificationConfig/list"),
        "tasks/pushNotificationConfig/delete",
    }
)
CallId: TypeAlias = str | int | float | None


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


class A2AError(Exception):
    """A request is refused.

    Attributes:
        kind: The kind of error.
        message: For a person at the other end; never what the request held.
        challenges: Values of ``WWW-Authenticate``, a header line each.
        call_id: Of the JSON-RPC call, as far as it was read.
        retry_after: Seconds after which it may be tried again.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        challenges: tuple[str, ...] = (),
        *,
        call_id: CallId = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.challenges = kind, message, challenges
        self.call_id, self.retry_after = call_id, retry_after

    def body(self, *, as_rpc: bool) -> dict[str, Json]:
        """Return the error as JSON-RPC or as a google.rpc.Status."""
        kind = self.kind
        details: list[Json] = []
        if kind.reason:
            info = "type.googleapis.com/google.rpc.ErrorInfo"
            details = [{"@type": info, "reason": kind.reason, "domain": "a2a-protocol.org"}]
        if not as_rpc:
            return status_body(kind.status, self.message, details)
        error: dict[str, Json] = {"code": kind.rpc_code, "message": self.message}
        error |= {"data": details} if details else {}
        return {"jsonrpc": "2.0", "id": self.call_id, "error": error}


def status_body(status: int, message: str, details: list[Json]) -> dict[str, Json]:
    """Return a google.rpc.Status as JSON; `details`, which A2A's own errors have, if there are."""
    name = "FAILED_PRECONDITION" if details else _GRPC_STATUSES.get(status, "UNKNOWN")
    error: dict[str, Json] = {"code": status, "status": name, "message": message}
    return {"error": error | ({"details": details} if details else {})}


_GRPC_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    410: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class Busy(ServiceUnavailable):
    """All places are taken."""

    def __init__(self) -> None:
        super().__init__("too many requests wait; try again later", retry_after=RETRY_SECONDS)


class Places:
    """How many requests may wait at a time for slow bodies, or for other hosts: ``with places:``.

    That is a quarter of the threads. Who finds no place gets :class:`Busy`, and is told to come
    back.

    Args:
        threads: Requests that are answered at a time.
    """

    def __init__(self, threads: int) -> None:
        self._free = BoundedSemaphore(max(1, threads // 4))

    def __enter__(self) -> None:
        if not self._free.acquire(blocking=False):
            raise Busy

    def __exit__(self, *_: object) -> None:
        self._free.release()


def answer_a2a_error(error: A2AError) -> Response:
    """Return the answer to a refused request, in the shape of the protocol that it used."""
    as_rpc = request.method == "POST"
    status = error.kind.rpc_status if as_rpc else error.kind.status
    response = json_response(error.body(as_rpc=as_rpc), status, PRIVATE)
    for challenge in error.challenges:
        response.headers.add("WWW-Authenticate", challenge)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def answer_http_error(error: HTTPException) -> Response:
    """Return what HTTP itself refuses (404, 405, 410, 429, 500) as JSON that no cache keeps."""
    status = error.code or 500
    message = error.description if status in (400, 413, 415, 429, 503) else None
    body = status_body(status, message or HTTPStatus(status).phrase, [])
    response = json_response(body, status, NO_STORE)
    if methods := getattr(error, "valid_methods", None):
        response.headers["Allow"] = ", ".join(methods)
    if retry_after := getattr(error, "retry_after", None):
        response.headers["Retry-After"] = str(retry_after)
    return response


def json_response(value: Json, status: int, headers: dict[str, str]) -> Response:
    """Return a JSON response that no browser takes for anything else."""
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, headers | NO_SNIFF, mimetype="application/json")


@dataclass(frozen=True, slots=True)
class Call:
    """What a JSON-RPC request asks.

    Attributes:
        id: To be echoed.
        method: The method's name.
        params: As sent; None if absent.
        is_notification: The request has no id and must not be answered.
    """

    id: CallId
    method: str
    params: Json
    is_notification: bool


def parse_call(untrusted_body: bytes) -> Call:
    """Return the call in a body (JSON-RPC 2.0 section 4).

    Raises:
        A2AError: It is none.
    """
    try:
        envelope = parse_object(untrusted_body, max_bytes=MAX_CALL_BYTES)
    except JsonRefused as exc:
        if exc.code == "json.too_large":
            raise A2AError(TOO_LARGE, TOO_LONG) from exc
        if exc.code == "json.not_object":
            raise A2AError(INVALID_REQUEST, "the request is not one JSON object") from exc
        raise A2AError(PARSE_ERROR, f"the request is not strict JSON ({exc.code})") from exc
    call_id, method = envelope.get("id"), envelope.get("method")
    if isinstance(call_id, bool | list | dict):
        raise A2AError(INVALID_REQUEST, "id is not a string, number or null")
    if envelope.get("jsonrpc") != "2.0" or not isinstance(method, str):
        problem = "the request lacks jsonrpc 2.0 or the name of a method"
        raise A2AError(INVALID_REQUEST, problem, call_id=call_id)
    return Call(call_id, method, envelope.get("params"), "id" not in envelope)


def check_call(call: Call) -> None:
    """Check that a call asks for the extended card; a tenant is all that its params may name.

    Raises:
        A2AError: It does not.
    """
    if call.method not in CARD_METHODS:
        if call.method in _OTHER_METHODS:
            raise A2AError(UNSUPPORTED, "this endpoint serves the agent card only")
        raise A2AError(METHOD_NOT_FOUND, "there is no such method")
    params = {} if call.params is None else call.params
    if not isinstance(params, dict) or not isinstance(params.get("tenant", ""), str):
        raise A2AError(INVALID_PARAMS, "params is not an object with at most a tenant")


def answer_call(call: Call, card: bytes) -> Response:
    """Return the answer to a call; the card's own bytes stand in it as they were signed."""
    body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call.id).encode(), card)
    return Response(body, headers=PRIVATE | NO_SNIFF, mimetype="application/json")
