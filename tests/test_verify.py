"""The verdict on one card: which signature decides, what it needs, and what a reader is told."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from support import (
    DUAL,
    LAX,
    NOW,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    at,
    by_another_sdk,
    codes,
    dump,
    examine,
    one_signature,
    put,
    signed,
    trusting,
    under_header,
    without,
)

from cardsign import verify_card
from cardsign.card.canonical import DEFAULT_PROFILES, canonicalize
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, CardRefused
from cardsign.jose import base64url
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import TYP_COMPAT
from cardsign.jose.keys import PrivateKey
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import NotTrusted, NoVerdict, Report, VerifiedCard
from tests.support import reach_verdict

CARDS = {
    "portable": PORTABLE,
    "with defaults": WITH_DEFAULTS,
    "lax": LAX,
    "of 0.3": OLD,
    "for both generations": DUAL,
}
LOSSY = ("prune-empty", "prune-empty-upgraded")

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


def test_a_default_inside_a_security_member_is_not_excused(alice: PrivateKey) -> None:
    """Rule 1 drops an empty list of scopes, and the closed table passes no requirement over."""
    report = examine(by_another_sdk(LAX, alice, "rule-1-as-written"), alice)

    assert (report.verdict, codes(report)[0]) == ("untrusted", "coverage.requirement_unsigned")
    assert report.uncovered == ("/securityRequirements/0/schemes/harbour/list",)


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


def test_verify_card_raises_with_the_whole_report(alice: PrivateKey, bob: PrivateKey) -> None:
    """What is not trusted is an error with the first reason's code and the report."""
    with pytest.raises(NotTrusted) as caught:
        verify_card(dump(signed(PORTABLE, bob)), policy=trusting(alice), now=NOW)

    assert caught.value.code == "key.unknown"
    assert caught.value.report.verdict == "untrusted"
    assert caught.value.exit_status == EXIT_NOT_TRUSTED


def test_verify_card_says_when_there_was_no_verdict(alice: PrivateKey) -> None:
    """Indeterminate has an exit status of its own."""
    elsewhere = "https://elsewhere.example/card.json"
    with pytest.raises(NoVerdict) as caught:
        verify_card(dump(signed(PORTABLE, alice)), policy=trusting(alice), url=elsewhere, now=NOW)

    assert caught.value.exit_status == EXIT_NO_VERDICT


def test_a_naive_time_is_refused(alice: PrivateKey) -> None:
    """A time without zone could be any of 26 hours."""
    with pytest.raises(ValueError, match="zone"):
        reach_verdict(
            dump(PORTABLE),
            expect=Subject(is_holder=True),
            policy=trusting(alice),
            now=datetime(2026, 11, 21),
        )


# ------------------------------------------------------------------ precedence (D4)


def refused_entry(card: dict[str, Any], alice: PrivateKey) -> dict[str, str]:
    """An entry that cannot be read."""
    return {**one_signature(card, alice, "served-as-is"), "signature": "=="}


def broken_entry(card: dict[str, Any], alice: PrivateKey) -> dict[str, str]:
    """A readable signature over something else."""
    return one_signature({**card, "name": "Another"}, alice, "served-as-is")


def test_an_unsigned_card_is_untrusted(alice: PrivateKey) -> None:
    """No signature is no evidence against the card, and none for it."""
    report = examine(PORTABLE, alice)

    assert (report.verdict, codes(report)) == ("untrusted", ["sig.none"])
    assert report.answers.integrity == "no"


def test_a_signature_block_is_named(alice: PrivateKey) -> None:
    """`signature`, as some agents publish it, is no A2A signature; the verdict says so."""
    report = examine({**PORTABLE, "signature": {"algorithm": "RS256", "value": "x"}}, alice)

    assert report.verdict == "untrusted"
    assert codes(report) == ["sig.none", "card.single_signature_block"]


UNREADABLE = {
    "no JSON": (b"placeholder", "json.syntax"),
    "two names": (b'{"name":"a","name":"b"}', "json.duplicate_member"),
    "two spellings": (
        b'{"url":"https://a.example","URL":"https://b.example"}',
        "card.two_spellings",
    ),
    "signatures that are no list": (b'{"signatures":{}}', "card.signatures_shape"),
    "seventeen signatures": (
        b'{"signatures":[%s]}' % b",".join([b"{}"] * 17),
        "card.signatures_too_many",
    ),
}


