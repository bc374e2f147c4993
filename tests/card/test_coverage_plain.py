"""Coverage by identity says what the plain definition says, of every card that we can get at."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card import FULL_PROFILES, PROFILES, Card, Excuse, canonicalize, uncovered_parts
from cardsign.errors import CanonicalizationError, InputRefused
from tests.card.plain_coverage import places_in, plain_payload, plain_uncovered
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, at, pointers, put, without
from tests.test_properties import cards

TESTS = Path(__file__).parents[1]
MODES = re.compile(r"/skills/[0-9]+/(inputModes|outputModes)")


def both(document: Mapping[str, Any]) -> int:
    """Hold every profile's uncovered set against the plain one; how many parts those are."""
    count = 0
    for profile in PROFILES:
        try:
            payload = canonicalize(document, profile)
        except CanonicalizationError:
            continue
        plain = plain_payload(document, profile)
        assert payload.value == plain.value
        assert places_in(payload) == plain.destinations
        for accept in (False, True):
            found = [
                (part.pointer, part.security, part.excuse)
                for part in uncovered_parts(payload, accept_lossy=accept)
            ]
            assert found == [
                (where, security, _today(where, excuse, accept and profile not in FULL_PROFILES))
                for where, security, excuse in plain_uncovered(document, plain, accept_lossy=accept)
            ]
            count += len(found)
    return count


def _today(where: str, excuse: Excuse | None, by_value: bool) -> Excuse | None:
    """The one excuse that was taken back (S11): an empty list of modes is not its absence."""
    if excuse is Excuse.SCHEMA_DEFAULT and MODES.fullmatch(where):
        return Excuse.DROPPED_BY_VALUE if by_value else None
    return excuse


def parsed(texts: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """Those that are cards."""
    for text in texts:
        try:
            yield Card.from_bytes(text).document
        except InputRefused:
            continue


EXAMPLES = {"portable": PORTABLE, "defaults": WITH_DEFAULTS, "lax": LAX, "0.3": OLD, "both": DUAL}


@pytest.mark.parametrize("card", EXAMPLES.values(), ids=EXAMPLES)
def test_of_our_examples_and_their_edits(card: dict[str, Any]) -> None:
    """Each with one value less, another, or one more, at every place."""
    chance = random.Random(7)
    total = both(card)
    for where in pointers(card):
        total += both(without(card, where))
        odd = chance.choice([None, "", [], {}, False, 7, "x", {"a": ""}, [{}], ["", "x"]])
        total += both(put(card, where, odd))
        if isinstance(at(card, where), dict):
            total += both(put(card, where + "/a~1n", odd))
    assert total > 100


@pytest.mark.thorough
def test_of_the_cards_of_attacks() -> None:
    """Whatever an attack serves that can be read."""
    texts = (json.dumps(one).encode() for one in _cards_in_attacks())
    assert sum(map(both, parsed(texts))) > 100


def _cards_in_attacks() -> Iterator[Any]:
    for path in sorted((TESTS / "attacks").rglob("*.json")):
        pending = [json.loads(path.read_text())]
        while pending:
            one = pending.pop()
            if isinstance(one, dict):
                if "skills" in one or "supportedInterfaces" in one or "url" in one:
                    yield one
                pending.extend(one.values())
            elif isinstance(one, list):
                pending.extend(one)


@pytest.mark.needs_shared
def test_of_the_corpus(shared: Path) -> None:
    """Real cards, and those that were made to part implementations."""
    folders = (shared / "corpus" / "cards", shared / "interop" / "cards")
    paths = (path for folder in folders for path in sorted(folder.glob("*.json")))
    assert sum(map(both, parsed(path.read_bytes() for path in paths))) > 1000


@given(cards())
def test_of_random_cards(card: dict[str, Any]) -> None:
    """Anything near the two schemas."""
    both(card)


@given(cards(), st.data())
def test_of_random_edits(card: dict[str, Any], data: st.DataObject) -> None:
    """A random value at a random place."""
    places = list(pointers(card))
    if places:
        odd = st.sampled_from([None, "", [], {}, 0, "x", {"security": None}, [[]]])
        both(put(card, data.draw(st.sampled_from(places)), data.draw(odd)))
