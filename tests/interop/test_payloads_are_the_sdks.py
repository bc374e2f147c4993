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
from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError, CardsignError
from tests.interop.judges import Judge, Path_
from tests.interop.population import Sample
from tests.spoilt_cards import SHARES, spoilt_cards
from tests.support import OLD, PORTABLE, dump, each_case, put, read_cases


@dataclass(frozen=True)
class Reading:
    """A profile, and the judge that is asked for the payload it should be."""

    profile: ProfileName
    fixture: str
    path: Path_
    converts: bool = False  # what is of a wrong type, so it has payloads where we have none
    sets_proto_aside: bool = False  # members called `__proto__`, which the profile keeps

    def differs(self, judge: Judge, card: Mapping[str, Json]) -> str:
        """Both payloads where they are not the same; else nothing."""
        ours = payload(card, self.profile)
        theirs = judge.payload(dump(card), path=self.path)
        if theirs == "null":  # a2a-sdk's spelling of an empty card
            theirs = "{}"
        if theirs and re.search(r"\\ud[89a-f]", theirs):
            theirs = None  # JavaScript splits a character in halves, which no RFC 8785 form has
        is_same = ours == theirs or (self.converts and ours is None)
        return "" if is_same else f"{ours} / {theirs}"


READINGS: Final = {
    "prune-empty, a2a-sdk without its conversion": Reading("prune-empty", "sdk", "unconverted"),
    "prune-empty, a2a-js": Reading("prune-empty", "js", "plain", True, True),
    "prune-empty-upgraded, a2a-sdk": Reading("prune-empty-upgraded", "sdk", "plain"),
    "js-instance, a2a-js": Reading("js-instance", "js", "resolver", converts=True),
}
MARKS: Final = {"sdk": "py", "js": "js"}


@pytest.fixture(
    params=[
        pytest.param(reading, marks=pytest.mark.needs_judges(MARKS[reading.fixture]), id=name)
        for name, reading in READINGS.items()
    ]
)
def reading(request: pytest.FixtureRequest) -> Reading:
    """Each profile before each judge that verifies by it."""
    reading: Reading = request.param
    return reading


@pytest.fixture
def judge(reading: Reading, request: pytest.FixtureRequest) -> Judge:
    """The judge of that profile."""
    judge: Judge = request.getfixturevalue(reading.fixture)
    return judge


def payload(card: Mapping[str, Json], profile: ProfileName) -> str | None:
    """What we would sign, or None."""
    try:
        return canonicalize(card, profile).data.decode()
    except CanonicalizationError:
        return None


@pytest.mark.needs_shared
def test_shared_cards_have_the_sdks_payloads(
    reading: Reading, judge: Judge, samples: tuple[Sample, ...]
) -> None:
    """Every card that we can read; a2a-js sets members called `__proto__` aside."""
    readable = {
        sample.file: {name: v for name, v in document.items() if name != "signatures"}
        for sample in samples
        if (document := sample.document) is not None
    }
    different = {file for file, card in readable.items() if reading.differs(judge, card)}
    by_javascript = {"54-proto-key-in-params.json", "55-scheme-named-__proto__.json"}
    assert different == (by_javascript if reading.sets_proto_aside else set())
    payloads = [payload(card, reading.profile) for card in readable.values()]
    assert len(payloads) - payloads.count(None) > 30
    assert payloads.count(None) > 5


@pytest.mark.parametrize("share", range(SHARES))
def test_random_cards_have_the_sdks_payloads(share: int, reading: Reading, judge: Judge) -> None:
    """Wrong types, nulls, empties, both spellings, both versions, what no schema knows."""
    for seed, card in spoilt_cards(share):
        try:
            Card.from_bytes(dump(card))
        except CardsignError:
            continue  # two spellings of one name
        difference = reading.differs(judge, card)
        is_known = reading.sets_proto_aside and "__proto__" in difference
        assert not difference or is_known, (seed, card)


#: Where another value is put, into a card of 0.3 and a portable one, the values, and cards of which
#: the payload under prune-empty differs: ours, that of a2a-sdk, that of a2a-js.
CASES: Final = read_cases(__file__)


@pytest.mark.parametrize("place", CASES["places"])
def test_odd_values_have_the_sdks_payloads(place: str, reading: Reading, judge: Judge) -> None:
    """Truth values spelt otherwise, versions, lists that are none: as each language has it."""
    cards = (OLD,) if "security/0" in place else (OLD, PORTABLE)
    for card, value in itertools.product(cards, CASES["oddities"]):
        assert not reading.differs(judge, put(card, f"/{place}", value)), value


# ------------------------------------------------------------------ cases worth a name

#: A card may show several quirks at once, as far as none of them leaves it without a payload.
QUIRKS: Final[dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("quirks.json").read_text("utf-8")
)


@pytest.mark.parametrize("card", QUIRKS.values(), ids=QUIRKS)
def test_a_quirk_is_reproduced(card: dict[str, Any], reading: Reading, judge: Judge) -> None:
    """What the experiments found, each kept for good."""
    assert not reading.differs(judge, card)


@pytest.mark.needs_judges
@each_case(__file__, "differences", "card", "ours", "of_a2a_sdk", "of_a2a_js")
def test_a_known_difference(
    card: str, ours: str, of_a2a_sdk: str, of_a2a_js: str, sdk: Judge, js: Judge
) -> None:
    """Three readings of one rule; a change of any of them is seen here."""
    assert payload(json.loads(card), "prune-empty") == ours
    assert sdk.payload(card.encode(), path="unconverted") == of_a2a_sdk
    assert js.payload(card.encode()) == of_a2a_js
