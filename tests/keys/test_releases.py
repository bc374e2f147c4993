"""Release statements as they are drafted: what is listed, since when, and what no longer is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from cardsign.jose.release import check_release
from cardsign.jose.statements import StatementRefused
from cardsign.keys.releases import (
    ReleasePlan,
    draft_following,
    is_needed,
    past_half_life,
)
from cardsign.keys.statements import KeysetPlan, draft_next
from tests.keys.issuing import DAY, NOW, URL, first, released, signed, thumbprint

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
ZERO = timedelta()


def listed(release: Any) -> dict[str, int]:
    """Which payloads are current, and since which release."""
    floor = release.floor.get(URL, 0)
    return {card.payload_sha256[0]: card.seq for card in release.cards if card.seq >= floor}


#: What is told to one release after another, and what the last one lists; (announced, settled).
HISTORIES: dict[str, tuple[list[tuple[str | None, str | None]], dict[str, int], int]] = {
    "a card is listed by the release that is told of it": ([(A, None)], {"a": 1}, 0),
    "a renewal keeps the number of the first listing": (
        [(A, None), (None, None), (A, None)],
        {"a": 1},
        0,
    ),
    "old and new are both current while caches may hold either": (
        [(A, None), (B, None)],
        {"a": 1, "b": 2},
        0,
    ),
    "the old one ends once the new one has settled": (
        [(A, None), (B, None), (None, B)],
        {"b": 2},
        2,
    ),
    "a card to come outlives that the old one is settled": (
        [(A, None), (B, A), (None, A)],
        {"a": 1, "b": 2},
        1,
    ),
    "what was never listed settles nothing": ([(A, None), (None, C)], {"a": 1}, 0),
    "who returns to an old card lists it anew": (
        [(A, None), (B, None), (None, B), (A, None), (None, A)],
        {"a": 4},
        4,
    ),
    "and so it is before the new one has settled": (
        [(A, None), (B, None), (A, None), (None, A)],
        {"a": 3},
        3,
    ),
}


@pytest.mark.parametrize(("told", "cards", "floor"), HISTORIES.values(), ids=HISTORIES)
def test_cards_come_and_go(
    told: list[tuple[str | None, str | None]], cards: dict[str, int], floor: int
) -> None:
    """Each release is one that a verifier takes after the one before."""
    keyset, release = first(), None
    for announced, settled in told:
        plan = ReleasePlan(
            ((URL, announced),) if announced else (), {URL: settled} if settled else {}
        )
        before, release = release, released(keyset, release, plan)
        check_release(release, keyset, before, now=NOW, skew=ZERO)
    assert release is not None
    assert listed(release) == cards
    assert release.floor.get(URL, 0) == floor


def test_four_hundred_releases_need_no_root() -> None:
    """One keyset statement of 400 days, one release a day: no root key is asked for."""
    keyset = first(lifetime=400 * DAY)
    release = None
    for day in range(400):
        now = NOW + day * DAY
        before, release = release, released(keyset, release, now=now)
        check_release(release, keyset, before, now=now, skew=ZERO)
    assert release is not None
    assert release.seq == 400
    assert release.keyset.version == 1


def test_a_withdrawn_url_has_no_card() -> None:
    """And another one keeps its own."""
    other = "https://tides.example/ebb.json"
    one = released(first(), None, ReleasePlan(((URL, A), (other, B))))
    two = released(first(), one, ReleasePlan(withdrawn=frozenset({URL})))
    assert [card.url for card in two.cards] == [other]


def test_what_one_release_revoked_the_next_revokes_too() -> None:
    """Until the roots have spoken: a new keyset confirms it or drops it (K11)."""
    keyset = first()
    one = released(keyset, None, ReleasePlan(revoked=frozenset({thumbprint("card")})))
    assert released(keyset, one).revoked == {thumbprint("card")}
    later = signed(draft_next(KeysetPlan.of(keyset), keyset, now=NOW), "ann", "bob")
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


REFUSED: dict[str, tuple[dict[str, Any], ReleasePlan, str]] = {
    "a life beyond 14 days": ({"lifetime": 15 * DAY}, ReleasePlan(), "statement.time_span"),
    "an extended floor above itself": ({}, ReleasePlan(extended_floor=9), "statement.floor"),
    "a url that is none": ({}, ReleasePlan((("tides", A),)), "statement.members"),
    "a digest that is none": ({}, ReleasePlan(((URL, "A"),)), "statement.members"),
}


@pytest.mark.parametrize(("changes", "plan", "code"), REFUSED.values(), ids=REFUSED)
def test_what_no_verifier_would_read_is_no_draft(
    changes: dict[str, Any], plan: ReleasePlan, code: str
) -> None:
    """Refused before the release key is opened."""
    with pytest.raises(StatementRefused) as refused:
        draft_following(plan, first(), None, seq=1, now=NOW, **changes)
    assert refused.value.code == code


NEEDED: dict[str, tuple[ReleasePlan, timedelta, bool]] = {
    "nothing new, and young": (ReleasePlan(), DAY, False),
    "a longer audit log alone": (ReleasePlan(audit_head="d" * 64), DAY, False),
    "a card that is listed": (ReleasePlan(((URL, A),)), DAY, False),
    "half of its life is over": (ReleasePlan(), timedelta(days=3, hours=12), True),
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
    assert is_needed(draft, one, now=now) is needed
    assert is_needed(draft, None, now=now)
    assert past_half_life(one, now=now) is (after >= timedelta(days=3, hours=12))
