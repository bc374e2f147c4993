"""The fields of both A2A versions: their names, and the types and REQUIRED members of a card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardsign.card.document import Card
from cardsign.card.schema import ANY_CARD, CARD_0_3, CARD_1_0, Message, check_members
from cardsign.card.values import finding_at, split
from cardsign.findings import Finding
from tests.support import CARDS, DUAL, OLD, PORTABLE, each_card, each_case, edited, put, without


def messages(root: Message) -> Iterator[Message]:
    """The message and all below it, each once."""
    seen: dict[str, Message] = {}
    pending = [root]
    while pending:
        message = pending.pop()
        if message.name not in seen:
            seen[message.name] = message
            pending.extend(f.message for f in message.fields.values() if f.message is not None)
    yield from seen.values()


@pytest.mark.parametrize("root", [CARD_1_0, CARD_0_3, ANY_CARD], ids=["1.0", "0.3", "both"])
def test_no_two_names_of_a_message_fall_together(root: Message) -> None:
    """Otherwise a good card would be refused for two spellings."""
    for message in messages(root):
        assert len(message.folded) == len(message.fields), message.name
        assert len(message.spelled) >= len(message.fields), message.name


def problems(card: dict[str, Any]) -> dict[str, Finding]:
    """What is wrong with a card, by place."""
    a2a_version = Card.from_object(card).a2a_version
    return {problem.path: problem for problem in check_members(card, a2a_version)}


@each_card
def test_good_cards(card: dict[str, Any]) -> None:
    """Unknown members pass at any depth, and so do both versions in one document."""
    assert problems(put(put(card, "/x", {"y": 1}), "/skills/0/x", [None])) == {}


@each_case(__file__, "wrong type", "base", "edits", "pointer", "expected")
def test_a_wrong_type(base: str, edits: list[Any], pointer: str, expected: str) -> None:
    """Found where it stands and not coerced."""
    found = problems(edited(CARDS[base], edits))
    assert list(found) == [pointer]
    assert (found[pointer].code, found[pointer].message) == ("card.type", f"expected {expected}")


@each_case(__file__, "missing", "base", "pointer")
def test_a_missing_required_member(base: str, pointer: str) -> None:
    """Named by the place where it should stand; null counts as missing."""
    message = "a REQUIRED member is missing"
    missing = finding_at("card.missing_required", split(pointer), message)
    for lacking in (without(CARDS[base], pointer), put(CARDS[base], pointer, None)):
        assert problems(lacking) == {pointer: missing}


def test_a_null_is_absent_and_not_wrong() -> None:
    """The twin: null in a member that is not REQUIRED is nothing to mention (C11)."""
    assert problems(put(PORTABLE, "/provider", None)) == {}
    assert problems(put(OLD, "/preferredTransport", None)) == {}


def test_what_0_3_requires_is_not_asked_of_a_document_for_both() -> None:
    """Mixed documents are 1.0 cards that old clients can read."""
    assert problems(without(DUAL, "/protocolVersion")) == {}
