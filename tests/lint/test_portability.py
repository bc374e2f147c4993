"""The lint rules one by one: what breaks each, alone, and what comes close but is sound."""

from __future__ import annotations

from typing import Any

import pytest
from support import LAX, PORTABLE, pointers, put, without

from cardsign.findings import describe_code
from cardsign.lint.cards import RULES as ALL_RULES
from cardsign.lint.rules import describe_finding
from tests.unportable import unportable

RULES = {code for code in ALL_RULES if code.startswith("portable.")}

#: One of everything that a rule looks at, and portable.
FULL: dict[str, Any] = {
    **PORTABLE,
    "capabilities": {
        "streaming": True,
        "extensions": [
            {"uri": "https://tides.example/ext", "required": True, "params": {"a": [0, {"b": "c"}]}}
        ],
    },
    "securitySchemes": {
        "harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "tls": {"mtlsSecurityScheme": {"description": "Client certificates"}},
        "code": {
            "oauth2SecurityScheme": {
                "flows": {
                    "authorizationCode": {
                        "authorizationUrl": "https://tides.example/authorize",
                        "tokenUrl": "https://tides.example/token",
                        "scopes": {"read": "Read"},
                        "pkceRequired": True,
                    }
                }
            }
        },
    },
    "skills": [{**PORTABLE["skills"][0], "tags": ["sea", "moon"]}],
}
PARAMS = "/capabilities/extensions/0/params"
SCHEME = "/securitySchemes/harbour"
FLOWS = "/securitySchemes/code/oauth2SecurityScheme/flows"
REQUIREMENTS = "/securityRequirements"

# Rule, place, what breaks the rule there, what does not; `...` stands for absence.
BREACHES: dict[str, tuple[str, str, Any, Any]] = {
    "a vendor's member": ("unknown-member", "/x-berth", 4, ...),
    "a vendor's member that is null": ("unknown-member", "/x-berth", None, ...),
    "a vendor's member of a skill": ("unknown-member", "/skills/0/x", {"y": ""}, ...),
    "a 1.0 member in another message": ("unknown-member", "/organization", "o", ...),
    "another case": ("unknown-member", "/iconURL", "https://tides.example/", ...),
    "a 0.3 member": ("legacy-member", "/url", "https://tides.example", ...),
    "a 0.3 member that is null": ("legacy-member", "/url", None, ...),
    "a 0.3 capability": ("legacy-member", "/capabilities/stateTransitionHistory", True, ...),
    "a 0.3 requirement": ("legacy-member", "/skills/0/security", [{"harbour": ["read"]}], ...),
    "a 0.3 scheme's type": ("legacy-member", f"{SCHEME}/type", "http", ...),
    "the protobuf spelling": ("snake-case", "/icon_url", "https://tides.example/", ...),
    "the protobuf spelling below": (
        "snake-case",
        f"{SCHEME}/httpAuthSecurityScheme/bearer_format",
        "JWT",
        ...,
    ),
    "a null": ("null", "/documentationUrl", None, "https://tides.example/"),
    "a null that is REQUIRED": ("null", "/description", None, "d"),
    "a null flag": ("null", "/capabilities/streaming", None, False),
    "a default text": ("default", "/supportedInterfaces/0/tenant", "", "t"),
    "a default list": ("default", "/skills/0/examples", [], ["When?"]),
    "a default flag": ("default", "/capabilities/extensions/0/required", False, True),
    "an empty REQUIRED text": ("empty-value", "/description", "", " "),
    "an empty REQUIRED list": ("empty-value", "/skills/0/tags", [], ["sea"]),
    "an empty `optional` text": ("empty-value", "/iconUrl", "", "https://tides.example/"),
    "an empty message": ("empty-value", "/capabilities", {}, {"streaming": False}),
    "an empty message in a list": ("empty-value", "/skills/0", {}, {"id": "tides"}),
    "an empty element": ("empty-value", "/skills/0/tags/1", "", "tide"),
    "a null element": ("empty-value", "/skills/0/tags/1", None, "tide"),
    "empty params": ("empty-params", PARAMS, {}, {"": 0}),
    "a null in params": ("empty-params", f"{PARAMS}/a/1/b~0~1", None, False),
    "an empty element in params": ("empty-params", f"{PARAMS}/a/0", [], 0),
    "no scopes": ("empty-security", f"{REQUIREMENTS}/0/schemes/harbour/list", [], ["a"]),
    "no scopes, in short": (
        "empty-security",
        f"{REQUIREMENTS}/0/schemes/harbour",
        {},
        {"list": ["a"]},
    ),
    "a requirement of nothing": (
        "empty-security",
        f"{REQUIREMENTS}/0",
        {},
        {"schemes": {"code": {"list": ["read"]}}},
    ),
    "no requirements": ("empty-security", REQUIREMENTS, [], ...),
    "null requirements": ("empty-security", REQUIREMENTS, None, ...),
    "no requirements of a skill": ("empty-security", "/skills/0/securityRequirements", [], ...),
    "no schemes": ("empty-security", "/securitySchemes", {}, ...),
    "a scheme without members": (
        "empty-security",
        "/securitySchemes/tls/mtlsSecurityScheme",
        {},
        {"description": "d"},
    ),
    "a default in a scheme": (
        "empty-security",
        f"{FLOWS}/authorizationCode/pkceRequired",
        False,
        True,
    ),
    "an empty scope": ("empty-security", f"{FLOWS}/authorizationCode/scopes/read", "", "Read"),
    "a number for a text": ("wrong-type", "/name", 1, "1"),
    "a text for a flag": ("wrong-type", "/capabilities/streaming", "yes", True),
    "zero for a flag": ("wrong-type", "/capabilities/streaming", 0, False),
    "a text for a message": ("wrong-type", "/capabilities", "none", {"streaming": True}),
    "words for a message": ("wrong-type", "/capabilities", ["streaming"], {"streaming": True}),
    "an object for a list": ("wrong-type", "/skills", {}, [{"id": "tides"}]),
    "a list for a map": ("wrong-type", "/securitySchemes", [], ...),
    "a number among texts": ("wrong-type", "/skills/0/tags/1", 1, "1"),
    "params that are a list": ("wrong-type", PARAMS, ["a"], {"a": ["a"]}),
    "a second kind that is null": ("empty-security", f"{SCHEME}/mtlsSecurityScheme", None, ...),
    "two kinds of one scheme": (
        "oneof",
        f"{SCHEME}/mtlsSecurityScheme",
        {"description": "d"},
        ...,
    ),
    "two flows of one scheme": ("oneof", f"{FLOWS}/implicit", {"scopes": {"a": "A"}}, ...),
}


