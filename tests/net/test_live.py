"""What an anchor's one source is asked for, where it lies, and for how long it is asked."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.errors import FetchFailed
from cardsign.jose.keys import JwkSet
from cardsign.net.discovery import REFRESH_SECONDS, home_of, refresh
from cardsign.net.fetch import FetchSettings
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import (
    Anchor,
    JwksAnchor,
    KeysetAnchor,
    Policy,
    TrustedIssuer,
)
from cardsign.trust.supplied import SuppliedStatements
from cardsign.trust.walk import FetchResult
from cardsign.urls import KEYSET_PATH, RELEASE_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.jose.statement_making import NOW, key
from tests.trust.histories import keyset, release

HOME, SHARED, OTHER = "https://tides.example", "https://shared.example", "https://b.example"
MIRROR = "https://m.example"
FIRST = keyset("ann", "bob")
KEYS = JwkSet.of([key("card").public])
KEYSET = KeysetAnchor(KeysetId(1, 1, read_keyset(FIRST).digest))
JWKS = JwksAnchor(f"{HOME}/keys")


class Issuer:
    """An issuer whose site answers as a verifier's fetcher: 404 where nothing is there.

    Attributes:
        answers: The bytes at each URL; a text for a failure.
        seconds: That each request takes.
        asked: The URLs.
    """

    def __init__(self, anchor: Anchor, seconds: float = 0.0) -> None:
        self.answers: dict[str, bytes | str] = {
            HOME + KEYSET_PATH.format(epoch=1, version=1): FIRST,
            HOME + RELEASE_PATH: release(FIRST),
            JWKS.url: KEYS.to_bytes(),
        }
        self.asked: list[str] = []
        self.time, self.seconds = 0.0, seconds
        self.settings = FetchSettings(clock=lambda: self.time)
        self.entry = TrustedIssuer("tides", anchor, (parse_place(HOME),))
        self.verifier = Verifier(Policy((self.entry,)), lock=Memory(), clock=lambda: NOW)
        vars(self.verifier)["fetcher"] = self

    def fetch(self, url: str, *, max_bytes: int, **how: Any) -> FetchResult:
        self.asked.append(url)
        self.time += self.seconds
        answer = self.answers.get(url)
        if answer is None:
            return FetchResult(url, "absent")
        if isinstance(answer, str):
            return FetchResult(url, "failed", failure=FetchFailed("fetch.failed", answer))
        assert len(answer) <= max_bytes
        return FetchResult(url, "found", answer)

    def refresh(self) -> tuple[SuppliedStatements, set[str]]:
        """What comes home, and the codes of what does not."""
        supplied, reasons = refresh(self.verifier, self.entry, HOME)
        return supplied, {reason.code for reason in reasons}


HOMES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "the card's own": ((HOME, OTHER), OTHER, OTHER),
    "the first, for a mirror's card": ((HOME, OTHER), MIRROR, HOME),
    "the whole one, for a card of a shared host": ((f"{SHARED}/tides/", HOME), SHARED, HOME),
    "the shared one where there is no other": ((f"{SHARED}/tides/",), SHARED, SHARED),
    "the first shared one, for a mirror's card": ((f"{SHARED}/tides/",), MIRROR, SHARED),
    "the card's, for who may stand anywhere": ((), MIRROR, MIRROR),
}


@pytest.mark.parametrize(("places", "contact", "home"), HOMES.values(), ids=HOMES)
def test_where_statements_lie(places: tuple[str, ...], contact: str, home: str) -> None:
    """By the policy's word and the URL that was asked, never by a card's."""
    assert home_of(map(parse_place, places), contact) == home


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
    issuer = Issuer(JWKS)
    issuer.answers = {} if answer is None else {JWKS.url: answer}
    issuer.verifier.session(issuer.entry).jwks = remembered
    assert issuer.refresh() == (SuppliedStatements(), {code})


@pytest.mark.parametrize(
    ("seconds", "codes", "requests"),
    [(REFRESH_SECONDS, {"refresh.no_answer"}, 1), (REFRESH_SECONDS / 5, set(), 4)],
    ids=["too slow", "slow"],
)
def test_a_refresh_ends(seconds: float, codes: set[str], requests: int) -> None:
    """Who answers slowly is asked no more when the time is over; what came till then is kept."""
    issuer = Issuer(KEYSET, seconds)
    supplied, missing = issuer.refresh()
    assert (missing, len(issuer.asked)) == (codes, requests)
    assert len(supplied.untrusted_releases) == 1
