"""The verdict on one card: which signature decides, what it needs, and what a reader is told."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign import verify_card
from cardsign.card.profiles import DEFAULT_PROFILES, canonicalize
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import Report, VerifiedCard
from tests.support import (
    LAX,
    NOW,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    by_another_sdk,
    codes,
    dump,
    each_card,
    examine,
    holder_of,
    one_signature,
    reach_verdict,
    signed,
    trusting,
    without,
)

# ------------------------------------------------------------------ trusted, and its twin


@each_card
def test_what_we_signed_is_trusted(card: dict[str, Any], alice: PrivateKey) -> None:
    """Every kind of card, signed by default, verifies with the public key alone; an edit does not.

    With a key set nobody chose to waive freshness, and the hint says so.
    """
    honest = signed(card, alice)
    report = examine(honest, alice)
    assert (report.verdict, report.profile, report.card) == ("trusted", "served-as-is", card)
    assert (report.uncovered, codes(report)) == ((), ["trust.freshness_waived"])
    assert report.reasons[0].hint == "A key set alone cannot show them."
    report = examine({**honest, "name": "Tide fables"}, alice)
    assert (report.verdict, report.card, codes(report)[0]) == ("invalid", None, "sig.bad")
    assert {found.verdict for found in report.signatures} == {"invalid"}


def test_the_caller_gets_the_payload_and_not_the_document(alice: PrivateKey) -> None:
    """Where only rule 1's payload is signed, the defaults that it drops are not handed on."""
    card = by_another_sdk(WITH_DEFAULTS, alice, "rule-1-as-written")
    verified = verify_card(dump(card), policy=trusting(alice), now=NOW)
    assert verified.document == PORTABLE != WITH_DEFAULTS
    assert "signatures" not in verified.document
    shown = "VerifiedCard(subject='the harbour', profile='rule-1-as-written')"
    assert (verified.subject, repr(verified)) == ("the harbour", shown)


def test_a_verified_card_cannot_be_made_by_hand(alice: PrivateKey) -> None:
    """Neither a good report nor a made-up token is enough."""
    with pytest.raises(TypeError, match="verify_card alone"):
        VerifiedCard(examine(signed(PORTABLE, alice), alice), token=object())


# ------------------------------------------------------------------ precedence (D4)


@pytest.fixture
def entries(alice: PrivateKey, bob: PrivateKey) -> dict[str, dict[str, str]]:
    """Entries of `signatures` of the lax card, by their kind."""
    good = one_signature(LAX, alice, "served-as-is")
    return {
        "good": good,
        "bad": one_signature({**LAX, "name": "Another"}, alice, "served-as-is"),
        "stranger": one_signature(LAX, bob, "served-as-is"),
        "unreadable": {**good, "signature": "=="},
        "lossy": one_signature(LAX, alice, "prune-empty"),
    }


#: Entries in their order, and the verdict with its first code; attack 062 has others.
SEVERAL = {
    "bad bad": ("invalid", "sig.bad"),
    "stranger bad": ("invalid", "sig.bad"),
    "unreadable bad": ("invalid", "sig.bad"),
    "unreadable": ("untrusted", "sig.base64url"),
    "stranger unreadable": ("untrusted", "key.unknown"),
    "unreadable stranger": ("untrusted", "key.unknown"),
    "bad lossy": ("untrusted", "sig.bad"),
    "lossy": ("untrusted", "sig.other_profile"),
    "good stranger": ("trusted", "trust.freshness_waived"),
    "unreadable good": ("trusted", "trust.freshness_waived"),
    "good unreadable": ("trusted", "trust.freshness_waived"),
}


@pytest.mark.parametrize("kinds", SEVERAL)
def test_several_signatures(
    kinds: str, entries: dict[str, dict[str, str]], alice: PrivateKey
) -> None:
    """Bad ones by enrolled keys speak against a card, all others only not for it; one good one is
    enough, whatever stands before or behind it."""
    report = examine({**LAX, "signatures": [entries[kind] for kind in kinds.split()]}, alice)
    assert (report.verdict, codes(report)[0]) == SEVERAL[kinds]


