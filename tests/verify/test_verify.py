"""The verdict on one card: which signature decides, what it needs, and what a reader is told."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign import verify_card
from cardsign.card.profiles import DEFAULT_PROFILES, canonicalize
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import VerifiedCard
from tests.support import (
    DUAL,
    LAX,
    NOW,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    by_another_sdk,
    codes,
    dump,
    examine,
    holder_of,
    one_signature,
    reach_verdict,
    signed,
    trusting,
    without,
)

CARDS = {
    "portable": PORTABLE,
    "with defaults": WITH_DEFAULTS,
    "lax": LAX,
    "of 0.3": OLD,
    "for both generations": DUAL,
}

each_card = pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)


# ------------------------------------------------------------------ trusted, and its twin


@each_card
def test_what_we_signed_is_trusted(card: dict[str, Any], alice: PrivateKey) -> None:
    """Every kind of card, signed by default, verifies with the public key alone."""
    report = examine(signed(card, alice), alice)

    assert report.verdict == "trusted"
    assert report.profile == "served-as-is"
    assert (report.uncovered, codes(report)) == ((), ["trust.freshness_waived"])
    assert report.card == card


@each_card
def test_one_changed_letter_is_invalid(card: dict[str, Any], alice: PrivateKey) -> None:
    """A change that every signature covers leaves none that fits."""
    report = examine({**signed(card, alice), "name": "Tide fables"}, alice)

    assert (report.verdict, report.card) == ("invalid", None)
    assert codes(report)[0] == "sig.bad"
    assert {one.verdict for one in report.signatures} == {"invalid"}


def test_the_caller_gets_the_payload_and_not_the_document(alice: PrivateKey) -> None:
    """Where only rule 1's payload is signed, the defaults that it drops are not handed on."""
    card = by_another_sdk(WITH_DEFAULTS, alice, "rule-1-as-written")

    verified = verify_card(dump(card), policy=trusting(alice), now=NOW)

    assert verified.document == PORTABLE != WITH_DEFAULTS
    assert verified.report.profile == "rule-1-as-written"
    assert "signatures" not in verified.document


def test_a_verified_card_names_its_subject(alice: PrivateKey) -> None:
    """What `verify_card` returns says whom it is about, in the policy's words."""
    verified = verify_card(dump(signed(PORTABLE, alice)), policy=trusting(alice), now=NOW)

    assert verified.subject == "the harbour"
    assert repr(verified) == "VerifiedCard(subject='the harbour', profile='served-as-is')"


def test_a_verified_card_cannot_be_made_by_hand(alice: PrivateKey) -> None:
    """Neither a good report nor a made-up token is enough."""
    report = examine(signed(PORTABLE, alice), alice)

    with pytest.raises(TypeError, match="verify_card alone"):
        VerifiedCard(report, token=object())


# ------------------------------------------------------------------ precedence (D4)


def refused_entry(card: dict[str, Any], alice: PrivateKey) -> dict[str, str]:
    """An entry that cannot be read."""
    return {**one_signature(card, alice, "served-as-is"), "signature": "=="}


def broken_entry(card: dict[str, Any], alice: PrivateKey) -> dict[str, str]:
    """A readable signature over something else."""
    return one_signature({**card, "name": "Another"}, alice, "served-as-is")


ENTRIES = {
    "only bad ones by a pinned key": (["bad", "bad"], "invalid", "sig.bad"),
    "a bad one and a stranger's": (["bad", "stranger"], "invalid", "sig.bad"),
    "a stranger's and a bad one": (["stranger", "bad"], "invalid", "sig.bad"),
    "a bad one and an unreadable one": (["unreadable", "bad"], "invalid", "sig.bad"),
    "only a stranger's": (["stranger"], "untrusted", "key.unknown"),
    "only an unreadable one": (["unreadable"], "untrusted", "sig.base64url"),
    "a stranger's and an unreadable one": (["stranger", "unreadable"], "untrusted", "key.unknown"),
    "an unreadable one and a stranger's": (["unreadable", "stranger"], "untrusted", "key.unknown"),
    "a bad one and a good lossy one": (["bad", "lossy"], "untrusted", "sig.bad"),
    "a good lossy one": (["lossy"], "untrusted", "sig.other_profile"),
}


