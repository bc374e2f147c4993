"""Where the verified payload's interfaces may stand (rule V4)."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.interfaces import _NAMES, check_interfaces, current_interfaces, interfaces_of
from cardsign.card.schema import fold
from cardsign.errors import CardRefused
from cardsign.urls import parse_place

HERE = (parse_place("https://a.example"), parse_place("https://b.example:8443"))
IN_A, IN_B, OUT = "https://a.example/x", "https://b.example:8443", "https://evil.example"


def new(*urls: str, **members: Any) -> dict[str, Any]:
    """A payload of 1.0 with these interfaces."""
    return {"supportedInterfaces": [{"url": url, **members} for url in urls]}


INSIDE: dict[str, dict[str, Any]] = {
    "one interface": new(IN_A),
    "one at each origin": new(IN_A, IN_B),
    "under the protobuf name": {"supported_interfaces": [{"url": IN_A}]},
    "a url of 0.3": {"url": IN_A},
    "with additional ones": {"url": IN_A, "additionalInterfaces": [{"url": IN_B}]},
    "of both generations": {"url": IN_A, **new(IN_B)},
    "an authority by GRPC": new("a.example:443", protocolBinding="GRPC"),
    "an authority by the protobuf name": new("a.example:443", protocol_binding="GRPC"),
    "a 0.3 authority": {"url": "a.example:443", "preferredTransport": "GRPC"},
    "an additional authority": {
        "url": IN_A,
        "additionalInterfaces": [{"url": "b.example:8443", "transport": "GRPC"}],
    },
    "a null url beside interfaces": {"url": None, **new(IN_A)},
}


@pytest.mark.parametrize("payload", INSIDE.values(), ids=INSIDE)
def test_inside(payload: dict[str, Any]) -> None:
    """Every endpoint of either generation stands at an allowed origin."""
    check_interfaces(payload, HERE)


OUTSIDE, URL, NONE = "card.origin_mismatch", "card.interface_url", "card.no_interface"
FIRST, SECOND = "/supportedInterfaces/0/url", "/supportedInterfaces/1/url"
#: What a payload holds, and the code and place of its refusal.
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "outside": (new(OUT), OUTSIDE, FIRST),
    "the second outside": (new(IN_A, OUT), OUTSIDE, SECOND),
    "the protobuf name outside": (
        {"url": IN_A, "supported_interfaces": [{"url": OUT}]},
        *(OUTSIDE, "/supported_interfaces/0/url"),
    ),
    "the url outside": ({"url": OUT, **new(IN_A)}, OUTSIDE, "/url"),
    "an additional one outside": (
        {"url": IN_A, "additionalInterfaces": [{"url": OUT}]},
        *(OUTSIDE, "/additionalInterfaces/0/url"),
    ),
    "another port": ({"url": "https://a.example:8443"}, OUTSIDE, "/url"),
    "http": ({"url": "http://a.example"}, OUTSIDE, "/url"),
    "a host below": ({"url": "https://x.a.example"}, OUTSIDE, "/url"),
    "a GRPC authority outside": (new("evil.example:443", protocolBinding="GRPC"), OUTSIDE, FIRST),
    "a url that a lenient reader takes": ({"URL": OUT, **new(IN_A)}, OUTSIDE, "/URL"),
    "interfaces that a lenient reader takes": (
        {"SupportedInterfaces": [{"Url": OUT}], "url": IN_A},
        *(OUTSIDE, "/SupportedInterfaces/0/Url"),
    ),
    "additional ones in protobuf's spelling": (
        {"additional_interfaces": [{"url": OUT}], "url": IN_A},
        *(OUTSIDE, "/additional_interfaces/0/url"),
    ),
    "an authority not by GRPC": ({"url": "a.example:443"}, URL, "/url"),
    "outside the grammar": ({"url": "https://a.example\\x"}, URL, "/url"),
    "an empty url": ({"url": ""}, URL, "/url"),
    "an interface without url": ({"supportedInterfaces": [{"url": IN_A}, {}]}, URL, SECOND),
    "an interface that is no object": ({"supportedInterfaces": [IN_A]}, URL, FIRST),
    "a url that is a list": ({"url": [IN_A]}, URL, "/url"),
    "a list that is none": ({"supportedInterfaces": {"url": IN_A}}, URL, "/supportedInterfaces"),
    "none": ({"name": "x"}, NONE, ""),
    "an empty list": (new(), NONE, ""),
}


@pytest.mark.parametrize(("payload", "code", "path"), REFUSED.values(), ids=REFUSED)
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


NAMED: dict[str, tuple[dict[str, Any], list[tuple[str, str, object, object, object]]]] = {
    "1.0": (
        {
            "supportedInterfaces": [
                {"url": IN_A, "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "t"}
            ]
        },
        [("/supportedInterfaces/0/url", "1.0", "GRPC", "1.0", "t")],
    ),
    "0.3, which speaks JSON-RPC where it does not say": (
        {"url": IN_A, "protocolVersion": "0.3.0"},
        [("/url", "0.3", "JSONRPC", "0.3.0", None)],
    ),
    "0.3 with more, of which all speak the card's version": (
        {
            "additionalInterfaces": [{"url": IN_B, "transport": "HTTP+JSON"}],
            "url": IN_A,
            "preferredTransport": "GRPC",
            "protocolVersion": "0.3.0",
        },
        [
            ("/additionalInterfaces/0/url", "0.3", "HTTP+JSON", "0.3.0", None),
            ("/url", "0.3", "GRPC", "0.3.0", None),
        ],
    ),
    "what has no url": (
        {"supportedInterfaces": [{}, IN_A], "additionalInterfaces": "x", "url": None},
        [
            ("/supportedInterfaces/0/url", "1.0", None, None, None),
            ("/supportedInterfaces/1/url", "1.0", None, None, None),
            ("/additionalInterfaces", "0.3", None, None, None),
        ],
    ),
    "no other spelling": ({"URL": OUT, "supported_interfaces": [{"url": OUT}]}, []),
}


@pytest.mark.parametrize(("document", "expected"), NAMED.values(), ids=NAMED)
def test_the_interfaces_of_a_document(document: dict[str, Any], expected: list[Any]) -> None:
    """Every one, in document order, whichever A2A version it is written in."""
    found = interfaces_of(document)
    seen = [(one.pointer, one.written_in, one.binding, one.version, one.tenant) for one in found]
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