def test_a_bad_signature_beside_a_good_one_is_told(
    entries: dict[str, dict[str, str]], alice: PrivateKey
) -> None:
    """With its place, and without a claim that coverage was lost."""
    report = examine({**LAX, "signatures": [entries["good"], entries["bad"]]}, alice)
    assert (report.verdict, report.reasons[0].path) == ("trusted", "/signatures/1")
    assert codes(report) == ["sig.bad", "trust.freshness_waived"]


def test_a_compat_signature_is_not_tried_where_another_counts(alice: PrivateKey) -> None:
    """It could change nothing; edited, the card is tried by it too, to explain (E9)."""
    card = signed(LAX, alice, compat="all")
    verdicts = [found.verdict for found in examine(card, alice).signatures]
    edited = [found.verdict for found in examine({**card, "name": "x"}, alice).signatures]
    assert (verdicts[0], verdicts[-1]) == ("valid", "not-tried")
    assert "not-tried" not in edited


def test_what_pruning_leaves_must_be_a_card_too(alice: PrivateKey) -> None:
    """The payload counts, not the document: what it does not hold can be added to a token (E1)."""
    token = {"name": "Harbour", "supportedInterfaces": PORTABLE["supportedInterfaces"]}
    entry = one_signature(token, alice, "prune-empty")
    card = {**token, "skills": [], "capabilities": {}, "signatures": [entry]}
    report = examine(card, alice, profiles=DEFAULT_PROFILES)
    assert report.verdict == "untrusted"
    assert "card.not_agent_card" in codes(report)


# ------------------------------------------------------------------ whom the verdict is about

HOME = "https://tides.example"


def issuer(name: str, *keys: PrivateKey, place: str = HOME, **how: Any) -> TrustedIssuer:
    """An issuer with these keys at one place."""
    anchor = KeysAnchor(JwkSet.of(key.public for key in keys))
    return TrustedIssuer(name, anchor, (parse_place(place),), **{"freshness": "waived", **how})


def judged(card: dict[str, Any], *issuers: TrustedIssuer, name: str = "harbour") -> Report:
    """The verdict on a card of one of these issuers."""
    policy = Policy(issuers)
    return reach_verdict(dump(card), expect=Subject(issuer=name), policy=policy, now=NOW)


def interface_at(url: str, **members: Any) -> dict[str, Any]:
    """The portable card with its one interface elsewhere."""
    (interface,) = PORTABLE["supportedInterfaces"]
    return {**PORTABLE, "supportedInterfaces": [{**interface, "url": url, **members}]}


EVIL = "https://evil.example"
MOVED = [
    ({**OLD, "url": EVIL}, "prune-empty-upgraded"),
    ({**PORTABLE, "supportedInterfaces": [{}, {"url": EVIL}]}, "prune-empty"),
]


@pytest.mark.parametrize(("card", "profile"), MOVED)
def test_the_place_of_a_refused_interface_is_none_of_the_payload(
    card: dict[str, Any], profile: Any, alice: PrivateKey
) -> None:
    """Where a profile moves or shifts it, another value may stand there in the card."""
    jwks = JwkSet.of([alice.public])
    policy = Policy.from_jwks(jwks, name="x", origin=HOME, accept="sdk", only=(profile,))
    document = dump(by_another_sdk(card, alice, profile))
    report = reach_verdict(document, expect=holder_of(policy), policy=policy, now=NOW)
    assert (report.reasons[0].code, report.reasons[0].path) == ("card.origin_mismatch", "")
    assert EVIL in report.reasons[0].message


def test_a_narrower_place_of_another_issuer_is_his(alice: PrivateKey, bob: PrivateKey) -> None:
    """On a shared host who may stand anywhere may not stand where another is at home."""
    harbour = issuer("harbour", alice)
    lodger = issuer("lodger", bob, place=f"{HOME}/agents/geo/")
    card = interface_at(f"{HOME}/agents/geo/a2a")
    assert judged(signed(card, alice), harbour).verdict == "trusted"
    report = judged(signed(card, alice), harbour, lodger)
    assert (report.verdict, codes(report)[0]) == ("untrusted", "card.origin_mismatch")
    assert judged(signed(card, bob), harbour, lodger, name="lodger").verdict == "trusted"


