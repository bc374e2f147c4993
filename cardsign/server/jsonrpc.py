"""JSON-RPC 2.0 envelopes of requests, read as strictly as cards are.

No batches: A2A has none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused
from cardsign.server.refusals import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    TOO_LARGE,
    UNSUPPORTED_OPERATION,
    CallId,
    Refusal,
)

#: Bytes. A request for a card has about 100; what other methods send is refused anyway.
MAX_REQUEST_BYTES: Final = 64 * 1024

# The names of the one operation that is served, in A2A 1.0 and 0.3.
_CARD_METHODS: Final = frozenset({"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"})
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
    """What a request asks, or why it cannot be understood.

    Attributes:
        id: To be echoed; None where the request has none that could be.
        method: The method's name.
        params: As sent; None if absent.
        is_notification: The request has no id and must not be answered.
        problem: Why it is refused whatever it asks; None for a well-formed call.
    """

    id: CallId = None
    method: str = ""
    params: Json = None
    is_notification: bool = False
    problem: Refusal | None = None


TOO_LARGE_CALL: Final = Call(
    problem=Refusal(TOO_LARGE, f"the request is longer than {MAX_REQUEST_BYTES} bytes")
)


def read_call(untrusted_body: bytes) -> Call:
    """Read one request (JSON-RPC 2.0 section 4)."""
    try:
        envelope = parse_object(untrusted_body, max_bytes=MAX_REQUEST_BYTES)
    except JsonRefused as exc:
        if exc.code == "json.too_large":
            return TOO_LARGE_CALL
        if exc.code == "json.not_object":
            return Call(problem=Refusal(INVALID_REQUEST, "the request is not one JSON object"))
        return Call(problem=Refusal(PARSE_ERROR, f"the request is not strict JSON ({exc.code})"))
    call_id = envelope.get("id")
    if isinstance(call_id, bool | list | dict):
        return Call(problem=Refusal(INVALID_REQUEST, "id is not a string, number or null"))
    method = envelope.get("method")
    if envelope.get("jsonrpc") != "2.0" or not isinstance(method, str):
        problem = "the request lacks jsonrpc 2.0 or the name of a method"
        return Call(id=call_id, problem=Refusal(INVALID_REQUEST, problem))
    return Call(call_id, method, envelope.get("params"), is_notification="id" not in envelope)


def refuse_method(call: Call) -> Refusal | None:
    """Why this call does not ask for the extended card; None if it does."""
    if call.method in _OTHER_METHODS:
        return Refusal(UNSUPPORTED_OPERATION, "this endpoint serves the agent card only")
    if call.method not in _CARD_METHODS:
        return Refusal(METHOD_NOT_FOUND, "there is no such method")
    return None


def refuse_params(call: Call) -> Refusal | None:
    """Why the params cannot be meant for the extended card; a tenant is all they may name."""
    if call.params is None:
        return None
    if not isinstance(call.params, dict) or not isinstance(call.params.get("tenant", ""), str):
        return Refusal(INVALID_PARAMS, "params is not an object with at most a tenant")
    return None


def result(call_id: CallId, card: bytes) -> bytes:
    """The answer to a call; the card's own bytes stand in it as they were signed."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(call_id).encode(), card)
