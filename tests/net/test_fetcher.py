"""Asking often: what is kept, and what is asked again.

Storms, failures, validators, what headers say of time, and the legacy path, as verdicts see them,
are in attacks 37, 39 to 41 and 113.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from cardsign.net.fetch import DocumentFetcher
from cardsign.trust.walk import FetchResult
from tests.net.internet import Clock, Host, Network, Request
from tests.net.peers import CARD, PATIENCE, http
from tests.support import count_calls, each_case

HOST = "https://agent.example"
URL = f"{HOST}/card.json"
NEWER = b'{"name": "Tide tables, newer"}'
LIMIT = 65536

# ------------------------------------------------------------------ what is kept


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def peer(network: Network) -> Host:
    return network.host("agent.example", http(etag='"1"'))


@pytest.fixture
def fetcher(network: Network, clock: Clock) -> DocumentFetcher:
    return DocumentFetcher(network.settings(), now=clock)


def ask(fetcher: DocumentFetcher, url: str = URL, *, fresh: bool = False) -> FetchResult:
    return fetcher.fetch(url, max_bytes=LIMIT, fresh=fresh)


def conditions(host: Host) -> list[str | None]:
    """The condition of each request."""
    return [request.headers.get("if-none-match") for request in host.requests]


def not_modified(**headers: str) -> bytes:
    return http(b"", status="304 Not Modified", content_type=None, content_length=None, **headers)


def test_a_smaller_limit(fetcher: DocumentFetcher, peer: Host) -> None:
    """What was kept under a larger limit is not handed out under a smaller one."""
    ask(fetcher)
    answer = fetcher.fetch(URL, max_bytes=len(CARD) - 1)
    assert (answer.outcome, answer.untrusted_body) == ("failed", b"")
    assert "fetch.too_large" in str(answer.failure)
    assert conditions(peer) == [None, None]


@each_case(__file__, "lasting", "first", "later", "lasts")
def test_an_unchanged_answer(
    fetcher: DocumentFetcher, peer: Host, clock: Clock, first: Any, later: Any, lasts: int
) -> None:
    """A 304 keeps the body; what was said of it holds, unless said anew (RFC 9111 4.3.4)."""
    peer.answers = http(etag='"1"', **first)
    ask(fetcher)
    peer.answers = not_modified(etag='"1"', **later)
    for seconds in (300, *[lasts] * bool(lasts)):
        clock.passes(seconds)
        asked = len(peer.requests)
        answer = ask(fetcher)
        assert answer.untrusted_body == CARD
        assert len(answer.headers) == len({*answer.headers})  # which do not pile up
        assert len(peer.requests) == asked + 1
    clock.passes(max(lasts - 1, 0))
    assert ask(fetcher).untrusted_body == CARD
    assert len(peer.requests) == asked + (1 if lasts else 2)
    peer.answers = http(status="500 Oh")
    clock.passes(300)
    is_strict = re.search("must-revalidate|No-Cache", first.get("cache_control", "")) is not None
    assert (ask(fetcher).untrusted_body == b"") is is_strict
    asked, peer.answers = len(peer.requests), http()
    for number, seconds in enumerate((30, -3600), asked + 1):  # a clock that goes back, too
        clock.passes(seconds)
        assert ask(fetcher).outcome == "found"
        assert len(peer.requests) == number


def test_a_changed_answer(fetcher: DocumentFetcher, peer: Host, clock: Clock) -> None:
    """A new body takes the old one's place, and its validator; one with two has none."""
    ask(fetcher)
    for answer in (http(NEWER, etag='"2"'), not_modified(etag='"3"'), http(NEWER, etag='"3"')):
        clock.passes(300)
        peer.answers = answer
        assert ask(fetcher).untrusted_body == NEWER
    assert conditions(peer) == [None, '"1"', '"2"', None]


# ------------------------------------------------------------------ out of turn


def test_out_of_turn(fetcher: DocumentFetcher, peer: Host) -> None:
    """It passes our cache and those on the way, and is still a conditional request."""
    ask(fetcher)
    peer.answers = http(NEWER, etag='"2"')
    assert ask(fetcher).untrusted_body == CARD
    assert ask(fetcher, fresh=True).untrusted_body == NEWER
    assert conditions(peer) == [None, '"1"']
    assert [request.headers.get("cache-control") for request in peer.requests] == [None, "no-cache"]