def _twin(card: dict[str, Any], at: str, sound: Any) -> dict[str, Any]:
    if sound is not ...:
        return put(card, at, sound)
    return without(card, at) if at in pointers(card) else card


@pytest.mark.parametrize(("rule", "at", "spoilt", "sound"), BREACHES.values(), ids=BREACHES)
def test_a_portable_rule(rule: str, at: str, spoilt: Any, sound: Any) -> None:
    """It fires once and alone, at that place; the twin is clean."""
    card, twin = put(FULL, at, spoilt), _twin(FULL, at, sound)

    assert [(one.code, one.path) for one in unportable(card)] == [(f"portable.{rule}", at)]
    assert unportable(twin) == ()


def test_every_rule_is_shown_to_fire() -> None:
    """The table above leaves none out."""
    assert {f"portable.{row[0]}" for row in BREACHES.values()} == set(RULES)


def test_signatures_are_not_looked_at() -> None:
    """Whatever stands there."""
    assert unportable({**PORTABLE, "signatures": [{"ü": None, "__proto__": 1}]}) == ()


def test_a_misspelled_member_is_told_its_name() -> None:
    """A near miss names what was meant; a far one does not."""
    near, far = (unportable(put(PORTABLE, at, "x"))[0].message for at in ("/IconURL", "/icons"))

    assert near.endswith("did you mean iconUrl?")
    assert "mean" not in far
    (old,) = unportable(put(PORTABLE, "/preferred_transport", "x"))
    told = "neither A2A 1.0 nor 0.3 defines this member here; did you mean preferredTransport?"
    assert old.message == told


def test_every_finding_of_a_card_is_there() -> None:
    """Several rules at once, in document order; nothing is said of what hangs below a stranger."""
    card = put(put(LAX, "/skills/0/icon", {"a": None}), "/capabilities/push_notifications", None)
    findings = [(one.code, one.path) for one in unportable(card)]

    assert findings == [
        ("portable.snake-case", "/capabilities/push_notifications"),
        ("portable.null", "/capabilities/push_notifications"),
        ("portable.empty-security", "/securityRequirements/0/schemes/harbour/list"),
        ("portable.default", "/skills/0/examples"),
        ("portable.unknown-member", "/skills/0/icon"),
        ("portable.empty-value", "/iconUrl"),
        ("portable.unknown-member", "/x-berth"),
    ]


def test_a_finding_for_programs() -> None:
    """All that its rule says stands beside the place."""
    (finding,) = unportable(put(PORTABLE, "/iconUrl", ""))
    text = describe_code("portable.empty-value")

    assert describe_finding(finding) == {
        "code": "portable.empty-value",
        "severity": "note",
        "path": "/iconUrl",
        "line": None,
        "column": None,
        "message": 'is ""',
        "why": text.why,
        "hint": text.fix,
        "fixable": False,
    }
