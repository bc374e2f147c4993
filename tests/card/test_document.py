"""Reading a card: its A2A version, its signatures, and two names that are one to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cardsign.card.document import MAX_CARD_VALUES, MAX_SIGNATURES, Card
from cardsign.errors import CardRefused, JsonRefused
from tests.support import CARDS, LAX, PORTABLE, dump, each_case, edited, put

HOME = "https://tides.example"


def refusal(card: Mapping[str, Any]) -> CardRefused:
    """The refusal that a card must meet."""
    with pytest.raises(CardRefused) as caught:
        Card.from_bytes(dump(card))
    return caught.value


@each_case(__file__, "version", "card", "version")
def test_generation(card: dict[str, Any], version: str) -> None:
    """Told from the members that name endpoints, never from a hint outside."""
    assert Card.from_bytes(dump(card)).a2a_version == version


def test_the_document_is_as_received() -> None:
    """Unknown members, nulls, order: nothing is normalised."""
    card = {"b": None, "a": [1, {"x": ""}], "signatures": None}

    document = Card.from_bytes(dump(card)).document

    assert (dict(document), list(document)) == (card, ["b", "a", "signatures"])


@pytest.mark.parametrize("card", [{}, {"signatures": None}, {"signatures": []}])
def test_a_card_without_signatures(card: dict[str, Any]) -> None:
    """Absent, null and empty are alike."""
    assert Card.from_bytes(dump(card)).signatures == ()


@pytest.mark.parametrize(
    ("signatures", "kind"),
    [({}, "an object"), ("x", "a string"), (True, "true or false"), (1, "a number")],
)
def test_signatures_that_are_no_list(signatures: Any, kind: str) -> None:
    """Refused, naming what was found."""
    found = refusal({"signatures": signatures})

    assert (found.code, found.path) == ("card.signatures_shape", "/signatures")
    assert found.message.endswith(kind)


def test_the_most_signatures() -> None:
    """Sixteen are read, seventeen refused before any is looked at or counted as a value."""
    assert len(Card.from_bytes(dump({"signatures": [{}] * MAX_SIGNATURES})).signatures) == 16
    for count in (17, MAX_CARD_VALUES):
        assert refusal({"signatures": [{}] * count}).code == "card.signatures_too_many"


#: The cards that are edited: one in which either version has a member to spell otherwise.
BASES = {**CARDS, "portable": {**PORTABLE, "url": HOME, "signatures": []}, "empty": {}}


@each_case(__file__, "two spellings", "base", "edits", "path")
def test_two_spellings_are_refused(base: str, edits: list[Any], path: str) -> None:
    """Which of the two a lenient reader takes hangs on their order; the second one is named."""
    found = refusal(edited(BASES[base], edits))
    assert (found.code, found.path) == ("card.two_spellings", path)


@each_case(__file__, "one spelling", "pointer", "value")
def test_what_is_no_second_spelling(pointer: str, value: Any) -> None:
    """The twin: keys of maps, free content and unknown names are nobody's schema names."""
    Card.from_bytes(dump(put(LAX, pointer, value)))


def test_honest_cards_are_read() -> None:
    """No good card has two spellings; a document for both versions has none either."""
    cards = [Card.from_bytes(dump(card)) for card in CARDS.values()]
    assert [card.document for card in cards] == [*CARDS.values()]
    assert [card.a2a_version for card in cards] == ["1.0", "1.0", "1.0", "0.3", "mixed"]


@pytest.mark.parametrize("one", [b"0", b"{}", b"[]", b'{"":0}', b'"a,[{"'])
def test_limit_of_values(one: bytes) -> None:
    """Every value counts, containers and the root included, but none in a text."""
    each = 2 if one.startswith(b'{"') else 1
    most = b'{"x":[' + b",".join([one] * ((MAX_CARD_VALUES - 2) // each)) + b"]}"
    assert Card.from_bytes(most)
    with pytest.raises(JsonRefused) as caught:
        Card.from_bytes(most.replace(b"[", b"[" + one + b",", 1))
    found = caught.value
    assert (found.code, found.path, found.finding.place.line) == ("json.too_many_values", "", None)
