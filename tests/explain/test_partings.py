"""Where the default profiles part: the member responsible, its fate under each, in context."""

from __future__ import annotations

from typing import Any

import pytest
from explaining import explained

from cardsign.card.canonical import DEFAULT_PROFILES, canonicalize
from cardsign.errors import CanonicalizationError
from cardsign.explain.explanation import MAX_PARTINGS
from cardsign.explain.report import HeldAt
from tests.spoilt_cards import spoilt_cards
from tests.support import DUAL, LAX, OLD, PORTABLE, dump, put

FULL = ("served-as-is", "rule-1-as-written")
ALL = frozenset(DEFAULT_PROFILES)

#: The card; of one member: its pointer, the profiles that sign it in its place, the lint rule.
CASES: dict[str, tuple[dict[str, Any], str, frozenset[str], str]] = {
    "a default": (
        put(PORTABLE, "/skills/0/examples", []),
        "/skills/0/examples",
        frozenset({"served-as-is"}),
        "portable.default",
    ),
    "an explicit optional that is empty": (
        {**PORTABLE, "iconUrl": ""},
        "/iconUrl",
        frozenset(FULL),
        "portable.empty-value",
    ),
    "a member of a vendor": (
        {**PORTABLE, "x-berth": 4},
        "/x-berth",
        frozenset(FULL),
        "portable.unknown-member",
    ),
    "an empty element of a list": (
        put(PORTABLE, "/skills/0/tags", ["", "sea"]),
        "/skills/0/tags/0",
        frozenset(FULL),
        "portable.empty-value",
    ),
    "a requirement without scopes": (
        put(PORTABLE, "/securityRequirements/0/schemes/harbour/list", []),
        "/securityRequirements",
        frozenset(FULL),
        "portable.empty-security",
    ),
    "a member of 0.3 that is rewritten": (
        OLD,
        "/url",
        frozenset(FULL),
        "portable.legacy-member",
    ),
    "a member in its protobuf spelling": (
        {**PORTABLE, "icon_url": "https://tides.example/icon"},
        "/icon_url",
        frozenset(FULL),
        "portable.snake-case",
    ),
}


@pytest.mark.parametrize(("card", "pointer", "there", "rule"), CASES.values(), ids=CASES)
def test_the_member_responsible_is_named(
    card: dict[str, Any], pointer: str, there: frozenset[str], rule: str
) -> None:
    """With the profiles that sign it where it stands, and the lint rule that says why."""
    explanation = explained(card)
    assert explanation.portable is False
    (parting,) = [one for one in explanation.partings if one.pointer == pointer]
    here = {
        profile
        for profile, place in parting.places.items()
        if place is not None
        and pointer in (*place.pointers, *(() if place.pointers else [pointer]))
    }
    assert here == there
    assert set(parting.places) == ALL
    assert parting.rule == rule
    assert parting.why.endswith(".")
    (marked,) = [line for line in parting.context if line.startswith("> ")]
    last = pointer.rpartition("/")[2]
    assert marked[2:].startswith(f"[{last}]" if last.isdecimal() else f'"{last}": ')
    assert len(parting.context) <= 3


def test_a_member_that_moves_is_shown_where_it_went() -> None:
    """The url of a 0.3 card is signed as that of an interface, or not at all."""
    (parting,) = [one for one in explained(OLD).partings if one.pointer == "/url"]
    assert parting.places == {
        **dict.fromkeys(FULL, HeldAt(("/url",), '"https://tides.example/old"')),
        "prune-empty": None,
        "prune-empty-upgraded": HeldAt(
            ("/supportedInterfaces/0/url",), '"https://tides.example/old"'
        ),
    }


def test_what_stays_is_no_parting_where_something_before_it_goes() -> None:
    """An index that shifts is not a difference."""
    card = put(PORTABLE, "/skills/0/tags", ["", "sea", "tide"])
    assert [one.pointer for one in explained(card).partings] == ["/skills/0/tags/0"]


def test_a_value_that_a_profile_makes_up_is_named_in_the_payload() -> None:
    """a2a-sdk takes any truthy flag for an extended card, so no member goes there."""
    card = {**PORTABLE, "supportsAuthenticatedExtendedCard": "no"}
    partings = {one.pointer: one for one in explained(card).partings}
    made_up = partings["/capabilities/extendedAgentCard"]
    assert made_up.places["prune-empty"] is None
    assert made_up.places["prune-empty-upgraded"] == HeldAt(
        ("/capabilities/extendedAgentCard",), "true"
    )
    assert "/supportsAuthenticatedExtendedCard" in partings


def test_a_portable_card_has_no_partings() -> None:
    """Nothing is found where there is nothing."""
    explanation = explained(PORTABLE)
    assert (explanation.portable, explanation.partings) == (True, ())
    same = {one.profile: one.same_as for one in explanation.profiles}
    assert {same[profile] for profile in DEFAULT_PROFILES[1:]} == {"served-as-is"}


def test_partings_are_bounded() -> None:
    """The rest is counted."""
    card = {**PORTABLE, **{f"x-{number}": 1 for number in range(MAX_PARTINGS + 3)}}
    explanation = explained(card)
    assert (len(explanation.partings), explanation.partings_left_out) == (MAX_PARTINGS, 3)


def test_there_are_partings_exactly_where_the_bytes_differ() -> None:
    """Of random cards; and each parting tells at least two profiles apart."""
    parted = total = 0
    for _, card in spoilt_cards():
        explanation = explained(card)
        payloads = set()
        total += 1
        for profile in DEFAULT_PROFILES:
            try:
                payloads.add(canonicalize(card, profile).data)
            except CanonicalizationError:
                continue
        assert bool(explanation.partings) == (len(payloads) > 1), dump(card)
        for parting in explanation.partings:
            assert len({repr(place) for place in parting.places.values()}) > 1, dump(card)
        parted += bool(explanation.partings)
    assert parted * 20 > total


@pytest.mark.parametrize("card", [LAX, OLD, DUAL], ids=["lax", "of 0.3", "of both"])
def test_no_parting_stands_inside_another(card: dict[str, Any]) -> None:
    """Only the topmost member is listed."""
    found = [one.pointer for one in explained(card).partings]
    assert len(found) == len(set(found)) > 1
    assert not any(one.startswith(other + "/") for one in found for other in found)