def test_the_memory_is_bounded(
    network: Network, peer: Host, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many bytes the oldest answers are forgotten first, and cooldowns with them."""
    monkeypatch.setattr("cardsign.net.fetch.MAX_BYTES", 2 * (4096 + len(CARD)))
    fetcher = DocumentFetcher(network.settings(), now=clock)
    for number in (1, 2, 1, 3, 1, 2, 3):
        ask(fetcher, f"{URL}?v={number}")
    assert [request.target[-1] for request in peer.requests] == ["1", "2", "3", "1", "2", "3"]
    for number in (1, 2, 3, 1):
        ask(fetcher, f"{URL}?v={number}", fresh=True)
    assert len(peer.requests) == 10


def test_to_keep_an_answer_costs_the_same_beside_many(fetcher: DocumentFetcher) -> None:
    """The bytes that are kept are not counted anew."""
    answer = FetchResult(URL, "found", CARD)
    with patch.object(fetcher, "_request", side_effect=lambda *_, **__: (answer, 0)):
        alone = count_calls(lambda: ask(fetcher))
        for number in range(50):
            ask(fetcher, f"{URL}?v={number}")
        assert count_calls(lambda: ask(fetcher)) == alone


def test_a_thousand_peers_are_remembered(fetcher: DocumentFetcher) -> None:
    """Each with its card, a release and three keysets, whose cooldowns hold as well."""
    urls = [f"https://peer-{peer}.example/{path}" for peer in range(1000) for path in range(5)]
    empty = FetchResult(URL, "found", bytes(3000))
    with patch.object(fetcher, "_request", side_effect=lambda *_, **__: (empty, 300)) as request:
        for url in 2 * urls:
            ask(fetcher, url)
    assert request.call_count == len(urls)


# ------------------------------------------------------------------ many at once


class Waiting:
    """An answer that waits until it is let go."""

    def __init__(self, **headers: str) -> None:
        self.entered, self.go = threading.Semaphore(0), threading.Event()
        self._answer = http(**headers)

    def __call__(self, request: Request) -> bytes:
        self.entered.release()
        assert self.go.wait(PATIENCE)
        return self._answer


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
    peer.answers = waiting = Waiting(cache_control="no-store")
    with ThreadPoolExecutor(50) as threads:
        answers = [threads.submit(ask, fetcher, fresh=fresh) for _ in range(50)]
        try:
            assert waiting.entered.acquire(timeout=PATIENCE)
            assert all(arrivals.semaphore.acquire(timeout=PATIENCE) for _ in range(50))
        finally:
            waiting.go.set()
        assert {answer.result(PATIENCE).untrusted_body for answer in answers} == {CARD}
    assert len(peer.requests) == 1


def test_who_is_in_a_hurry_asks_again(fetcher: DocumentFetcher, peer: Host) -> None:
    """An answer from some cache on the way is not what was asked for."""
    peer.answers = waiting = Waiting()
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(ask, fetcher)
        assert waiting.entered.acquire(timeout=PATIENCE)
        urgent = threads.submit(ask, fetcher, fresh=True)
        waiting.go.set()
        assert {slow.result(PATIENCE).outcome, urgent.result(PATIENCE).outcome} == {"found"}
    assert [request.headers.get("cache-control") for request in peer.requests] == [None, "no-cache"]


def test_an_interrupted_request(
    fetcher: DocumentFetcher, peer: Host, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it for ever, nor gets the older answer for it; the next one may try."""

    class Interrupted(BaseException):
        pass

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted  # as a KeyboardInterrupt, which would end the tests

    ask(fetcher)
    clock.passes(300)
    with monkeypatch.context() as patch:
        patch.setattr("cardsign.net.fetch.fetch_document", interrupted)
        with pytest.raises(Interrupted):
            ask(fetcher)
    assert ask(fetcher).outcome == "found"
    assert len(peer.requests) == 2
