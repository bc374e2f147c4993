"""Signing: which signatures a card gets and in what order, what stays, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.card.extensions import ExtendedMarker
from cardsign.card.profiles import canonicalize
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.errors import (
    CardRefused,
    CardsignError,
    KeyRefused,
    SignerFault,
    SigningRefused,
    UsageFault,
)
from cardsign.jose import base64url
from cardsign.jose.jws import TYP_COMPAT, read_entry
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.sign import SignedCard, SigningOptions, self_check, sign_with_notes
from tests.support import (
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    codes,
    dump,
    each_card,
    examine,
    one_signature,
    profiles_of,
    put,
    signed,
    under_header,
    without,
)


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


def sign(card: dict[str, Any], *signers: PrivateKey, **options: Any) -> SignedCard:
    """What came of signing."""
    return sign_with_notes(dump(card), signers, SigningOptions(**options))


def keys_of(*signers: PrivateKey) -> JwkSet:
    """What an outsider has of them."""
    return JwkSet.of(signer.public for signer in signers)


def refusal(document: bytes, signer: Counting, **options: Any) -> CardsignError:
    """The error that signing must end in, before the key is used."""
    with pytest.raises(CardsignError) as caught:
        sign_with_notes(document, [signer], SigningOptions(**options))
    assert signer.asked == 0
    return caught.value


def noted(signing: SignedCard) -> list[str]:
    """The codes of the notes, but for those on SDKs that will refuse the card."""
    return [note.code for note in signing.notes if note.code != "sign.sdk_refuses"]


# ------------------------------------------------------------------ which signatures

PLANS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "a portable card": (PORTABLE, [("served-as-is", "JOSE")]),
    "one with defaults": (
        WITH_DEFAULTS,
        [("served-as-is", "JOSE"), ("rule-1-as-written", "JOSE")],
    ),
    "a lax one": (
        LAX,
        [("served-as-is", "JOSE"), ("rule-1-as-written", "JOSE"), ("prune-empty", TYP_COMPAT)],
    ),
    "one of 0.3": (
        OLD,
        [("served-as-is", "JOSE"), ("prune-empty-upgraded", TYP_COMPAT)],
    ),
    "one for both": (
        DUAL,
        [("served-as-is", "JOSE"), ("prune-empty", TYP_COMPAT)],
    ),
    "one whose lossy payloads differ": (
        {**PORTABLE, "supportsAuthenticatedExtendedCard": True},
        [
            ("served-as-is", "JOSE"),
            ("prune-empty", TYP_COMPAT),
            ("prune-empty-upgraded", TYP_COMPAT),
        ],
    ),
}


@pytest.mark.parametrize(("card", "plan"), PLANS.values(), ids=PLANS)
def test_one_signature_for_each_distinct_payload(
    card: dict[str, Any], plan: list[tuple[str, str]], alice: PrivateKey
) -> None:
    """Full ones say JOSE, lossy ones compat; who knows no profiles finds a good one first."""
    signing = sign(card, alice)
    document = json.loads(signing.document)

    assert profiles_of(signing) == tuple(profile for profile, _ in plan)
    assert headers(document) == [("alice", typ) for _, typ in plan]
    for entry, (profile, typ) in zip(document["signatures"], plan, strict=True):
        assert entry == one_signature(card, alice, profile, typ=typ)


def test_older_keys_sign_first(alice: PrivateKey, bob: PrivateKey) -> None:
    """All of one key's signatures, then all of the next key's."""
    compat, full = TYP_COMPAT, "JOSE"

    assert headers(signed(LAX, bob, alice)) == [
        ("bob", full),
        ("bob", full),
        ("bob", compat),
        ("alice", full),
        ("alice", full),
        ("alice", compat),
    ]


def test_rs256(alice: PrivateKey) -> None:
    """The other algorithm goes the same way, and both stand side by side."""
    rsa = PrivateKey.generate("RS256", kid="rsa")
    card = signed(WITH_DEFAULTS, rsa, alice)

    assert [json.loads(base64url.decode(e["protected"]))["alg"] for e in card["signatures"]] == [
        "RS256",
        "RS256",
        "ES256",
        "ES256",
    ]
    for key in (rsa, alice):
        assert examine(card, key).verdict == "trusted"


EURO = put(LAX, "/name", "\u20ac")
FULL = ("served-as-is", "rule-1-as-written")
CHOICES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "safe": ("safe", (*FULL, "prune-empty")),
    "none": ("none", FULL),
    "all": ("all", (*FULL, "prune-empty", "js-instance")),
}


@pytest.mark.parametrize(("compat", "made"), CHOICES.values(), ids=CHOICES)
def test_which_compat_signatures_are_made(
    compat: Any, made: tuple[str, ...], alice: PrivateKey
) -> None:
    """The full signatures are always made."""
    signing = sign(EURO, alice, compat=compat)

    assert profiles_of(signing) == made
    assert sign_card(dump(EURO), [alice], compat=compat) == signing.document
    typs = [typ for _, typ in headers(json.loads(signing.document))]
    assert typs == ["JOSE"] * 2 + [TYP_COMPAT] * (len(made) - 2)


# ------------------------------------------------------------------ what is safe


def bare(card: dict[str, Any]) -> dict[str, Any]:
    """The card without anything about who may call."""
    members = ("securitySchemes", "securityRequirements", "security")
    skills = [{k: v for k, v in skill.items() if k not in members} for skill in card["skills"]]
    return {k: v for k, v in card.items() if k not in members} | {"skills": skills}


BARE_OLD = bare(OLD)
WITHOUT_SCOPES = {"clientCredentials": {"tokenUrl": "https://tides.example/token", "scopes": {}}}
#: By profile, and whether a signature for it is safe: the card.
SAFETY: dict[tuple[str, bool], dict[str, dict[str, Any]]] = {
    ("prune-empty", True): {
        "a requirement without scopes is lost": LAX,
        "a member of a vendor is lost": {**PORTABLE, "x-berth": 4},
        "an empty part of a scheme is lost": put(
            PORTABLE, "/securitySchemes/door", {"oauth2SecurityScheme": {"flows": WITHOUT_SCOPES}}
        ),
        "an old requirement without scopes is lost": {**PORTABLE, "security": [{"harbour": []}]},
    },
    ("prune-empty", False): {
        "a scheme is lost": put(PORTABLE, "/securitySchemes/door", {"mtlsSecurityScheme": {}}),
        "part of a scheme is lost": put(
            PORTABLE, "/securitySchemes/harbour/httpAuthSecurityScheme/realm", "x"
        ),
        "a requirement with scopes is lost": {**PORTABLE, "security": [{"harbour": ["write"]}]},
    },
    ("js-instance", False): {
        "0.3 and schemes": OLD,
        "1.0 with schemes for the JavaScript client": {
            **bare(EURO),
            "securitySchemes": {"x": {"mtlsSecurityScheme": {"description": "x"}}},
        },
    },
    ("js-instance", True): {
        "0.3 without schemes": BARE_OLD,
    },
}


@pytest.mark.parametrize(
    ("card", "profile", "safe"),
    [
        pytest.param(card, *outcome, id=name)
        for outcome, table in SAFETY.items()
        for name, card in table.items()
    ],
)
def test_what_is_safe(card: dict[str, Any], profile: str, safe: bool, alice: PrivateKey) -> None:
    """A payload that lost an endpoint, a scheme or a scope is signed where all are asked for."""
    payload = canonicalize(card, profile).data

    def is_signed(**options: Any) -> bool:
        made = profiles_of(sign(card, alice, **options))
        return payload in {canonicalize(card, name).data for name in made}

    assert is_signed() == safe
    assert is_signed(compat="all")
    assert payload not in {canonicalize(card, name).data for name in FULL}


# ------------------------------------------------------------------ who will refuse it


def refusing(signing: SignedCard) -> list[str]:
    """The messages on SDKs that will refuse the card."""
    return [note.message for note in signing.notes if note.code == "sign.sdk_refuses"]


def test_an_sdk_that_will_refuse_the_card_is_named_with_the_ways_out(alice: PrivateKey) -> None:
    """The JavaScript client drops security schemes before it verifies."""
    (line,) = refusing(sign(PORTABLE, alice))

    assert line == (
        "@a2a-js/sdk 1.0.1 to 1.3.0, its resolver, will refuse this card. To sign for it all "
        "the same: `--compat all`. It then does not notice a change of /securitySchemes"
    )


def test_the_command_that_a_note_proposes_names_the_file(alice: PrivateKey) -> None:
    """Quoted for a shell; only a library call does not know it."""
    options = SigningOptions(file="my card.json", compat="none")
    named = sign_with_notes(dump({**PORTABLE, "x-berth": 4}), [alice], options)
    assert "`cardsign lint 'my card.json' --group portable` says why" in refusing(named)[0]


def test_an_sdk_that_is_served_is_not_named(alice: PrivateKey) -> None:
    """The twin; nor is one that cannot read a card of 1.0 at all."""
    assert refusing(sign(PORTABLE, alice, compat="all")) == []
    assert refusing(sign(BARE_OLD, alice)) == []


def test_without_compat_signatures_every_sdk_that_differs_is_named(alice: PrivateKey) -> None:
    """And `lint --fix` is proposed where that is enough."""
    lines = refusing(sign(WITH_DEFAULTS, alice, compat="none"))
    assert [line.partition(", will")[0] for line in lines] == [
        "@a2a-js/sdk 1.0.1 to 1.3.0, its resolver"
    ]
    lines = refusing(sign(put(WITH_DEFAULTS, "/iconUrl", None), alice, compat="none"))
    assert len(lines) == 1
    snake = put(without(PORTABLE, "/provider"), "/icon_url", "https://tides.example/i.png")
    (first, *_) = refusing(sign(snake, alice, compat="none"))
    assert "`cardsign lint CARD --group portable` says why" in first


def test_what_each_signature_does_is_told(alice: PrivateKey) -> None:
    """For programs and for `sign --explain`."""
    full, compat = sign({**PORTABLE, "x-berth": 4}, alice).payloads

    assert (compat.profile, compat.compat) == ("prune-empty", True)
    assert compat.verifiers == (
        "a2a-sdk 1.1.4 to 1.3.0",
        "@a2a-js/sdk 1.0.1 to 1.3.0, given the plain JSON",
    )
    assert compat.leaves_open == ("/x-berth",)
    assert (full.profile, full.compat, full.leaves_open_count) == ("served-as-is", False, 0)
    rust = "a2a-protocol-types 0.15.0 (Rust), given the plain JSON"
    assert rust in full.verifiers
    other = PrivateKey.generate("EdDSA")
    assert not any(rust in one.verifiers for one in sign(PORTABLE, other).payloads)


# ------------------------------------------------------------------ no endpoint, no compat


@pytest.mark.parametrize("compat", ["safe", "all"])
def test_no_compat_signature_without_an_endpoint(compat: str, alice: PrivateKey) -> None:
    """prune-empty keeps nothing of a 0.3 card's url: whoever verifies that verifies nothing.

    Nor does js-instance, and nobody asks what became of that.
    """
    signing = sign(OLD, alice, compat=compat)

    assert "prune-empty" not in profiles_of(signing)
    assert noted(signing).count("sign.compat_no_endpoint") == 1


def test_what_a_compat_signature_loses_is_said(alice: PrivateKey) -> None:
    """Requirements go first, whatever comes first in the card."""
    card = {"x-a": 1, "x-b": {}, **LAX}
    note = next(n for n in sign(card, alice).notes if n.code == "sign.compat_lossy")

    assert note.message == (
        "these do not notice a change of /securityRequirements, /x-a, /x-b, /iconUrl, /x-berth: "
        "a2a-sdk 1.1.4 to 1.3.0; @a2a-js/sdk 1.0.1 to 1.3.0, given the plain JSON"
    )


def test_a_compat_signature_that_loses_nothing_is_not_noted(alice: PrivateKey) -> None:
    """The upgrade moves every member of this card, so there is nothing to warn of."""
    signing = sign(OLD, alice)

    assert "prune-empty-upgraded" in profiles_of(signing)
    assert "sign.compat_lossy" not in noted(signing)


@pytest.mark.parametrize(
    "compat", ["some", "js-instance", ("prune-empty",), ["js-instance"], ("all",)]
)
def test_an_unknown_choice(compat: Any, alice: PrivateKey) -> None:
    """Refused before anything is signed; full signatures are nobody's choice."""
    found = refusal(dump(PORTABLE), Counting(alice), compat=compat)

    assert isinstance(found, UsageFault)
    assert found.message.startswith("compat is 'safe', 'all' or 'none', not ")


