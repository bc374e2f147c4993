"""The application under ASGI: what of a request reaches it, and how long a body may take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from cardsign.server import MAX_REQUEST_BYTES, AsgiApplication

FOREVER = 3600.0


class Echo:
    """A WSGI application that keeps what it was asked."""

    def __init__(self) -> None:
        self.environ: dict[str, Any] = {}
        self.body = b""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.environ, self.body = environ, environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Length", "2"), ("X-Twice", "a"), ("X-Twice", "b")])
        return [b"o", b"k"]


def asked(
    application: AsgiApplication, *messages: dict[str, Any] | None, **scope: Any
) -> list[dict[str, Any]]:
    """Ask once; what was sent. None among the messages is a silence without end."""
    said: list[dict[str, Any]] = []
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        message = next(coming)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    async def send(message: Any) -> None:
        said.append(dict(message))

    request = {
        "type": "http",
        "method": "POST",
        "raw_path": b"/a2a",
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [],
        **scope,
    }
    asyncio.run(application(request, receive, send))
    return said


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_in_pieces_reaches_the_application_whole() -> None:
    """And status, headers and body come back as they were given."""
    echo = Echo()
    start, body = asked(
        AsgiApplication(echo, body_seconds=FOREVER), part(b"ab", more=True), part(b"c")
    )
    assert echo.body == b"abc"
    assert start["status"] == 200
    assert start["headers"] == [(b"content-length", b"2"), (b"x-twice", b"a"), (b"x-twice", b"b")]
    assert body == {"type": "http.response.body", "body": b"ok"}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param((None,), id="not a byte"),
        pytest.param((part(b"a" * 100, more=True), None), id="a hundred bytes and no more"),
    ],
)
def test_a_body_that_stops_is_408(messages: tuple[dict[str, Any] | None, ...]) -> None:
    """The application is never entered, and the connection is to be closed."""
    echo = Echo()
    application = AsgiApplication(echo, body_seconds=0.01, body_rate=1e6)
    start, body = asked(application, *messages)
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert b"DEADLINE_EXCEEDED" in body["body"]
    assert echo.environ == {}


def test_each_byte_buys_a_body_more_time() -> None:
    """The twin of what stops: one that goes on at the rate that is asked for."""
    echo = Echo()
    application = AsgiApplication(echo, body_seconds=FOREVER, body_rate=1.0)
    asked(application, *(part(b"a", more=True) for _ in range(500)), part(b"a"))
    assert echo.body == b"a" * 501


def test_a_body_without_end_is_cut_off_one_byte_too_late() -> None:
    """So that the application sees that it is too long; nothing more is read."""
    echo = Echo()
    half = part(b"a" * MAX_REQUEST_BYTES, more=True)
    asked(AsgiApplication(echo, body_seconds=FOREVER), half, half, None)
    assert len(echo.body) == MAX_REQUEST_BYTES + 1


def test_a_client_that_has_gone_gets_no_answer() -> None:
    """And the application never learns of it."""
    echo = Echo()
    application = AsgiApplication(echo, body_seconds=FOREVER)
    assert asked(application, part(b"{", more=True), {"type": "http.disconnect"}) == []
    assert echo.environ == {}


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_nobody_waits_for_a_body_that_is_not_read(method: str) -> None:
    """No other method than POST has one that anybody looks at."""
    echo = Echo()
    application = AsgiApplication(echo, body_seconds=FOREVER)
    start, _ = asked(application, None, method=method)
    assert (start["status"], echo.body) == (200, b"")


def test_the_application_sees_the_request_as_wsgi_has_it() -> None:
    """Its path decoded, its headers by WSGI's names, a repeated one joined."""
    echo = Echo()
    headers = [
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer a"),
        (b"authorization", b"Bearer b"),
        (b"a2a-version", b"1.0"),
        (b"a2a_version", b"9"),
    ]
    asked(
        AsgiApplication(echo),
        method="GET",
        raw_path=b"/caf%C3%A9/%2f",
        query_string=b"a=%20",
        headers=headers,
    )
    assert echo.environ["REQUEST_METHOD"] == "GET"
    assert echo.environ["PATH_INFO"].encode("latin-1").decode() == "/café//"
    assert echo.environ["QUERY_STRING"] == "a=%20"
    assert echo.environ["CONTENT_TYPE"] == "application/json"
    assert echo.environ["HTTP_AUTHORIZATION"] == "Bearer a,Bearer b"
    assert echo.environ["HTTP_A2A_VERSION"] == "1.0"


async def ask_path(app: AsgiApplication, path: str) -> tuple[int, bytes]:
    """GET of a path."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize("in_threads", [False, True], ids=["at once", "by another storage"])
@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/agents/a/jwks.json", "/x"])
def test_the_public_card_waits_for_no_other_host(
    monkeypatch: pytest.MonkeyPatch, path: str, in_threads: bool
) -> None:
    """While providers are asked for all callers that there is place for; one more is sent away."""
    monkeypatch.setattr("cardsign.server.asgi.PEER_THREADS", 2)
    monkeypatch.setattr("cardsign.server.asgi.MAX_WAITING", 5)
    entered, released = threading.Semaphore(0), threading.Event()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/extendedAgentCard":
            entered.release()
            assert released.wait(60)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    app = AsgiApplication(
        application,
        may_wait=lambda environ: environ["PATH_INFO"] == "/extendedAgentCard",
        in_threads=in_threads,
    )

    async def all_of_them() -> None:
        slow = [asyncio.create_task(ask_path(app, "/extendedAgentCard")) for _ in range(5)]
        for _ in range(2):
            assert await asyncio.to_thread(entered.acquire, timeout=60)
        assert await ask_path(app, path) == (200, path.encode())
        status, _ = await ask_path(app, "/extendedAgentCard")
        assert status == 503
        released.set()
        assert await asyncio.gather(*slow) == [(200, b"/extendedAgentCard")] * 5
        assert (await ask_path(app, "/extendedAgentCard"))[0] == 200

    asyncio.run(all_of_them())
