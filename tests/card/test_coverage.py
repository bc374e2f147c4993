"""Coverage: what a payload does not hold, and the closed table of what that excuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cardsign.card.profiles import (
    DEFAULT_PROFILES,
    Excuse,
    Uncovered,
    canonicalize,
)
from tests.support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS, put, without

DEFAULT = Excuse.SCHEMA_DEFAULT
SAME = Excuse.SAME_AS_1_0
BY_VALUE = Excuse.DROPPED_BY_VALUE


def parts(card: Mapping[str, Any], profile: str) -> tuple[Uncovered, ...]:
    """What the card's own payload under a profile does not hold."""
    return canonicalize(card, profile).uncovered


def excuses(
    card: Mapping[str, Any], profile: str, *, accept_lossy: bool = False
) -> dict[str, Excuse | None]:
    """Each uncovered pointer with its excuse, for one who accepts lossy profiles or does not."""
    passed = set(Excuse) if accept_lossy else {DEFAULT, SAME}
    return {
        part.pointer: part.excuse if part.excuse in passed else None
        for part in parts(card, profile)
    }


CARDS = {"portable": PORTABLE, "lax": LAX, "of 0.3": OLD, "for both": DUAL, "empty": {}}


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_served_as_is_covers_everything(card: dict[str, Any]) -> None:
    """The whole document but its signatures is signed."""
    assert parts({**card, "signatures": [{"x": 1}]}, "served-as-is") == ()


@pytest.mark.parametrize("profile", DEFAULT_PROFILES)
def test_every_profile_covers_a_portable_card(profile: str) -> None:
    """One payload for all, so nothing is left open under any."""
    assert parts(PORTABLE, profile) == ()


def test_the_upgrade_covers_what_it_moves() -> None:
    """A 0.3 card whose every member finds a place in 1.0 has nothing uncovered."""
    assert parts(OLD, "prune-empty-upgraded") == ()


# ------------------------------------------------------------------ where it stands

#: Where what is put into PORTABLE; what is uncovered, if not that; the profile if not prune-empty.
PLACES: dict[str, tuple[Any, ...]] = {
    "an unknown member": ("/x", 1),
    "the topmost value, not its leaves": ("/x", {"a": [{"b": 1}]}),
    "an unknown member of a message": ("/provider/x", 1),
    "one of a message in a list": ("/skills/0/x", 1),
    "one of a message in a map": ("/securitySchemes/harbour/x", 1),
    "one deep in a requirement": ("/securityRequirements/0/schemes/harbour/x", 1),
    "a name that needs escapes": ("/a~1b~0c", 1),
    "the empty name": ("/", 1),
    "an empty element first": ("/skills", [{}, *PORTABLE["skills"]], ["/skills/0"]),
    "an empty text first": (
        "/skills/0/tags",
        ["", "sea", ""],
        ["/skills/0/tags/0", "/skills/0/tags/2"],
    ),
    "an empty interface first": (
        "/supportedInterfaces",
        [{}, *PORTABLE["supportedInterfaces"]],
        ["/supportedInterfaces/0"],
    ),
    "an element with nothing known in it": (
        "/skills",
        [{"inputSchema": {}}, *PORTABLE["skills"]],
        ["/skills/0"],
    ),
    "an empty value in free-form content": (
        "/capabilities/extensions",
        [{"uri": "u", "params": {"a": 1, "b": "", "c": [[], 2]}}],
        ["/capabilities/extensions/0/params/b", "/capabilities/extensions/0/params/c/0"],
    ),
    "0.3 members beside 1.0 ones": ("/url", "https://a.example", ["/url"], "prune-empty-upgraded"),
    "a flag that counts by its truth": (
        "/supportsAuthenticatedExtendedCard",
        "yes",
        ["/supportsAuthenticatedExtendedCard"],
        "prune-empty-upgraded",
    ),
    "a scheme of unknown type": (
        "/securitySchemes/harbour/type",
        "palm reading",
        ["/securitySchemes/harbour/type"],
        "prune-empty-upgraded",
    ),
    "the wrapper beside a type": (
        "/securitySchemes/harbour",
        {"type": "http", "scheme": "Basic", "httpAuthSecurityScheme": {"scheme": "Bearer"}},
        ["/securitySchemes/harbour/httpAuthSecurityScheme"],
        "prune-empty-upgraded",
    ),
    "a wrapper that is null beside an unknown one": (
        "/securitySchemes/harbour",
        {"palmReading": {}, "mtlsSecurityScheme": None},
        ["/securitySchemes/harbour/mtlsSecurityScheme"],
        "rule-1-as-written",
    ),
    "a respelled name": ("/iconURL", "https://a.example"),
}