def test_a_requirement_that_cannot_be_read_is_not_trusted(alice: PrivateKey) -> None:
    """It might be open to anybody (Q20)."""
    report = examine(by_another_sdk({**PORTABLE, "security": ["x"]}, alice, "served-as-is"), alice)
    assert (report.verdict, codes(report)[0]) == ("untrusted", "card.security")


def test_freshness_waived_by_name_is_said(alice: PrivateKey) -> None:
    """`current` stays unknown; what is missing does not soften what is refused for what it is."""
    report = judged(signed(PORTABLE, alice), issuer("harbour", alice))
    assert (report.verdict, report.answers.current) == ("trusted", "unknown")
    assert codes(report) == ["trust.freshness_waived"]
    assert report.reasons[0].hint == "You chose not to require this."
    card, demanding = by_another_sdk(LAX, alice, "prune-empty"), {"freshness": "required"}
    for edited, verdict in ((card, "untrusted"), ({**card, "name": "x"}, "invalid")):
        assert judged(edited, issuer("harbour", alice, **demanding)).verdict == verdict


# ------------------------------------------------------------------ an accepted lossy profile

PRUNED = without(LAX, "/x-berth")
UNSIGNED = "/securityRequirements and /iconUrl"


def test_a_card_signed_by_an_sdk_says_what_it_leaves_unsigned(alice: PrivateKey) -> None:
    """Refused, it names the word that accepts it; accepted, it names what is open.

    The caller gets what was signed.
    """
    card = by_another_sdk(PRUNED, alice, "prune-empty")
    refused = examine(card, alice)
    assert (refused.verdict, refused.all_but) == ("untrusted", None)
    assert refused.answers.complete == "no"
    first = refused.reasons[0]
    assert first.code == "sig.other_profile"
    assert "the signature is good" in first.message
    assert f"leaves {UNSIGNED} unsigned" in first.message
    assert "--accept sdk" in first.hint
    assert "error" in {reason.severity for reason in refused.signatures[0].reasons}
    for profiles in (DEFAULT_PROFILES, ("prune-empty",)):
        accepted = examine(card, alice, profiles=profiles)
        assert (accepted.verdict, accepted.answers.complete) == ("trusted", "yes")
        assert {reason.severity for reason in accepted.signatures[0].reasons} == {"note"}  # R12
        assert accepted.all_but == f"all but {UNSIGNED}, accepted by your policy"
        assert accepted.to_json()["coverage"]["all_but"] == accepted.all_but
        expected = {"coverage.requirement_unsigned", "coverage.absence_unprovable"}
        assert expected <= set(codes(accepted))
        assert "/securityRequirements" in accepted.uncovered
        assert accepted.card == canonicalize(LAX, "prune-empty").value


def test_one_full_profile_alone(alice: PrivateKey) -> None:
    """Who accepts nothing but the document trusts none from which a default was dropped."""
    card = without(signed(WITH_DEFAULTS, alice), "/skills/0/examples")
    assert examine(card, alice).verdict == "trusted"
    assert examine(card, alice, profiles=("served-as-is",)).verdict == "untrusted"


# ------------------------------------------------------------------ what a hostile card costs


def test_a_card_with_countless_open_places_has_a_verdict_of_bounded_size(
    alice: PrivateKey,
) -> None:
    """The first hundred places are listed, with their reasons; how many there are is told."""
    card = {**PORTABLE, **{f"x{n}": 1 for n in range(5000)}}
    entry = one_signature(card, alice, "prune-empty")
    report = examine({**card, "signatures": [entry] * 16}, alice)
    assert report.verdict == "untrusted"
    assert (len(report.uncovered), report.uncovered_count) == (100, 5000)
    assert codes(report).count("coverage.uncovered") == 101
    for found in report.signatures:
        assert len(found.reasons) == 102
        assert found.reasons[-1].message == "4900 more places are not signed"
