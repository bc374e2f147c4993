"""Cards of one A2A version in the form of another: what is kept, what is said, what comes home."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from cardsign.card.convert import convert_card
from cardsign.card.document import Card
from cardsign.card.schema import CARD_0_3, CARD_1_0, A2aVersion, check_members
from cardsign.errors import CardRefused
from cardsign.findings import Finding
from tests.support import each_case, read_cases

VERSIONS: tuple[A2aVersion, ...] = ("1.0", "0.3", "0.2")
CARDS = {version: read_cases(__file__)[version] for version in VERSIONS}
NEW, OLD = CARDS["1.0"], CARDS["0.3"]


@pytest.mark.parametrize("to", CARDS)
@pytest.mark.parametrize("version", CARDS)
def test_an_older_card_comes_home_from_1_0_unchanged(version: A2aVersion, to: A2aVersion) -> None:
    """Whatever 1.0 has no place for; the card that was given stays as it is."""
    card = copy.deepcopy(CARDS[version])
    there = convert_card(card, to)
    assert card == CARDS[version]
    assert Card.from_object(there).a2a_version == ("1.0" if to == "1.0" else "0.3")
    assert ("authentication" in there) is (to == "0.2")
    if to in (version, "1.0"):
        assert convert_card(json.loads(json.dumps(there)), version) == card


@pytest.mark.parametrize("to", ["0.3", "1.0"])
@pytest.mark.parametrize("version", CARDS)
def test_a_converted_card_has_members_of_its_schema_alone(
    version: A2aVersion, to: A2aVersion
) -> None:
    """Each of the type that the schema says."""
    made = convert_card(CARDS[version], to)
    schema = CARD_1_0 if to == "1.0" else CARD_0_3
    assert made.keys() <= schema.fields.keys()
    generation: Any = to
    problems = [one for one in check_members(made, generation) if one.code == "card.type"]
    assert problems == []


@each_case(__file__, "refused", "member", "value", "code")
def test_what_cannot_be_converted_is_refused(member: str, value: Any, code: str) -> None:
    """Rather than dropped: it says who may call."""
    with pytest.raises(CardRefused) as caught:
        convert_card(OLD | {member: value}, "1.0")
    assert caught.value.code == code


def test_what_cannot_be_read_is_refused_beside_what_can() -> None:
    """Older readers look at `security`, whatever 1.0 has."""
    assert convert_card({**NEW, "security": []}, "1.0")
    with pytest.raises(CardRefused) as caught:
        convert_card({**NEW, "security": {}}, "1.0")
    assert caught.value.code == "card.security"


@pytest.mark.needs_shared
def test_every_card_of_the_corpus_converts_or_says_why(shared: Path) -> None:
    """To all three forms, and nothing but CardRefused is raised."""
    converted = 0
    for path in sorted((shared / "corpus/cards").glob("*.json")):
        try:
            card = json.loads(path.read_bytes())
        except ValueError:
            continue
        if not isinstance(card, dict):
            continue
        for to in CARDS:
            try:
                convert_card(card, to)
            except CardRefused:
                continue
            converted += 1
    assert converted > 200


class Name(str):
    """The name of a member, which counts how often one is compared with another text."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_many_members_that_no_version_has_are_left_out_at_once() -> None:
    """They are 20,000 in 256 KiB; held against each other they would take four seconds."""
    notes: list[Finding] = []
    convert_card({"name": "a", **{Name(f"x{at}"): 1 for at in range(2000)}}, "1.0", notes)
    assert len(notes) == 2000
    assert Name.compared < 20 * 2000