@pytest.mark.parametrize("row", PLACES.values(), ids=PLACES)
def test_place(row: tuple[Any, ...]) -> None:
    """Exactly what was put in, and nothing else, is uncovered and without excuse."""
    pointer, value, *others = row
    uncovered = others[0] if others else [pointer]
    profile = others[1] if len(others) > 1 else "prune-empty"

    assert excuses(put(PORTABLE, pointer, value), profile) == dict.fromkeys(uncovered)


def test_the_protobuf_spelling_is_covered_where_it_is_read() -> None:
    """prune-empty reads snake_case as the field itself, so it is in the payload."""
    card = put(without(PORTABLE, "/defaultInputModes"), "/default_input_modes", ["text/plain"])

    assert parts(card, "prune-empty") == ()
    assert canonicalize(card, "prune-empty").data == canonicalize(PORTABLE, "prune-empty").data


# ------------------------------------------------------------------ row (i): schema defaults

DEFAULTS: dict[str, tuple[str, Any, Excuse | None]] = {
    "an empty text": ("/supportedInterfaces/0/tenant", "", DEFAULT),
    "an empty list": ("/skills/0/examples", [], DEFAULT),
    "false where presence is not tracked": (
        "/capabilities/extensions",
        [{"uri": "u", "required": False}],
        DEFAULT,
    ),
    "null in a schema member": ("/provider", None, DEFAULT),
    "null in a required member": ("/version", None, DEFAULT),
    "no requirements": ("/securityRequirements", [], None),
    "a null requirement": ("/securityRequirements", None, None),
    "no requirements of a skill": ("/skills/0/securityRequirements", [], None),
    "no schemes": ("/securitySchemes", {}, None),
    "an empty text in a scheme": (
        "/securitySchemes/harbour/httpAuthSecurityScheme/bearerFormat",
        "",
        None,
    ),
    "no scopes": ("/securityRequirements/0/schemes/harbour/list", [], None),
}


