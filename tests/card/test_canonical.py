"""The profiles: which bytes each makes of a card, and what it cannot make any of."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES, PROFILES, canonicalize
from cardsign.errors import CanonicalizationError, InputRefused
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, put

SERVED, RULE_1, PRUNE, UPGRADED = DEFAULT_PROFILES

# A2A 1.0 8.4.1, the worked example, and what it prints.
SPEC_EXAMPLE = {
    "name": "Example Agent",
    "description": "",
    "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
    "skills": [],
}
SPEC_RESULT = (
    b'{"capabilities":{"pushNotifications":false,"streaming":false},'
    b'"description":"","name":"Example Agent","skills":[]}'
)


def test_the_example_of_the_specification() -> None:
    """Rule 1 as it is written gives exactly what A2A 1.0 8.4.1 prints."""
    assert canonicalize(SPEC_EXAMPLE, RULE_1).data == SPEC_RESULT


@pytest.mark.parametrize("profile", ["", "served_as_is", "SERVED-AS-IS", "sdk-0.9"])
def test_an_unknown_profile(profile: str) -> None:
    """Refused by name, with the known ones listed."""
    with pytest.raises(CanonicalizationError, match="rule-1-as-written") as caught:
        canonicalize(PORTABLE, profile)
    assert caught.value.code == "canonical.unknown_profile"


@pytest.mark.parametrize("profile", DEFAULT_PROFILES)
def test_bytes_are_read_strictly(profile: str) -> None:
    """As a verifier reads them."""
    data = json.dumps(LAX).encode()
    assert canonicalize(data, profile).data == canonicalize(LAX, profile).data
    for data, code in (
        (b'{"name": 1, "name": 2}', "json.duplicate_member"),
        (b'{"iconUrl": "a", "icon_url": "b"}', "card.two_spellings"),
    ):
        with pytest.raises(InputRefused) as caught:
            canonicalize(data, profile)
        assert caught.value.code == code


@pytest.mark.parametrize("card", ["{}", bytearray(b"{}"), None, [PORTABLE]])
def test_what_is_neither_bytes_nor_an_object(card: Any) -> None:
    """A mistake of the program, answered with the right call."""
    with pytest.raises(TypeError, match=r"canonicalize\(Path\('card.json'\).read_bytes\(\), 'ser"):
        canonicalize(card, SERVED)


@pytest.mark.parametrize("profile", DEFAULT_PROFILES)
@pytest.mark.parametrize("card", [PORTABLE, LAX, OLD, DUAL])
def test_signatures_are_no_part_of_any_payload(profile: str, card: dict[str, Any]) -> None:
    """Whatever stands there; and the document itself is not changed."""
    plain = canonicalize(card, profile)
    signed = {"signatures": [{"x": None}], **copy.deepcopy(card)}
    before = copy.deepcopy(signed)

    made = canonicalize(signed, profile)
    assert (made.data, made.value) == (plain.data, plain.value)
    assert signed == before
    assert b"signatures" not in plain.data


# ------------------------------------------------------------------ rule 1

#: The card, and its payload if that is another one.
RULE_1_ROWS: dict[str, tuple[Any, ...]] = {
    "null goes": ({"provider": None}, {}),
    "null in a REQUIRED member goes": ({"name": None}, {}),
    "null in an unknown member stays": ({"x": None},),
    "null in a list stays": ({"skills": [None]},),
    "a REQUIRED default stays": ({"name": "", "skills": [], "capabilities": {}},),
    "an optional default stays": ({"iconUrl": "", "capabilities": {"streaming": False}},),
    "another default goes": ({"securitySchemes": {}, "securityRequirements": []}, {}),
    "in messages of a list": (
        {"skills": [{"id": "", "examples": [], "inputModes": ["a"]}]},
        {"skills": [{"id": "", "inputModes": ["a"]}]},
    ),
    "in messages of a map": (
        {"securitySchemes": {"a": {"mtlsSecurityScheme": {"description": ""}}}},
        {"securitySchemes": {"a": {"mtlsSecurityScheme": {}}}},
    ),
    "an empty element stays": ({"skills": [{}]},),
    "an empty message stays": ({"provider": {}},),
    "free-form content stays": (
        {"capabilities": {"extensions": [{"required": False, "params": {"a": None, "b": ""}}]}},
        {"capabilities": {"extensions": [{"params": {"a": None, "b": ""}}]}},
    ),
    "the protobuf spelling is unknown": ({"icon_url": None},),
    "a value of the wrong type stays": ({"skills": 0, "provider": [], "securitySchemes": ""},),
    "nothing below an unknown member": ({"x": {"examples": [], "provider": None}},),
}


@pytest.mark.parametrize("row", RULE_1_ROWS.values(), ids=RULE_1_ROWS)
def test_rule_1(row: tuple[Any, ...]) -> None:
    """A2A 1.0 8.4.1 rule 1 on what is present; nothing is materialised."""
    assert canonicalize(row[0], RULE_1).value == row[-1]


# ------------------------------------------------------------------ prune-empty


NO_FORM: dict[str, tuple[dict[str, Any], str]] = {
    "a number for a text": ({"name": 5}, "/name"),
    "a text for true": ({"capabilities": {"streaming": "x"}}, "/capabilities/streaming"),
    "a list for a message": ({"provider": [1]}, "/provider"),
    "a number for a message": ({"provider": 5}, "/provider"),
    "an object for a list": ({"skills": {}}, "/skills"),
    "a list for a map": ({"securitySchemes": []}, "/securitySchemes"),
    "a number in a list of texts": ({"skills": [{"tags": [1]}]}, "/skills/0/tags/0"),
    "a null in a list": ({"skills": [None]}, "/skills/0"),
    "a text for free-form content": (
        {"capabilities": {"extensions": [{"params": "x"}]}},
        "/capabilities/extensions/0/params",
    ),
    "both spellings": ({"iconUrl": "a", "icon_url": "a"}, "/icon_url"),
    "two of a oneof": (
        {"securitySchemes": {"a": {"mtlsSecurityScheme": {}, "apiKeySecurityScheme": {}}}},
        "/securitySchemes/a/apiKeySecurityScheme",
    ),
}


@pytest.mark.parametrize(("card", "path"), NO_FORM.values(), ids=NO_FORM)
def test_what_prune_empty_cannot_canonicalize(card: dict[str, Any], path: str) -> None:
    """A schema member of another type has no payload; the full profiles keep it as it is."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(card, PRUNE)

    assert (caught.value.code, caught.value.path) == ("canonical.no_form", path)
    assert canonicalize(card, SERVED).value == card


