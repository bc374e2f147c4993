"""The rules of portability: what breaks each, alone, what comes close, and what is fixed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.errors import CardRefused, JsonRefused
from cardsign.jose.keys import PrivateKey
from cardsign.lint.cards import RULES as ALL_RULES
from cardsign.lint.cards import lint_card
from cardsign.lint.portability import fix
from tests.support import (
    LAX,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    dump,
    each_case,
    edited,
    pointers,
    put,
    read_cases,
    signed,
)
from tests.unportable import unportable

RULES = {code for code in ALL_RULES if code.startswith("portable.")}

#: By rule: a place, what breaks the rule there, and what does not, where absence does not do.
BREACHES = read_cases(__file__)["rules"]
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
    places = ("/iconURL", "/descripton", "/colours", "/description" + "n" * 60)
    near, typo, far, long = (unportable(put(PORTABLE, at, "x"))[0].message for at in places)

    assert near.endswith("did you mean 'iconUrl'?")
    assert typo.endswith("did you mean 'description'?")
    assert "mean" not in far + long
    assert typo.startswith("neither A2A 1.0 nor 0.3 defines this member here; ")


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


# Fixing: what is fixed, what never is, and what comes out.


@each_case(__file__, "fixed", "at", "value", "edits")
def test_what_is_fixed(at: str, value: Any, edits: list[Any]) -> None:
    """The member is gone or renamed, and nothing else is changed."""
    card = put(PORTABLE, at, value)
    result = fix(dump(card))

    assert json.loads(result.document) == edited(PORTABLE, edits)
    assert result.fixed == tuple(finding for finding in unportable(card) if finding.fixable) != ()


@each_case(__file__, "kept", "at", "value")
def test_what_is_never_fixed(at: str, value: Any) -> None:
    """It is found, and left: bytes and signatures are those that were given."""
    document = dump({**put(PORTABLE, at, value), "signatures": [{}]})
    result = fix(document)

    assert result.document is document
    assert unportable(put(PORTABLE, at, value))
    assert (result.fixed, result.signatures_removed) == ((), 0)


@each_case(__file__, "beside 0.3", "at", "value", "beside", "old")
def test_what_hangs_on_members_of_0_3(at: str, value: Any, beside: str, old: Any) -> None:
    """Nulls and spellings stay where a2a-sdk's rewriting asks for them; defaults go anyway."""
    bare = {"name": "Tides", "skills": [{"id": "tides", "input_modes": []}], "capabilities": {}}
    result = fix(dump(put(put(bare, at, value), beside, old)))

    assert [finding.path for finding in result.fixed] == ["/skills/0/input_modes"]
    assert at in [finding.path for finding in unportable(json.loads(result.document))]


def test_a_member_of_0_3_that_is_never_rewritten() -> None:
    """The twin: beside it a null is fixed."""
    card = put(put(PORTABLE, "/iconUrl", None), "/capabilities/stateTransitionHistory", True)

    assert [finding.path for finding in fix(dump(card)).fixed] == ["/iconUrl"]


def test_the_mended_bytes() -> None:
    """Indented by two, order kept, UTF-8, a newline at the end; numbers keep their value."""
    card = b'{"skills": null, "icon_url": "\\u00e9", "x": [1e3, 1.0, 5e-324], "name": "n"}'
    lines = [
        "{",
        '  "iconUrl": "é",',
        '  "x": [',
        "    1000.0,",
        "    1.0,",
        "    5e-324",
        "  ],",
        '  "name": "n"',
        "}",
        "",
    ]

    assert fix(card).document.decode().split("\n") == lines


def test_signatures_are_taken_off_a_card_that_changes(alice: PrivateKey) -> None:
    """They were made over other bytes; what is signed anew then needs one signature."""
    before = signed(WITH_DEFAULTS, alice)
    result = fix(dump(before))
    fixed = json.loads(result.document)

    assert len(before["signatures"]) == result.signatures_removed == 2
    assert fixed == PORTABLE
    assert len(signed(fixed, alice)["signatures"]) == 1


@pytest.mark.parametrize(
    ("untrusted", "refusal"),
    [
        (b'{"iconUrl": null, "icon_url": "i"}', CardRefused),
        (b'{"iconUrl": null, "iconUrl": "i"}', JsonRefused),
        (b"[]", JsonRefused),
    ],
    ids=["two spellings", "two members of one name", "no object"],
)
def test_what_can_be_read_two_ways_is_not_fixed(untrusted: bytes, refusal: type) -> None:
    """Nobody knows which of the two was meant."""
    with pytest.raises(refusal):
        fix(untrusted)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("/supportedInterfaces/0/protocolBinding", "jsonrpc"),
        ("/defaultInputModes", ["text", " text/plain", " text/plain"]),
    ],
)
def test_what_every_sdk_signs_alike_is_left(at: str, value: Any) -> None:
    """Lint names it, and what to write; the author writes it."""
    document = dump(put(PORTABLE, at, value))
    assert any(one.path.startswith(at) for one in lint_card(document).findings)
    assert fix(document).document is document


@pytest.mark.parametrize("member", ["preferredTransport", "protocolVersion"])
def test_a_null_that_the_rewriting_reads_is_left(member: str) -> None:
    """Beside a url it says "no transport", and its absence would say JSONRPC to a2a-sdk."""
    card = put(OLD, f"/{member}", None)
    result = fix(dump(card))

    before = canonicalize(card, "prune-empty-upgraded").data
    assert canonicalize(json.loads(result.document), "prune-empty-upgraded").data == before
    assert member in json.loads(result.document)
    assert member not in json.loads(fix(dump(put(PORTABLE, f"/{member}", None))).document)
