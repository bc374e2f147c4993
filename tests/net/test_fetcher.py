"""Asking often: what is kept, what is asked again, and how often strangers can make us ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from authorities import Authority
from internet import Host, Network, Request
from peers import CARD, PATIENCE, http

from cardsign.errors import FetchFailed
from cardsign.net.fetcher import PAGE_COST, DocumentFetcher
from cardsign.trust.refresh import FetchResult

START = datetime(2026, 11, 22, 12, tzinfo=UTC)
URL = "https://agent.example/card.json"
NEWER = b'{"name": "Tide tables, newer"}'
LIMIT = 65536


class Clock:
    """The time, which goes on when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def network(authority: Authority) -> Network:
    return Network(authority)


@pytest.fixture
def peer(network: Network) -> Host:
    return network.host("agent.example", http(etag='"1"'))


@pytest.fixture
def fetcher(network: Network, clock: Clock) -> DocumentFetcher:
    return DocumentFetcher(network.settings(), now=clock)


def ask(fetcher: DocumentFetcher, url: str = URL, *, fresh: bool = False) -> FetchResult:
    return fetcher.fetch(url, max_bytes=LIMIT, fresh=fresh)


def found(answer: FetchResult) -> bytes:
    """What was found."""
    assert (answer.url, answer.outcome, answer.is_stale) == (URL, "found", False)
    return answer.untrusted_body


def conditions(host: Host) -> list[str | None]:
    """The condition of each request."""
    return [request.headers.get("if-none-match") for request in host.requests]


def not_modified(**headers: str) -> bytes:
    return http(b"", status="304 Not Modified", content_type=None, content_length=None, **headers)


# --------------------------------------------------------------------- what is kept