@pytest.mark.parametrize(("untrusted_bytes", "code"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_invalid(
    untrusted_bytes: bytes, code: str, alice: PrivateKey
) -> None:
    """Bytes that are no card are a verdict, not an exception."""
    report = examine(untrusted_bytes, alice)

    assert (report.verdict, codes(report)) == ("invalid", [code])
    assert report.answers.integrity == "no"


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


def test_an_unsupported_key_is_named(alice: PrivateKey, bob: PrivateKey) -> None:
    """A signature by a pinned key of a type to come is unknown, and the reason says why."""
    document = b'{"keys":[{"kty":"AKP","alg":"ML-DSA-44","pub":"AA","kid":"bob"}]}'
    policy = Policy.from_jwks(JwkSet.from_bytes(document), name="x")
    report = reach_verdict(
        dump(signed(PORTABLE, bob)), expect=Subject(is_holder=True), policy=policy, now=NOW
    )

    assert (report.verdict, codes(report)[0]) == ("untrusted", "key.unsupported")
    assert report.signatures[0].verdict == "unknown-key"


def test_a_key_of_the_same_kid_is_not_the_same_key(alice: PrivateKey) -> None:
    """A kid is a hint: a stranger's key under a known kid gives a bad signature."""
    impostor = PrivateKey.generate("ES256", kid="alice")

    report = examine(signed(PORTABLE, impostor), alice)

    assert (report.verdict, codes(report)[0]) == ("invalid", "sig.bad")


def test_a_header_of_another_algorithm_than_the_key_s_is_refused(alice: PrivateKey) -> None:
    """The key says which algorithm is used, the header only repeats it."""
    header = {"alg": "RS256", "kid": "alice", "typ": "JOSE"}
    report = examine(under_header(PORTABLE, alice, header, profile="served-as-is"), alice)

    assert report.verdict == "untrusted"
    assert codes(report)[0] == "key.alg_mismatch"
    assert report.signatures[0].verdict == "refused"


# ------------------------------------------------------------------ one signature decides (V2)


def test_parts_of_two_signatures_make_no_verdict(alice: PrivateKey, bob: PrivateKey) -> None:
    """Full coverage by an unknown key and a known key's lossy signature do not add up."""
    entries = [
        one_signature(LAX, bob, "served-as-is"),
        one_signature(LAX, alice, "prune-empty"),
    ]
    for signatures in (entries, entries[::-1]):
        report = examine({**LAX, "signatures": signatures}, alice)
        assert report.verdict == "untrusted"
        assert report.profile == "prune-empty"
        assert "/x-berth" in report.uncovered
        assert "key.unknown" in codes(report)


def test_the_best_signature_is_the_one_that_counts(alice: PrivateKey, bob: PrivateKey) -> None:
    """An incomplete signature that counts says more than one by an unknown key."""
    card = by_another_sdk({**PORTABLE, "securityRequirements": []}, alice, "rule-1-as-written")
    card["signatures"].insert(0, one_signature(card, bob, "served-as-is"))

    report = examine(card, alice)

    assert report.verdict == "untrusted"
    assert report.answers.integrity == "yes"
    assert report.uncovered == ("/securityRequirements",)
    assert codes(report)[0] == "coverage.requirement_unsigned"


def test_the_answers_are_those_of_one_signature(alice: PrivateKey, bob: PrivateKey) -> None:
    """Two keys of two subjects on one card: each subject's answers come from its own key."""
    merged = signed(PORTABLE, alice, bob)
    policy = Policy(
        (
            TrustedIssuer(
                "tides",
                KeysAnchor(JwkSet.of([alice.public])),
                (parse_place("https://tides.example"),),
            ),
            TrustedIssuer(
                "winds",
                KeysAnchor(JwkSet.of([bob.public])),
                (parse_place("https://winds.example"),),
            ),
        )
    )

    def verdict(name: str) -> Report:
        return reach_verdict(dump(merged), expect=Subject(issuer=name), policy=policy, now=NOW)

    assert verdict("tides").answers.authorised == "yes"
    assert verdict("winds").answers.authorised == "no"
    assert codes(verdict("winds"))[0] == "card.origin_mismatch"
    assert [one.verdict for one in verdict("winds").signatures] == ["not-enrolled", "valid"]


# ------------------------------------------------------------------ typ


ACCEPTED_TYPS = {"absent": None, "JOSE": "JOSE", "JOSE+JSON": "JOSE+JSON", "jose": "jose"}
REFUSED_TYPS = [
    "at+jwt",
    "cardsign-keyset+jws",
    "cardsign-release+jws",
    "",
    "JWS",
    "JOSE ",
    "J\u017fE",
]


def header(typ: str | None) -> dict[str, str]:
    """A protected header with that typ."""
    members = {"alg": "ES256", "kid": "alice"}
    return members if typ is None else {**members, "typ": typ}


@pytest.mark.parametrize("typ", ACCEPTED_TYPS.values(), ids=ACCEPTED_TYPS)
def test_typ_of_a_card_signature(typ: str | None, alice: PrivateKey) -> None:
    """A full signature may say JOSE, JOSE+JSON or nothing."""
    report = examine(under_header(LAX, alice, header(typ), profile="served-as-is"), alice)

    assert report.verdict == "trusted"
    assert report.signatures[0].typ == typ


@pytest.mark.parametrize("typ", REFUSED_TYPS)
def test_typ_of_another_document(typ: str, alice: PrivateKey) -> None:
    """A good signature by the right key over the right bytes, made for something else."""
    report = examine(under_header(LAX, alice, header(typ), profile="served-as-is"), alice)

    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.typ_forbidden")
    assert report.signatures[0].verdict == "refused"


# ------------------------------------------------------------------ a token is no card (E1)

URL = "https://a.example/return"
CLAIMS = {"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
#: What the same key may have signed besides: none of them has what makes a card.
NO_CARDS: dict[str, dict[str, Any]] = {
    "a url alone": {"url": URL},
    "a link": {"url": URL, "type": "link", "target": "blank"},
    "an event": {"name": "order.created", "url": URL, "data": {"skills": []}},
    "a redirect inside the origin": {"url": URL + "?next=/a2a", "state": "x", "name": ""},
    "a null name": {"name": None, "url": URL, "skills": []},
    "a name that is a list": {"name": ["Harbour"], "url": URL, "skills": []},
    "skills that are an object": {"name": "Harbour", "url": URL, "skills": {}},
    "capabilities that are a list": {"name": "Harbour", "url": URL, "capabilities": []},
    "a card as a claim": {"url": URL, "card": PORTABLE},
    "an ID token": {"iss": URL, "sub": "7", "aud": "c", "exp": 9, "iat": 1, "name": "Ann"},
    "an access token (RFC 9068)": {"iss": URL, "aud": "c", "client_id": "c", "url": URL},
    "a logout token": {"iss": URL, "sid": "1", "events": {"logout": {}}, "url": URL},
    "a DPoP proof": {"jti": "1", "htm": "POST", "htu": URL, "iat": 1, "url": URL},
    "signed userinfo": {"sub": "7", "name": "Ann", "profile": URL, "url": URL},
}


@pytest.mark.parametrize("typ", ["JOSE", "JWT", None])
@pytest.mark.parametrize("claims", NO_CARDS.values(), ids=NO_CARDS)
def test_a_token_is_no_card(claims: dict[str, Any], typ: str | None, alice: PrivateKey) -> None:
    """Its signature is good, and it says nothing of an agent."""
    report = examine(under_header(claims, alice, header(typ), profile="served-as-is"), alice)

    (signature,) = report.signatures
    assert report.verdict == "untrusted"
    assert signature.answers.authorised == "no"
    assert "card.not_agent_card" in [one.code for one in signature.reasons]
    assert signature.verdict == ("refused" if typ == "JWT" and claims.keys() & CLAIMS else "valid")


@pytest.mark.parametrize("value", [None, "", URL, 0], ids=repr)
@pytest.mark.parametrize("claim", sorted(CLAIMS))
def test_a_jwt_with_a_claim_is_a_token(claim: str, value: Any, alice: PrivateKey) -> None:
    """Null included: a card has none of them, whatever else it holds."""
    card = {**PORTABLE, claim: value}

    report = examine(by_another_sdk(card, alice, "served-as-is", typ="JWT"), alice)

    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.typ_forbidden")
    assert claim in report.reasons[0].message
    assert (report.signatures[0].verdict, report.signatures[0].counts) == ("refused", False)
    assert examine(by_another_sdk(card, alice, "served-as-is"), alice).verdict == "trusted"


def test_only_the_top_level_has_claims(alice: PrivateKey) -> None:
    """A member of that name further down is a card's own."""
    card = {**PORTABLE, "x-claims": {"iss": URL, "exp": 1}}

    report = examine(by_another_sdk(card, alice, "served-as-is", typ="JWT"), alice)

    assert report.verdict == "trusted"


@pytest.mark.parametrize("profile", ["served-as-is", "rule-1-as-written"])
def test_a_jwt_over_a_card_counts(profile: str, alice: PrivateKey) -> None:
    """The honest twin: PyJWT and a2a-sdk write JWT where nobody says otherwise."""
    card = by_another_sdk(WITH_DEFAULTS, alice, profile, typ="JWT")

    assert examine(card, alice).verdict == "trusted"


@pytest.mark.parametrize("profile", LOSSY)
def test_a_jwt_may_stand_for_a_pruning_profile(profile: str, alice: PrivateKey) -> None:
    """a2a-sdk writes JWT by default."""
    card = by_another_sdk(WITH_DEFAULTS, alice, profile, typ="JWT")

    report = examine(card, alice, profiles=(profile,))
    assert (report.verdict, report.profile) == ("trusted", profile)


def test_a_jwt_over_a_portable_card_counts_by_the_full_profile(alice: PrivateKey) -> None:
    """All readings of it are the same bytes."""
    card = by_another_sdk(PORTABLE, alice, "prune-empty", typ="JWT")

    report = examine(card, alice)

    assert (report.verdict, report.profile) == ("trusted", "served-as-is")


def test_what_pruning_leaves_must_be_a_card_too(alice: PrivateKey) -> None:
    """The payload counts, not the document: what it does not hold can be added to a token."""
    token = {"name": "Harbour", "supportedInterfaces": PORTABLE["supportedInterfaces"]}
    entry = one_signature(token, alice, "prune-empty")
    card = {**token, "skills": [], "capabilities": {}, "signatures": [entry]}

    report = examine(card, alice, profiles=DEFAULT_PROFILES)

    assert report.verdict == "untrusted"
    assert "card.not_agent_card" in codes(report)


@pytest.mark.parametrize("profile", DEFAULT_PROFILES)
@each_card
def test_a_compat_signature_never_counts(
    card: dict[str, Any], profile: str, alice: PrivateKey
) -> None:
    """Not under any policy, and not where its payload is a full profile's as well."""
    marked = by_another_sdk(card, alice, profile, typ=TYP_COMPAT)

    report = examine(marked, alice, profiles=DEFAULT_PROFILES)

    assert report.verdict == "untrusted"
    assert (report.signatures[0].verdict, report.signatures[0].counts) == ("valid", False)
    assert codes(report)[0] == "sig.compat"
    assert report.card is None


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


SUBJECTS = {
    "by name": Subject(issuer="harbour"),
    "by origin": Subject(origin=TIDES),
    "by origin with a default port": Subject(origin=TIDES + ":443"),
    "by the card's URL": Subject(url=TIDES + "/.well-known/agent-card.json"),
}


@pytest.mark.parametrize("expect", SUBJECTS.values(), ids=SUBJECTS)
def test_the_subject_that_was_meant(expect: Subject, alice: PrivateKey) -> None:
    """However the subject is named, the entry that speaks for it decides."""
    document = dump(signed(PORTABLE, alice))

    report = reach_verdict(document, expect=expect, policy=policy_for(alice), now=NOW)

    assert (report.verdict, report.subject, report.issuer) == ("trusted", "harbour", "harbour")


OTHERS = {
    "by name": (Subject(issuer="lamp"), "untrusted", "key.not_enrolled"),
    "by origin": (Subject(origin="https://lamp.example"), "untrusted", "key.not_enrolled"),
    "by the card's URL": (
        Subject(url="https://lamp.example/card"),
        "untrusted",
        "key.not_enrolled",
    ),
    "by a name that nobody has": (Subject(issuer="nobody"), "indeterminate", "trust.no_anchor"),
    "by an origin that is not enrolled": (
        Subject(origin="https://tides.example:8443"),
        "indeterminate",
        "trust.no_anchor",
    ),
    "by http instead of https": (
        Subject(origin="http://tides.example"),
        "indeterminate",
        "trust.no_anchor",
    ),
    "as the holder of keys": (Subject(is_holder=True), "indeterminate", "trust.no_anchor"),
    "not at all": (None, "indeterminate", "trust.no_expectation"),
}


@pytest.mark.parametrize(("expect", "verdict", "code"), OTHERS.values(), ids=OTHERS)
def test_the_same_bytes_for_another_subject(
    expect: Subject | None, verdict: str, code: str, alice: PrivateKey
) -> None:
    """A genuine card is no answer to the question for somebody else's, or for nobody's."""
    document = dump(signed(PORTABLE, alice))

    report = reach_verdict(document, expect=expect, policy=policy_for(alice), now=NOW)

    assert (report.verdict, codes(report)[0], report.card) == (verdict, code, None)


def test_an_expectation_outside_the_grammar_is_the_caller_s_fault(alice: PrivateKey) -> None:
    """The one thing that raises, for the card did not write it."""
    with pytest.raises(CardRefused) as caught:
        reach_verdict(
            b"{}", expect=Subject(origin="tides.example"), policy=policy_for(alice), now=NOW
        )
    assert caught.value.code == "card.interface_url"


INTERFACES = {
    "outside": ([{"url": "https://evil.example/a2a"}], "card.origin_mismatch"),
    "one inside, one outside": (
        [{"url": TIDES + "/a2a"}, {"url": "https://evil.example/a2a"}],
        "card.origin_mismatch",
    ),
    "another port": ([{"url": TIDES + ":8443/a2a"}], "card.origin_mismatch"),
    "a backslash": ([{"url": TIDES + "\\@evil.example"}], "card.interface_url"),
    "a number": ([{"url": 5}], "card.interface_url"),
    "a grpc authority outside": (
        [{"url": "evil.example:443", "protocolBinding": "GRPC"}],
        "card.origin_mismatch",
    ),
    "none": ([], "card.no_interface"),
}


@pytest.mark.parametrize(("interfaces", "code"), INTERFACES.values(), ids=INTERFACES)
def test_interfaces_that_the_subject_may_not_have(
    interfaces: list[Any], code: str, alice: PrivateKey
) -> None:
    """The right key does not make a card right that leads elsewhere, or nowhere."""
    card = by_another_sdk({**PORTABLE, "supportedInterfaces": interfaces}, alice, "served-as-is")

    report = reach_verdict(
        dump(card), expect=Subject(issuer="harbour"), policy=policy_for(alice), now=NOW
    )

    assert (report.verdict, codes(report)[0]) == ("untrusted", code)
    assert (report.answers.integrity, report.answers.authorised) == ("yes", "no")
    assert report.signatures[0].verdict == "valid"


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
        report = reach_verdict(document, expect=Subject(is_holder=True), policy=policy, now=NOW)
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


def test_a_card_without_interface_is_untrusted_by_any_holder(alice: PrivateKey) -> None:
    """There must be one interface even where no origins are demanded."""
    card = by_another_sdk(without(PORTABLE, "/supportedInterfaces"), alice, "served-as-is")

    assert codes(examine(card, alice))[0] == "card.no_interface"


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


def test_without_evidence_of_freshness_there_is_no_verdict(alice: PrivateKey) -> None:
    """A pinned key cannot show that the card is current, and a policy demands it by default."""
    jwks = JwkSet.of([alice.public])
    policy = Policy((TrustedIssuer("harbour", KeysAnchor(jwks), (parse_place(TIDES),)),))

    report = reach_verdict(
        dump(signed(PORTABLE, alice)), expect=Subject(issuer="harbour"), policy=policy, now=NOW
    )

    assert (report.verdict, report.card) == ("indeterminate", None)
    assert codes(report) == ["trust.freshness_unknown"]
    assert report.answers.current == "unknown"
    assert report.exit_status == EXIT_NO_VERDICT


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


def test_a_lossy_signature_is_not_trusted_by_default(alice: PrivateKey) -> None:
    """What a2a-sdk signs of a card with a scope-less requirement is named, not believed."""
    report = examine(by_another_sdk(LAX, alice, "prune-empty"), alice)

    assert (report.verdict, report.profile) == ("untrusted", "prune-empty")
    assert codes(report)[0] == "sig.other_profile"
    assert report.signatures[0].verdict == "other-profile"
    assert report.uncovered == ("/securityRequirements", "/iconUrl", "/x-berth")


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


STILL_REFUSED = {
    "an unknown member": ("/x-berth", {"pier": 5}),
    "an unknown member that is empty": ("/x-berth", {}),
    "an unknown member of a skill": ("/skills/0/inputSchema", {}),
    "a 0.3 member": ("/url", "https://evil.example"),
    "a 0.3 member that is empty": ("/security", []),
    "a renamed member": ("/icon-url", "https://tides.example/icon.png"),
    "a member in another case": ("/IconURL2", ""),
}


@pytest.mark.parametrize(("pointer", "value"), STILL_REFUSED.values(), ids=STILL_REFUSED)
def test_an_accepted_lossy_profile_does_not_excuse_names(
    pointer: str, value: Any, alice: PrivateKey
) -> None:
    """What is dropped for its name was never looked at by the signer, whatever its value."""
    honest = by_another_sdk(without(LAX, "/x-berth"), alice, "prune-empty")
    assert examine(honest, alice, profiles=("prune-empty",)).verdict == "trusted"

    report = examine(put(honest, pointer, value), alice, profiles=("prune-empty",))

    assert report.verdict == "untrusted"
    assert pointer in report.uncovered
    assert report.reasons[0].path == pointer  # the failing part goes before the excused ones


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


def test_what_is_signed_whole_leaves_nothing_open(alice: PrivateKey) -> None:
    """A policy that accepts what the SDKs sign takes the stronger signature as well."""
    report = examine(signed(LAX, alice), alice, profiles=DEFAULT_PROFILES)

    assert (report.verdict, report.profile) == ("trusted", "served-as-is")
    assert report.all_but is None


def test_the_strict_choice_takes_nothing_but_the_document(alice: PrivateKey) -> None:
    """Only `served-as-is` accepted: a dropped default, harmless otherwise, is not trusted."""
    card = without(signed(WITH_DEFAULTS, alice), "/skills/0/examples")

    assert examine(card, alice).verdict == "trusted"
    strict = examine(card, alice, profiles=("served-as-is",))
    assert strict.verdict == "untrusted"
    assert strict.card is None


# ------------------------------------------------------------------ high-s


def test_both_halves_of_the_ecdsa_range_are_accepted(alice: PrivateKey) -> None:
    """(r, s) and (r, n-s) are one signature; so it cannot serve as an identity."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    card = signed(PORTABLE, alice)
    raw = base64url.decode(at(card, "/signatures/0/signature"))
    mirrored = raw[:32] + (order - int.from_bytes(raw[32:])).to_bytes(32)

    twin = put(card, "/signatures/0/signature", base64url.encode(mirrored))

    assert twin != card
    assert examine(twin, alice).verdict == examine(card, alice).verdict == "trusted"


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
    for one in report.signatures:
        assert len(one.reasons) == 102
        assert one.reasons[-1].message == "4900 more places are not signed"


def test_modes_cannot_be_taken_from_a_skill(alice: PrivateKey) -> None:
    """By an empty list that no payload holds (S11); what the issuer signed as empty may be so."""
    entry = one_signature(PORTABLE, alice, "rule-1-as-written")
    empty = put(PORTABLE, "/skills/0/inputModes", [])

    report = examine({**empty, "signatures": [entry]}, alice)

    assert (report.verdict, report.uncovered) == ("untrusted", ("/skills/0/inputModes",))
    assert examine(by_another_sdk(empty, alice, "served-as-is"), alice).verdict == "trusted"
    assert examine({**PORTABLE, "signatures": [entry]}, alice).verdict == "trusted"


def test_a_long_name_is_shown_short(alice: PrivateKey) -> None:
    """A name may be as long as the card; in a report each token has at most 64 characters."""
    card = {**PORTABLE, "x" * 65: 1, "y" * 64: 1, "z": {"a/b~" * 100: 1}}
    entry = one_signature({**PORTABLE, "z": {}}, alice, "prune-empty")

    report = examine({**card, "signatures": [entry]}, alice)

    assert report.uncovered == ("/" + "x" * 61 + "...", "/" + "y" * 64, "/z")
    assert [one.path for one in report.reasons if one.code == "coverage.uncovered"] == list(
        report.uncovered
    )
