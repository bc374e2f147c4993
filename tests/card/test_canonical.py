"""The profiles: which bytes each makes of a card, and what it cannot make any of.

`canonical.json` has by profile what it makes of a card, or the place that is in its way; and
whether what stands in a payload names an endpoint.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES, PROFILES, canonicalize
from cardsign.errors import CanonicalizationError, InputRefused
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, each_case, put, read_cases

SERVED, RULE_1, PRUNE, UPGRADED = DEFAULT_PROFILES
CASES = read_cases(__file__)

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

    payload = canonicalize(signed, profile)
    assert (payload.data, payload.value) == (plain.data, plain.value)
    assert signed == before
    assert b"signatures" not in plain.data


@each_case(__file__, RULE_1, "card", "value")
def test_rule_1(card: dict[str, Any], value: dict[str, Any]) -> None:
    """A2A 1.0 8.4.1 rule 1 on what is present; nothing is materialised."""
    assert canonicalize(card, RULE_1).value == value


@pytest.mark.parametrize(
    ("profile", "card", "path"),
    [
        pytest.param(profile, *case, id=f"{profile}: {title}")
        for profile in (PRUNE, UPGRADED, "js-instance")
        for title, case in CASES[profile].items()
    ],
)
def test_what_an_sdk_would_refuse_or_convert(profile: str, card: dict[str, Any], path: str) -> None:
    """It has no payload, and the place is named; the document as it is has one."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(card, profile)
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


@pytest.mark.parametrize("profile", PROFILES)
def test_an_object_without_end_is_refused_by_name(profile: str) -> None:
    """What is read has few levels; an object of Python's may have any number."""
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": deep}
    extension = {"uri": "https://a.example/", "params": deep}
    with pytest.raises(CanonicalizationError):
        canonicalize({**PORTABLE, "capabilities": {"extensions": [extension]}}, profile)


@each_case(__file__, "endpoint", "value", "is_named")
def test_whether_a_client_could_be_built(value: dict[str, Any], is_named: bool) -> None:
    """Asked of the payload, not of the card it came from."""
    assert canonicalize(value, SERVED).names_an_endpoint is is_named