def test_whatever_stands_for_a_url_can_be_signed_by_force(alice: PrivateKey) -> None:
    """It is compared with what each payload keeps, as any other."""
    card = {"name": "n", "url": {"a": 1}, "preferredTransport": "GRPC", "skills": [{}]}
    assert "served-as-is" in profiles_of(sign(card, alice, force=True))


# ------------------------------------------------------------------ the bytes


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
    assert before.rstrip() == text + kept
    assert before.endswith(",\n  ")
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


@each_card
def test_a_fully_signed_card_comes_back_unchanged(card: dict[str, Any], alice: PrivateKey) -> None:
    """Byte for byte, white space included, and without a call to the key."""
    compact = json.dumps(signed(card, alice), separators=(",", ":")).encode()
    signer = Counting(alice)

    again = sign_with_notes(compact, [signer], SigningOptions())

    assert (again.document, again.changed, signer.asked) == (compact, False, 0)


def test_a_card_that_was_edited_is_signed_anew(alice: PrivateKey) -> None:
    """The twin: nothing of the old signatures stays."""
    card = signed(PORTABLE, alice)

    again = sign({**card, "name": "Other"}, alice)

    assert again.changed
    assert examine(again.document, alice).verdict == "trusted"
    assert json.loads(again.document)["signatures"] != card["signatures"]


