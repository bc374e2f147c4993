"""Refused requests, in the two shapes that A2A clients read.

Over REST the body is google.rpc.Status as JSON (A2A 1.0 11.6), over JSON-RPC an error object
(A2A 1.0 9.5); errors of A2A's own carry an ErrorInfo with A2A's reason in both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, TypeAlias

from cardsign.card.strictjson import Json

CallId: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Kind:
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


PARSE_ERROR: Final = Kind(-32700, 400, "INVALID_ARGUMENT")
INVALID_REQUEST: Final = Kind(-32600, 400, "INVALID_ARGUMENT")
METHOD_NOT_FOUND: Final = Kind(-32601, 404, "NOT_FOUND")
INVALID_PARAMS: Final = Kind(-32602, 400, "INVALID_ARGUMENT")
TOO_LARGE: Final = Kind(-32600, 413, "INVALID_ARGUMENT", rpc_http_status=413)
UNSUPPORTED_OPERATION: Final = Kind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
NOT_CONFIGURED: Final = Kind(
    -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
)
VERSION_NOT_SUPPORTED: Final = Kind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
# A2A leaves authentication without a code; -32000 is JSON-RPC's first for servers, and A2A's
# own begin at -32001. The HTTP status and the challenge are what a client acts upon.
UNAUTHENTICATED: Final = Kind(-32000, 401, "UNAUTHENTICATED", rpc_http_status=401)
BAD_CREDENTIALS: Final = Kind(-32000, 400, "INVALID_ARGUMENT", rpc_http_status=400)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one request is refused.

    Attributes:
        kind: The kind of error.
        message: For a person at the other end; never what the request held.
        challenges: Values of ``WWW-Authenticate``, a header line each.
    """

    kind: Kind
    message: str
    challenges: tuple[str, ...] = ()

    def rest_body(self) -> bytes:
        """The body over REST."""
        return status_body(
            self.kind.http_status, self.kind.grpc_status, self.message, self._details()
        )

    def rpc_body(self, call_id: CallId) -> bytes:
        """The body over JSON-RPC, for the call of that id."""
        error: dict[str, Json] = {"code": self.kind.rpc_code, "message": self.message}
        if details := self._details():
            error["data"] = details
        return _json({"jsonrpc": "2.0", "id": call_id, "error": error})

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
