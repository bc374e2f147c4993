"""What an anchor's one source is asked for, where it lies, and how often it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peers import PATIENCE

from cardsign.errors import FetchFailed
from cardsign.jose.jwks import JwkSet
from cardsign.net.discovery import (
    OVERTAKEN_SECONDS,
    REFRESH_SECONDS,
    RETRY_INTERVAL,
    Refresher,
    gather,
    home_of,
)
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.trust.policy import (
    Anchor,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    TrustedIssuer,
)
from cardsign.trust.refresh import REFRESH_INTERVAL, Fetcher, FetchResult, Refreshed
from cardsign.trust.state import IssuerState
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from tests.jose.statement_making import NOW, key
from tests.trust.histories import after, keyset, release

HOME = "https://tides.example"
SHARED = "https://shared.example"
LIMITS = Limits()
FIRST = keyset("ann", "bob")
KEYS = JwkSet.of([key("card").public])
ANCHOR = KeysetAnchor(KeysetId(1, 1, read_keyset(FIRST).digest))


class Answers:
    """What URLs answer; 404 where nothing is said."""

    def __init__(self, answers: dict[str, bytes | str] | None = None) -> None:
        self.answers: dict[str, bytes | str] = answers or {}
        self.asked: list[str] = []

    def __call__(self, url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        self.asked.append(url)
        answer = self.answers.get(url)
        if answer is None:
            return FetchResult(url, "absent")
        if isinstance(answer, str):
            return FetchResult(url, "failed", failure=FetchFailed("fetch.failed", answer))
        assert len(answer) <= max_bytes
        return FetchResult(url, "found", answer, 60)


def statements() -> dict[str, bytes | str]:
    """The issuer's site."""
    return {
        HOME + KEYSET_PATH.format(epoch=1, version=1): FIRST,
        HOME + RELEASE_PATH: release(FIRST),
    }


def enrolled(anchor: Anchor, *places: str) -> TrustedIssuer:
    """The issuer at these places."""
    return TrustedIssuer("tides", anchor, tuple(map(parse_place, places or (HOME,))))


def blank(anchor: Anchor, **changes: Any) -> IssuerState:
    """What is remembered at the start."""
    return replace(IssuerState.begin(enrolled(anchor)), **changes)


def brought(anchor: Anchor, ask: Answers, *, contact: str = HOME, **changes: Any) -> Refreshed:
    """What comes home from one destination."""
    known = blank(anchor, **changes)
    return gather(enrolled(anchor), LIMITS, known, ask, origin=contact, now=NOW)


HOMES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "the card's own": ((HOME, "https://b.example"), "https://b.example", "https://b.example"),
    "the first, for a mirror's card": ((HOME, "https://b.example"), "https://m.example", HOME),
    "the whole one, for a card of a shared host": ((f"{SHARED}/tides/", HOME), SHARED, HOME),
    "the shared one where there is no other": ((f"{SHARED}/tides/",), SHARED, SHARED),
    "the first shared one, for a mirror's card": (
        (f"{SHARED}/tides/",),
        "https://m.example",
        SHARED,
    ),
    "the card's, for who may stand anywhere": ((), "https://m.example", "https://m.example"),
}


@pytest.mark.parametrize(("places", "contact", "home"), HOMES.values(), ids=HOMES)
def test_where_statements_lie(places: tuple[str, ...], contact: str, home: str) -> None:
    """By the policy's word and the URL that was asked, never by a card's."""
    assert home_of(map(parse_place, places), contact) == home


def test_each_anchor_asks_its_one_source() -> None:
    """And no other: nothing weakens into another source (threat 16)."""
    site = {**statements(), f"{HOME}/keys": KEYS.to_bytes()}
    asked: dict[str, list[str]] = {}
    for name, anchor in (
        ("keys", KeysAnchor(KEYS)),
        ("jwks", JwksAnchor(f"{HOME}/keys")),
        ("keyset", ANCHOR),
    ):
        ask = Answers(site)
        brought(anchor, ask)
        asked[name] = [url.removeprefix(HOME).rpartition("/")[2] for url in ask.asked]
    assert asked == {
        "keys": [],
        "jwks": ["keys"],
        "keyset": ["release.json", "1.1.json", "2.1.json", "1.2.json"],
    }


