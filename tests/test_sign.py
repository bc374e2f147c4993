"""Signing: which signatures a card gets and in what order, what stays, what is refused."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.card.document import Card
from cardsign.card.extensions import ExtendedMarker, find_marker, with_marker
from cardsign.card.profiles import FULL_PROFILES
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.errors import CardsignError, SignerFault, SigningRefused
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.jws import TYP_COMPAT, Signer, read_entry
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.sign import SignedCard, SigningOptions, self_check, sign_with_notes
from tests.support import (
    CARDS,
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    codes,
    dump,
    each_card,
    each_case,
    edited,
    examine,
    one_signature,
    profiles_of,
    put,
    signed,
    under_header,
    without,
)

MARKER = ExtendedMarker("7f0c1b52e6", 41, 1_798_761_600)
MARKED = with_marker(PORTABLE, MARKER)


@dataclass
class Counting:
    """A signer that counts how often it is asked."""

    key: PrivateKey
    asked: int = 0

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return self.key.public

    def sign(self, signing_input: bytes) -> bytes:
        """Sign, and count."""
        self.asked += 1
        return self.key.sign(signing_input)


def headers(card: dict[str, Any]) -> list[tuple[str, str | None]]:
    """kid and typ of each signature."""
    entries = [read_entry(entry) for entry in card["signatures"]]
    return [(entry.kid, entry.typ) for entry in entries]


def sign(card: dict[str, Any] | bytes, *signers: Signer, **options: Any) -> SignedCard:
    """What came of signing."""
    document = card if isinstance(card, bytes) else dump(card)
    return sign_with_notes(document, signers, SigningOptions(**options))


def refusal(card: dict[str, Any] | bytes, *signers: PrivateKey, **options: Any) -> CardsignError:
    """The error in which signing ends before any key is used."""
    unused = [Counting(signer) for signer in signers]
    with pytest.raises(CardsignError) as caught:
        sign(card, *unused, **options)
    assert not any(signer.asked for signer in unused)
    return caught.value


def keys_of(*signers: PrivateKey) -> JwkSet:
    """What an outsider has of them."""
    return JwkSet.of(signer.public for signer in signers)


def notes_of(signing: SignedCard, code: str) -> list[str]:
    """The messages of the notes with a code."""
    return [note.message for note in signing.notes if note.code == code]


# Which signatures.


@each_case(__file__, "plans", "base", "edits", "full", "safe", "further")
def test_one_signature_for_each_distinct_payload(
    base: str, edits: list[Any], full: str, safe: str, further: str, alice: PrivateKey
) -> None:
    """Full ones come first and say JOSE; lossy ones say that they are of compat."""
    card = edited(CARDS[base], edits)
    plans: dict[Any, str] = {"none": full, "safe": f"{full} {safe}"}
    plans["all"] = f"{full} {safe} {further}"
    for compat, plan in plans.items():
        signing = sign(card, alice, compat=compat)
        document = json.loads(signing.document)
        typs = ["JOSE" if profile in FULL_PROFILES else TYP_COMPAT for profile in plan.split()]

        assert list(profiles_of(signing)) == plan.split()
        assert headers(document) == [("alice", typ) for typ in typs]
        assert document["signatures"] == [
            one_signature(card, alice, profile, typ=typ)
            for profile, typ in zip(plan.split(), typs, strict=True)
        ]
        assert sign_card(dump(card), [alice], compat=compat) == signing.document


def test_older_keys_sign_first_and_every_algorithm_in_one_way(alice: PrivateKey) -> None:
    """All of one key's signatures, then all of the next key's."""
    rsa = PrivateKey.generate("RS256", kid="rsa")
    card = signed(LAX, rsa, alice)

    typs = ("JOSE", "JOSE", TYP_COMPAT)
    assert headers(card) == [(kid, typ) for kid in ("rsa", "alice") for typ in typs]
    algs = [read_entry(entry).alg for entry in card["signatures"]]
    assert algs == ["RS256"] * 3 + ["ES256"] * 3
    for key in (rsa, alice):
        assert examine(card, key).verdict == "trusted"


# What is said of them.


def test_the_rust_sdk_verifies_es256_alone(alice: PrivateKey) -> None:
    """`compat.txt` shows what else each signature does."""
    for key, count in ((alice, 1), (PrivateKey.generate("EdDSA"), 0)):
        readers = [
            reader for payload in sign(PORTABLE, key).payloads for reader in payload.verifiers
        ]
        assert sum("(Rust)" in reader for reader in readers) == count


@each_case(__file__, "refusing", "base", "edits", "compat", "sdks", "mends")
def test_an_sdk_that_will_refuse_the_card_is_named_with_the_ways_out(
    base: str, edits: list[Any], compat: str, sdks: list[str], mends: bool, alice: PrivateKey
) -> None:
    """Those that are served are not, nor those that cannot read it at all."""
    card = edited(CARDS[base], edits)
    lines = notes_of(sign(card, alice, compat=compat, file="my card.json"), "sign.sdk_refuses")

    assert [line.partition(" will refuse this card")[0].rstrip(",") for line in lines] == sdks
    help_of_lint = "`cardsign lint 'my card.json' --group portable` says why. "
    assert [help_of_lint in line for line in lines[:1]] == [mends] * bool(lines)
    assert all("the same: `--compat all`" in line for line in lines)


def test_without_an_endpoint_there_is_no_compat_signature(alice: PrivateKey) -> None:
    """prune-empty keeps nothing of a 0.3 card's url: whoever verifies that verifies nothing.

    The upgraded form moves every member, so there is no loss to warn of.
    """
    for compat in ("safe", "all"):
        signing = sign(OLD, alice, compat=compat)
        assert "prune-empty" not in profiles_of(signing)
        assert len(notes_of(signing, "sign.compat_no_endpoint")) == 1
    assert notes_of(sign(OLD, alice), "sign.compat_lossy") == []


def test_at_most_five_members_that_a_signature_leaves_open_are_named(alice: PrivateKey) -> None:
    """Requirements go first, whatever comes first in the card."""
    members = {"x-a": 1, "x-b": {}, "x-c": 1, "x-d": 1}
    (note,) = notes_of(sign({**members, **LAX}, alice), "sign.compat_lossy")
    lost = "/securityRequirements, /x-a, /x-b, /x-c, /x-d and 2 more"
    assert note.startswith(f"these do not notice a change of {lost}: a2a-sdk")


def test_what_real_cards_lack_or_have_twice_is_noted(alice: PrivateKey) -> None:
    """Null is as good as missing; a document for both versions is signed as it is."""
    for card in (without(PORTABLE, "/version"), {**PORTABLE, "version": None}):
        signing = sign(card, alice)
        assert [(note.code, note.path) for note in signing.notes if note.path == "/version"] == [
            ("card.missing_required", "/version")
        ]
        assert examine(signing.document, alice).verdict == "trusted"
    for card, count in ((DUAL, 1), (PORTABLE, 0), (OLD, 0)):
        assert len(notes_of(sign(card, alice), "sign.dual_document")) == count


# The bytes.

WRITTEN: dict[str, tuple[str, str]] = {
    "without any": ('"y":[1,1.0,1e2]} \n', '"y":[1,1.0,1e2],'),
    "at the end": ('"y":{"signatures":1e2} ,"signatures" : [] }', '"y":{"signatures":1e2} ,'),
    "below another member": ('"y":{"signatures":[1,1.0,1e2]}}', '"y":{"signatures":[1,1.0,1e2]},'),
}


@pytest.mark.parametrize(("end", "kept"), WRITTEN.values(), ids=WRITTEN)
def test_only_signatures_are_changed(end: str, kept: str, alice: PrivateKey) -> None:
    """All else stays as it was written, and they come last, each member on a line."""
    text = '{"x":null,"url":"https://a.example",\t"name":"\u00e9\\u20ac","skills":[],'

    document = sign_card((text + end).encode(), [alice]).decode()

    before, _, after = document.rpartition('"signatures": [')
    assert before == f"{text}{kept}\n  "
    assert after.startswith('\n    {\n      "protected": "')
    assert after.endswith('"\n    }\n  ]\n}\n')
    assert sign_card(document.encode(), [alice]).decode() == document


@pytest.mark.parametrize(
    "end", ['"signatures":[],"y":1e2}', '"signatures":[],"y":{"signatures":1}}']
)
def test_a_card_with_signatures_inside_is_written_anew(end: str, alice: PrivateKey) -> None:
    """Member order, nulls and numbers stay; two spaces, UTF-8, a newline."""
    text = '{"x":null,"url":"https://a.example","name":"\u00e9\\u20ac","skills":[],'

    document = sign_card((text + end).encode(), [alice]).decode()

    assert document.startswith(
        '{\n  "x": null,\n  "url": "https://a.example",\n  "name": "\u00e9\u20ac",\n'
        '  "skills": [],\n  "signatures": [\n    {\n'
    )
    assert list(json.loads(document)) == list(json.loads(text + end))
    assert document.endswith("\n}\n")


# Signatures that are there.


@each_card
def test_a_fully_signed_card_comes_back_unchanged(card: dict[str, Any], alice: PrivateKey) -> None:
    """Byte for byte and without a call to the key; the twin is edited, and signed anew."""
    compact = json.dumps(signed(card, alice), separators=(",", ":")).encode()
    signer = Counting(alice)

    again = sign(compact, signer)
    edited = sign({**json.loads(compact), "name": "Edited"}, alice)

    assert (again.document, again.changed, signer.asked) == (compact, False, 0)
    assert edited.changed
    assert examine(edited.document, alice).verdict == "trusted"


def test_only_what_is_missing_is_signed(alice: PrivateKey, bob: PrivateKey) -> None:
    """When a key joins, those of the old one are taken over as they are."""
    old, new = Counting(alice), Counting(bob)

    signing = sign(signed(LAX, alice), old, new)

    assert (old.asked, new.asked) == (0, 3)
    assert json.loads(signing.document)["signatures"][:3] == signed(LAX, alice)["signatures"]


@pytest.mark.parametrize("extra", ["jku", "header", "typ", "a copy"])
def test_own_signatures_of_another_form_are_replaced(extra: str, alice: PrivateKey) -> None:
    """They may verify, but they are not what we make, or not so often."""
    header = {"alg": "ES256", "kid": "alice", "typ": "JOSE+JSON" if extra == "typ" else "JOSE"}
    header |= {"jku": "https://evil.example"} if extra == "jku" else {}
    card = under_header(PORTABLE, alice, header, profile="served-as-is")
    if extra == "header":
        card["signatures"][0]["header"] = {"x": 1}
    if extra == "a copy":
        card = signed(PORTABLE, alice)
        card["signatures"] *= 2
    assert examine(card, alice).verdict == "trusted"

    assert json.loads(sign(card, alice).document) == signed(PORTABLE, alice)


@each_case(__file__, "foreign", "entries", "options", "outcome")
def test_a_foreign_signature(
    entries: Any, options: dict[str, Any], outcome: str, alice: PrivateKey, bob: PrivateKey
) -> None:
    """Checked where its key is known, dropped where it would harm, and kept last otherwise."""
    rs256 = {"alg": "RS256", "kid": "bob"}
    by_bob = {
        "full": signed(LAX, bob)["signatures"],
        "of SDKs": [one_signature(LAX, bob, name) for name in ("prune-empty", "js-instance")],
        "of another card": signed(PORTABLE, bob)["signatures"],
        "of RS256": under_header(LAX, bob, rs256, profile="served-as-is")["signatures"],
    }
    foreign = by_bob[entries] if isinstance(entries, str) else copy.deepcopy(entries)
    for entry in foreign:
        if isinstance(entry, dict) and entry.get("protected", "").startswith("{"):
            entry["protected"] = encode_base64url(entry["protected"].encode())
    known = {"known_keys": keys_of(bob)} if "known_keys" in options else {}
    signing = sign({**LAX, "signatures": foreign}, alice, **{**options, **known})

    kept = foreign if outcome.startswith("kept") else []
    assert json.loads(signing.document)["signatures"] == signed(LAX, alice)["signatures"] + kept
    notes = [note for note in signing.notes if note.code == "sign.foreign"]
    is_noted = outcome not in ("", "kept")
    assert [note.path for note in notes] == (
        [f"/signatures/{index}" for index in range(len(foreign))] if is_noted else []
    )
    assert all(note.message.endswith(f"was {outcome}") for note in notes)


def test_a_plan_of_sixteen_is_carried_out(alice: PrivateKey, bob: PrivateKey) -> None:
    """One more is refused, and dropping those of others is the way out."""
    foreign = one_signature(LAX, bob, "served-as-is")
    fitting, beyond = ({**LAX, "signatures": [foreign] * count} for count in (13, 14))

    assert len(signed(fitting, alice)["signatures"]) == 16
    error = refusal(beyond, alice)
    assert (error.code, "14 kept foreign signatures make 17" in str(error)) == (
        "sign.too_many",
        True,
    )
    assert len(signed(beyond, alice, drop_foreign=True)["signatures"]) == 3


JKU = {"jku": "https://tides.example/.well-known/jwks.json", "x-team": ""}


def test_an_unsigned_header_is_written_and_said(alice: PrivateKey) -> None:
    """Into each signature, which stays the same; the next signing keeps or drops it."""
    signing = sign(LAX, alice, header=JKU)

    entries = json.loads(signing.document)["signatures"]
    assert [entry.pop("header") for entry in entries] == [JKU] * 3
    assert entries == signed(LAX, alice)["signatures"]
    assert notes_of(signing, "sign.header_unsigned") == [
        f"`{name}` in the header of each signature is not signed" for name in JKU
    ]
    assert examine(signing.document, alice).verdict == "trusted"
    assert not sign(json.loads(signing.document), alice, header=JKU).changed
    assert json.loads(sign(json.loads(signing.document), alice).document) == signed(LAX, alice)


# The marker of an extended card.


@each_card
def test_a_marker_asks_for_no_further_signature(card: dict[str, Any], alice: PrivateKey) -> None:
    """Nor note: every payload keeps it."""
    marked, plain = sign(card, alice, extended=MARKER), sign(card, alice)

    assert profiles_of(marked) == profiles_of(plain)
    assert {note.code for note in marked.notes} == {note.code for note in plain.notes}


def test_a_marker_stays_until_another_is_asked_for(alice: PrivateKey) -> None:
    """With the same one bytes stay as they are, and so do ETags; nobody gets one unasked."""
    first = sign(LAX, alice, extended=MARKER)
    card, later = json.loads(first.document), ExtendedMarker(MARKER.audience, 42, MARKER.exp)
    for marker, is_changed in ((None, False), (MARKER, False), (later, True)):
        again = sign(card, alice, extended=marker)
        document = Card.from_bytes(again.document).document
        assert again.changed == is_changed
        assert find_marker(document) == (marker or MARKER)
        assert len(json.loads(again.document)["signatures"]) == len(card["signatures"])
    assert find_marker(Card.from_bytes(sign(MARKED, alice).document).document) == MARKER
    assert "extensions" not in signed(PORTABLE, alice)["capabilities"]


# What is refused.

EXTENSIONS = "/capabilities/extensions"
TOO_LONG = "a" * (MAX_CARD_BYTES - len(dump({**PORTABLE, "x": ""})))


@each_case(__file__, "refused", "base", "edits", "options", "code")
@pytest.mark.parametrize("force", [False, True], ids=["without force", "by force"])
def test_what_is_never_signed(
    base: str, edits: list[Any], options: dict[str, Any], code: str, force: bool, alice: PrivateKey
) -> None:
    """Force does not help, and the key is not used."""
    card = {**CARDS, "marked": MARKED}.get(base)
    options = {**options, "extended": MARKER} if "extended" in options else options
    untrusted = edited(card, edits) if card else base.encode()
    assert refusal(untrusted, alice, force=force, **options).code == code


@each_case(__file__, "forcible", "base", "edits", "code", "path")
def test_what_is_no_good_card_is_signed_by_force_alone(
    base: str, edits: list[Any], code: str, path: str, alice: PrivateKey
) -> None:
    """Refused with the place; by force it is signed as it is served, and the problem is noted."""
    card = edited(CARDS[base], edits)
    error = refusal(card, alice)
    assert (error.code, error.path) == (code, path)

    signing = sign(card, alice, force=True)

    assert "served-as-is" in profiles_of(signing)
    assert notes_of(signing, code)
    assert {note.severity for note in signing.notes} <= {"note", "warning"}
    report = examine(signing.document, alice)
    assert (report.answers.integrity, report.answers.complete) == ("yes", "yes")


def test_force_names_the_profiles_that_have_no_payload(alice: PrivateKey) -> None:
    """A type-confused card is signed under the profiles that can (D20)."""
    signing = sign(put(PORTABLE, "/capabilities/streaming", "yes"), alice, force=True)

    assert profiles_of(signing) == ("served-as-is",)
    skipped = [note.path for note in signing.notes if note.code == "sign.profile_skipped"]
    assert skipped == ["/capabilities/streaming"] * 2


def test_problems_are_counted(alice: PrivateKey) -> None:
    """Whoever signs a stranger's card by force reads fifty of a kind, and hears of each kind."""
    card = put(put(PORTABLE, "/version", 1), "/description", 2)
    assert "expected a string; 1 more such problem" in str(refusal(card, alice))

    notes = sign({**PORTABLE, "skills": [{}] * 3000, "iconUrl": 7}, alice, force=True).notes
    kinds = [note.code for note in notes]
    assert kinds.count("card.missing_required") == 51
    assert "11,950 more" in [note.message for note in notes]
    assert kinds.count("card.type") == 1


