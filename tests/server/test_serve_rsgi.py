"""The application under RSGI: what of a request reaches it, and how long a body may take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from exchange import Exchange, Fields, asked, scope_of
from served import Site

from cardsign.server.answers import MAX_REQUEST_BYTES
from cardsign.server.run import RsgiApplication

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


def test_a_body_in_pieces_reaches_the_application_whole() -> None:
    """And status, headers and body come back as they were given."""
    echo = Echo()
    answer = asked(RsgiApplication(echo, body_seconds=FOREVER), b"ab", b"c")
    assert echo.body == b"abc"
    assert (answer.status, answer.body) == (200, b"ok")
    assert answer.headers == [("Content-Length", "2"), ("X-Twice", "a"), ("X-Twice", "b")]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((None,), id="not a byte"),
        pytest.param((b"a" * 100, None), id="a hundred bytes and no more"),
    ],
)
def test_a_body_that_stops_is_408(pieces: tuple[bytes | None, ...]) -> None:
    """The application is never entered, and the connection is to be closed."""
    echo = Echo()
    application = RsgiApplication(echo, body_seconds=0.01, body_rate=1e6)
    answer = asked(application, *pieces)
    assert answer.status == 408
    assert ("Connection", "close") in answer.headers
    assert b"DEADLINE_EXCEEDED" in answer.body
    assert echo.environ == {}


def test_each_byte_buys_a_body_more_time() -> None:
    """The twin of what stops: one that goes on at the rate that is asked for."""
    echo = Echo()
    application = RsgiApplication(echo, body_seconds=FOREVER, body_rate=1.0)
    asked(application, *([b"a"] * 501))
    assert echo.body == b"a" * 501


def test_a_body_without_end_is_cut_off_one_byte_too_late() -> None:
    """So that the application sees that it is too long; nothing more is read."""
    echo = Echo()
    half = b"a" * MAX_REQUEST_BYTES
    asked(RsgiApplication(echo, body_seconds=FOREVER), half, half, None)
    assert len(echo.body) == MAX_REQUEST_BYTES + 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_nobody_waits_for_a_body_that_is_not_read(method: str) -> None:
    """No other method than POST has one that anybody looks at."""
    echo = Echo()
    application = RsgiApplication(echo, body_seconds=FOREVER)
    answer = asked(application, None, method=method)
    assert (answer.status, echo.body) == (200, b"")


def test_the_application_sees_the_request_as_wsgi_has_it() -> None:
    """Its path decoded, its headers by WSGI's names, a repeated one joined."""
    echo = Echo()
    headers = Fields(
        ("host", "other.example"),
        ("content-type", "application/json"),
        ("authorization", "Bearer a"),
        ("authorization", "Bearer b"),
        ("a2a-version", "1.0"),
        ("a2a_version", "9"),
    )
    asked(
        RsgiApplication(echo),
        method="GET",
        path="/café//",
        query_string="a=%20",
        client="[::1]:50000",
        authority="tides.example",
        headers=headers,
    )
    assert echo.environ["REMOTE_ADDR"] == "::1"
    assert echo.environ["HTTP_HOST"] == "tides.example"
    assert echo.environ["REQUEST_METHOD"] == "GET"
    assert echo.environ["PATH_INFO"].encode("latin-1").decode() == "/café//"
    assert echo.environ["QUERY_STRING"] == "a=%20"
    assert echo.environ["CONTENT_TYPE"] == "application/json"
    assert echo.environ["HTTP_AUTHORIZATION"] == "Bearer a,Bearer b"
    assert echo.environ["HTTP_A2A_VERSION"] == "1.0"


async def ask_path(app: RsgiApplication, path: str) -> tuple[int, bytes]:
    """GET of a path."""
    exchange = Exchange()
    await app.__rsgi__(scope_of(method="GET", path=path), exchange)
    return exchange.status, exchange.body


@pytest.mark.parametrize("is_far", [False, True], ids=["at once", "by another storage"])
@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/agents/a/jwks.json", "/x"])
def test_the_public_card_waits_for_no_other_host(
    monkeypatch: pytest.MonkeyPatch, path: str, is_far: bool
) -> None:
    """While providers are asked for all callers that there is place for; one more is sent away."""
    monkeypatch.setattr("cardsign.server.run.PEER_THREADS", 2)
    monkeypatch.setattr("cardsign.server.run.MAX_WAITING", 5)
    entered, released = threading.Semaphore(0), threading.Event()

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/extendedAgentCard":
            entered.release()
            assert released.wait(60)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    async def gate(_: Any) -> None:
        await asyncio.to_thread(lambda: None)

    app = RsgiApplication(
        application,
        may_wait=lambda environ: environ["PATH_INFO"] == "/extendedAgentCard",
        gate=gate if is_far else None,
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


def test_what_is_answered_at_once_takes_no_thread(site: Site) -> None:
    """A known caller's extended card; the twins wait: what is not known, and every POST."""
    live, echo, threads = site.client.application, Echo(), list[str]()

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        threads.append(threading.current_thread().name)
        return echo(environ, start_response)

    rsgi = RsgiApplication(application, at_once=live.at_once, may_wait=lambda environ: True)
    path, known = "/a2a/extendedAgentCard", Fields(*site.bearer().items())
    answer = asked(rsgi, method="GET", path=path, headers=known)
    assert (answer.status, answer.body) == (200, site.generation.extended["staff"])
    assert threads == []
    for method, where in (("POST", path), ("GET", "/nobody")):
        assert asked(rsgi, method=method, path=where, headers=known).body == b"ok"
    assert len(threads) == 2
    assert all(name.startswith("cardsign-peers") for name in threads)
