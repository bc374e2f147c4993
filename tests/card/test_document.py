"""Reading a card: its A2A version, its signatures, and two names that are one to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cardsign.card.document import MAX_CARD_VALUES, MAX_SIGNATURES, Card
from cardsign.errors import CardRefused, JsonRefused
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, dump, put


def refusal(card: Mapping[str, Any]) -> CardRefused:
    """The refusal that a card must meet."""
    with pytest.raises(CardRefused) as caught:
        Card.from_bytes(dump(card))
    return caught.value


A2A_VERSIONS = {
    "interfaces": (PORTABLE, "1.0"),
    "interfaces under their protobuf name": ({"supported_interfaces": []}, "1.0"),
    "a url": ({"url": "https://a.example"}, "0.3"),
    "a version of 0.x": ({"protocolVersion": "0.2.6"}, "0.3"),
    "an old card": (OLD, "0.3"),
    "both": (DUAL, "mixed"),
    "interfaces and a version of 0.x": (
        {"supportedInterfaces": [], "protocolVersion": "0.3.0"},
        "mixed",
    ),
    "interfaces and a version of 1.0": (
        {"supportedInterfaces": [], "protocolVersion": "1.0"},
        "1.0",
    ),
    "interfaces and a null url": ({"supportedInterfaces": [], "url": None}, "1.0"),
    "null interfaces and a url": ({"supportedInterfaces": None, "url": "https://a.example"}, "0.3"),
    "a version that is a number": ({"protocolVersion": 0.3}, "none"),
    "neither": ({"name": "x"}, "none"),
}


@pytest.mark.parametrize(("card", "a2a_version"), A2A_VERSIONS.values(), ids=A2A_VERSIONS)
def test_generation(card: dict[str, Any], a2a_version: str) -> None:
    """Told from the members that name endpoints, never from a hint outside."""
    assert Card.from_bytes(dump(card)).a2a_version == a2a_version


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


# ------------------------------------------------------------------ two spellings

TWO_SPELLINGS: dict[str, tuple[str, Any]] = {
    "Go's field name": ("/SupportedInterfaces", []),
    "upper case": ("/URL", "https://evil.example"),
    "snake_case": ("/supported_interfaces", []),
    "another case of an underscore": ("/Default_Input_Modes", []),
    "a long s for an s": ("/\u017fkills", []),
    "a Kelvin sign for a k": ("/s\u212aills", []),
    "leading and doubled underscores": ("/__supported__interfaces_", []),
    "with the same value": ("/Name", PORTABLE["name"]),
    "with null": ("/Name", None),
    "of the signatures": ("/Signatures", []),
    "in a message": ("/provider/URL", "https://evil.example"),
    "in a list of messages": ("/supportedInterfaces/0/protocol_binding", "GRPC"),
    "in a map of messages": ("/securitySchemes/harbour/HttpAuthSecurityScheme", {}),
    "in a message of a map": (
        "/securitySchemes/harbour/httpAuthSecurityScheme/Scheme",
        "Basic",
    ),
    "deep in a requirement": ("/securityRequirements/0/schemes/harbour/List", []),
    "in a skill": ("/skills/0/Tags", []),
}


@pytest.mark.parametrize(("pointer", "value"), TWO_SPELLINGS.values(), ids=TWO_SPELLINGS)
def test_two_spellings_are_refused(pointer: str, value: Any) -> None:
    """Which of the two a lenient reader takes hangs on their order."""
    card = put({**PORTABLE, "url": "https://tides.example", "signatures": []}, pointer, value)

    found = refusal(card)

    assert (found.code, found.path) == ("card.two_spellings", pointer)


ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "in a signature, where all else has one spelling": (
        {**PORTABLE, "signatures": [{"protected": "a", "signature": "b", "Signature": "c"}]},
        "/signatures/0/Signature",
    ),
    "the one that comes second is named": ({"URL": "x", "url": "y"}, "/url"),
    "in the other order": ({"url": "y", "URL": "x"}, "/URL"),
    "below a name that only a lenient reader knows": (
        {"Provider": {"url": "x", "URL": "y"}},
        "/Provider/URL",
    ),
    "of 0.3": (
        put(OLD, "/additionalInterfaces/0/Transport", "GRPC"),
        "/additionalInterfaces/0/Transport",
    ),
}


@pytest.mark.parametrize(("card", "path"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_two_spellings_elsewhere_are_refused(card: dict[str, Any], path: str) -> None:
    """Both schemas are looked at, each where it reaches."""
    assert refusal(card).path == path


ONE_SPELLING: dict[str, tuple[str, Any]] = {
    "two unknown names": ("/x", {"a": 1, "A": 2}),
    "unknown names of the card": ("/X-Berth", 1),
    "another word": ("/supportedInterface", []),
    "a hyphen": ("/supported-interfaces", []),
    "a full-width letter": ("/\uff53upportedInterfaces", []),
    "a Cyrillic letter": ("/supportedInterf\u0430ces", []),
    "in free-form content": (
        "/capabilities/extensions",
        [{"uri": "u", "params": {"url": 1, "URL": 2}}],
    ),
    "two schemes": ("/securitySchemes/Harbour", {"mtlsSecurityScheme": {"description": "x"}}),
    "two scopes": ("/securityRequirements/0/schemes/HARBOUR", {"list": ["read"]}),
    "a name of the schema elsewhere": ("/provider/Name", "x"),
}


@pytest.mark.parametrize(("pointer", "value"), ONE_SPELLING.values(), ids=ONE_SPELLING)
def test_what_is_no_second_spelling(pointer: str, value: Any) -> None:
    """The twin: keys of maps, free content and unknown names are nobody's schema names."""
    Card.from_bytes(dump(put(LAX, pointer, value)))


@pytest.mark.parametrize("card", [PORTABLE, WITH_DEFAULTS, LAX, OLD, DUAL])
def test_honest_cards_are_read(card: dict[str, Any]) -> None:
    """No good card has two spellings; a document for both versions has none either."""
    assert Card.from_bytes(dump(card)).document == card


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
