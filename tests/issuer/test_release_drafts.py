"""Release statements as they are drafted: what is listed, since when, and what no longer is."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

import pytest

from cardsign.issuer.keyset import draft_next
from cardsign.issuer.release import ReleasePlan, draft_following, says_something_new, settled_cards
from cardsign.keys.agenda import DEFAULT_SETTINGS
from cardsign.keys.ledger import Publication, PublishedCard, StoreState
from cardsign.statements.release import check_release
from tests.keys.elsewhere import refusal
from tests.keys.issuing import DAY, NOW, URL, first, released, signed, thumbprint
from tests.keys.states import record
from tests.support import each_case

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
ZERO = timedelta()


def listed(release: Any) -> dict[str, int]:
    """Which payloads are current, and since which release."""
    return {card.payload_sha256[0]: card.seq for card in release.cards}


@each_case(__file__, "histories", "steps", "cards", "floor")
def test_cards_come_and_go(steps: str, cards: dict[str, int], floor: int) -> None:
    """Each release is one that a verifier takes after the one before."""
    keyset, release = first(), None
    digests = {"A": A, "B": B, "C": C}
    for step in steps.split():
        announced, _, settled = step.strip("-").partition("/")
        plan = ReleasePlan(
            ((URL, digests[announced]),) if announced else (),
            {URL: digests[settled]} if settled else {},
        )
        earlier, release = release, released(keyset, release, plan)
        check_release(release, keyset, earlier, now=NOW, skew=ZERO)
    assert release is not None
    assert listed(release) == cards
    assert release.floor.get(URL, 0) == floor


def test_a_withdrawn_url_has_no_card() -> None:
    """And another one keeps its own."""
    other = "https://tides.example/ebb.json"
    one = released(first(), None, ReleasePlan(((URL, A), (other, B))))
    two = released(first(), one, ReleasePlan(withdrawn=(URL,)))
    assert [card.url for card in two.cards] == [other]
    assert [two.is_withdrawn(url) for url in (URL, other)] == [True, False]
    assert not one.is_withdrawn(URL)
    assert not two.is_withdrawn("https://tides.example/never-listed.json")


def test_what_one_release_revoked_the_next_revokes_too() -> None:
    """Until the roots have spoken: a new keyset confirms it or drops it (K11)."""
    keyset = first()
    one = released(keyset, None, ReleasePlan(revoked=frozenset({thumbprint("card")})))
    assert released(keyset, one).revoked == {thumbprint("card")}
    later = signed(draft_next(keyset, keyset, now=NOW), "ann", "bob")
    assert released(later, one).revoked == frozenset()


def test_what_the_keyset_does_not_list_needs_no_revocation() -> None:
    """A release may name only the keyset's own keys; a root's name would spoil all of it."""
    strangers = frozenset({thumbprint("ann"), thumbprint("nobody")})
    assert released(first(), None, ReleasePlan(revoked=strangers)).revoked == frozenset()


def test_the_extended_floor_only_rises() -> None:
    """A lower one that is asked for changes nothing."""
    one = released(first(), None)
    two = released(first(), one, ReleasePlan(extended_floor=2))
    three = released(first(), two, ReleasePlan(extended_floor=1))
    assert [dict(each.floor) for each in (one, two, three)] == [
        {},
        {"extended": 2},
        {"extended": 2},
    ]


REFUSED: dict[str, tuple[ReleasePlan, str]] = {
    "an extended floor above itself": (ReleasePlan(extended_floor=9), "statement.floor"),
    "a url that is none": (ReleasePlan((("tides", A),)), "statement.members"),
}


@pytest.mark.parametrize(("plan", "code"), REFUSED.values(), ids=REFUSED)
def test_what_no_verifier_would_read_is_no_draft(plan: ReleasePlan, code: str) -> None:
    """Refused before the release key is opened."""
    assert refusal(draft_following, plan, first(), None, seq=1, now=NOW) == code


NEEDED: dict[str, tuple[ReleasePlan, timedelta, bool]] = {
    "nothing new, and young": (ReleasePlan(), DAY, False),
    "a longer audit log alone": (ReleasePlan(audit_head="d" * 64), DAY, False),
    "a card that is listed": (ReleasePlan(((URL, A),)), DAY, False),
    "half of its time is over": (ReleasePlan(), timedelta(days=3, hours=12), True),
    "a new card": (ReleasePlan(((URL, B),)), DAY, True),
    "a revocation": (ReleasePlan(revoked=frozenset({thumbprint("card")})), DAY, True),
    "a floor that rises": (ReleasePlan(settled={URL: A}), DAY, True),
}


@pytest.mark.parametrize(("plan", "after", "needed"), NEEDED.values(), ids=NEEDED)
def test_cron_signs_only_what_is_needed(plan: ReleasePlan, after: timedelta, needed: bool) -> None:
    """Often asked, seldom signed."""
    keyset = first()
    one = released(keyset, None, ReleasePlan(((URL, A),)))
    now = NOW + after
    draft = draft_following(plan, keyset, one, seq=2, now=now)
    assert says_something_new(draft, one, now=now) is needed
    assert says_something_new(draft, None, now=now)
    assert (now >= one.renew_at) is (after >= timedelta(days=3, hours=12))


@pytest.mark.parametrize(("seconds", "needed"), [(300, False), (301, True)])
def test_a_release_of_a_clock_that_was_ahead_is_replaced(seconds: int, needed: bool) -> None:
    """By more than the clocks of the issuer's hosts may differ: nobody believes it yet."""
    keyset, now = first(), NOW - timedelta(seconds=seconds)
    one = released(keyset, None)
    draft = draft_following(ReleasePlan(), keyset, one, seq=2, now=now)
    assert says_something_new(draft, one, now=now) is needed


