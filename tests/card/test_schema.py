"""The fields of both A2A versions: their names, and the types and REQUIRED members of a card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardsign.card.document import Card
from cardsign.card.schema import CARD_0_3, CARD_1_0, DocumentVersion, Message, check_members
from cardsign.card.values import finding_at, split
from cardsign.findings import Finding
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, put, without


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


@pytest.mark.parametrize("root", [CARD_1_0, CARD_0_3], ids=["1.0", "0.3"])
def test_no_two_names_of_a_message_fall_together(root: Message) -> None:
    """Otherwise a good card would be refused for two spellings."""
    for message in messages(root):
        assert len(message.folded) == len(message.fields), message.name
        assert len(message.spelled) >= len(message.fields), message.name


def problems(card: dict[str, Any]) -> dict[str, Finding]:
    """What is wrong with a card, by place."""
    a2a_version: DocumentVersion = Card.from_object(card).a2a_version
    return {problem.path: problem for problem in check_members(card, a2a_version)}


@pytest.mark.parametrize("card", [PORTABLE, WITH_DEFAULTS, LAX, OLD, DUAL])
def test_good_cards(card: dict[str, Any]) -> None:
    """Unknown members pass at any depth, and so do both versions in one document."""
    assert problems(put(put(card, "/x", {"y": 1}), "/skills/0/x", [None])) == {}


WRONG: dict[str, tuple[dict[str, Any], str, Any, str]] = {
    "a number for a text": (PORTABLE, "/name", 5, "a string"),
    "true for a text": (PORTABLE, "/name", True, "a string"),
    "a text for true": (PORTABLE, "/capabilities/streaming", "true", "true or false"),
    "a number for true": (PORTABLE, "/capabilities/streaming", 1, "true or false"),
    "a list for an object": (PORTABLE, "/capabilities", [], "an object"),
    "a text for an object": (PORTABLE, "/provider", "me", "an object"),
    "an object for a list": (PORTABLE, "/skills", {}, "a list"),
    "a text for a list": (PORTABLE, "/skills/0/tags", "sea", "a list"),
    "a text in a list of objects": (PORTABLE, "/skills/0", "tides", "an object"),
    "a null in a list": (PORTABLE, "/skills/0/tags/0", None, "a string"),
    "a list for a map": (PORTABLE, "/securitySchemes", [], "an object"),
    "a text in a map of objects": (PORTABLE, "/securitySchemes/harbour", "x", "an object"),
    "a number for a scope": (
        PORTABLE,
        "/securityRequirements/0/schemes/harbour/list/0",
        1,
        "a string",
    ),
    "a list for free-form content": (
        put(PORTABLE, "/capabilities/extensions", [{"uri": "u", "params": {}}]),
        "/capabilities/extensions/0/params",
        [],
        "an object",
    ),
    "a number by the protobuf spelling": (PORTABLE, "/icon_url", 5, "a string"),
    "a number for a 0.3 url": (OLD, "/url", 5, "a string"),
    "a text for a 0.3 flag": (OLD, "/supportsAuthenticatedExtendedCard", "no", "true or false"),
    "an object for 0.3 requirements": (OLD, "/security", {}, "a list"),
    "a 0.3 member of a document for both": (DUAL, "/preferredTransport", 5, "a string"),
    "a 1.0 member of a document for both": (DUAL, "/supportedInterfaces/0/url", 5, "a string"),
}


@pytest.mark.parametrize(("card", "pointer", "value", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_type(card: dict[str, Any], pointer: str, value: Any, expected: str) -> None:
    """Found where it stands and not coerced."""
    found = problems(put(card, pointer, value))

    assert list(found) == [pointer]
    assert (found[pointer].code, found[pointer].message) == ("card.type", f"expected {expected}")


MISSING = {
    "of the card": (PORTABLE, "/version"),
    "of an interface": (PORTABLE, "/supportedInterfaces/0/protocolVersion"),
    "of a skill": (PORTABLE, "/skills/0/tags"),
    "of the provider": (PORTABLE, "/provider/organization"),
    "of a scheme": (PORTABLE, "/securitySchemes/harbour/httpAuthSecurityScheme/scheme"),
    "of a 0.3 card": (OLD, "/protocolVersion"),
    "of a 0.3 interface": (OLD, "/additionalInterfaces/0/transport"),
    "of 1.0 in a document for both": (DUAL, "/supportedInterfaces/0/url"),
}


@pytest.mark.parametrize(("card", "pointer"), MISSING.values(), ids=MISSING)
def test_a_missing_required_member(card: dict[str, Any], pointer: str) -> None:
    """Named by the place where it should stand; null counts as missing."""
    for lacking in (without(card, pointer), put(card, pointer, None)):
        assert problems(lacking) == {
            pointer: finding_at(
                "card.missing_required", split(pointer), "a REQUIRED member is missing"
            )
        }


def test_a_null_is_absent_and_not_wrong() -> None:
    """The twin: null in a member that is not REQUIRED is nothing to mention (C11)."""
    assert problems(put(PORTABLE, "/provider", None)) == {}
    assert problems(put(OLD, "/preferredTransport", None)) == {}


def test_what_0_3_requires_is_not_asked_of_a_document_for_both() -> None:
    """Mixed documents are 1.0 cards that old clients can read."""
    assert problems(without(DUAL, "/protocolVersion")) == {}