def test_a_key_set_is_evidence_for_its_own_url() -> None:
    """Nothing of it has been checked, and HTTP says for how long."""
    ask = Answers({f"{HOME}/keys": KEYS.to_bytes()})
    found = brought(JwksAnchor(f"{HOME}/keys"), ask)
    assert (found.supplied.jwks_url, found.again_after) == (f"{HOME}/keys", 60)
    assert (found.supplied.untrusted_jwks, found.reasons) == (KEYS.to_bytes(), ())


@pytest.mark.parametrize(
    ("answer", "remembered", "code"),
    [
        (None, None, "refresh.no_answer"),
        (None, KEYS, "statement.vanished"),
        ("it answered 503", KEYS, "refresh.no_answer"),
    ],
    ids=["never there", "there before", "no answer"],
)
def test_a_key_set_that_is_not_had(
    answer: str | None, remembered: JwkSet | None, code: str
) -> None:
    """404 says something only of what was seen."""
    ask = Answers({} if answer is None else {f"{HOME}/keys": answer})
    found = brought(JwksAnchor(f"{HOME}/keys"), ask, jwks=remembered)
    assert [reason.code for reason in found.reasons] == [code]
    assert found.supplied.untrusted_jwks is None


# ------------------------------------------------------------------ refreshes


def rounds_of(ask: Answers) -> Callable[..., Refreshed]:
    """One issuer, asked again and again."""
    rounds, one = Refresher(lambda _: ask, lambda: 0.0), enrolled(ANCHOR)

    def again(seconds: float, known: IssuerState | None = None, **more: Any) -> Refreshed:
        now = NOW + timedelta(seconds=seconds)
        return rounds.gather(one, LIMITS, known, origin=HOME, now=now, **more)

    return again


WAITS: dict[str, tuple[dict[str, bytes | str], float]] = {
    "what HTTP allows": (statements(), 60),
    "an answer that failed": ({HOME + RELEASE_PATH: "503"}, RETRY_INTERVAL),
    "nothing at all": ({}, REFRESH_INTERVAL),
}


@pytest.mark.parametrize(("site", "wait"), WAITS.values(), ids=WAITS)
def test_an_issuer_is_asked_once_in_a_while(site: dict[str, bytes | str], wait: float) -> None:
    """What was brought holds until then, to the second."""
    ask = Answers(site)
    again = rounds_of(ask)
    first = again(0)
    times = len(ask.asked)
    assert again(wait - 1) is first
    assert len(ask.asked) == times
    again(wait)
    assert len(ask.asked) == 2 * times


@pytest.mark.parametrize(
    "more",
    [{"fresh": True}, {"seconds": -OVERTAKEN_SECONDS - 1}],
    ids=["out of turn", "a clock that went back"],
)
def test_an_issuer_is_asked_before_that(more: dict[str, Any]) -> None:
    """Where somebody has a reason."""
    ask = Answers(statements())
    again = rounds_of(ask)
    again(0)
    times = len(ask.asked)
    again(more.pop("seconds", 1), **more)
    assert len(ask.asked) == 2 * times


@pytest.mark.parametrize(("most", "times"), [(1, 2), (2, 1)], ids=["full", "with room"])
def test_O18_refreshes_kept_are_bounded(
    monkeypatch: pytest.MonkeyPatch, most: int, times: int
) -> None:
    """The oldest is forgotten, and that issuer is asked again."""
    monkeypatch.setattr("cardsign.net.discovery.MAX_REFRESHES", most)
    ask = Answers(statements())
    rounds, shore = Refresher(lambda _: ask, lambda: 0.0), "https://shore.example"
    other = TrustedIssuer("shore", ANCHOR, (parse_place(shore),))
    for issuer, contact in ((enrolled(ANCHOR), HOME), (other, shore), (enrolled(ANCHOR), HOME)):
        rounds.gather(issuer, LIMITS, None, origin=contact, now=NOW)
    assert ask.asked.count(HOME + RELEASE_PATH) == times