def test_only_what_is_missing_is_signed(alice: PrivateKey, bob: PrivateKey) -> None:
    """When a key joins, those of the old one are taken over as they are."""
    old, new = Counting(alice), Counting(bob)

    signing = sign_with_notes(dump(signed(LAX, alice)), [old, new], SigningOptions())

    assert (old.asked, new.asked) == (0, 3)
    assert json.loads(signing.document)["signatures"][:3] == signed(LAX, alice)["signatures"]


@pytest.mark.parametrize("extra", ["jku in the header", "an unprotected header", "another typ"])
def test_own_signatures_of_another_form_are_replaced(extra: str, alice: PrivateKey) -> None:
    """They may verify, but they are not what we make."""
    header = {"alg": "ES256", "kid": "alice", "typ": "JOSE"}
    if extra == "jku in the header":
        header["jku"] = "https://evil.example"
    if extra == "another typ":
        header["typ"] = "JOSE+JSON"
    card = under_header(PORTABLE, alice, header, profile="served-as-is")
    if extra == "an unprotected header":
        card["signatures"][0]["header"] = {"x": 1}
    assert examine(card, alice).verdict == "trusted"

    assert json.loads(sign(card, alice).document) == signed(PORTABLE, alice)


def test_surplus_own_signatures_go(alice: PrivateKey) -> None:
    """A duplicate, and one for a profile that is no longer asked for."""
    card = signed(LAX, alice)
    card["signatures"].append(card["signatures"][0])

    again = sign(card, alice, compat="none")

    assert headers(json.loads(again.document)) == [("alice", "JOSE")] * 2


