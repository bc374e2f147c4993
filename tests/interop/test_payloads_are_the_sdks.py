"""Our lossy payloads are byte for byte what the SDKs sign, and absent where they have none.

a2a-js turns any type into any other (the number 1 into "1"), where we refuse what is of the wrong
type. So it is asked only where we have a payload.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cardsign.card.document import Card
from cardsign.card.profiles import ProfileName, canonicalize
from cardsign.card.schema import CARD_1_0, Field
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError, CardsignError
from tests.card.test_schema import messages
from tests.interop.judges import Judge, Path_
from tests.interop.population import Sample
from tests.spoilt_cards import SHARES, spoilt_cards
from tests.support import OLD, PORTABLE, dump, each_case, put, read_cases


@dataclass(frozen=True)
class Reading:
    """A profile, and the judge that is asked for the payload it should be."""

    profile: ProfileName
    judge: Judge
    path: Path_
    by_javascript: bool  # which converts wrong types, so it has payloads where we have none

    @property
    def sets_proto_aside(self) -> bool:
        """Whether members called `__proto__`, which the profile keeps, are lost."""
        return self.by_javascript and self.profile == "prune-empty"

    def differs(self, card: Mapping[str, Json]) -> str:
        """Both payloads where they are not the same; else nothing."""
        ours = payload(card, self.profile)
        theirs = self.judge.payload(dump(card), path=self.path)
        if theirs == "null":  # a2a-sdk's spelling of an empty card
            theirs = "{}"
        if theirs and re.search(r"\\ud[89a-f]", theirs):
            theirs = None  # JavaScript splits a character in halves, which no RFC 8785 form has
        is_same = ours == theirs or (self.by_javascript and ours is None)
        return "" if is_same else f"{ours} / {theirs}"


@pytest.fixture(
    params=[
        pytest.param(reading, marks=pytest.mark.needs_judges(mark), id=", ".join(reading))
        for *reading, mark in (
            ("prune-empty", "sdk", "unconverted", "py"),
            ("prune-empty", "js", "plain", "js"),
            ("prune-empty-upgraded", "sdk", "plain", "py"),
            ("js-instance", "js", "resolver", "js"),
        )
    ]
)
def reading(request: pytest.FixtureRequest) -> Reading:
    """Each profile before each judge that verifies by it."""
    profile, judge, path = request.param
    return Reading(profile, request.getfixturevalue(judge), path, judge == "js")


def payload(card: Mapping[str, Json], profile: ProfileName) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(card, profile).data.decode()
    except CanonicalizationError:
        return None


@pytest.mark.needs_shared
def test_shared_cards_have_the_sdks_payloads(reading: Reading, samples: tuple[Sample, ...]) -> None:
    """Every card that we can read; a2a-js sets members called `__proto__` aside."""
    readable = {
        sample.file: {name: v for name, v in document.items() if name != "signatures"}
        for sample in samples
        if (document := sample.document) is not None
    }
    different = {file for file, card in readable.items() if reading.differs(card)}
    by_javascript = {"54-proto-key-in-params.json", "55-scheme-named-__proto__.json"}
    assert different == (by_javascript if reading.sets_proto_aside else set())
    payloads = [payload(card, reading.profile) for card in readable.values()]
    assert len(payloads) - payloads.count(None) > 30
    assert payloads.count(None) > 5


@pytest.mark.parametrize("share", range(SHARES))
def test_random_cards_have_the_sdks_payloads(share: int, reading: Reading) -> None:
    """Wrong types, nulls, empties, both spellings, both versions, what no schema knows."""
    for seed, card in spoilt_cards(share):
        try:
            Card.from_bytes(dump(card))
        except CardsignError:
            continue  # two spellings of one name
        difference = reading.differs(card)
        is_known = reading.sets_proto_aside and "__proto__" in difference
        assert not difference or is_known, (seed, card)


#: Where another value is put, into a card of 0.3 and a portable one, the values, and cards of which
#: the payload under prune-empty differs: ours, that of a2a-sdk, that of a2a-js.
CASES: Final = read_cases(__file__)


@pytest.mark.parametrize("place", CASES["places"])
def test_odd_values_have_the_sdks_payloads(place: str, reading: Reading) -> None:
    """Truth values spelt otherwise, versions, lists that are none: as each language has it."""
    cards = (OLD,) if "security/0" in place else (OLD, PORTABLE)
    for card, value in itertools.product(cards, CASES["oddities"]):
        assert not reading.differs(put(card, f"/{place}", value)), value


# ------------------------------------------------------------------ cases worth a name

#: A card may show several quirks at once, as far as none of them leaves it without a payload.
QUIRKS: Final[dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("quirks.json").read_text("utf-8")
)


@pytest.mark.parametrize("card", QUIRKS.values(), ids=QUIRKS)
def test_a_quirk_is_reproduced(card: dict[str, Any], reading: Reading) -> None:
    """What the experiments found, each kept for good."""
    assert not reading.differs(card)


@pytest.mark.needs_judges
@each_case(__file__, "differences", "card", "ours", "of_a2a_sdk", "of_a2a_js")
def test_a_known_difference(
    card: str, ours: str, of_a2a_sdk: str, of_a2a_js: str, sdk: Judge, js: Judge
) -> None:
    """Three readings of one rule; a change of any of them is seen here."""
    assert payload(json.loads(card), "prune-empty") == ours
    assert sdk.payload(card.encode(), path="unconverted") == of_a2a_sdk
    assert js.payload(card.encode()) == of_a2a_js


# ------------------------------------------------------------------ the schema


def facts(field: Field) -> dict[str, Any]:
    """Our table's field in the words of the judge."""
    kind = "Struct" if field.kind == "free" else field.kind
    return {
        "name": field.snake_name,
        "shape": field.shape,
        "type": field.message.name if field.message else kind,
        "required": field.required,
        "presence": field.presence,
        "oneof": field.oneof,
    }


@pytest.mark.needs_judges("py")
def test_both_know_the_same_messages_and_fields(sdk: Judge) -> None:
    """JSON and protobuf name, list or map, type, REQUIRED, presence, oneof."""
    schema = sdk.ask("schema")
    ours = {
        schema["root"] if message is CARD_1_0 else message.name: {
            field.name: facts(field) for field in message.fields.values()
        }
        for message in messages(CARD_1_0)
    }
    assert ours == schema["messages"]
