"""The opt-in profiles by themselves; tests/interop/test_optin_oracles.py asks the SDKs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import DUAL, LAX, OLD, PORTABLE, at, put, without

from cardsign.card import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    OPT_IN_PROFILES,
    PROFILES,
    canonicalize,
    uncovered_parts,
)
from cardsign.errors import CanonicalizationError
from tests.card.places import places_in

SCOPE, SDK_0_3, LEGACY, JS = OPT_IN_PROFILES


def made(card: dict[str, Any], profile: str) -> Any:
    """The payload as an object."""
    return canonicalize(card, profile).value


def left_open(card: dict[str, Any], profile: str) -> set[str]:
    """The pointers that the payload does not cover and that nothing excuses."""
    parts = uncovered_parts(canonicalize(card, profile))
    return {part.pointer for part in parts if part.excuse is None}


# ------------------------------------------------------------------ all of them


def test_the_opt_in_profiles() -> None:
    """None is full, and none is served or accepted without being named."""
    assert OPT_IN_PROFILES == (
        "rule-1-descriptor-scope",
        "sdk-0.3",
        "sdk-1.0-legacy",
        "js-instance",
    )
    assert not set(OPT_IN_PROFILES) & set(DEFAULT_PROFILES + FULL_PROFILES)
    assert tuple(PROFILES) == DEFAULT_PROFILES + OPT_IN_PROFILES


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
def test_a_portable_card_is_covered_but_for_what_the_profile_loses(profile: str) -> None:
    """js-instance alone loses anything of it; sdk-0.3 has no payload."""
    if profile == SDK_0_3:
        with pytest.raises(CanonicalizationError, match="REQUIRED url") as caught:
            canonicalize(PORTABLE, profile)
        assert caught.value.code == "canonical.no_form"
        assert caught.value.message.startswith("sdk-0.3 has no payload for this card: ")
        return
    lost = {"/securitySchemes"} if profile == JS else set()
    assert left_open(PORTABLE, profile) == lost


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
@pytest.mark.parametrize("card", [PORTABLE, LAX, OLD, DUAL, put(OLD, "/name", "\u20ac")])
def test_what_is_covered_is_in_the_payload(profile: str, card: dict[str, Any]) -> None:
    """Each scalar that the profile claims to have stands where it says, unchanged."""
    try:
        payload = canonicalize(card, profile)
    except CanonicalizationError:
        assert (profile, "url" in card) == (SDK_0_3, False)
        return
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


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
def test_signatures_are_no_part_of_any(profile: str) -> None:
    """Whatever stands there."""
    signed = {**DUAL, "signatures": [{"x": None}, 7]}
    made, plain = canonicalize(signed, profile), canonicalize(DUAL, profile)
    assert (made.data, made.value) == (plain.data, plain.value)


# ------------------------------------------------------------------ rule 1 over the schema

EMPTY_CARD = {
    "name": "",
    "description": "",
    "version": "",
    "supportedInterfaces": [],
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}
#: What is given, and what of it differs from `EMPTY_CARD` in the payload.
OVER_THE_SCHEMA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an empty card gets every REQUIRED member": ({}, {}),
    "and so does one whose members are null": ({"name": None, "capabilities": None}, {}),
    "an optional message that is not there stays away": ({"provider": None}, {}),
    "one that is there gets its own": (
        {"provider": {}},
        {"provider": {"url": "", "organization": ""}},
    ),
    "in a list": (
        {"skills": [{"id": "a", "examples": []}]},
        {"skills": [{"id": "a", "name": "", "description": "", "tags": []}]},
    ),
    "in a map, down to a message within a message": (
        {"securitySchemes": {"a": {"oauth2SecurityScheme": {}}, "b": {"mtlsSecurityScheme": {}}}},
        {
            "securitySchemes": {
                "a": {"oauth2SecurityScheme": {"flows": {}}},
                "b": {"mtlsSecurityScheme": {}},
            }
        },
    ),
    "and with the map that it needs": (
        {"securitySchemes": {"a": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {}}}}}},
        {
            "securitySchemes": {
                "a": {
                    "oauth2SecurityScheme": {
                        "flows": {"clientCredentials": {"tokenUrl": "", "scopes": {}}}
                    }
                }
            }
        },
    ),
    "unknown members go, at any level": (
        {"x": 1, "url": "u", "capabilities": {"x": 1, "streaming": False}},
        {"capabilities": {"streaming": False}},
    ),
    "the protobuf spelling is read": ({"default_input_modes": ["a"]}, {"defaultInputModes": ["a"]}),
    "optional members stay where they are set": ({"iconUrl": ""}, {"iconUrl": ""}),
    "other defaults go": ({"securityRequirements": [], "securitySchemes": {}}, {}),
    "a requirement without scopes stays": (
        {"securityRequirements": [{"schemes": {"a": {"list": []}}}, {}]},
        {"securityRequirements": [{"schemes": {"a": {}}}, {}]},
    ),
    "free-form content is untouched": (
        {"capabilities": {"extensions": [{"params": {"a": None, "b": [], "name": ""}}]}},
        {"capabilities": {"extensions": [{"params": {"a": None, "b": [], "name": ""}}]}},
    ),
    "a wrong type is left as it is": ({"name": 1, "skills": [7]}, {"name": 1, "skills": [7]}),
}


@pytest.mark.parametrize(("card", "differs"), OVER_THE_SCHEMA.values(), ids=OVER_THE_SCHEMA)
def test_rule_1_over_the_schema(card: dict[str, Any], differs: dict[str, Any]) -> None:
    """Only what the schema knows, and all that it demands."""
    assert made(card, SCOPE) == {**EMPTY_CARD, **differs}


def test_what_is_put_in_covers_nothing() -> None:
    """It stands nowhere in the card: there is nothing that it could have come from."""
    card = without(without(LAX, "/description"), "/skills/0/tags")
    payload = canonicalize(card, SCOPE)

    assert payload.value["description"] == ""
    assert payload.value["skills"][0]["tags"] == []
    places = {place for found in places_in(payload).values() for place in found}
    assert not places & {"/description", "/skills/0/tags"}
    # Rule 1 drops scopes that are not REQUIRED, and these stand in a security member.
    scopes = "/securityRequirements/0/schemes/harbour/list"
    assert left_open(card, SCOPE) == {"/x-berth", scopes}


@pytest.mark.needs_shared
def test_the_vectors_that_name_the_reading(shared: Path) -> None:
    """Their bytes where the reading accepts, other bytes where it rejects."""
    folder = shared / "corpus" / "vectors" / "a2a-card-sign-v01"
    accepts = {}
    for path in sorted(folder.glob("*/*.json")):
        vector = json.loads(path.read_bytes())
        if SCOPE in vector.get("accept_under", []) + vector.get("reject_under", []):
            same = (
                canonicalize(vector["served_card"], SCOPE).data.hex()
                == vector["canonical_utf8_hex"]
            )
            assert same is (SCOPE in vector["accept_under"]), path.name
            accepts[vector["id"]] = same
    assert (len(accepts), sum(accepts.values())) == (11, 5)


# ------------------------------------------------------------------ a2a-sdk 0.3

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
KEPT_0_3 = without(CARD_0_3, "/skills")
TOKEN = {"tokenUrl": "t", "refreshUrl": "r", "scopes": {"a": "b"}}
FLOWS = {
    "authorizationCode": {"authorizationUrl": "u", **TOKEN},
    "clientCredentials": TOKEN,
    "implicit": {"authorizationUrl": "u", **without(TOKEN, "/tokenUrl")},
    "password": TOKEN,
}

SDK_0_3_ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "declared defaults go": ({"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}, {}),
    "other values stay": (
        {"protocolVersion": "0.2.6", "preferredTransport": "GRPC"},
        {"protocolVersion": "0.2.6", "preferredTransport": "GRPC"},
    ),
    "null and empties go, unknown members too": (
        {
            "provider": None,
            "iconUrl": "",
            "security": [{"a": []}],
            "x": 1,
            "supportedInterfaces": [1],
        },
        {},
    ),
    "a scheme loses its type alone": (
        {"securitySchemes": {"a": {"type": "apiKey", "in": "header", "name": "k", "x": 1}}},
        {"securitySchemes": {"a": {"in": "header", "name": "k"}}},
    ),
    "each flow stays": (
        {"securitySchemes": {"a": {"type": "oauth2", "flows": FLOWS, "oauth2MetadataUrl": "m"}}},
        {"securitySchemes": {"a": {"flows": FLOWS, "oauth2MetadataUrl": "m"}}},
    ),
    "one of mutual TLS is nothing then": ({"securitySchemes": {"a": {"type": "mutualTLS"}}}, {}),
    "and so is a 1.0 wrapper": (
        {"securitySchemes": {"a": {"httpAuthSecurityScheme": {"scheme": "b"}}}},
        {},
    ),
    "without type the kind that sets most decides": (
        {"securitySchemes": {"a": {"scheme": "b", "bearerFormat": "c", "openIdConnectUrl": "u"}}},
        {"securitySchemes": {"a": {"scheme": "b", "bearerFormat": "c"}}},
    ),
    "counting what is below": (
        {
            "securitySchemes": {
                "a": {
                    "scheme": "b",
                    "bearerFormat": "c",
                    "flows": {"password": {"tokenUrl": "t", "scopes": {}}},
                }
            }
        },
        {"securitySchemes": {"a": {"flows": {"password": {"tokenUrl": "t"}}}}},
    ),
    "among equals the first": (
        {"securitySchemes": {"a": {"openIdConnectUrl": "u", "scheme": "b"}}},
        {"securitySchemes": {"a": {"scheme": "b"}}},
    ),
    "but an API key last": (
        {
            "securitySchemes": {
                "a": {"in": "query", "name": "k", "scheme": "b", "bearerFormat": "c"}
            }
        },
        {"securitySchemes": {"a": {"scheme": "b", "bearerFormat": "c"}}},
    ),
    "a truth value may be spelt otherwise": (
        {"capabilities": {"streaming": "Yes", "pushNotifications": 0.0}},
        {"capabilities": {"streaming": True, "pushNotifications": False}},
    ),
    "Python's own names are read": (
        {
            "icon_url": "i",
            "securitySchemes": {"a": {"type": "apiKey", "in_": "query", "name": "k"}},
        },
        {"iconUrl": "i", "securitySchemes": {"a": {"in": "query", "name": "k"}}},
    ),
    "a skill keeps its requirements": (
        {
            "skills": [
                {"id": "i", "name": "", "description": "d", "tags": [], "security": [{"a": ["b"]}]}
            ]
        },
        {"skills": [{"id": "i", "description": "d", "security": [{"a": ["b"]}]}]},
    ),
}


@pytest.mark.parametrize(("given", "differs"), SDK_0_3_ROWS.values(), ids=SDK_0_3_ROWS)
def test_what_a2a_sdk_0_3_signs(given: dict[str, Any], differs: dict[str, Any]) -> None:
    """Its models, without their defaults, without empties."""
    assert made({**CARD_0_3, **given}, SDK_0_3) == {**KEPT_0_3, **differs}


REFUSED_BY_0_3: dict[str, tuple[str, Any, str]] = {
    "a number for a name": ("/name", 1, "/name"),
    "null for what is REQUIRED": ("/url", None, "/url"),
    "null for an optional list's element": ("/security", [None], "/security/0"),
    "a list for scopes that is none": ("/security", [{"a": "b"}], "/security/0/a"),
    "an object for a list": ("/skills", {}, "/skills"),
    "a list for an object": ("/capabilities", [], "/capabilities"),
    "an object for a map": ("/securitySchemes", [], "/securitySchemes"),
    "a number for truth": ("/capabilities/streaming", 2, "/capabilities/streaming"),
    "a word for truth": ("/capabilities/streaming", "perhaps", "/capabilities/streaming"),
    "an extension without uri": ("/capabilities/extensions", [{}], "/capabilities/extensions/0"),
    "parameters that are no object": (
        "/capabilities/extensions",
        [{"uri": "u", "params": []}],
        "/capabilities/extensions/0/params",
    ),
    "a scheme of unknown type": (
        "/securitySchemes",
        {"a": {"type": "x", "scheme": "b"}},
        "/securitySchemes/a",
    ),
    "a scheme whose type is null": (
        "/securitySchemes",
        {"a": {"type": None}},
        "/securitySchemes/a",
    ),
    "an API key in an unknown place": (
        "/securitySchemes",
        {"a": {"type": "apiKey", "in": "body", "name": "k"}},
        "/securitySchemes/a",
    ),
}


@pytest.mark.parametrize(("pointer", "value", "where"), REFUSED_BY_0_3.values(), ids=REFUSED_BY_0_3)
def test_what_a2a_sdk_0_3_does_not_take(pointer: str, value: Any, where: str) -> None:
    """No payload, and the place is named."""
    with pytest.raises(CanonicalizationError) as caught:
        canonicalize(put(CARD_0_3, pointer, value), SDK_0_3)
    assert (caught.value.code, caught.value.path) == ("canonical.no_form", where)


@pytest.mark.parametrize("member", sorted(CARD_0_3))
def test_every_required_member_is_demanded(member: str) -> None:
    """None of them has a default."""
    with pytest.raises(CanonicalizationError, match=f"REQUIRED {member} is missing"):
        canonicalize(without(CARD_0_3, f"/{member}"), SDK_0_3)


# ------------------------------------------------------------------ how Python writes

NUMBERS = {"a": 1, "b": 1.0, "c": 1e-7, "d": 1e21, "e": -0.0, "f": True, "g": [0.1, 100]}


@pytest.mark.parametrize(
    ("profile", "written"),
    [
        (SDK_0_3, '{"a":1,"b":1.0,"c":1e-07,"d":1e+21,"e":-0.0,"f":true,"g":[0.1,100]}'),
        (LEGACY, '{"a":1.0,"b":1.0,"c":1e-07,"d":1e+21,"e":-0.0,"f":true,"g":[0.1,100.0]}'),
        (JS, '{"a":1,"b":1,"c":1e-7,"d":1e+21,"e":0,"f":true,"g":[0.1,100]}'),
    ],
)
def test_numbers_are_written_as_the_sdk_writes_them(profile: str, written: str) -> None:
    """By `repr`, after protobuf as doubles, or by RFC 8785."""
    extension = {"uri": "u", "params": NUMBERS}
    data = canonicalize(put(CARD_0_3, "/capabilities/extensions", [extension]), profile).data
    assert f'"params":{written}'.encode() in data


@pytest.mark.parametrize("profile", [SDK_0_3, LEGACY])
def test_python_writes_ascii_in_the_order_of_code_points(profile: str) -> None:
    """Where RFC 8785 writes UTF-8 in the order of UTF-16 units."""
    params = {"\uffff": "\x7f", "\U0001f30a": "\u20ac"}
    card = put(CARD_0_3, "/capabilities/extensions", [{"uri": "u", "params": params}])

    written = rb'{"\uffff":"\u007f","\ud83c\udf0a":"\u20ac"}'
    assert written in canonicalize(card, profile).data
    assert '{"\U0001f30a":"\u20ac","\uffff":"\x7f"}'.encode() in canonicalize(card, JS).data


@pytest.mark.parametrize("profile", [SDK_0_3, LEGACY])
def test_python_cannot_sign_an_empty_card(profile: str) -> None:
    """It writes null; JavaScript writes {}."""
    card: dict[str, Any] = {
        **dict.fromkeys(CARD_0_3, ""),
        **{"skills": [], "defaultInputModes": [], "defaultOutputModes": [], "capabilities": {}},
    }
    with pytest.raises(CanonicalizationError, match="nothing of the card is left"):
        canonicalize(card, profile)
    assert canonicalize({}, JS).data == b"{}"


def test_the_legacy_profile_is_prune_empty_upgraded_in_other_bytes() -> None:
    """The same object, and on ASCII without numbers the same bytes."""
    for card in (PORTABLE, LAX, OLD, DUAL):
        upgraded = canonicalize(card, "prune-empty-upgraded")
        assert canonicalize(card, LEGACY).data == upgraded.data
    other = put(OLD, "/name", "\u20ac")
    upgraded, legacy = (canonicalize(other, name) for name in ("prune-empty-upgraded", LEGACY))
    assert (legacy.value, places_in(legacy)) == (
        upgraded.value,
        places_in(upgraded),
    )
    assert legacy.data != upgraded.data


# ------------------------------------------------------------------ @a2a-js/sdk's client

INTERFACE = {"url": "u", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
OF_0_3: dict[str, Any] = {
    "url": "u",
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}
HTTP = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}

JS_ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "security schemes are lost": ({"name": "n", "securitySchemes": {"a": HTTP}}, {"name": "n"}),
    "unless the first has a type": (
        {"securitySchemes": {"a": {**HTTP, "type": "http"}, "b": HTTP}},
        {"securitySchemes": {"a": HTTP, "b": HTTP}},
    ),
    "requirements stay": (
        {"securityRequirements": [{"schemes": {"a": {"list": ["r"], "x": 1}}}]},
        {"securityRequirements": [{"schemes": {"a": {"list": ["r"]}}}]},
    ),
    "a 1.0 requirement by its 0.3 name makes an instance as well": (
        {"security": [{"schemes": {}}], "security_schemes": {"a": HTTP}},
        {},
    ),
    "without it the protobuf spelling keeps them": (
        {"security_schemes": {"a": HTTP}},
        {"securitySchemes": {"a": HTTP}},
    ),
    "of two schemes in one the first counts": (
        {"security_schemes": {"a": {"mtlsSecurityScheme": {"description": "d"}, **HTTP}}},
        {"securitySchemes": {"a": HTTP}},
    ),
    "a url becomes the first interface": (OF_0_3, {"supportedInterfaces": [INTERFACE]}),
    "with its own version, which the others do not get": (
        {
            **OF_0_3,
            "protocolVersion": "0.3.0",
            "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "v", "transport": "REST"}],
        },
        {
            "supportedInterfaces": [
                {"url": "u", "protocolBinding": "GRPC", "protocolVersion": "0.3.0"},
                {"url": "v", "protocolBinding": "REST", "protocolVersion": "0.3"},
            ]
        },
    ),
    "the schemes of a 0.3 card are lost, its requirements stay": (
        {
            **OF_0_3,
            "securitySchemes": {"a": {"type": "http", "scheme": "b"}},
            "security": [{"a": ["r"]}],
            "skills": [{"id": "i", "tags": ["t"], "security": [{"a": []}]}],
            "supportsAuthenticatedExtendedCard": True,
        },
        {
            "supportedInterfaces": [INTERFACE],
            "securityRequirements": [{"schemes": {"a": {"list": ["r"]}}}],
            "skills": [{"id": "i", "tags": ["t"]}],
            "capabilities": {"extendedAgentCard": True},
        },
    ),
    "0.3 members beside interfaces are dropped": (
        {**OF_0_3, "supportedInterfaces": [{"url": "w"}]},
        {"supportedInterfaces": [{"url": "w"}]},
    ),
    "beside an empty list of them they are not": (
        {**OF_0_3, "protocolVersion": "0.9", "supportedInterfaces": []},
        {"supportedInterfaces": [{**INTERFACE, "protocolVersion": "0.9"}]},
    ),
    "0.2 is no 0.3": ({"protocolVersion": "0.2", "name": "n"}, {"name": "n"}),
    "a number becomes a text, and a list too": (
        {"name": 1e21, "description": [None, True, [1, {}]]},
        {"name": "1e+21", "description": ",true,1,[object Object]"},
    ),
    "any value has a truth": (
        {"capabilities": {"streaming": "no", "pushNotifications": 0, "extendedAgentCard": []}},
        {
            "capabilities": {
                "streaming": True,
                "pushNotifications": False,
                "extendedAgentCard": True,
            }
        },
    ),
    "what is no list is an empty one": ({"name": "n", "skills": {"0": {}}}, {"name": "n"}),
    "what is no object is an empty one": ({"name": "n", "provider": 7}, {"name": "n"}),
    "null in a list of texts is a text": (
        {"defaultInputModes": [None]},
        {"defaultInputModes": ["null"]},
    ),
    "parameters may be a list": (
        {"capabilities": {"extensions": [{"params": [1, None]}, {"params": "x"}]}},
        {"capabilities": {"extensions": [{"params": [1]}]}},
    ),
    "a member named __proto__ disappears": (
        {"name": "n", "capabilities": {"extensions": [{"params": {"__proto__": {"a": 1}}}]}},
        {"name": "n"},
    ),
}


@pytest.mark.parametrize(("card", "payload"), JS_ROWS.values(), ids=JS_ROWS)
def test_what_the_client_of_a2a_js_verifies(card: dict[str, Any], payload: dict[str, Any]) -> None:
    """Its resolver's rewriting, and JavaScript's values."""
    assert made(card, JS) == payload


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
    assert "/capabilities/streaming" in left_open(put(OLD, "/capabilities/streaming", 1), SDK_0_3)
