"""Signatures under the opt-in profiles: made where they are named, explained, never trusted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import (
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    by_another_sdk,
    codes,
    dump,
    examine,
    one_signature,
    put,
    trusting,
)

from cardsign.card import DEFAULT_PROFILES, OPT_IN_PROFILES, canonicalize
from cardsign.errors import UsageFault
from cardsign.jose import TYP_COMPAT, JwkSet, PrivateKey, read_entry
from cardsign.sign import COMPAT_PROFILES, SignedCard, SigningOptions, sign_with_notes
from cardsign.trust import KeysAnchor, TrustedIssuer

#: Cards whose payload under the profile is that of no other.
CARDS: dict[str, dict[str, Any]] = {
    "rule-1-descriptor-scope": put(OLD, "/name", "\u20ac"),
    "sdk-0.3": put(OLD, "/name", "\u20ac"),
    "sdk-1.0-legacy": put(LAX, "/name", "\u20ac"),
    "js-instance": LAX,
}
each_profile = pytest.mark.parametrize(("profile", "card"), CARDS.items(), ids=CARDS)


def sign(card: dict[str, Any], *signers: PrivateKey, **options: Any) -> SignedCard:
    """What came of signing."""
    return sign_with_notes(dump(card), signers, SigningOptions(**options))


def notes(signing: SignedCard, code: str) -> list[str]:
    """The messages of the notes of one code."""
    return [note.message for note in signing.notes if note.code == code]


# ------------------------------------------------------------------ verifying


@each_profile
@pytest.mark.parametrize("typ", ["JOSE", "JWT"])
def test_a_signature_that_only_such_a_profile_explains(
    profile: str, card: dict[str, Any], typ: str, alice: PrivateKey
) -> None:
    """It is named, whatever the policy accepts; nobody is said to have tampered with the card."""
    signed = by_another_sdk(card, alice, profile, typ=typ)

    for accepted in (("served-as-is",), DEFAULT_PROFILES):
        report = examine(signed, alice, profiles=accepted)
        (signature,) = report.signatures
        assert (signature.verdict, signature.counts) == ("other-profile", False)
        assert (signature.profile, report.card) == (profile, None)
        assert (report.verdict, report.card, report.answers.integrity) == ("untrusted", None, "no")
        first = report.reasons[0]
        assert (first.code, first.path) == ("sig.other_profile", "/signatures/0")
        assert profile in first.message
        assert "--accept" not in first.hint  # no word accepts it


@each_profile
def test_a_changed_card_is_explained_by_none(
    profile: str, card: dict[str, Any], alice: PrivateKey
) -> None:
    """The twin: what the profile covers was edited."""
    report = examine(put(by_another_sdk(card, alice, profile), "/version", "9"), alice)

    assert (report.verdict, codes(report)[0]) == ("invalid", "sig.bad")


@each_profile
def test_a_compat_signature_never_counts(
    profile: str, card: dict[str, Any], alice: PrivateKey
) -> None:
    """Ours are marked, and valid for what they are."""
    report = examine(by_another_sdk(card, alice, profile, typ=TYP_COMPAT), alice)

    (signature,) = report.signatures
    assert (signature.verdict, signature.counts) == ("valid", False)
    assert signature.profile == profile
    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.compat")


def test_it_is_looked_at_only_where_no_default_profile_fits(alice: PrivateKey) -> None:
    """sdk-1.0-legacy has the bytes of prune-empty here, and would only be noise."""
    assert canonicalize(LAX, "sdk-1.0-legacy").data == canonicalize(LAX, "prune-empty").data

    report = examine(by_another_sdk(LAX, alice, "sdk-1.0-legacy"), alice)

    assert report.signatures[0].profile == "prune-empty"
    assert "and /x-berth unsigned" in report.reasons[0].message


@each_profile
def test_beside_a_full_signature_it_does_no_harm(
    profile: str, card: dict[str, Any], alice: PrivateKey
) -> None:
    """The best single signature decides."""
    report = examine(by_another_sdk(card, alice, profile, "served-as-is"), alice)

    assert report.verdict == "trusted"
    assert [one.counts for one in report.signatures] == [False, True]


@each_profile
def test_it_does_not_hide_that_a_full_signature_broke(
    profile: str, card: dict[str, Any], alice: PrivateKey
) -> None:
    """An edit of what it leaves open is reported as such."""
    signed = by_another_sdk(card, alice, profile, "served-as-is")

    report = examine({**signed, "x-added": 1}, alice)

    assert report.verdict == "untrusted"
    assert [one.verdict for one in report.signatures] == ["other-profile", "invalid"]
    assert codes(report)[:2] == ["sig.bad", "sig.coverage_reduced"]


@pytest.mark.parametrize("profile", OPT_IN_PROFILES)
def test_no_policy_accepts_it(profile: str, alice: PrivateKey) -> None:
    """By neither way to a trusted issuer, nor beside others."""
    for profiles in ((profile,), ("served-as-is", profile)):
        with pytest.raises(UsageFault, match=f"{profile} cannot be accepted"):
            trusting(alice, profiles=profiles)
        anchor = KeysAnchor(JwkSet.of([alice.public]))
        with pytest.raises(UsageFault, match=f"{profile} cannot be accepted"):
            TrustedIssuer("x", anchor, None, accept="sdk", only=profiles)


# ------------------------------------------------------------------ signing


@each_profile
def test_it_is_made_where_it_is_named(
    profile: str, card: dict[str, Any], alice: PrivateKey, bob: PrivateKey
) -> None:
    """Of each key, marked as compat, after the pruning profiles and before the full ones."""
    plain, named = sign(card, alice, bob), sign(card, alice, bob, compat=(profile,))

    assert set(named.profiles) == {*plain.profiles, profile}
    order = (*COMPAT_PROFILES, "rule-1-as-written", "served-as-is")
    assert list(named.profiles) == sorted(named.profiles, key=order.index)
    entries = [read_entry(entry) for entry in json.loads(named.document)["signatures"]]
    place = named.profiles.index(profile)
    own = entries[place :: len(named.profiles)]
    assert [(one.header.kid, one.header.typ) for one in own] == [
        ("alice", TYP_COMPAT),
        ("bob", TYP_COMPAT),
    ]
    report = examine(named.document, alice, bob)
    assert (report.verdict, report.profile) == ("trusted", "served-as-is")
    # A full signature counts, so no compat signature is checked beside it; alone it explains.
    assert (report.signatures[place].verdict, report.signatures[place].profile) == (
        "not-tried",
        None,
    )
    document = json.loads(named.document)
    alone = {**document, "signatures": [document["signatures"][place]]}
    assert examine(alone, alice, bob).signatures[0].profile == profile


@pytest.mark.parametrize(
    ("profile", "card", "lost"),
    [
        ("rule-1-descriptor-scope", CARDS["sdk-0.3"], "/security"),
        ("sdk-0.3", DUAL, "/supportedInterfaces"),
        ("sdk-1.0-legacy", CARDS["sdk-1.0-legacy"], "/securityRequirements"),
        ("js-instance", PORTABLE, "/securitySchemes"),
    ],
)
def test_what_it_leaves_open_is_said(
    profile: str, card: dict[str, Any], lost: str, alice: PrivateKey
) -> None:
    """By name, and that it is about who may call."""
    signing = sign(card, alice, compat=(profile,))
    (made,) = [one for one in signing.payloads if one.profile == profile]
    assert lost in made.leaves_open.pointers
    said = notes(signing, "sign.compat_lossy")
    parts = [message.partition(": ")[0] for message in said]
    parts = [part.removeprefix("these do not notice a change of ") for part in parts]
    assert any(lost in part.split(", ") for part in parts), said


def test_it_may_have_lost_every_endpoint(alice: PrivateKey) -> None:
    """Who names it insists."""
    card = CARDS["rule-1-descriptor-scope"]
    assert not canonicalize(card, "rule-1-descriptor-scope").names_an_endpoint

    signing = sign(card, alice, compat=("rule-1-descriptor-scope",))

    assert "rule-1-descriptor-scope" in signing.profiles
    assert not any("rule-1" in note for note in notes(signing, "sign.compat_no_endpoint"))


def test_one_with_the_bytes_of_another_needs_no_signature(alice: PrivateKey) -> None:
    """Its verifiers accept the other's: sdk-1.0-legacy on ASCII, rule 1 on a complete card."""
    named = sign(PORTABLE, alice, compat=("rule-1-descriptor-scope", "sdk-1.0-legacy"))

    assert named.profiles == ("served-as-is",)


