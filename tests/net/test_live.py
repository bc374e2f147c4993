"""What an anchor's one source is asked for, where it lies, and how often it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from peers import PATIENCE

from cardsign.errors import FetchFailed
from cardsign.jose.jwks import JwkSet
from cardsign.net.discovery import REFRESH_SECONDS, home_of, refresh
from cardsign.net.fetch import FetchSettings
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import (
    Anchor,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Policy,
    TrustedIssuer,
)
from cardsign.trust.refresh import FetchResult
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.jose.statement_making import NOW, key
from tests.trust.histories import after, keyset, release

HOME = "https://tides.example"
SHARED = "https://shared.example"
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
        return FetchResult(url, "found", answer)


def statements() -> dict[str, bytes | str]:
    """The issuer's site."""
    return {
        HOME + KEYSET_PATH.format(epoch=1, version=1): FIRST,
        HOME + RELEASE_PATH: release(FIRST),
    }


def enrolled(anchor: Anchor, *places: str) -> TrustedIssuer:
    """The issuer at these places."""
    return TrustedIssuer("tides", anchor, tuple(map(parse_place, places or (HOME,))))


class Asking:
    """A fetcher of these answers, which takes no time by its clock."""

    def __init__(
        self, ask: Callable[..., FetchResult], clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.ask, self.settings = ask, FetchSettings(clock=clock)

    def fetch(self, url: str, *, access: object = None, **how: Any) -> FetchResult:
        return self.ask(url, **how)


def asker(ask: Callable[..., FetchResult], *issuers: TrustedIssuer, **clock: Any) -> Verifier:
    """A verifier whose peers answer so."""
    verifier = Verifier(Policy(issuers), lock=Memory(), clock=lambda: NOW)
    vars(verifier)["fetcher"] = Asking(ask, **clock)
    return verifier


def brought(
    anchor: Anchor, ask: Answers, *, contact: str = HOME, jwks: JwkSet | None = None
) -> tuple[SuppliedStatements, list[str]]:
    """What comes home from one destination, and the codes of what does not."""
    issuer = enrolled(anchor)
    verifier = asker(ask, issuer)
    verifier.session(issuer).jwks = jwks
    supplied, reasons = refresh(verifier, issuer, contact)
    return supplied, [reason.code for reason in reasons]


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
    """Nothing of it has been checked."""
    ask = Answers({f"{HOME}/keys": KEYS.to_bytes()})
    supplied, missing = brought(JwksAnchor(f"{HOME}/keys"), ask)
    assert (supplied.untrusted_jwks, supplied.jwks_url) == (KEYS.to_bytes(), f"{HOME}/keys")
    assert missing == []


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
    supplied, missing = brought(JwksAnchor(f"{HOME}/keys"), ask, jwks=remembered)
    assert (supplied.untrusted_jwks, missing) == (None, [code])


# ------------------------------------------------------------------ refreshes


def test_a_failure_takes_nothing_away_and_grows_nothing() -> None:
    """What was verified before it stays in the session."""
    ask, issuer = Answers(statements()), enrolled(ANCHOR)
    verifier = asker(ask, issuer)
    session = verifier.session(issuer)
    good = session.resolve(refresh(verifier, issuer, HOME)[0], NOW)
    assert good.release is not None
    ask.answers = dict.fromkeys(ask.answers, "503")
    for nth in range(1, 5):
        now = NOW + timedelta(seconds=nth * 61)
        verifier.clock = lambda now=now: now
        supplied, missing = refresh(verifier, issuer, HOME)
        assert {reason.code for reason in missing} == {"refresh.no_answer"}
        assert supplied == SuppliedStatements()
        trust = session.resolve(supplied, now)
        assert (trust.keyset, trust.release) == (good.keyset, good.release)


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

    issuer = enrolled(ANCHOR)
    supplied, missing = refresh(asker(ask, issuer, clock=lambda: clock[0]), issuer, HOME)
    assert {reason.code for reason in missing} == codes
    assert len(site.asked) == requests
    assert len(supplied.untrusted_releases) == 1


def test_one_issuer_s_silence_keeps_nobody_else_waiting() -> None:
    """Each is asked by one thread at a time, and others meanwhile."""
    gate = threading.Event()

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        if url.startswith(HOME):
            assert gate.wait(PATIENCE)
        return FetchResult(url, "absent")

    issuer = enrolled(ANCHOR)
    other = TrustedIssuer("shore", ANCHOR, (parse_place("https://shore.example"),))
    verifier = asker(ask, issuer, other)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(refresh, verifier, issuer, HOME)
        refresh(verifier, other, "https://shore.example")
        assert not slow.done()
        gate.set()
        slow.result(PATIENCE)


def test_a_successor_is_brought() -> None:
    """The twin of all that brings nothing."""
    second = after(FIRST)
    ask = Answers({**statements(), HOME + KEYSET_PATH.format(epoch=1, version=2): second})
    assert brought(ANCHOR, ask)[0].untrusted_keysets == (FIRST, second)