@pytest.mark.parametrize(("kinds", "verdict", "first"), ENTRIES.values(), ids=ENTRIES)
def test_without_a_good_signature(
    kinds: list[str], verdict: str, first: str, alice: PrivateKey, bob: PrivateKey
) -> None:
    """Bad signatures by enrolled keys speak against a card; all others only not for it."""
    made = {
        "bad": broken_entry(LAX, alice),
        "stranger": one_signature(LAX, bob, "served-as-is"),
        "unreadable": refused_entry(LAX, alice),
        "lossy": one_signature(LAX, alice, "prune-empty"),
    }
    report = examine({**LAX, "signatures": [made[kind] for kind in kinds]}, alice)

    assert report.verdict == verdict
    assert codes(report)[0] == first


@pytest.mark.parametrize("kind", ["bad", "stranger", "unreadable"])
def test_nothing_beside_it_blocks_a_good_signature(
    kind: str, alice: PrivateKey, bob: PrivateKey
) -> None:
    """One good signature is enough, whatever stands before or behind it."""
    other = {
        "bad": broken_entry(LAX, alice),
        "stranger": one_signature(LAX, bob, "served-as-is"),
        "unreadable": refused_entry(LAX, alice),
    }[kind]
    good = one_signature(LAX, alice, "served-as-is")

    for entries in ([other, good], [good, other]):
        report = examine({**LAX, "signatures": entries}, alice)
        assert report.verdict == "trusted"
        assert report.profile == "served-as-is"


def test_a_bad_signature_beside_a_good_one_is_reported(alice: PrivateKey) -> None:
    """A broken signature by a pinned key is told, but does not claim that coverage was lost."""
    good = one_signature(LAX, alice, "served-as-is")
    report = examine({**LAX, "signatures": [broken_entry(LAX, alice), good]}, alice)

    assert report.verdict == "trusted"
    assert codes(report) == ["sig.bad", "trust.freshness_waived"]
    assert report.reasons[0].path == "/signatures/0"


def test_a_compat_signature_is_not_tried_where_another_counts(alice: PrivateKey) -> None:
    """It could change nothing; edited, the card is tried by it too, to explain (E9)."""
    card = signed(LAX, alice, compat="all")
    verdicts = [one.verdict for one in examine(card, alice).signatures]
    edited = [one.verdict for one in examine({**card, "name": "x"}, alice).signatures]
    assert (verdicts[0], verdicts[-1]) == ("valid", "not-tried")
    assert "not-tried" not in edited


# ------------------------------------------------------------------ a token is no card (E1)


def test_what_pruning_leaves_must_be_a_card_too(alice: PrivateKey) -> None:
    """The payload counts, not the document: what it does not hold can be added to a token."""
    token = {"name": "Harbour", "supportedInterfaces": PORTABLE["supportedInterfaces"]}
    entry = one_signature(token, alice, "prune-empty")
    card = {**token, "skills": [], "capabilities": {}, "signatures": [entry]}

    report = examine(card, alice, profiles=DEFAULT_PROFILES)

    assert report.verdict == "untrusted"
    assert "card.not_agent_card" in codes(report)


# ------------------------------------------------------------------ whom the verdict is about


TIDES = "https://tides.example"


def policy_for(
    *keys: PrivateKey, origins: tuple[str, ...] | None = (TIDES,), freshness: Any = "waived"
) -> Policy:
    """The harbour is enrolled with these keys at these origins, the lighthouse with none."""
    parsed = None if origins is None else tuple(parse_place(one) for one in origins)
    jwks = JwkSet.of(key.public for key in keys)
    harbour = TrustedIssuer("harbour", KeysAnchor(jwks), parsed, freshness=freshness)
    lamp = TrustedIssuer("lamp", KeysAnchor(JwkSet.of([])), (parse_place("https://lamp.example"),))
    return Policy((harbour, lamp))


def test_the_place_of_a_refused_interface_is_the_document_s(alice: PrivateKey) -> None:
    """Where a profile moves or shifts it, the reader is still told where it stands."""
    moved = ({**OLD, "url": "https://evil.example"}, "prune-empty-upgraded", "/url")
    interfaces = [{}, {"url": "https://evil.example"}]
    shifted = (
        {**PORTABLE, "supportedInterfaces": interfaces},
        "prune-empty",
        "/supportedInterfaces/1/url",
    )
    for card, profile, path in (moved, shifted):
        jwks = JwkSet.of([alice.public])
        policy = Policy.from_jwks(jwks, name="x", origin=TIDES, accept="sdk", only=(profile,))
        document = dump(by_another_sdk(card, alice, profile))
        report = reach_verdict(document, expect=holder_of(policy), policy=policy, now=NOW)
        assert (report.reasons[0].code, report.reasons[0].path) == ("card.origin_mismatch", path)


