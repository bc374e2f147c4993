"""What the lint promises, on random cards: its rules are exact, and fixing loses nothing.

`EXAMPLES` says on how many; ``.ci/run`` and ``nox -s nightly`` raise it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.document import Card
from cardsign.card.profiles import DEFAULT_PROFILES, canonicalize
from cardsign.errors import CanonicalizationError, CardRefused, CardsignError
from cardsign.lint.cards import RULES
from cardsign.lint.portability import FixResult, camel_case, fix
from tests.spoilt_cards import SHARES, spoilt_card, spoilt_cards
from tests.support import dump
from tests.unportable import unportable

in_shares = pytest.mark.parametrize("share", range(SHARES))


def payload(card: Mapping[str, Any], profile: str) -> bytes | None:
    """The bytes that a profile makes of a card, or None where it makes none."""
    try:
        return canonicalize(card, profile).data
    except CanonicalizationError:
        return None


def agrees(card: Mapping[str, Any]) -> bool:
    """The plain definition: all default profiles make bytes, and the same."""
    payloads = {payload(card, profile) for profile in DEFAULT_PROFILES}
    return len(payloads) == 1 and None not in payloads


# ------------------------------------------------------------------ the rules are exact


@in_shares
def test_a_card_is_clean_exactly_if_its_readings_agree(share: int) -> None:
    """Both ways: no clean card parts its readings, and no finding is needless."""
    wrong = [
        seed for seed, card in spoilt_cards(share) if agrees(card) is not (not unportable(card))
    ]
    assert wrong == []


def test_the_cards_stand_on_both_sides_of_every_rule() -> None:
    """Among the first thousand many are clean, and each rule is once decisive."""
    clean, decisive = 0, set[str]()
    for seed in range(1000):
        rules = {finding.code for finding in unportable(spoilt_card(seed))}
        clean += not rules
        if len(rules) == 1:
            decisive |= rules

    assert clean >= 100
    assert decisive == {code for code in RULES if code.startswith("portable.")}


@pytest.mark.needs_shared
def test_the_shared_cards_bear_it_out(shared: Path) -> None:
    """Real cards and provocative ones; those that cannot be read are no matter of lint."""
    paths = sorted((shared / "corpus/cards").glob("*.json"))
    paths += sorted((shared / "interop/cards").glob("*.json"))
    outcomes = Counter[bool]()
    for path in paths:
        try:
            card = Card.from_bytes(path.read_bytes()).document
        except CardsignError:
            continue
        clean = not unportable(card)
        assert clean is agrees(card), path.name
        outcomes[clean] += 1

    assert min(outcomes[True], outcomes[False]) >= 5


# ------------------------------------------------------------------ fixing loses nothing


@cache
def fix_results(share: int) -> list[tuple[dict[str, Any], FixResult, dict[str, Any]]]:
    """Cards that have something to fix, what came of it, and the fixed cards."""
    found = []
    for _, card in spoilt_cards(share):
        try:
            result = fix(dump(card))
        except CardRefused:
            continue  # two spellings of one name
        if result.fixed:
            found.append((card, result, json.loads(result.document)))
    return found


@in_shares
def test_what_the_sdks_sign_stays(share: int) -> None:
    """The pruning payloads are what they were; one that there was none of may come to be."""
    for before, _, after in fix_results(share):
        assert payload(after, "prune-empty") == payload(before, "prune-empty")
        upgraded = payload(before, "prune-empty-upgraded")
        assert upgraded in (None, payload(after, "prune-empty-upgraded"))


@in_shares
def test_what_rule_1_signs_stays(share: int) -> None:
    """Its payload changes only where a member in protobuf spelling or a null of 0.3 is fixed."""
    for before, result, after in fix_results(share):
        fixed = {finding.path for finding in result.fixed}
        rules = {finding.code for finding in unportable(before) if finding.path in fixed}
        if rules.isdisjoint({"portable.snake-case", "portable.legacy-member"}):
            assert payload(after, "rule-1-as-written") == payload(before, "rule-1-as-written")


@in_shares
def test_only_what_says_nothing_goes(share: int) -> None:
    """Every value that is gone was null, false or empty, and none was about who may call."""
    for before, _, after in fix_results(share):
        old, new = dict(values(before)), dict(values(after))
        gone = {place: value for place, value in old.items() if place not in new}

        assert all(value is None or value is False or value in ("", []) for value in gone.values())
        assert not any(name.startswith("security") for place in gone for name in place)
        # What comes instead is what held nothing else.
        assert all(old.get(place, {}) == value for place, value in new.items())


@in_shares
def test_fixing_ends(share: int) -> None:
    """What is left cannot be fixed, and fixing again changes no byte."""
    for _, result, after in fix_results(share):
        assert not any(finding.fixable for finding in unportable(after))
        assert fix(result.document).document == result.document


def values(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Scalars and empty containers, each with the names that lead to it, all in camelCase."""
    if not isinstance(value, dict | list) or not value:
        yield place, value
        return
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for name, child in children:
        yield from values(child, (*place, camel_case(str(name))))
