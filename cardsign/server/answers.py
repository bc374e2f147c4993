"""Answers that need no generation: refusals by HTTP itself, and what probes read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from flask import Response

from cardsign.publish.layout import ANY_ORIGIN, NO_SNIFF
from cardsign.server.jsonrpc import status_body

PREFLIGHT: Final = (
    *ANY_ORIGIN,
    ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
    ("Access-Control-Allow-Headers", "A2A-Version, If-Modified-Since, If-None-Match"),
    ("Access-Control-Max-Age", "86400"),
    NO_SNIFF,
)
HEALTH_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
JSON: Final = ("Content-Type", "application/json")
_UNCACHED: Final = ("Cache-Control", "no-store")
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


def error_response(http_status: int, message: str, *headers: tuple[str, str]) -> Response:
    """A refusal by HTTP itself, as JSON that no cache keeps."""
    grpc_status = _GRPC_STATUSES.get(http_status, "UNKNOWN")
    body = status_body(http_status, grpc_status, message)
    return Response(body, http_status, [JSON, _UNCACHED, NO_SNIFF, *headers])


def health_response(status: str, **count: int) -> Response:
    """What a probe reads; 503 for any other status than "ok" and "ready"."""
    body = json.dumps({"status": status, **count}, separators=(",", ":"))
    return Response(body, 200 if status in ("ok", "ready") else 503, [JSON, _UNCACHED])


def allow(methods: Iterable[str]) -> tuple[str, str]:
    return "Allow", ", ".join(method for method in _METHODS if method in methods)
