"""The lint rules one by one: what breaks each, alone, and what comes close but is sound."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.findings import describe_code
from cardsign.lint.cards import RULES as ALL_RULES
from cardsign.lint.rules import describe_finding
from tests.support import LAX, PORTABLE, edited, pointers, put, read_cases
from tests.unportable import unportable

RULES = {code for code in ALL_RULES if code.startswith("portable.")}

#: By rule: a place, what breaks the rule there, and what does not, where absence does not do.
BREACHES = read_cases(__file__)
#: One of everything that a rule looks at, and portable.
FULL: dict[str, Any] = BREACHES.pop("a card of everything")


@pytest.mark.parametrize(
    ("rule", "at", "spoilt", "sound"),
    [(rule, *row[:2], row[2:]) for rule, rows in BREACHES.items() for row in rows],
)
def test_a_portable_rule(rule: str, at: str, spoilt: Any, sound: list[Any]) -> None:
    """It fires once and alone, at that place; the twin is clean."""
    card = put(FULL, at, spoilt)
    assert [(one.code, one.path) for one in unportable(card)] == [(f"portable.{rule}", at)]
    twin = FULL if not sound and at not in pointers(FULL) else edited(FULL, [(at, *sound)])
    assert unportable(twin) == ()


def test_every_rule_is_shown_to_fire() -> None:
    """The table above leaves none out."""
    assert {f"portable.{rule}" for rule in BREACHES} == set(RULES)


def test_signatures_are_not_looked_at() -> None:
    """Whatever stands there."""
    assert unportable({**PORTABLE, "signatures": [{"ü": None, "__proto__": 1}]}) == ()


def test_a_misspelled_member_is_told_its_name() -> None:
    """A near miss names what was meant; a far one does not, nor one that is long."""
    places = ("/IconURL", "/descripton", "/colours", "/description" + "n" * 60)
    near, typo, far, long = (unportable(put(PORTABLE, at, "x"))[0].message for at in places)

    assert near.endswith("did you mean iconUrl?")
    assert typo.endswith("did you mean 'description'?")
    assert "mean" not in far + long
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