def test_who_began_before_the_last_round_uses_it() -> None:
    """His card came later than another's; his clock has not gone back."""
    ask = Answers(statements())
    again = rounds_of(ask)
    first = again(OVERTAKEN_SECONDS)
    times = len(ask.asked)
    assert all(again(seconds) is first for seconds in (OVERTAKEN_SECONDS - 1, 1, 0))
    assert len(ask.asked) == times


def test_who_began_before_a_round_that_nobody_may_keep() -> None:
    """What HTTP lets nobody keep is asked for by everybody who did not wait for it."""
    ask = Answers(statements())
    rounds = Refresher(lambda _: short_lived(ask), lambda: 0.0)

    def again(seconds: float) -> Refreshed:
        now = NOW + timedelta(seconds=seconds)
        return rounds.gather(enrolled(ANCHOR), LIMITS, None, origin=HOME, now=now)

    again(1)
    times = len(ask.asked)
    again(0)
    assert len(ask.asked) == 2 * times


def short_lived(ask: Answers) -> Fetcher:
    """The same answers, for one use."""

    def once(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        return replace(ask(url, max_bytes=max_bytes, fresh=fresh), max_age=0)

    return once


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released by each thread that waits for another one's round."""
    waiting = threading.Semaphore(0)

    class Watched(Future[Refreshed]):
        def result(self, timeout: float | None = None) -> Refreshed:
            waiting.release()
            return super().result(timeout)

    monkeypatch.setattr("cardsign.net.fetcher.Future", Watched)
    return waiting


SHARED_ROUNDS: dict[str, tuple[bool, bool, int]] = {
    "all in turn": (False, False, 1),
    "all out of turn": (True, True, 1),
    "one out of turn, the others not": (True, False, 1),
    "one in turn, the others not": (False, True, 2),
}


@pytest.mark.parametrize(("first", "others", "rounds"), SHARED_ROUNDS.values(), ids=SHARED_ROUNDS)
def test_who_waited_for_a_round_uses_it(
    waiting: threading.Semaphore, first: bool, others: bool, rounds: int
) -> None:
    """Whatever may be kept of it; but what some cache on the way said is not news."""
    site, gate, begun = Answers(statements()), threading.Event(), threading.Event()
    briefly = short_lived(site)

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        begun.set()
        assert gate.wait(PATIENCE)
        return briefly(url, max_bytes=max_bytes, fresh=fresh)

    one = Refresher(lambda _: ask, lambda: 0.0)

    def gathered(nth: int, fresh: bool) -> Refreshed:
        now = NOW - timedelta(seconds=nth)  # each began before the one that asks
        return one.gather(enrolled(ANCHOR), LIMITS, None, origin=HOME, now=now, fresh=fresh)

    with ThreadPoolExecutor(10) as threads:
        try:
            found = [threads.submit(gathered, 0, first)]
            assert begun.wait(PATIENCE)
            found += [threads.submit(gathered, nth, others) for nth in range(1, 10)]
            # Where another one is needed, the first of the nine asks, and eight wait for it.
            assert all(waiting.acquire(timeout=PATIENCE) for _ in range(10 - rounds))
        finally:
            gate.set()
        assert len({each.result(PATIENCE).supplied for each in found}) == 1
    assert len(site.asked) == 4 * rounds


def test_who_has_less_in_memory_asks_himself() -> None:
    """A refresh from the statement held does not bring what leads there: nobody waits for that."""
    site, gate, begun = Answers(statements()), threading.Event(), threading.Event()

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        begun.set()
        assert gate.wait(PATIENCE)
        return site(url, max_bytes=max_bytes, fresh=fresh)

    one = Refresher(lambda _: ask, lambda: 0.0)

    def gathered(known: IssuerState | None) -> Refreshed:
        return one.gather(enrolled(ANCHOR), LIMITS, known, origin=HOME, now=NOW)

    with ThreadPoolExecutor(2) as threads:
        try:
            ahead = threads.submit(gathered, blank(ANCHOR, keyset=read_keyset(FIRST)))
            assert begun.wait(PATIENCE)
            behind = threads.submit(gathered, blank(ANCHOR))
        finally:
            gate.set()
        assert ahead.result(PATIENCE).supplied.untrusted_keysets == ()
        assert behind.result(PATIENCE).supplied.untrusted_keysets == (FIRST,)


def test_a_memory_that_was_begun_anew_is_taught_anew() -> None:
    """What led to the statement held is missing from the last round's evidence."""
    ask = Answers(statements())
    again = rounds_of(ask)
    held = blank(ANCHOR, keyset=read_keyset(FIRST))
    assert again(0, held).supplied.untrusted_keysets == ()
    assert again(1, held).supplied.untrusted_keysets == ()
    assert again(2, blank(ANCHOR)).supplied.untrusted_keysets == (FIRST,)


def test_a_failure_takes_nothing_away_and_grows_nothing() -> None:
    """The last good round's evidence goes along, once."""
    ask = Answers(statements())
    again = rounds_of(ask)
    good = again(0).supplied
    ask.answers = dict.fromkeys(ask.answers, "503")
    for nth in range(1, 5):
        found = again(nth * 1000)
        assert found.supplied.untrusted_releases == good.untrusted_releases
        assert found.supplied.untrusted_keysets == good.untrusted_keysets
        assert {reason.code for reason in found.reasons} == {"refresh.no_answer"}


@pytest.mark.parametrize(
    ("each", "codes", "requests"),
    [
        pytest.param(REFRESH_SECONDS, {"refresh.no_answer"}, 1, id="too slow"),
        pytest.param(REFRESH_SECONDS / 5, set(), 4, id="slow"),
    ],
)
def test_a_refresh_ends(each: float, codes: set[str], requests: int) -> None:
    """Who answers slowly is asked no more when the time is over; what came till then is kept."""
    site, clock = Answers(statements()), [0.0]

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        clock[0] += each
        return site(url, max_bytes=max_bytes, fresh=fresh)

    rounds = Refresher(lambda _: ask, lambda: clock[0])
    found = rounds.gather(enrolled(ANCHOR), LIMITS, None, origin=HOME, now=NOW)
    assert {reason.code for reason in found.reasons} == codes
    assert len(site.asked) == requests
    assert len(found.supplied.untrusted_releases) == 1


def test_one_issuer_s_silence_keeps_nobody_else_waiting() -> None:
    """Each is asked by one thread at a time, and others meanwhile."""
    gate = threading.Event()

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        if url.startswith(HOME):
            assert gate.wait(PATIENCE)
        return FetchResult(url, "absent")

    rounds = Refresher(lambda _: ask, lambda: 0.0)
    other = TrustedIssuer("shore", ANCHOR, (parse_place("https://shore.example"),))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(rounds.gather, enrolled(ANCHOR), LIMITS, None, origin=HOME, now=NOW)
        rounds.gather(other, LIMITS, None, origin="https://shore.example", now=NOW)
        assert not slow.done()
        gate.set()
        slow.result(PATIENCE)


def test_a_successor_is_brought() -> None:
    """The twin of all that brings nothing."""
    second = after(FIRST)
    ask = Answers({**statements(), HOME + KEYSET_PATH.format(epoch=1, version=2): second})
    assert brought(ANCHOR, ask).supplied.untrusted_keysets == (FIRST, second)