def test_within_its_time(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """What is fresh is used without a request."""
    assert found(ask(fetcher)) == CARD
    clock.passes(299)
    assert found(ask(fetcher)) == CARD
    assert len(peer.requests) == 1
    clock.passes(1)
    ask(fetcher)
    assert len(peer.requests) == 2


def test_http_shortens(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """Five seconds are five seconds, less what the answer has lain elsewhere."""
    peer.answers = http(cache_control="max-age=9", age="4")
    for seconds, requests in ((0, 1), (4, 1), (1, 2)):
        clock.passes(seconds)
        ask(fetcher)
        assert len(peer.requests) == requests


@pytest.mark.parametrize("age", ["300", "young", "-1", "1\r\nAge: 1"])
def test_answers_of_an_age_that_is_over_or_none(
    fetcher: DocumentFetcher, peer: Host, age: str
) -> None:
    """They are used once, and asked for again."""
    peer.answers = http(age=age)
    assert [found(ask(fetcher)) for _ in range(2)] == [CARD, CARD]
    assert len(peer.requests) == 2


def test_no_store(fetcher: DocumentFetcher, clock: Clock, peer: Host) -> None:
    """What must not be stored is asked for every time, and is nothing where nobody answers."""
    ask(fetcher)
    clock.passes(300)
    peer.answers = http(NEWER, cache_control="no-store", etag='"2"')
    assert found(ask(fetcher)) == NEWER
    peer.answers = http(status="500 Oh")
    assert (ask(fetcher).untrusted_body, conditions(peer)) == (b"", [None, '"1"', '"2"'])


def test_the_clock_goes_back(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """It makes us ask, not wait."""
    ask(fetcher)
    clock.passes(-3600)
    ask(fetcher)
    assert len(peer.requests) == 2


def test_a_smaller_limit(fetcher: DocumentFetcher, peer: Host) -> None:
    """What was kept under a larger limit is not handed out under a smaller one."""
    ask(fetcher)
    answer = fetcher.fetch(URL, max_bytes=len(CARD) - 1)
    assert (answer.outcome, answer.untrusted_body) == ("failed", b"")
    assert answer.failure is not None
    assert answer.failure.code == "fetch.too_large"
    assert conditions(peer) == [None, None]


# ------------------------------------------------------------------- asking again


def test_unchanged(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """A 304 keeps the body and begins its time anew."""
    ask(fetcher)
    clock.passes(300)
    peer.answers = not_modified(cache_control="max-age=60")
    assert found(ask(fetcher)) == CARD
    clock.passes(59)
    assert found(ask(fetcher)) == CARD
    clock.passes(1)
    ask(fetcher)
    assert conditions(peer) == [None, '"1"', '"1"']


@pytest.mark.parametrize(
    ("first", "later", "lasts"),
    [
        ({"cache_control": "no-cache, must-revalidate"}, {}, 0),
        ({"cache_control": "max-age=9"}, {}, 9),
        ({"cache_control": "no-cache"}, {"cache_control": "max-age=60"}, 60),
        ({"cache_control": "max-age=60", "age": "59"}, {}, 60),
        ({}, {}, 300),
    ],
    ids=[
        "to be asked every time",
        "for a while",
        "unless it says anew for how long",
        "however old the first answer was",
        "nothing was said",
    ],
)
def test_unchanged_without_a_word_about_time(
    fetcher: DocumentFetcher,
    peer: Host,
    clock: Clock,
    first: dict[str, str],
    later: dict[str, str],
    lasts: int,
) -> None:
    """What was said of the body holds as long as the body does (RFC 9111 4.3.4)."""
    peer.answers = http(etag='"1"', **first)
    ask(fetcher)
    peer.answers = not_modified(etag='"1"', **later)
    for seconds in (300, *[lasts] * bool(lasts)):
        clock.passes(seconds)
        asked = len(peer.requests)
        assert found(ask(fetcher)) == CARD
        assert len(peer.requests) == asked + 1
    clock.passes(max(lasts - 1, 0))
    assert found(ask(fetcher)) == CARD
    assert len(peer.requests) == asked + (1 if lasts else 2)
    peer.answers = http(status="500 Oh")
    clock.passes(300)
    asked_every_time = "must-revalidate" in first.get("cache_control", "")
    assert ask(fetcher).is_stale is not asked_every_time


def test_changed(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """A new body takes the old one's place, and so does its validator."""
    ask(fetcher)
    clock.passes(300)
    peer.answers = http(NEWER, etag='"2"')
    assert ask(fetcher).untrusted_body == NEWER
    clock.passes(300)
    peer.answers = not_modified()
    assert ask(fetcher).untrusted_body == NEWER
    assert conditions(peer) == [None, '"1"', '"2"']


def test_validators_belong_to_one_url(
    fetcher: DocumentFetcher, network: Network, peer: Host
) -> None:
    """No other URL gets them, neither of the host nor of another."""
    other = network.host("other.example", http())
    ask(fetcher)
    for url in (URL + "?v=2", "https://agent.example/CARD.json", "https://other.example/card.json"):
        ask(fetcher, url)
    assert conditions(peer) == [None, None, None]
    assert conditions(other) == [None]


def test_a_304_that_nobody_asked_for(fetcher: DocumentFetcher, peer: Host) -> None:
    """Without a condition there is nothing that could be unchanged."""
    peer.answers = not_modified(etag='"1"')
    answer = ask(fetcher)
    assert (answer.outcome, answer.untrusted_body, answer.is_stale) == ("failed", b"", False)


# ----------------------------------------------------------------------- failures

FAILURES: dict[str, tuple[str, bytes]] = {
    "500": ("fetch.status", http(status="500 Oh")),
    "a redirect": ("fetch.status", http(status="301 There", location="https://other.example/")),
    "a page": ("fetch.content_type", http(content_type="text/html")),
    "too much": ("fetch.too_large", http(b" " * (LIMIT + 1))),
    "nothing": ("fetch.failed", b"\r\n"),
}


@pytest.mark.parametrize(("code", "answer"), FAILURES.values(), ids=FAILURES)
def test_a_failure_evicts_nothing(
    fetcher: DocumentFetcher, peer: Host, clock: Clock, code: str, answer: bytes
) -> None:
    """What was good is still there, called stale, and is found unchanged when all is well."""
    ask(fetcher)
    clock.passes(300)
    peer.answers = answer
    failed = ask(fetcher)
    assert (failed.outcome, failed.untrusted_body, failed.is_stale) == ("failed", CARD, True)
    assert failed.failure is not None
    assert failed.failure.code == code
    peer.answers = not_modified()
    clock.passes(30)
    assert ask(fetcher).untrusted_body == CARD


def test_a_failure_is_kept_for_half_a_minute(
    fetcher: DocumentFetcher, peer: Host, clock: Clock
) -> None:
    """A peer that does not answer keeps nobody else waiting; out of turn it is asked at once."""
    peer.answers = http(status="500 Oh", cache_control="max-age=300")
    assert ask(fetcher).outcome == "failed"
    peer.answers = http()
    clock.passes(29)
    assert ask(fetcher).outcome == "failed"
    clock.passes(1)
    assert ask(fetcher).outcome == "found"
    assert len(peer.requests) == 2


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
def test_absent(fetcher: DocumentFetcher, peer: Host, clock: Clock, status: str) -> None:
    """Only 404 and 410 say so, and what was there is not forgotten for it."""
    ask(fetcher)
    clock.passes(300)
    peer.answers = http(status=status, cache_control="max-age=300")
    absent = ask(fetcher)
    assert (absent.outcome, absent.untrusted_body, absent.is_stale) == ("absent", b"", False)
    assert absent.failure is not None
    assert absent.failure.code == "fetch.status"
    peer.answers = not_modified()
    clock.passes(299)
    assert ask(fetcher).outcome == "absent"
    clock.passes(1)
    assert ask(fetcher).untrusted_body == CARD
    assert conditions(peer) == [None, '"1"', '"1"']


def test_what_is_no_url(fetcher: DocumentFetcher, network: Network) -> None:
    """It fails as anything else does, and nobody is asked."""
    answer = ask(fetcher, "https://agent.example\\@evil.example/")
    assert answer.failure is not None
    assert (answer.outcome, answer.failure.code) == ("failed", "fetch.url")
    assert network.names == []


# ------------------------------------------------------------------- out of turn


def test_out_of_turn(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """It passes our cache and those on the way, and is still a conditional request."""
    ask(fetcher)
    peer.answers = http(NEWER, etag='"2"')
    assert ask(fetcher).untrusted_body == CARD
    assert ask(fetcher, fresh=True).untrusted_body == NEWER
    assert conditions(peer) == [None, '"1"']
    assert [request.headers.get("cache-control") for request in peer.requests] == [None, "no-cache"]


def test_a_thousand_unknown_kids(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """Each of them asks out of turn, and one does within a cooldown; then one more."""
    ask(fetcher)
    for _ in range(2):
        answers = [ask(fetcher, fresh=True) for _ in range(1000)]
        assert all(answer.untrusted_body == CARD for answer in answers)
        clock.passes(60)
    assert len(peer.requests) == 3


def test_a_cooldown_after_a_failure(fetcher: DocumentFetcher, peer: Host) -> None:
    """Who does not answer is not asked all the more."""
    ask(fetcher)
    peer.answers = http(status="500 Oh")
    outcomes = [ask(fetcher, fresh=True).outcome for _ in range(9)]
    assert outcomes == ["failed"] * 9
    assert len(peer.requests) == 2


def test_each_url_has_its_own_cooldown(fetcher: DocumentFetcher, peer: Host) -> None:
    """One peer's strange kids do not keep another's news away."""
    for url in (URL, URL, URL + "?v=2"):
        ask(fetcher, url, fresh=True)
    assert [request.target for request in peer.requests] == ["/card.json", "/card.json?v=2"]


def test_the_memory_is_bounded(
    network: Network, peer: Host, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many bytes the oldest answers are forgotten first, and cooldowns with them."""
    monkeypatch.setattr("cardsign.net.fetcher.MAX_BYTES", 2 * (PAGE_COST + len(CARD)))
    fetcher = DocumentFetcher(network.settings(), now=clock)
    for number in (1, 2, 1, 3, 1, 2, 3):
        ask(fetcher, f"{URL}?v={number}")
    assert [request.target[-1] for request in peer.requests] == ["1", "2", "3", "1", "2", "3"]
    for number in (1, 2, 3, 1):
        ask(fetcher, f"{URL}?v={number}", fresh=True)
    assert len(peer.requests) == 10


# ------------------------------------------------------------------ many at once


def held(
    entered: threading.Semaphore, go: threading.Event, answer: Callable[[Request], bytes]
) -> Callable[[Request], bytes]:
    """An answer that waits until it is let go."""

    def wait(request: Request) -> bytes:
        entered.release()
        assert go.wait(10)
        return answer(request)

    return wait


class Arrivals:
    """A clock that knows how many threads have looked at it, as each does that asks."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.semaphore = threading.Semaphore(0)

    def __call__(self) -> float:
        if threading.get_ident() not in self.threads:
            self.threads.add(threading.get_ident())
            self.semaphore.release()
        return time.monotonic()


@pytest.mark.parametrize("fresh", [False, True], ids=["in turn", "out of turn"])
def test_fifty_threads(network: Network, clock: Clock, peer: Host, fresh: bool) -> None:
    """All of them get the answer to one request, also one that must not be stored."""
    arrivals = Arrivals()
    fetcher = DocumentFetcher(replace(network.settings(), clock=arrivals), now=clock)
    go, entered = threading.Event(), threading.Semaphore(0)
    peer.answers = held(entered, go, lambda _: http(cache_control="no-store"))
    with ThreadPoolExecutor(50) as threads:
        answers = [threads.submit(ask, fetcher, fresh=fresh) for _ in range(50)]
        try:
            assert entered.acquire(timeout=PATIENCE)
            assert all(arrivals.semaphore.acquire(timeout=PATIENCE) for _ in range(50))
        finally:
            go.set()
        assert {answer.result(PATIENCE).untrusted_body for answer in answers} == {CARD}
    assert len(peer.requests) == 1


def test_who_is_in_a_hurry_asks_again(fetcher: DocumentFetcher, peer: Host) -> None:
    """An answer from some cache on the way is not what was asked for."""
    go, entered = threading.Event(), threading.Semaphore(0)
    peer.answers = held(entered, go, lambda _: http())
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(ask, fetcher)
        assert entered.acquire(timeout=PATIENCE)
        urgent = threads.submit(ask, fetcher, fresh=True)
        go.set()
        assert {slow.result(PATIENCE).outcome, urgent.result(PATIENCE).outcome} == {"found"}
    assert [request.headers.get("cache-control") for request in peer.requests] == [None, "no-cache"]


class Interrupted(BaseException):
    """As a KeyboardInterrupt, which would end the tests."""


def test_an_interrupted_request(
    fetcher: DocumentFetcher, peer: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it for ever, and the next one may try."""

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr("cardsign.net.fetcher.fetch_document", interrupted)
        with pytest.raises(Interrupted):
            ask(fetcher)
    assert ask(fetcher).outcome == "found"


# --------------------------------------------------------------------------- cards

HOST = "https://agent.example"
CANONICAL, LEGACY = "/.well-known/agent-card.json", "/.well-known/agent.json"


@pytest.mark.parametrize("status", ["404 Not Found", "410 Gone"])
def test_the_legacy_card(fetcher: DocumentFetcher, peer: Host, status: str) -> None:
    """Where nothing is at the canonical path the legacy one is asked, and the answer says so."""
    peer.answers = {CANONICAL: http(status=status), LEGACY: http()}
    answer = fetcher.fetch_card(HOST)
    assert (answer.outcome, answer.url) == ("found", HOST + LEGACY)
    assert peer.targets == [f"GET {CANONICAL}", f"GET {LEGACY}"]


def test_the_legacy_card_is_not_wanted(fetcher: DocumentFetcher, peer: Host) -> None:
    """Whoever has seen the canonical one does not read the other."""
    peer.answers = {LEGACY: http()}
    answer = fetcher.fetch_card(HOST, legacy=False)
    assert (answer.url, answer.outcome) == (HOST + CANONICAL, "absent")
    assert peer.targets == [f"GET {CANONICAL}"]


@pytest.mark.parametrize(("code", "bad"), FAILURES.values(), ids=FAILURES)
def test_a_failure_does_not_lead_to_the_legacy_card(
    fetcher: DocumentFetcher, peer: Host, code: str, bad: bytes
) -> None:
    """Nothing but its absence does, or whoever can break one path chooses the other."""
    peer.answers = {CANONICAL: http(b" " * 2**18 + b" ") if code == "fetch.too_large" else bad}
    peer.answers |= {LEGACY: http()}
    answer = fetcher.fetch_card(HOST)
    assert (answer.url, answer.outcome) == (HOST + CANONICAL, "failed")
    assert answer.failure is not None
    assert answer.failure.code == code
    assert peer.targets == [f"GET {CANONICAL}"]


def test_no_card_at_all(fetcher: DocumentFetcher, peer: Host) -> None:
    """Neither path has one. What is missing is the canonical one; nobody typed the other."""
    peer.answers = {}
    answer = fetcher.fetch_card(HOST)
    assert (answer.url, answer.outcome) == (HOST + CANONICAL, "absent")
    assert CANONICAL in str(answer.failure)
    assert peer.targets == [f"GET {CANONICAL}", f"GET {LEGACY}"]


@pytest.mark.parametrize("path", ["/agents/tides.json", "/?agent=tides", CANONICAL, LEGACY])
def test_a_given_url(fetcher: DocumentFetcher, peer: Host, path: str) -> None:
    """It is asked as it is, also if nothing is there."""
    peer.answers = {path: http()}
    assert fetcher.fetch_card(HOST + path).url == HOST + path
    peer.answers = {}
    absent = fetcher.fetch_card(HOST + path, fresh=True)
    assert absent.outcome == "absent"
    assert {request.target for request in peer.requests} == {path}


# ---------------------------------------------------------------------- as a fetcher


def test_a_trust_store_that_cannot_be_had(
    network: Network, peer: Host, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that is an answer, and what to do about it is said; it heals by itself."""
    fetcher = DocumentFetcher(replace(network.settings(), ssl_context=None), now=clock)
    monkeypatch.setenv("SSLKEYLOGFILE", "/nowhere/keys.log")
    failure = ask(fetcher).failure
    assert isinstance(failure, FetchFailed)
    assert (failure.code, network.dialled) == ("fetch.tls", [])
    assert "No such file or directory" in failure.message
    assert "SSLKEYLOGFILE" in failure.hint
    monkeypatch.delenv("SSLKEYLOGFILE")
    clock.passes(30)
    ask(fetcher)
    assert network.dialled == ["agent.example:443"]