# ------------------------------------------------------------------ when a card has settled

MINUTE = timedelta(minutes=1)
B_TOO = ReleasePlan(((URL, B),))


def shown(minutes: int, *digests: str, max_age: int = 60) -> Publication:
    """A record, that many minutes after NOW, of the card (and extended ones) with these digests."""
    cards = tuple(PublishedCard(f"{digest[0]}.json", digest, (), URL) for digest in digests)
    return Publication(1, NOW + minutes * MINUTE, max_age, (), cards)


def noted(*records: Publication) -> StoreState:
    """What a store knows after these."""
    return functools.reduce(record, records, StoreState())


#: Caches keep a card for
#: an hour and five minutes, unless a publication has told them to keep it for longer.
AGAIN = [shown(0, B), shown(30, A), shown(31, B)]
LONG = [shown(-9, A, max_age=7200), shown(0, B)]
#: What was recorded; when asked, minutes after NOW; which of A and B has settled.
SETTLING: dict[str, tuple[list[Publication], float, str | None]] = {
    "nothing was recorded": ([], 65, None),
    "caches may hold another one": ([shown(0, B)], 64.99, None),
    "no cache holds another one": ([shown(0, B)], 65, "b"),
    "it counts from the first": ([shown(-9, A), shown(0, B), shown(30, B)], 65, "b"),
    "the other was seen again": (AGAIN, 95, None),
    "the other was seen again, and long enough ago": (AGAIN, 96, "b"),
    "caches were told to keep the other for longer": (LONG, 120, None),
    "and have done so": (LONG, 125, "b"),
    "a card that is shown no more": ([shown(0, B), shown(9, C)], 65, None),
    "an extended one beside it says nothing": ([shown(0, B, C)], 65, "b"),
}


@pytest.mark.parametrize(("records", "minutes", "settled"), SETTLING.values(), ids=SETTLING)
def test_a_card_settles_by_what_was_recorded(
    records: list[Publication], minutes: float, settled: str | None
) -> None:
    """Never by the clock of the state: what nobody has seen may never have been live."""
    release = released(first(), released(first(), None, ReleasePlan(((URL, A),))), B_TOO)
    now = NOW + minutes * MINUTE
    result = settled_cards(release.cards, noted(*records), DEFAULT_SETTINGS, now)
    assert result == ({URL: settled * 64} if settled else {})


def test_each_url_settles_by_itself() -> None:
    """Two cards, of which one has changed."""
    other = "https://tides.example/ebb.json"
    release = released(first(), None, ReleasePlan(((URL, A), (other, C))))
    release = released(first(), release, B_TOO)
    ebb = PublishedCard("agent-card.json", C, (), other)
    records = (shown(-99, A), Publication(2, NOW - 90 * MINUTE, 60, (), (ebb,)), shown(0, B))
    state = noted(*records)
    assert settled_cards(release.cards, state, DEFAULT_SETTINGS, NOW) == {other: C}
    both = settled_cards(release.cards, state, DEFAULT_SETTINGS, NOW + 65 * MINUTE)
    assert both == {other: C, URL: B}