def test_keys_that_cannot_sign(alice: PrivateKey) -> None:
    """None, and two under one kid: nobody could tell their signatures apart; neither is used."""
    assert refusal(PORTABLE).code == "sign.no_key"
    namesake = PrivateKey.generate("ES256", kid="alice")
    assert refusal(PORTABLE, alice, namesake).code == "jwks.duplicate_kid"


@pytest.mark.parametrize("code", ["signer.failed", "signer.wrong_key"])
def test_a_signer_that_fails_or_lies(code: str, alice: PrivateKey) -> None:
    """Its error comes through, its answer is verified; even if it looks like a key of ours."""

    class Elsewhere(PrivateKey):
        __slots__ = ()

        def sign(self, signing_input: bytes) -> bytes:
            if code == "signer.failed":
                raise SignerFault(code, "the token was pulled out")
            return bytes(64)

    with pytest.raises(SignerFault) as caught:
        sign_card(dump(PORTABLE), [Elsewhere(alice.public, alice._native)])
    assert caught.value.code == code


def test_what_every_reader_would_refuse_is_refused_here(alice: PrivateKey) -> None:
    """The card fits, the signed card would not; the twin is as deep as every reader takes."""
    with pytest.raises(SigningRefused, match=r"^json\.too_large"):
        sign({**PORTABLE, "x": TOO_LONG}, alice)

    params: Any = "1"
    for _ in range(MAX_DEPTH - 5):
        params = {"a": params}
    card = put(PORTABLE, EXTENSIONS, [{"uri": "u", "params": params}])
    assert profiles_of(sign(card, alice)) == ("served-as-is",)
    assert codes(examine(signed(card, alice), alice)) == ["trust.freshness_waived"]


