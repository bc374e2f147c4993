"""The profile js-instance by itself; tests/interop asks the SDK whether it is right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES, PROFILES, canonicalize, uncovered_parts
from cardsign.errors import CanonicalizationError
from tests.card.places import places_in
from tests.support import DUAL, LAX, OLD, PORTABLE, at, put, without

JS = "js-instance"


def left_open(card: dict[str, Any], profile: str) -> set[str]:
    """The pointers that the payload does not cover and that nothing excuses."""
    parts = uncovered_parts(canonicalize(card, profile))
    return {part.pointer for part in parts if part.excuse is None}


# ------------------------------------------------------------------ what it covers


def test_it_is_no_default_profile() -> None:
    """It is neither full nor accepted by any policy."""
    assert tuple(PROFILES) == (*DEFAULT_PROFILES, JS)


def test_a_portable_card_is_covered_but_for_its_security_schemes() -> None:
    """The client loses them."""
    assert left_open(PORTABLE, JS) == {"/securitySchemes"}


@pytest.mark.parametrize("card", [PORTABLE, LAX, OLD, DUAL, put(OLD, "/name", "\u20ac")])
def test_what_is_covered_is_in_the_payload(card: dict[str, Any]) -> None:
    """Each scalar that the profile claims to have stands where it says, unchanged."""
    payload = canonicalize(card, JS)
    assert json.loads(payload.data) == payload.value
    scalars = {
        source: places
        for source, places in places_in(payload).items()
        if not isinstance(at(card, source), dict | list)
    }
    assert len(scalars) >= 10
    for source, places in scalars.items():
        for place in places:
            found = at(payload.value, place)
            # The wrapper's name says what a 0.3 `type` said.
            assert found == at(card, source) or source.endswith("/type"), (source, place)


def test_signatures_are_no_part_of_it() -> None:
    """Whatever stands there."""
    signed = {**DUAL, "signatures": [{"x": None}, 7]}
    made, plain = canonicalize(signed, JS), canonicalize(DUAL, JS)
    assert (made.data, made.value) == (plain.data, plain.value)


# ------------------------------------------------------------------ how it is written

CARD_0_3 = {
    "name": "n",
    "description": "d",
    "url": "u",
    "version": "1",
    "capabilities": {"streaming": False},
    "defaultInputModes": ["a"],
    "defaultOutputModes": ["a"],
    "skills": [],
}


def test_numbers_are_written_by_rfc_8785() -> None:
    """As JavaScript itself writes them."""
    numbers = {"a": 1, "b": 1.0, "c": 1e-7, "d": 1e21, "e": -0.0, "f": True, "g": [0.1, 100]}
    extension = {"uri": "u", "params": numbers}
    data = canonicalize(put(CARD_0_3, "/capabilities/extensions", [extension]), JS).data
    assert b'"params":{"a":1,"b":1,"c":1e-7,"d":1e+21,"e":0,"f":true,"g":[0.1,100]}' in data


def test_an_empty_card_has_a_payload() -> None:
    """JavaScript writes {}."""
    assert canonicalize({}, JS).data == b"{}"


# ------------------------------------------------------------------ @a2a-js/sdk's client

OF_0_3: dict[str, Any] = {
    "url": "u",
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}
HTTP = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}


REFUSED_BY_JS: dict[str, tuple[dict[str, Any], str]] = {
    "null for an interface": ({"supportedInterfaces": [None]}, "/supportedInterfaces/0"),
    "null for a scheme": ({"securitySchemes": {"a": HTTP, "b": None}}, "/securitySchemes/b"),
    "a 0.3 card without capabilities": (without(OF_0_3, "/capabilities"), ""),
    "a 0.3 card without a list": (without(OF_0_3, "/skills"), ""),
    "a 0.3 skill without tags": ({**OF_0_3, "skills": [{"id": "i"}]}, "/skills/0"),
    "interfaces that are no list": (
        {**OF_0_3, "additionalInterfaces": "x"},
        "/additionalInterfaces",
    ),
    "a requirement that is null": ({**OF_0_3, "security": [None]}, "/security/0"),
    "scopes that are no list": ({**OF_0_3, "security": [{"a": 1}]}, "/security/0/a"),
    "a scheme of unknown type": (
        {**OF_0_3, "securitySchemes": {"a": {"type": "x"}}},
        "/securitySchemes/a",
    ),
    "OAuth without a flow of 0.3": (
        {**OF_0_3, "securitySchemes": {"a": {"type": "oauth2", "flows": {"deviceCode": {}}}}},
        "/securitySchemes/a/flows",
    ),
}


@pytest.mark.parametrize(("card", "where"), REFUSED_BY_JS.values(), ids=REFUSED_BY_JS)
def test_where_the_client_of_a2a_js_would_throw(card: dict[str, Any], where: str) -> None:
    """No payload, and the place is named."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(card, JS)
    assert (caught.value.code, caught.value.path) == ("canonical.no_form", where)


def test_what_is_converted_is_not_covered() -> None:
    """The payload does not hold what the card says, but what the SDK took it for."""
    card = put(put(PORTABLE, "/name", 7), "/capabilities/streaming", "no")
    assert {"/name", "/capabilities/streaming"} <= left_open(card, JS)