def test_one_without_a_payload_is_passed_over(alice: PrivateKey) -> None:
    """And noted; the card is signed all the same."""
    signing = sign(PORTABLE, alice, compat=("sdk-0.3",))

    assert signing.profiles == ("served-as-is",)
    (note,) = notes(signing, "sign.profile_skipped")
    assert note.startswith("sdk-0.3 has no payload for this card: ")


def test_signing_again_changes_nothing(alice: PrivateKey) -> None:
    """With the same names; without them the signature goes."""
    first = sign(LAX, alice, compat=("js-instance",))

    again = sign_with_notes(first.document, [alice], SigningOptions(compat=("js-instance",)))
    assert (again.document, again.changed) == (first.document, False)
    without = sign_with_notes(first.document, [alice], SigningOptions())
    assert "js-instance" not in without.profiles


def test_a_strangers_signature_under_it_still_fits(alice: PrivateKey, bob: PrivateKey) -> None:
    """Of a signer whose key is known it is kept; after an edit it is dropped."""
    card = CARDS["sdk-0.3"]
    entry = one_signature(card, bob, "sdk-0.3")
    options = {"known_keys": JwkSet.of([bob.public])}

    kept = json.loads(sign({**card, "signatures": [entry]}, alice, **options).document)
    assert kept["signatures"][-1] == entry
    edited = sign({**card, "version": "9", "signatures": [entry]}, alice, **options)
    assert entry not in json.loads(edited.document)["signatures"]


def test_which_profiles_may_be_named() -> None:
    """Those that lose something; the full ones are always made."""
    assert (*COMPAT_PROFILES,) == ("prune-empty", "prune-empty-upgraded", *OPT_IN_PROFILES)