# ------------------------------------------------------------------ the unsigned header

JKU = {"jku": "https://tides.example/.well-known/jwks.json", "x-team": ""}


def test_an_unsigned_header_is_written_and_said(alice: PrivateKey) -> None:
    """Into each signature, which stays the same; the next signing keeps or drops it."""
    signing = sign(LAX, alice, header=JKU)

    entries = json.loads(signing.document)["signatures"]
    assert [entry.pop("header") for entry in entries] == [JKU] * 3
    assert entries == signed(LAX, alice)["signatures"]
    assert [n.message for n in signing.notes if n.code == "sign.header_unsigned"] == [
        f"`{name}` in the header of each signature is not signed" for name in JKU
    ]
    assert examine(signing.document, alice).verdict == "trusted"
    assert not sign(json.loads(signing.document), alice, header=JKU).changed
    assert json.loads(sign(json.loads(signing.document), alice).document) == signed(LAX, alice)


@pytest.mark.parametrize("name", ["alg", "kid", "typ", "crit", "b64", "jwk", "x5c", ""])
def test_what_must_be_signed_is_never_in_the_unsigned_header(name: str, alice: PrivateKey) -> None:
    """Nor what is no text there by RFC 7515."""
    found = refusal(dump(PORTABLE), Counting(alice), header={name: "x"})

    assert isinstance(found, UsageFault)
    assert found.message == f"the unsigned header cannot hold {name!r}"


