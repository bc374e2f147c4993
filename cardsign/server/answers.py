"""A whole HTTP answer, and refusals by HTTP itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from cardsign.publish.headers import ANY_ORIGIN, NO_SNIFF
from cardsign.server.jsonrpc import status_body

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

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
