"""Signatures under js-instance: made where all are asked for, explained, never trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardsign.card.profiles import DEFAULT_PROFILES
from cardsign.errors import UsageFault
from cardsign.jose.jws import TYP_COMPAT, read_entry
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.sign import SignedCard, SigningOptions, sign_with_notes
from cardsign.trust.policy import KeysAnchor, TrustedIssuer
from tests.support import (
    LAX,
    by_another_sdk,
    codes,
    dump,
    examine,
    profiles_of,
    put,
    trusting,
)

JS = "js-instance"


def sign(card: dict[str, Any], *signers: PrivateKey, **options: Any) -> SignedCard:
    """What came of signing."""
    return sign_with_notes(dump(card), signers, SigningOptions(**options))


# ------------------------------------------------------------------ verifying


@pytest.mark.parametrize("typ", ["JOSE", "JWT"])
def test_a_signature_that_only_it_explains(typ: str, alice: PrivateKey) -> None:
    """It is named, whatever the policy accepts; nobody is said to have tampered with the card."""
    signed = by_another_sdk(LAX, alice, JS, typ=typ)

    for accepted in (("served-as-is",), DEFAULT_PROFILES):
        report = examine(signed, alice, profiles=accepted)
        (signature,) = report.signatures
        assert (signature.verdict, signature.counts) == ("other-profile", False)
        assert (signature.profile, report.card) == (JS, None)
        assert (report.verdict, report.card, report.answers.integrity) == ("untrusted", None, "no")
        first = report.reasons[0]
        assert (first.code, first.path) == ("sig.other_profile", "/signatures/0")
        assert JS in first.message
        assert "--accept" not in first.hint  # no word accepts it


def test_a_changed_card_is_not_explained(alice: PrivateKey) -> None:
    """The twin: what the profile covers was edited."""
    report = examine(put(by_another_sdk(LAX, alice, JS), "/version", "9"), alice)

    assert (report.verdict, codes(report)[0]) == ("invalid", "sig.bad")


def test_a_compat_signature_never_counts(alice: PrivateKey) -> None:
    """Ours are marked, and valid for what they are."""
    report = examine(by_another_sdk(LAX, alice, JS, typ=TYP_COMPAT), alice)

    (signature,) = report.signatures
    assert (signature.verdict, signature.counts) == ("valid", False)
    assert signature.profile == JS
    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.compat")


def test_it_does_not_hide_that_a_full_signature_broke(alice: PrivateKey) -> None:
    """An edit of what it leaves open is reported as such."""
    signed = by_another_sdk(LAX, alice, JS, "served-as-is")

    report = examine({**signed, "x-added": 1}, alice)

    assert report.verdict == "untrusted"
    assert [one.verdict for one in report.signatures] == ["other-profile", "invalid"]
    assert codes(report)[:2] == ["sig.bad", "sig.coverage_reduced"]


def test_no_policy_accepts_it(alice: PrivateKey) -> None:
    """By neither way to a trusted issuer, nor beside others."""
    for profiles in ((JS,), ("served-as-is", JS)):
        with pytest.raises(UsageFault, match=f"{JS} cannot be accepted"):
            trusting(alice, profiles=profiles)
        anchor = KeysAnchor(JwkSet.of([alice.public]))
        with pytest.raises(UsageFault, match=f"{JS} cannot be accepted"):
            TrustedIssuer("x", anchor, None, accept="sdk", only=profiles)


# ------------------------------------------------------------------ signing


def test_all_makes_it(alice: PrivateKey, bob: PrivateKey) -> None:
    """Of each key, marked as compat, after all others."""
    signing = sign(LAX, alice, bob, compat="all")

    assert profiles_of(signing) == ("served-as-is", "rule-1-as-written", "prune-empty", JS)
    document = json.loads(signing.document)
    entries = [read_entry(entry) for entry in document["signatures"]]
    own = [(entry.kid, entry.typ) for entry in entries[3::4]]
    assert own == [("alice", TYP_COMPAT), ("bob", TYP_COMPAT)]
    report = examine(signing.document, alice, bob)
    assert (report.verdict, report.profile) == ("trusted", "served-as-is")
    # A full signature counts, so no compat signature is checked beside it; alone it explains.
    assert (report.signatures[3].verdict, report.signatures[3].profile) == ("not-tried", None)
    alone = {**document, "signatures": [document["signatures"][3]]}
    assert examine(alone, alice, bob).signatures[0].profile == JS
