"""The profile js-instance: what it covers, and that a signature under it is never trusted.

tests/interop asks the SDK whether its payloads are right, test_canonical.py what has none.
"""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES, PROFILES, canonicalize
from cardsign.errors import UsageFault
from cardsign.jose.jws import TYP_COMPAT, read_entry
from cardsign.jose.keys import PrivateKey
from cardsign.sign import SigningOptions, sign_with_notes
from tests.support import (
    LAX,
    OLD,
    PORTABLE,
    by_another_sdk,
    codes,
    dump,
    examine,
    profiles_of,
    put,
    trusting,
)

JS = "js-instance"


@pytest.mark.parametrize("card", [PORTABLE, OLD], ids=["1.0", "0.3"])
def test_a_card_is_covered_but_for_its_security_schemes(card: dict[str, Any]) -> None:
    """The client loses them; so this is no profile that a policy accepts."""
    parts = canonicalize(card, JS).uncovered
    assert {part.pointer for part in parts if part.excuse is None} == {"/securitySchemes"}
    assert tuple(PROFILES) == (*DEFAULT_PROFILES, JS)


@pytest.mark.parametrize("accepted", [("served-as-is",), DEFAULT_PROFILES])
@pytest.mark.parametrize("typ", ["JOSE", "JWT"])
def test_a_signature_that_only_it_explains_is_named_and_does_not_count(
    typ: str, accepted: tuple[str, ...], alice: PrivateKey
) -> None:
    """Nobody is said to have tampered with the card; an edit of what it covers is."""
    signed = by_another_sdk(LAX, alice, JS, typ=typ)
    report = examine(signed, alice, profiles=accepted)
    (signature,) = report.signatures
    assert (signature.verdict, signature.counts, signature.profile) == ("other-profile", False, JS)
    assert (report.verdict, report.card, report.answers.integrity) == ("untrusted", None, "no")
    first = report.reasons[0]
    assert (first.code, first.path) == ("sig.other_profile", "/signatures/0")
    assert JS in first.message
    assert "--accept" not in first.hint  # no word accepts it
    edited = examine(put(signed, "/version", "9"), alice, profiles=accepted)
    assert (edited.verdict, codes(edited)[0]) == ("invalid", "sig.bad")


def test_it_does_not_hide_that_a_full_signature_broke(alice: PrivateKey) -> None:
    """An edit of what it leaves open is reported as such."""
    report = examine({**by_another_sdk(LAX, alice, JS, "served-as-is"), "x-added": 1}, alice)
    assert [entry.verdict for entry in report.signatures] == ["other-profile", "invalid"]
    assert codes(report)[:2] == ["sig.bad", "sig.coverage_reduced"]


@pytest.mark.parametrize("profiles", [(JS,), ("served-as-is", JS)])
def test_no_policy_accepts_it(profiles: tuple[str, ...], alice: PrivateKey) -> None:
    """Neither alone nor beside others."""
    with pytest.raises(UsageFault, match=r"^policy\.malformed: only of .*, not 'js-instance'"):
        trusting(alice, profiles=profiles)


def test_all_makes_it_last_and_marks_it(alice: PrivateKey) -> None:
    """As compat, which never counts; alone it explains the card."""
    signing = sign_with_notes(dump(LAX), [alice], SigningOptions(compat="all"))
    assert profiles_of(signing) == ("served-as-is", "rule-1-as-written", "prune-empty", JS)
    report = examine(signing.document, alice)
    assert (report.verdict, report.profile) == ("trusted", "served-as-is")
    alone = by_another_sdk(LAX, alice, JS, typ=TYP_COMPAT)
    assert read_entry(alone["signatures"][0]).kind == "compat"
    report = examine(alone, alice)
    (signature,) = report.signatures
    assert (signature.verdict, signature.counts, signature.profile) == ("valid", False, JS)
    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.compat")