@pytest.mark.parametrize("profile", ["served-as-is", "rule-1-as-written", "js-instance"])
@pytest.mark.parametrize(
    "card", [PORTABLE, {**PORTABLE, "x": None}, WITH_DEFAULTS], ids=["portable", "unknown", "other"]
)
def test_a_number_without_a_form_is_refused_by_the_profile(
    profile: Any, card: dict[str, Any]
) -> None:
    """Whether the rule changes something of the card or nothing, the message names the profile."""
    extension = {"uri": "u", "params": {"x": float("inf")}}
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(put(card, "/capabilities/extensions", [extension]), profile)
    assert caught.value.message.startswith(f"{profile} has no payload for this card: the value")


ENDPOINTS: dict[str, tuple[dict[str, Any], bool]] = {
    "an interface with a url": ({"supportedInterfaces": [{}, {"url": "u"}]}, True),
    "a url": ({"url": "u"}, True),
    "interfaces without url": ({"supportedInterfaces": [{"tenant": "t"}, 5]}, False),
    "interfaces that are no list": ({"supportedInterfaces": {"url": "u"}}, False),
    "an additional interface alone": ({"additionalInterfaces": [{"url": "u"}]}, False),
    "an empty url": ({"url": ""}, False),
    "neither": ({"name": "n"}, False),
}


@pytest.mark.parametrize(("value", "names"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_whether_a_client_could_be_built(value: dict[str, Any], names: bool) -> None:
    """Asked of the payload, not of the card it came from."""
    assert canonicalize(value, "served-as-is").names_an_endpoint is names


@pytest.mark.parametrize("profile", PROFILES)
def test_an_object_without_end_is_refused_by_name(profile: str) -> None:
    """What is read has few levels; an object of Python's may have any number."""
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": deep}
    extension = {"uri": "https://a.example/", "params": deep}
    card = {**PORTABLE, "capabilities": {"extensions": [extension]}}
    with pytest.raises(CanonicalizationError):
        canonicalize(card, profile)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "capabilities that are a list": (
        {"capabilities": [], "supportsAuthenticatedExtendedCard": True},
        "/capabilities",
    ),
    "skills that are an object": ({"skills": {"a": {}}}, "/skills"),
    "a skill that is a text": ({"skills": ["x"]}, "/skills/0"),
    "requirements that are an object": ({"security": {"a": []}}, "/security"),
    "a requirement that is a list": ({"security": [[]]}, "/security/0"),
    "schemes that are a list": ({"securitySchemes": [{}]}, "/securitySchemes"),
    "a scheme that is a text": ({"securitySchemes": {"a": "http"}}, "/securitySchemes/a"),
    "a type that is a list": ({"securitySchemes": {"a": {"type": []}}}, "/securitySchemes/a/type"),
    "additional interfaces that are an object": (
        {"url": "u", "additionalInterfaces": {"a": 1}},
        "/additionalInterfaces",
    ),
    "an additional interface that is a text": (
        {"url": "u", "additionalInterfaces": ["v"]},
        "/additionalInterfaces/0",
    ),
}


@pytest.mark.parametrize(("card", "path"), REFUSED.values(), ids=REFUSED)
def test_what_the_sdk_would_refuse(card: dict[str, Any], path: str) -> None:
    """No payload, and the place that is in its way."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(card, "prune-empty-upgraded")

    assert (caught.value.code, caught.value.path) == ("canonical.no_form", path)