# ------------------------------------------------------------------ signatures of others


def test_an_own_signature_that_a_change_has_spoilt_is_named_and_replaced(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """Once for each key; a card that was not changed, or that the signer marks, is not accused."""
    before = json.loads(sign(LAX, alice, bob).document)
    signing = sign({**before, "name": "Edited"}, alice, bob)

    assert noted(signing).count("sign.replaced") == 2
    assert "by 'alice' did not fit any more: the card was changed after it was signed" in str(
        signing.notes
    )
    marker = ExtendedMarker("staff", 1, 2_000_000_000)
    for untouched in (sign(before, alice, bob), sign(before, alice, extended=marker)):
        assert "sign.replaced" not in noted(untouched)


Entries = Callable[[PrivateKey], list[Any]]


def by_bob(bob: PrivateKey) -> list[Any]:
    """Bob's signatures on LAX."""
    entries: list[Any] = signed(LAX, bob)["signatures"]
    return entries


EDDSA = {"protected": base64url.encode(b'{"alg":"EdDSA","kid":"x"}'), "signature": "AA"}
KEPT, DROPPED = "was kept unchecked", "was dropped because it does not fit the card"
GARBAGE = "was dropped"
#: What stands in LAX, options, whether bob's key is known, what stays, how each note ends.
FOREIGN: dict[str, tuple[Entries, dict[str, Any], bool, bool, str]] = {
    "of a kid that was ours": (by_bob, {"own_kids": {"bob"}}, False, False, ""),
    "without its key": (by_bob, {}, False, True, KEPT),
    "that fits its known key": (by_bob, {}, True, True, ""),
    "that fits, over payloads of SDKs": (
        lambda bob: [one_signature(LAX, bob, name) for name in ("prune-empty", "js-instance")],
        *({}, True, True, ""),
    ),
    "of an edited card": (
        lambda bob: signed(PORTABLE, bob)["signatures"],
        {},
        True,
        False,
        DROPPED,
    ),
    "of an algorithm that its key is not for": (
        lambda bob: under_header(LAX, bob, {"alg": "RS256", "kid": "bob"}, profile="served-as-is")[
            "signatures"
        ],
        *({}, True, False, DROPPED),
    ),
    "that is not wanted": (by_bob, {"drop_foreign": True}, True, False, "was dropped as asked"),
    "unread and not wanted": (
        lambda bob: [EDDSA],
        *({"drop_foreign": True}, False, False, "was dropped as asked"),
    ),
    "of another algorithm": (lambda bob: [EDDSA], {}, False, True, KEPT),
    "without kid": (
        lambda bob: [{"protected": base64url.encode(b'{"alg":"ES256"}'), "signature": "AA"}],
        *({}, False, True, KEPT),
    ),
    "that is no object": (lambda bob: [5], {}, False, False, GARBAGE),
    "that is null": (lambda bob: [None], {}, False, False, GARBAGE),
    "without protected": (lambda bob: [{"signature": "AA"}], {}, False, False, GARBAGE),
    "with padding": (
        lambda bob: [{"protected": "e30=", "signature": "AA"}],
        *({}, False, False, GARBAGE),
    ),
    "whose header is no JSON": (
        lambda bob: [{"protected": base64url.encode(b"{"), "signature": "AA"}],
        *({}, False, False, GARBAGE),
    ),
}


@pytest.mark.parametrize(
    ("entries", "options", "is_known", "stays", "note"), FOREIGN.values(), ids=FOREIGN
)
def test_a_foreign_signature(
    entries: Entries,
    options: dict[str, Any],
    is_known: bool,
    stays: bool,
    note: str,
    alice: PrivateKey,
    bob: PrivateKey,
) -> None:
    """Checked where its key is known, dropped where it would harm, and kept last otherwise."""
    foreign = entries(bob)
    keys = {"known_keys": JwkSet.of([bob.public])} if is_known else {}
    signing = sign({**LAX, "signatures": foreign}, alice, **options, **keys)

    made = json.loads(signing.document)["signatures"]
    assert made == signed(LAX, alice)["signatures"] + (foreign if stays else [])
    notes = [one for one in signing.notes if one.code == "sign.foreign"]
    assert [one.path for one in notes] == (
        [f"/signatures/{index}" for index in range(len(foreign))] if note else []
    )
    assert all(one.message.endswith(note) for one in notes)


# ------------------------------------------------------------------ at most sixteen


def test_a_plan_beyond_sixteen_is_refused_before_signing(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """Three payloads and fourteen kept foreign ones; the key is not asked once."""
    foreign = [one_signature(LAX, bob, "served-as-is")] * 14
    signer = Counting(alice)

    found = refusal(dump({**LAX, "signatures": foreign}), signer)

    assert isinstance(found, SigningRefused)
    assert found.code == "sign.too_many"
    assert "14 kept foreign" in found.message
    assert "make 17" in found.message


def test_a_plan_of_sixteen_is_carried_out(alice: PrivateKey, bob: PrivateKey) -> None:
    """The twin, and the way out."""
    foreign = [one_signature(LAX, bob, "served-as-is")] * 13

    assert len(signed({**LAX, "signatures": foreign}, alice)["signatures"]) == 16
    assert len(signed({**LAX, "signatures": foreign}, alice, drop_foreign=True)["signatures"]) == 3


# ------------------------------------------------------------------ what is refused

REFUSED: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"placeholder", "json.syntax"),
    "a member twice": (b'{"name":"a","name":"b"}', "json.duplicate_member"),
    "two spellings": (dump({**PORTABLE, "supported_interfaces": []}), "card.two_spellings"),
    "too many": (dump({**PORTABLE, "signatures": [{}] * 17}), "card.signatures_too_many"),
}