@pytest.mark.parametrize(("pointer", "value", "excuse"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_schema_default(pointer: str, value: Any, excuse: Excuse | None) -> None:
    """What rule 1 drops leaves nothing open, but for the members that say who may call."""
    found = parts(put(PORTABLE, pointer, value), "rule-1-as-written")

    assert [part.excuse for part in found] == [excuse]
    assert found[0].pointer.startswith(pointer)
    assert found[0].security == (excuse is None)


@pytest.mark.parametrize("value", [[], None], ids=["empty", "null"])
@pytest.mark.parametrize("name", ["inputModes", "outputModes"])
def test_no_modes_are_not_the_default_modes(name: str, value: Any) -> None:
    """A skill without them has the card's; whoever reads `[]` takes it for none (S11)."""
    pointer = f"/skills/0/{name}"
    added = put(PORTABLE, pointer, value)

    assert excuses(added, "rule-1-as-written") == {pointer: None}
    assert excuses(added, "prune-empty") == {pointer: None}
    assert excuses(added, "prune-empty", accept_lossy=True) == {pointer: BY_VALUE}
    assert parts(added, "served-as-is") == ()


KEPT_BY_RULE_1: dict[str, tuple[str, Any]] = {
    "an empty required text": ("/description", ""),
    "an empty required list": ("/skills/0/tags", []),
    "an empty optional text": ("/iconUrl", ""),
    "an optional false": ("/capabilities/streaming", False),
    "an empty message": ("/provider", {}),
    "an unknown empty": ("/x", []),
    "an unknown null": ("/x", None),
    "a null in a list": ("/skills/0/tags", [None]),
    "an empty in free-form content": (
        "/capabilities/extensions",
        [{"uri": "u", "params": {"a": None, "b": []}}],
    ),
    "the protobuf spelling of a default": ("/skills/0/input_modes", []),
    "a 0.3 member": ("/additionalInterfaces", []),
}


@pytest.mark.parametrize(("pointer", "value"), KEPT_BY_RULE_1.values(), ids=KEPT_BY_RULE_1)
def test_rule_1_keeps(pointer: str, value: Any) -> None:
    """The twin: what rule 1 keeps is covered, so no excuse is needed."""
    assert parts(put(PORTABLE, pointer, value), "rule-1-as-written") == ()


NO_DEFAULTS: dict[str, tuple[str, Any]] = {
    "an empty REQUIRED text": ("/description", ""),
    "an empty optional text": ("/iconUrl", ""),
    "an unknown empty": ("/x", ""),
    "an unknown null": ("/x", None),
    "a false of 0.3": ("/capabilities/stateTransitionHistory", False),
    "an empty transport of 0.3, whose default is JSONRPC": ("/preferredTransport", ""),
}


@pytest.mark.parametrize(("pointer", "value"), NO_DEFAULTS.values(), ids=NO_DEFAULTS)
def test_what_is_no_default_is_not_excused(pointer: str, value: Any) -> None:
    """The twin for lossy profiles: dropped, but no default of the 1.0 schema."""
    assert excuses(put(PORTABLE, pointer, value), "prune-empty") == {pointer: None}


def test_a_null_of_0_3_is_absent() -> None:
    """null in a schema member of either generation says what its absence says."""
    assert excuses({**PORTABLE, "url": None}, "prune-empty") == {"/url": DEFAULT}


# ------------------------------------------------------------------ SAME_AS_1_0: 0.3 says the same


def test_a_document_for_both_generations_says_one_thing() -> None:
    """Every 0.3 member is dropped by prune-empty, and excused for what it repeats."""
    assert excuses(DUAL, "prune-empty") == {
        "/securitySchemes/harbour/type": SAME,
        "/securitySchemes/harbour/scheme": SAME,
        "/skills/0/security": SAME,
        "/url": SAME,
        "/preferredTransport": SAME,
        "/protocolVersion": SAME,
        "/additionalInterfaces": SAME,
        "/supportsAuthenticatedExtendedCard": SAME,
        "/security": SAME,
    }


CONNECTION = ("/url", "/preferredTransport", "/protocolVersion")
OAUTH_1_0 = {
    "description": "By the harbour",
    "flows": {
        "authorizationCode": {
            "authorizationUrl": "https://tides.example/auth",
            "tokenUrl": "https://tides.example/token",
            "scopes": {"read": "Read"},
            "pkceRequired": True,
        }
    },
}

SAYS_THE_SAME: dict[str, tuple[str, Any]] = {
    "the patch number of the version": ("/protocolVersion", "0.3.7"),
    "the version without patch number": ("/protocolVersion", "0.3"),
    "no additional interfaces": ("/additionalInterfaces", []),
    "the main one among the additional": (
        "/additionalInterfaces",
        [{"url": "https://tides.example/old", "transport": "JSONRPC"}],
    ),
    "an API key": (
        "/securitySchemes/harbour",
        {
            "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
            "type": "apiKey",
            "in": "header",
            "name": "X-Key",
        },
    ),
    "OAuth": (
        "/securitySchemes/harbour",
        {"oauth2SecurityScheme": OAUTH_1_0, "type": "oauth2", **OAUTH_1_0},
    ),
    "OpenID Connect": (
        "/securitySchemes/harbour",
        {
            "openIdConnectSecurityScheme": {"openIdConnectUrl": "https://tides.example/oidc"},
            "type": "openIdConnect",
            "openIdConnectUrl": "https://tides.example/oidc",
        },
    ),
    "mutual TLS": (
        "/securitySchemes/harbour",
        {
            "mtlsSecurityScheme": {"description": "Ours"},
            "type": "mutualTLS",
            "description": "Ours",
        },
    ),
    "only part of a flat scheme": (
        "/securitySchemes/harbour",
        {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http"},
    ),
}


@pytest.mark.parametrize(("pointer", "value"), SAYS_THE_SAME.values(), ids=SAYS_THE_SAME)
def test_a_0_3_member_that_says_the_same(pointer: str, value: Any) -> None:
    """Another way to say what the covered 1.0 data says is excused too."""
    found = excuses(put(DUAL, pointer, value), "prune-empty")

    assert found
    assert set(found.values()) <= {SAME, DEFAULT}


@pytest.mark.parametrize("pointer", ["/preferredTransport", "/protocolVersion"])
@pytest.mark.parametrize("absent", ["missing", "null"])
def test_a_connection_may_leave_out_what_has_a_default(pointer: str, absent: str) -> None:
    """Without transport it is JSONRPC; the version is that of the interface."""
    card = without(DUAL, pointer) if absent == "missing" else put(DUAL, pointer, None)

    assert excuses(card, "prune-empty")["/url"] is SAME


#: As a2a-sdk's server publishes an interface that was made without a protocol_version.
WITHOUT_VERSION = without(DUAL, "/supportedInterfaces/0/protocolVersion")


def test_an_interface_without_a_version_is_repeated_as_one_of_0_3() -> None:
    """Nothing new is said, as long as the connection is its own and of 0.3."""
    assert excuses(WITHOUT_VERSION, "prune-empty") == excuses(DUAL, "prune-empty")
    for pointer, value in {
        "/url": "https://evil.example/old",
        "/preferredTransport": "GRPC",
        "/protocolVersion": "0.2.6",
    }.items():
        found = excuses(put(WITHOUT_VERSION, pointer, value), "prune-empty", accept_lossy=True)
        assert tuple(where for where, excuse in found.items() if excuse is None) == CONNECTION


#: What is put into DUAL where, and what fails for it if not that alone.
SAYS_OTHERWISE: dict[str, tuple[Any, ...]] = {
    "another url": ("/url", "https://evil.example/old", CONNECTION),
    "the url of another interface": ("/url", "https://tides.example/rest", CONNECTION),
    "another transport": ("/preferredTransport", "HTTP+JSON", CONNECTION),
    "an empty transport": ("/preferredTransport", "", CONNECTION),
    "another minor version": ("/protocolVersion", "0.2.6", CONNECTION),
    "the current version": ("/protocolVersion", "1.0", CONNECTION),
    "a patch number that is none": ("/protocolVersion", "0.3.x", CONNECTION),
    "a version that is a number": ("/protocolVersion", 0.3, CONNECTION),
    "an interface of 1.0 with the same url": (
        *("/supportedInterfaces/0/protocolVersion", "1.0"),
        CONNECTION,
    ),
    "an interface of 1.0 like the additional one": (
        *("/supportedInterfaces/1/protocolVersion", "1.0"),
        ("/additionalInterfaces",),
    ),
    "an additional interface elsewhere": (
        "/additionalInterfaces",
        [{"url": "https://evil.example", "transport": "HTTP+JSON"}],
    ),
    "one more additional interface": (
        "/additionalInterfaces",
        [*DUAL["additionalInterfaces"], {"url": "https://evil.example", "transport": "GRPC"}],
    ),
    "an additional interface by another transport": (
        "/additionalInterfaces",
        [{"url": "https://tides.example/rest", "transport": "GRPC"}],
    ),
    "an additional interface with a member more": (
        "/additionalInterfaces",
        [{"url": "https://tides.example/rest", "transport": "HTTP+JSON", "x": 1}],
    ),
    "an additional interface whose url is a list": (
        "/additionalInterfaces",
        [{"url": ["https://tides.example/rest"], "transport": {}}],
    ),
    "no extended card": ("/supportsAuthenticatedExtendedCard", False),
    "an extended card by a number": ("/supportsAuthenticatedExtendedCard", 1),
    "no requirement": ("/security", []),
    "a requirement without scopes": ("/security", [{"harbour": []}]),
    "a requirement or none": ("/security", [{"harbour": ["read"]}, {}]),
    "another scope": ("/security", [{"harbour": ["write"]}]),
    "a null requirement": ("/security", None),
    "no requirement of a skill": ("/skills/0/security", []),
    "another scope of a skill": ("/skills/0/security", [{"harbour": ["write"]}]),
    "a scheme of another type": ("/securitySchemes/harbour/type", "oauth2"),
    "another scheme": ("/securitySchemes/harbour/scheme", "Basic"),
    "a flat member that 1.0 has not": ("/securitySchemes/harbour/bearerFormat", "JWT"),
    "an unknown flat member": ("/securitySchemes/harbour/x", "y"),
    "an empty member of a flat scheme": ("/securitySchemes/harbour/description", ""),
    "the number 1 for true in a flow": (
        "/securitySchemes/harbour",
        {
            "oauth2SecurityScheme": OAUTH_1_0,
            "flows": put(OAUTH_1_0, "/flows/authorizationCode/pkceRequired", 1)["flows"],
        },
        ("/securitySchemes/harbour/flows",),
    ),
    "a flat scheme alone": ("/securitySchemes/wind", {"type": "http", "scheme": "Basic"}),
    "a member where 0.3 has none": ("/skills/0/url", "https://tides.example/old"),
}


@pytest.mark.parametrize("row", SAYS_OTHERWISE.values(), ids=SAYS_OTHERWISE)
def test_a_0_3_member_that_says_otherwise(row: tuple[Any, ...]) -> None:
    """The twin of each row: it fails, with whatever must be judged as one with it."""
    pointer, value, *failing = row
    found = excuses(put(DUAL, pointer, value), "prune-empty", accept_lossy=True)

    unexcused = tuple(where for where, excuse in found.items() if excuse is None)
    assert unexcused == (failing[0] if failing else (pointer,))


WITHOUT_1_0: dict[str, tuple[str, tuple[str, ...]]] = {
    "no 0.x interface for the connection": ("/supportedInterfaces/0", CONNECTION),
    "no interface for the additional one": ("/supportedInterfaces/1", ("/additionalInterfaces",)),
    "no requirements": ("/securityRequirements", ("/security",)),
    "no requirements of the skill": ("/skills/0/securityRequirements", ("/skills/0/security",)),
    "no extended card": (
        "/capabilities/extendedAgentCard",
        ("/supportsAuthenticatedExtendedCard",),
    ),
    "no wrapper": (
        "/securitySchemes/harbour/httpAuthSecurityScheme",
        ("/securitySchemes",),
    ),
}


@pytest.mark.parametrize(("pointer", "failing"), WITHOUT_1_0.values(), ids=WITHOUT_1_0)
def test_without_the_1_0_data_nothing_is_repeated(pointer: str, failing: tuple[str, ...]) -> None:
    """A 0.3 member is excused for what the payload says, not for being there."""
    found = excuses(without(DUAL, pointer), "prune-empty")

    assert tuple(where for where, excuse in found.items() if excuse is None) == failing


def test_only_covered_1_0_data_counts() -> None:
    """The document's own scope-less requirement is not in the payload, so it excuses nothing."""
    card = put(DUAL, "/securityRequirements/0/schemes/harbour/list", [])
    card = put(card, "/security", [{"harbour": []}])

    found = excuses(card, "prune-empty", accept_lossy=True)

    assert found["/securityRequirements"] is BY_VALUE
    assert found["/security"] is None


def test_a_skill_is_compared_with_itself() -> None:
    """Pruning shifts list indices; the skill's own place in the payload is what counts."""
    free = {"id": "free", "name": "Free", "description": "-", "tags": ["x"]}
    card = put(DUAL, "/skills", [{}, DUAL["skills"][0], free])
    swapped = put(card, "/skills", [{}, without(DUAL, "/skills/0/security")["skills"][0],
                                    {**free, "security": [{"harbour": ["read"]}]}])  # fmt: skip

    assert excuses(card, "prune-empty")["/skills/1/security"] is SAME
    assert excuses(swapped, "prune-empty")["/skills/2/security"] is None


# ------------------------------------------------------------------ an accepted lossy profile

BY_VALUE_ROWS: dict[str, tuple[Any, ...]] = {
    "an empty REQUIRED text": ("/description", ""),
    "an empty optional text": ("/iconUrl", ""),
    "an empty message": ("/provider", {}),
    "a message of empties": ("/provider", {"url": "", "organization": ""}),
    "a scope-less requirement": ("/securityRequirements", [{"schemes": {"harbour": {"list": []}}}]),
    "an empty requirement": ("/securityRequirements", [{}]),
    "one scope-less requirement of two": ("/securityRequirements/0/schemes/wind", {"list": []}),
    "an empty scheme": ("/securitySchemes/tls", {"mtlsSecurityScheme": {}}),
    "an empty element": ("/skills", [{}, *PORTABLE["skills"]], "/skills/0"),
    "an empty text in a list": ("/skills/0/tags", ["", "sea"], "/skills/0/tags/0"),
    "hollow free-form content": (
        "/capabilities/extensions",
        [{"uri": "u", "params": {"a": {"b": [None, ""]}}}],
        "/capabilities/extensions/0/params",
    ),
    **{
        f"an empty beside others in free-form content, {where}": (
            "/capabilities/extensions",
            [{"uri": "u", "params": params}],
            f"/capabilities/extensions/0/params/{where}",
        )
        for where, params in {
            "e": {"n": 1, "e": ""},
            "c/0": {"c": [{"d": []}, 2]},
            "a/b/1": {"a": {"b": [1, {"d": None}], "type": False}},
        }.items()
    },
    "the protobuf spelling of an empty": ("/icon_url", ""),
}


@pytest.mark.parametrize("row", BY_VALUE_ROWS.values(), ids=BY_VALUE_ROWS)
def test_what_a_lossy_profile_drops_by_value(row: tuple[Any, ...]) -> None:
    """Excused where the subject's policy accepts the profile, and only there."""
    pointer, value, *dropped = row
    where = dropped[0] if dropped else pointer
    card = put(PORTABLE, pointer, value)

    assert excuses(card, "prune-empty", accept_lossy=True) == {where: BY_VALUE}
    assert excuses(card, "prune-empty", accept_lossy=False) == {where: None}


BY_NAME_ROWS: dict[str, tuple[str, Any]] = {
    "an unknown member": ("/x", 1),
    "an empty unknown member": ("/x", {}),
    "an unknown member of a message": ("/provider/x", ""),
    "an unknown member of a skill": ("/skills/0/x", []),
    "a 0.3 member": ("/url", "https://tides.example/a2a"),
    "an empty 0.3 member": ("/security", []),
    "a 0.3 member of a skill": ("/skills/0/security", []),
    "a member by another case": ("/iconURL", ""),
    "a text where a message belongs": ("/provider", "nobody"),
}


@pytest.mark.parametrize(("pointer", "value"), BY_NAME_ROWS.values(), ids=BY_NAME_ROWS)
def test_what_a_lossy_profile_drops_by_name(pointer: str, value: Any) -> None:
    """Never excused: its signer did not look at what is in it."""
    found = excuses(put(PORTABLE, pointer, value), "prune-empty", accept_lossy=True)

    assert found == {pointer: None}


def test_an_element_with_an_unknown_member_is_not_empty() -> None:
    """Dropped for its name, although nothing else is in it."""
    card = put(PORTABLE, "/skills", [{"x": ""}, *PORTABLE["skills"]])

    assert excuses(card, "prune-empty", accept_lossy=True) == {"/skills/0": None}


def test_accepting_a_lossy_profile_says_nothing_of_a_full_one() -> None:
    """What a full payload does not hold is judged by the first two rows alone."""
    card = put(PORTABLE, "/securityRequirements", [])

    assert excuses(card, "rule-1-as-written", accept_lossy=True) == {"/securityRequirements": None}


def test_the_table_is_closed() -> None:
    """A further excuse changes what `trusted` means: DESIGN, docs and this test change with it."""
    assert [excuse.name for excuse in Excuse] == [
        "SCHEMA_DEFAULT",
        "SAME_AS_1_0",
        "DROPPED_BY_VALUE",
    ]


def test_defaults_are_in_document_order() -> None:
    """Pointers come as a reader of the document meets them."""
    assert [part.pointer for part in parts(WITH_DEFAULTS, "rule-1-as-written")] == [
        "/supportedInterfaces/0/tenant",
        "/skills/0/examples",
    ]