# The self-check.


def failed_check(card: dict[str, Any], *signers: PrivateKey, force: bool = False) -> SigningRefused:
    """The refusal of what was signed."""
    with pytest.raises(SigningRefused) as caught:
        self_check(dump(card), keys_of(*signers), force=force)
    return caught.value


def test_what_does_not_verify_when_read_again_is_refused(alice: PrivateKey) -> None:
    """Force excuses what makes a card untrusted, and never a member that nobody signed."""
    card = signed(PORTABLE, alice)
    self_check(dump(card), keys_of(alice))
    assert failed_check({**card, "x-added": 1}, alice).code == "sign.self_check"

    forced = json.loads(sign(without(PORTABLE, "/supportedInterfaces"), alice, force=True).document)
    self_check(dump(forced), keys_of(alice), force=True)
    assert failed_check(forced, alice)
    assert failed_check({**forced, "x-added": 1}, alice, force=True)


def test_a_compat_signature_is_not_the_full_one_of_its_signer(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """It is not tried, so it says nothing of what that signer has signed."""
    card = signed(LAX, alice, bob)
    of = zip(headers(card), card["signatures"], strict=True)
    card["signatures"] = [entry for header, entry in of if header != ("bob", "JOSE")]
    assert ("bob", TYP_COMPAT) in headers(card)

    self_check(dump(card), keys_of(alice))
    assert "has no valid signature by 'bob' when" in failed_check(card, alice, bob).message


def test_a_bad_signature_beside_a_good_one_is_seen(alice: PrivateKey, bob: PrivateKey) -> None:
    """The outsider is content with one good signature, so each of several is looked at."""
    swapped = PrivateKey(bob.public, alice._native)
    with pytest.raises(SigningRefused, match="has a signature that is invalid when") as caught:
        sign_card(dump(PORTABLE), [alice, swapped])
    assert (caught.value.code, caught.value.path) == ("sign.self_check", "/signatures/1")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ({"alg": "EdDSA"}, "has a signature that is refused when"),
        ({"kid": "carol"}, "has no valid signature by 'bob' when"),
        ({"crit": ["x"]}, "has no valid signature by 'bob' when"),
    ],
    ids=str,
)
def test_each_full_signature_of_ours_must_be_valid(
    spoil: dict[str, Any], problem: str, alice: PrivateKey, bob: PrivateKey
) -> None:
    """It is not enough that none is invalid: an entry may be one of which nothing is checked."""
    card = signed(PORTABLE, alice, bob)
    header = {"alg": "ES256", "kid": "bob", "typ": "JOSE", **spoil}
    card["signatures"][1]["protected"] = encode_base64url(json.dumps(header).encode())

    error = failed_check(card, alice, bob)
    assert error.code == "sign.self_check"
    assert problem in error.message
    assert error.path.startswith("/signatures")