def test_a_grpc_authority_inside_is_an_interface(alice: PrivateKey) -> None:
    """The twin: `host:port` of an enrolled origin passes, for GRPC alone."""
    interface = {"url": "tides.example:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    for binding, verdict in (("GRPC", "trusted"), ("JSONRPC", "untrusted")):
        card = {**PORTABLE, "supportedInterfaces": [{**interface, "protocolBinding": binding}]}
        document = dump(by_another_sdk(card, alice, "served-as-is"))
        report = reach_verdict(
            document, expect=Subject(issuer="harbour"), policy=policy_for(alice), now=NOW
        )
        assert report.verdict == verdict


def test_a_narrower_place_of_another_issuer_is_his(alice: PrivateKey, bob: PrivateKey) -> None:
    """On a shared host who may stand anywhere may not stand where another is at home."""
    lodger = replace_interface(f"{TIDES}/agents/geo/a2a")

    def of(name: str, key: PrivateKey, place: str) -> TrustedIssuer:
        anchor = KeysAnchor(JwkSet.of([key.public]))
        return TrustedIssuer(name, anchor, (parse_place(place),), freshness="waived")

    landlord = of("landlord", alice, TIDES)
    shared = Policy((landlord, of("lodger", bob, f"{TIDES}/agents/geo/")))
    card = dump(signed(lodger, alice))

    alone = reach_verdict(
        card, expect=Subject(issuer="landlord"), policy=Policy((landlord,)), now=NOW
    )
    assert alone.verdict == "trusted"
    report = reach_verdict(card, expect=Subject(issuer="landlord"), policy=shared, now=NOW)
    assert (report.verdict, codes(report)[0]) == ("untrusted", "card.origin_mismatch")
    his = reach_verdict(
        dump(signed(lodger, bob)), expect=Subject(issuer="lodger"), policy=shared, now=NOW
    )
    assert his.verdict == "trusted"


def replace_interface(url: str) -> dict[str, Any]:
    """The portable card with its one interface elsewhere."""
    return {**PORTABLE, "supportedInterfaces": [{**PORTABLE["supportedInterfaces"][0], "url": url}]}


# ------------------------------------------------------------------ freshness (V5, V7)


def test_freshness_waived_by_name_is_said(alice: PrivateKey) -> None:
    """The twin: `current` stays unknown, and the verdict says what was waived."""
    report = reach_verdict(
        dump(signed(PORTABLE, alice)),
        expect=Subject(issuer="harbour"),
        policy=policy_for(alice),
        now=NOW,
    )

    assert (report.verdict, report.answers.current) == ("trusted", "unknown")
    assert codes(report) == ["trust.freshness_waived"]
    assert report.reasons[0].hint == "You chose not to require this."


def test_a_key_set_alone_waives_freshness_and_nobody_chose_that(alice: PrivateKey) -> None:
    """The twin: with a key set there was nothing to choose."""
    report = examine(signed(PORTABLE, alice), alice)
    assert codes(report) == ["trust.freshness_waived"]
    assert report.reasons[0].hint == "A key set alone cannot show them."


def test_missing_freshness_does_not_soften_a_no(alice: PrivateKey) -> None:
    """What is refused for what it is stays refused where evidence is missing as well."""
    policy = policy_for(alice, freshness="required")
    card = by_another_sdk(LAX, alice, "prune-empty")

    for edited, verdict in ((card, "untrusted"), ({**card, "name": "x"}, "invalid")):
        report = reach_verdict(
            dump(edited), expect=Subject(issuer="harbour"), policy=policy, now=NOW
        )
        assert report.verdict == verdict


# ------------------------------------------------------------------ an accepted lossy profile


def test_nothing_is_excused_under_a_profile_that_is_not_accepted(alice: PrivateKey) -> None:
    """What acceptance would put up with counts against the card without it."""
    card = by_another_sdk(without(LAX, "/x-berth"), alice, "prune-empty")

    assert examine(card, alice).answers.complete == "no"
    assert examine(card, alice, profiles=("prune-empty",)).answers.complete == "yes"


def test_an_accepted_lossy_signature_says_what_it_leaves_open(alice: PrivateKey) -> None:
    """Empty schema members are excused, and named; the caller gets what was signed."""
    card = by_another_sdk(without(LAX, "/x-berth"), alice, "prune-empty")

    report = examine(card, alice, profiles=("prune-empty", *DEFAULT_PROFILES))

    assert report.verdict == "trusted"
    assert "coverage.requirement_unsigned" in codes(report)
    assert "coverage.absence_unprovable" in codes(report)
    assert "/securityRequirements" in report.uncovered
    assert report.card == canonicalize(LAX, "prune-empty").value


def test_the_failing_reason_goes_first(alice: PrivateKey) -> None:
    """An interface elsewhere outweighs what an accepted profile merely leaves open."""
    card = {**LAX, "supportedInterfaces": [{"url": "https://evil.example"}]}
    card = by_another_sdk(without(card, "/x-berth"), alice, "prune-empty")
    issuer = TrustedIssuer(
        "harbour",
        KeysAnchor(JwkSet.of([alice.public])),
        (parse_place(TIDES),),
        accept="sdk",
        freshness="waived",
    )

    report = reach_verdict(
        dump(card), expect=Subject(issuer="harbour"), policy=Policy((issuer,)), now=NOW
    )

    assert codes(report)[0] == "card.origin_mismatch"
    assert "coverage.requirement_unsigned" in codes(report)


def test_a_card_signed_by_an_sdk_says_what_it_leaves_unsigned(alice: PrivateKey) -> None:
    """Refused, it names the word that accepts it; accepted, it names what is open."""
    card = by_another_sdk(without(LAX, "/x-berth"), alice, "prune-empty")

    refused = examine(card, alice)
    assert (refused.verdict, refused.all_but) == ("untrusted", None)
    first = refused.reasons[0]
    assert first.code == "sig.other_profile"
    assert "the signature is good" in first.message
    assert "which leaves /securityRequirements and /iconUrl unsigned" in first.message
    assert "--accept sdk" in first.hint

    accepted = examine(card, alice, profiles=DEFAULT_PROFILES)
    assert (accepted.verdict, accepted.answers.complete) == ("trusted", "yes")
    (one,) = accepted.signatures
    assert {reason.severity for reason in one.reasons} == {"note"}  # R12
    assert "error" in {reason.severity for reason in refused.signatures[0].reasons}
    unsigned = "/securityRequirements and /iconUrl"
    assert accepted.all_but == f"all but {unsigned}, accepted by your policy"
    assert accepted.to_json()["coverage"]["all_but"] == accepted.all_but


def test_a_card_that_no_word_accepts_asks_the_issuer(alice: PrivateKey) -> None:
    """The twin: the SDK drops a member that it does not know, so `accept` would not help."""
    first = examine(by_another_sdk(LAX, alice, "prune-empty"), alice).reasons[0]

    assert (first.code, "/x-berth unsigned" in first.message) == ("sig.other_profile", True)
    assert first.hint.startswith("--accept sdk does not admit that /x-berth is unsigned. Ask the")


def test_the_strict_choice_takes_nothing_but_the_document(alice: PrivateKey) -> None:
    """Only `served-as-is` accepted: a dropped default, harmless otherwise, is not trusted."""
    card = without(signed(WITH_DEFAULTS, alice), "/skills/0/examples")

    assert examine(card, alice).verdict == "trusted"
    strict = examine(card, alice, profiles=("served-as-is",))
    assert strict.verdict == "untrusted"
    assert strict.card is None


# ------------------------------------------------------------------ what a hostile card costs


def test_a_card_with_countless_open_places_has_a_verdict_of_bounded_size(alice: PrivateKey) -> None:
    """The first hundred places are listed, with their reasons; how many there are is told."""
    card = {**PORTABLE, **{f"x{n}": 1 for n in range(5000)}}
    entry = one_signature(card, alice, "prune-empty")

    report = examine({**card, "signatures": [entry] * 16}, alice)

    assert report.verdict == "untrusted"
    assert (len(report.uncovered), report.uncovered_count) == (100, 5000)
    assert codes(report).count("coverage.uncovered") == 101
    for one in report.signatures:
        assert len(one.reasons) == 102
        assert one.reasons[-1].message == "4900 more places are not signed"


def test_a_long_name_is_shown_short(alice: PrivateKey) -> None:
    """A name may be as long as the card; in a report each token has at most 64 characters."""
    card = {**PORTABLE, "x" * 65: 1, "y" * 64: 1, "z": {"a/b~" * 100: 1}}
    entry = one_signature({**PORTABLE, "z": {}}, alice, "prune-empty")

    report = examine({**card, "signatures": [entry]}, alice)

    assert report.uncovered == ("/" + "x" * 61 + "...", "/" + "y" * 64, "/z")
    assert [one.path for one in report.reasons if one.code == "coverage.uncovered"] == list(
        report.uncovered
    )
