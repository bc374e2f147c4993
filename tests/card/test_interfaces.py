"""Where the verified payload's interfaces may stand (rule V4)."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.document import _NAMES, check_interfaces, current_interfaces, interfaces_of
from cardsign.card.schema import fold
from cardsign.errors import CardRefused
from cardsign.urls import parse_place
from tests.support import each_case

HERE = (parse_place("https://a.example"), parse_place("https://b.example:8443"))
IN_A, IN_B, OUT = "https://a.example/x", "https://b.example:8443", "https://evil.example"


@each_case(__file__, "inside", "payload")
def test_inside(payload: dict[str, Any]) -> None:
    """Every endpoint of either generation stands at an allowed origin."""
    check_interfaces(payload, HERE)


@each_case(__file__, "refused", "payload", "code", "path")
def test_refused(payload: dict[str, Any], code: str, path: str) -> None:
    """One endpoint elsewhere is enough, and so is none at all."""
    with pytest.raises(CardRefused) as caught:
        check_interfaces(payload, HERE)
    assert (caught.value.code, caught.value.path) == (code, path)


def test_anywhere() -> None:
    """Without origins to compare with, an endpoint must be there and be a text."""
    check_interfaces({"url": "{{BASE_URL}}/a2a"}, None)
    for payload in ({"url": ""}, {"url": 5}, {}):
        with pytest.raises(CardRefused):
            check_interfaces(payload, None)
    with pytest.raises(CardRefused):  # no origin at all is not "anywhere"
        check_interfaces({"url": IN_A}, ())


@each_case(__file__, "named", "document", "expected")
def test_the_interfaces_of_a_document(document: dict[str, Any], expected: list[Any]) -> None:
    """Every one, in document order, whichever A2A version it is written in."""
    found = interfaces_of(document)
    seen = [[one.pointer, one.written_in, one.binding, one.version, one.tenant] for one in found]
    assert seen == expected


def test_the_interfaces_of_a_document_in_any_spelling() -> None:
    """As the most lenient reader finds them, with pointers as the document spells them."""
    document: dict[str, Any] = {
        "URL": IN_A,
        "preferred_transport": "GRPC",
        "Supported_Interfaces": [
            {"Url": IN_B, "protocol_binding": "JSONRPC"},
            {"url": IN_A, "transport": "GRPC"},
        ],
    }
    found = [
        (one.pointer, one.url, one.binding) for one in interfaces_of(document, any_spelling=True)
    ]
    assert found == [
        ("/URL", IN_A, "GRPC"),
        ("/Supported_Interfaces/0/Url", IN_B, "JSONRPC"),
        ("/Supported_Interfaces/1/url", IN_A, "GRPC"),
    ]


def test_the_current_interfaces() -> None:
    """Those of 1.0 where there are any; else those of 0.3, the main one first."""
    old: dict[str, Any] = {"additionalInterfaces": [{"url": IN_B}], "url": IN_A}
    assert [one.url for one in current_interfaces(old)] == [IN_A, IN_B]
    both: dict[str, Any] = {**old, "supportedInterfaces": [{"url": OUT}]}
    assert [one.url for one in current_interfaces(both)] == [OUT]
    assert [one.url for one in current_interfaces({**old, "supportedInterfaces": []})] == [
        IN_A,
        IN_B,
    ]


def test_no_two_names_of_the_schemas_fall_together() -> None:
    """So an object of such names alone is read one way, whatever a reader makes of spellings."""
    assert len({fold(name) for name in _NAMES}) == len(_NAMES)