@pytest.mark.parametrize(("document", "code"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("force", [False, True], ids=["without force", "by force"])
def test_what_cannot_be_read_one_way_only_is_not_signed(
    document: bytes, code: str, force: bool, alice: PrivateKey
) -> None:
    """Force does not help against ambiguity."""
    assert refusal(document, Counting(alice), force=force).code == code


FORCIBLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "no name": (without(PORTABLE, "/name"), "card.not_agent_card", ""),
    "a null name": ({**PORTABLE, "name": None}, "card.not_agent_card", ""),
    "no endpoint": (without(PORTABLE, "/supportedInterfaces"), "card.not_agent_card", ""),
    "no interface in the list": (
        {**PORTABLE, "supportedInterfaces": []},
        "card.not_agent_card",
        "",
    ),
    "an interface without url": (
        put(PORTABLE, "/supportedInterfaces/0/url", ""),
        "card.interface_url",
        "/supportedInterfaces/0/url",
    ),
    "an empty url beside interfaces": ({**PORTABLE, "url": ""}, "card.interface_url", "/url"),
    "a signature block": (
        {**PORTABLE, "signature": {"value": "x"}},
        "card.single_signature_block",
        "/signature",
    ),
    "a member of the wrong type": (
        put(PORTABLE, "/capabilities/streaming", "yes"),
        "card.type",
        "/capabilities/streaming",
    ),
    "capabilities that are a list": (
        {**PORTABLE, "capabilities": ["x"]},
        "card.type",
        "/capabilities",
    ),
}


@pytest.mark.parametrize(("card", "code", "path"), FORCIBLE.values(), ids=FORCIBLE)
def test_what_is_no_good_card_is_not_signed(
    card: dict[str, Any], code: str, path: str, alice: PrivateKey
) -> None:
    """Refused with the place, before the key is used."""
    found = refusal(dump(card), Counting(alice))

    assert isinstance(found, CardRefused)
    assert (found.code, found.path) == (code, path)


@pytest.mark.parametrize(("card", "code", "path"), FORCIBLE.values(), ids=FORCIBLE)
def test_force_signs_what_has_a_canonical_form(
    card: dict[str, Any], code: str, path: str, alice: PrivateKey
) -> None:
    """The twin: signed as it is served, and each thing passed over is noted."""
    signing = sign(card, alice, force=True)

    assert "served-as-is" in profiles_of(signing)
    assert code in noted(signing)
    assert {note.severity for note in signing.notes} <= {"note", "warning"}
    report = examine(signing.document, alice)
    assert (report.answers.integrity, report.answers.complete) == ("yes", "yes")


def test_force_names_the_profiles_that_have_no_payload(alice: PrivateKey) -> None:
    """A type-confused card is signed under the profiles that can (D20)."""
    signing = sign(put(PORTABLE, "/capabilities/streaming", "yes"), alice, force=True)

    assert profiles_of(signing) == ("served-as-is",)
    skipped = [note for note in signing.notes if note.code == "sign.profile_skipped"]
    assert len(skipped) == 2
    assert {note.path for note in skipped} == {"/capabilities/streaming"}


def test_several_problems_are_counted(alice: PrivateKey) -> None:
    """One is told, and how many more there are."""
    card = put(put(PORTABLE, "/version", 1), "/description", 2)

    assert refusal(dump(card), Counting(alice)).message == (
        "expected a string; 1 more such problems"
    )


def test_a_missing_required_member_is_noted(alice: PrivateKey) -> None:
    """Real cards lack them, so it is a note; null is as good as missing."""
    for card in (without(PORTABLE, "/version"), {**PORTABLE, "version": None}):
        signing = sign(card, alice)
        assert [(n.code, n.path) for n in signing.notes if n.path == "/version"] == [
            ("card.missing_required", "/version")
        ]
        assert examine(signing.document, alice).verdict == "trusted"


def test_no_key(alice: PrivateKey) -> None:
    """Refused before anything else."""
    with pytest.raises(SigningRefused) as caught:
        sign_card(b"no card", [])
    assert caught.value.code == "sign.no_key"


def test_two_keys_under_one_kid(alice: PrivateKey) -> None:
    """Nobody could tell their signatures apart; neither key is used."""
    first, second = Counting(alice), Counting(PrivateKey.generate("ES256", kid="alice"))

    with pytest.raises(KeyRefused) as caught:
        sign_card(dump(PORTABLE), [first, second])

    assert caught.value.code == "jwks.duplicate_kid"
    assert first.asked == second.asked == 0


def test_a_signer_that_fails(alice: PrivateKey) -> None:
    """Its own error comes through; there is no half-signed card."""

    @dataclass
    class Broken:
        public: PublicKey

        def sign(self, signing_input: bytes) -> bytes:
            raise SignerFault("signer.failed", "the token was pulled out")

    with pytest.raises(SignerFault, match="pulled out"):
        sign_card(dump(PORTABLE), [alice, Broken(PrivateKey.generate("ES256", kid="b").public)])


def test_a_result_that_is_too_large(alice: PrivateKey) -> None:
    """The card fits, the signed card would not: refused here, not by every reader later."""
    card = dump({**PORTABLE, "x": "a" * (MAX_CARD_BYTES - len(dump({**PORTABLE, "x": ""})))})
    assert len(card) == MAX_CARD_BYTES

    with pytest.raises(SigningRefused) as caught:
        sign_card(card, [alice])
    assert caught.value.code == "json.too_large"


def test_a_card_as_deep_as_allowed(alice: PrivateKey) -> None:
    """Every profile takes what the reader takes."""
    params: Any = "1"
    for _ in range(MAX_DEPTH - 5):
        params = {"a": params}
    card = put(PORTABLE, "/capabilities/extensions", [{"uri": "u", "params": params}])

    assert profiles_of(sign(card, alice)) == ("served-as-is",)
    assert codes(examine(signed(card, alice), alice)) == ["trust.freshness_waived"]


@pytest.mark.parametrize(("card", "noted"), [(DUAL, True), (PORTABLE, False), (OLD, False)])
def test_a_document_for_both_generations_is_noted(
    card: dict[str, Any], noted: bool, alice: PrivateKey
) -> None:
    """It is signed as it is, and what that costs is said."""
    notes = sign_with_notes(dump(card), [alice], SigningOptions()).notes
    assert ("sign.dual_document" in [note.code for note in notes]) is noted


def test_what_does_not_verify_when_read_again_is_refused(alice: PrivateKey) -> None:
    """A file that somebody has written to between signing and reading again."""
    card = signed(PORTABLE, alice)

    self_check(dump(card), keys_of(alice))
    with pytest.raises(SigningRefused) as refused:
        self_check(dump({**card, "x-added": 1}), keys_of(alice))
    assert refused.value.code == "sign.self_check"


def test_what_force_signed_passes_with_force_alone(alice: PrivateKey) -> None:
    """Force excuses what makes a card untrusted, and never a member that nobody signed."""
    forced = json.loads(sign(without(PORTABLE, "/supportedInterfaces"), alice, force=True).document)

    self_check(dump(forced), keys_of(alice), force=True)
    for card, force in ((forced, False), ({**forced, "x-added": 1}, True)):
        with pytest.raises(SigningRefused):
            self_check(dump(card), keys_of(alice), force=force)


def test_a_compat_signature_is_not_the_full_one_of_its_signer(
    alice: PrivateKey, bob: PrivateKey
) -> None:
    """It is not tried, so it says nothing of what that signer has signed."""
    card = signed(LAX, alice, bob)
    of = zip(headers(card), card["signatures"], strict=True)
    card["signatures"] = [entry for header, entry in of if header != ("bob", "JOSE")]
    assert ("bob", TYP_COMPAT) in headers(card)

    self_check(dump(card), keys_of(alice))
    with pytest.raises(SigningRefused) as caught:
        self_check(dump(card), keys_of(alice, bob))
    assert "has no valid signature by 'bob' when" in caught.value.message


@pytest.mark.parametrize(
    ("extra", "more"), [(2, ""), (3, " and 1 more"), (4, " and 2 more")], ids=str
)
def test_at_most_five_things_that_a_signature_leaves_open_are_named(
    extra: int, more: str, alice: PrivateKey
) -> None:
    """LAX alone leaves three of them open."""
    card = {**LAX, **{f"x-{at}": 1 for at in range(extra)}}
    note = next(n for n in sign(card, alice).notes if n.code == "sign.compat_lossy")

    assert note.message.count("/") - note.message.count("a2a-js/sdk") == 5
    assert f"{more}: a2a-sdk" in note.message


def test_a_bad_signature_beside_a_good_one_is_seen(alice: PrivateKey, bob: PrivateKey) -> None:
    """The outsider is content with one good signature, so each of several is looked at."""
    swapped = PrivateKey(bob.public, alice._native)
    with pytest.raises(SigningRefused) as caught:
        sign_card(dump(PORTABLE), [alice, swapped])
    assert (caught.value.code, caught.value.path) == ("sign.self_check", "/signatures/1")
    assert "has a signature that is invalid when" in caught.value.message


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ({"alg": "EdDSA"}, "has a signature that is refused when"),
        ({"kid": "carol"}, "has no valid signature by 'bob' when"),
        ({"crit": ["x"]}, "has no valid signature by 'bob' when"),
    ],
    ids=str,
)
def test_each_full_signature_of_ours_must_be_valid(
    spoil: dict[str, Any], said: str, alice: PrivateKey, bob: PrivateKey
) -> None:
    """It is not enough that none is invalid: an entry may be one of which nothing is checked."""
    card = signed(PORTABLE, alice, bob)
    entry = card["signatures"][1]
    header = {"alg": "ES256", "kid": "bob", "typ": "JOSE", **spoil}
    entry["protected"] = base64url.encode(json.dumps(header).encode())

    with pytest.raises(SigningRefused) as caught:
        self_check(dump(card), keys_of(alice, bob))
    assert caught.value.code == "sign.self_check"
    assert said in caught.value.message
    assert caught.value.path.startswith("/signatures")


def test_a_key_that_only_looks_like_ours_is_checked(alice: PrivateKey) -> None:
    """A subclass may sign elsewhere, so its answers are verified."""

    class Elsewhere(PrivateKey):
        __slots__ = ()

        def sign(self, signing_input: bytes) -> bytes:
            return bytes(64)

    with pytest.raises(SignerFault) as caught:
        sign_card(dump(PORTABLE), [Elsewhere(alice.public, alice._native)])
    assert caught.value.code == "signer.wrong_key"


def test_a_problem_that_thousands_of_members_share_is_told_with_its_number(
    alice: PrivateKey,
) -> None:
    """Whoever signs a stranger's card by force reads fifty of a kind, and hears of each kind."""
    card = {**PORTABLE, "skills": [{}] * 3000, "iconUrl": 7}
    notes = sign_with_notes(json.dumps(card).encode(), [alice], SigningOptions(force=True)).notes
    codes = [one.code for one in notes]
    assert codes.count("card.missing_required") == 51
    assert "11,950 more" in [one.message for one in notes]
    assert codes.count("card.type") == 1
