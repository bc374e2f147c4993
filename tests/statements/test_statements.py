"""The form of statements: K1 to K4, the spans of K9, and how they are put together.

What a vector of tests/vectors/statements breaks (32, 45 to 47) is not broken here again, nor what
attacks 201 and 212 (envelopes), 202 (how a payload is spelled), 203, 204, 210 and 213 decide.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from cardsign.card.values import jcs
from cardsign.errors import KeyRefused, SigningRefused
from cardsign.jose.jwk import ALGORITHMS, encode_base64url
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.statements import envelope as envelopes
from cardsign.statements.keyset import read_keyset, sign_keyset
from cardsign.statements.release import read_release, sign_release
from tests.jose.explicit_making import HEADER_ALGS, made
from tests.statements.making import (
    DAY,
    NOW,
    T0,
    URL,
    Members,
    entry,
    forged,
    forged_entry,
    key,
    keyset_members,
    keyset_payload,
    quorum,
    refusal,
    release_members,
    release_payload,
    signed_keyset,
    signed_release,
    thumbprint,
)
from tests.support import dump, edited, read_cases


def honest() -> bytes:
    """A keyset statement as it is published."""
    return sign_keyset(keyset_payload(keyset_members()), [key("ann"), key("bob")])


def test_keyset_is_read_as_it_was_written() -> None:
    """Every member arrives, and the payload is kept as octets."""
    members = keyset_members(revoked=sorted([thumbprint("x"), thumbprint("y")]))
    payload = keyset_payload(members)
    found = read_keyset(sign_keyset(payload, [key("ann")]))
    assert found.envelope.payload == payload
    assert (found.issuer, found.origins) == ("tides.example", ("https://tides.example",))
    assert (found.epoch, found.version, found.prev) == (1, 1, None)
    assert (found.iat, found.exp) == (T0, T0 + 90 * DAY)
    assert found.root.threshold == 2
    assert [one.holder for one in found.root.keys] == ["ann", "bob", "cat"]
    assert found.recovery is not None
    assert found.recovery.keys[0].public == key("rita").public
    assert [one.roles for one in found.keys] == [("card",), ("release",), ("release",)]
    assert found.revoked == {thumbprint("x"), thumbprint("y")}


def test_release_is_read_as_it_was_written() -> None:
    """Every member arrives."""
    keyset = signed_keyset("ann", "bob")
    found = signed_release(keyset, "rel", audit_head="a" * 64)
    assert found.keyset.number == (1, 1)
    assert found.keyset.digest == keyset.digest
    assert (found.seq, found.order) == (5, (1, 1, 5))
    assert [(card.url, card.seq) for card in found.cards] == [(URL, 3)]
    assert dict(found.floor) == {URL: 3, "extended": 2}
    assert found.audit_head == "a" * 64


def outside(*edits: Sequence[Any]) -> bytes:
    """An honest statement whose envelope was changed."""
    return dump(edited(json.loads(honest()), edits))


def header(spelled: str = "", **changes: Any) -> bytes:
    """One whose first protected header was changed; None removes a member.

    `spelled` stands there in the place of a kid of 256 letters.
    """
    members = {"alg": "ES256", "kid": thumbprint("ann"), "typ": envelopes.TYP_KEYSET, **changes}
    members |= {"kid": "a" * 256} if spelled else {}
    text = json.dumps({name: value for name, value in members.items() if value is not None})
    text = text.replace(f'"{"a" * 256}"', spelled) if spelled else text
    return outside(["/signatures/0/protected", encode_base64url(text.encode())])


CASES = read_cases(__file__)  # what needs no key
ESCAPED = '"' + "\\u0061" * 256 + '"'
#: An honest statement with one change, and the code that refuses it (K1).
ENVELOPES: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "shape"),
    "a header of more than 2 KiB": (header(ESCAPED + " " * 512), "header"),
    **{name: (outside(*edits), "shape") for name, edits in CASES["envelope"].items()},
    **{name: (header(**changes), "header") for name, changes in CASES["header"].items()},
}


@pytest.mark.parametrize(("untrusted", "code"), ENVELOPES.values(), ids=ENVELOPES)
def test_envelope_is_refused(untrusted: bytes, code: str) -> None:
    """K1: an envelope has exactly its members, and headers exactly theirs."""
    assert refusal(lambda: read_keyset(untrusted)) == f"statement.{code}"


def test_envelope_passes_where_only_its_spelling_differs() -> None:
    """The envelope is no JCS: white space and order say nothing. The twin of the refusals."""
    turned = dict(reversed(json.loads(honest()).items()))
    assert read_keyset(json.dumps(turned, indent=4).encode()) == read_keyset(honest())
    assert read_keyset(header()).digest == read_keyset(honest()).digest
    # The longest kid that is allowed, each letter in six: the header has 1.6 KB.
    longest = read_keyset(header(ESCAPED))
    assert longest.envelope.signatures[0].kid == "a" * 256


def public(name: str, **changes: Any) -> Members:
    """A root's entry with a changed JWK; None removes a member."""
    jwk = {**key(name).public.jwk(), **changes}
    kept = {member: value for member, value in jwk.items() if value is not None}
    return {"public": kept, "holder": name}


def root_with(*entries: Members) -> Members:
    """A root of these, one of whom must sign."""
    return {"root": {"threshold": 1, "keys": list(entries)}}


X = thumbprint("x")
#: What a keyset statement says in place of its honest members, and the code if it is refused.
KEYSETS: dict[str, tuple[Members, str]] = {
    **CASES["keyset"],
    "roles in another order": ({"keys": [entry("card", "release", "card")]}, "members"),
    "revoked twice": ({"revoked": [X, X]}, "members"),
    "exp at iat": ({"exp": T0}, "time_span"),
    "400 days and a second": ({"exp": T0 + 400 * DAY + 1}, "time_span"),
    "threshold above the holders": ({"root": quorum(2, "ann")}, "threshold"),
    "a key twice": ({"keys": [entry("card", "card"), entry("card", "release")]}, "bad_key"),
    "a key without kid": (root_with(public("ann", kid=None)), "bad_key"),
    "a key that is text": (root_with({"public": "x", "holder": "ann"}), "bad_key"),
    # The honest twins.
    **{name: (changes, "") for name, changes in CASES["honest keyset"].items()},
    "an RSA key": ({"keys": [entry("rsa", "card")]}, ""),
    "RSA roots and recovery": ({"root": quorum(1, "rsa"), "recovery": quorum(1, "rsa2")}, ""),
    "a kid of one's own": (root_with(public("ann", kid="the blue token")), ""),
}


@pytest.mark.parametrize(("changes", "code"), KEYSETS.values(), ids=KEYSETS)
def test_what_a_keyset_says(changes: Members, code: str) -> None:
    """K2 to K4 and K9: what is refused is neither drafted nor, where it was signed, read."""
    members = keyset_members(**changes)
    if code:
        assert refusal(lambda: keyset_payload(members)) == f"statement.{code}"
        assert refusal(lambda: read_keyset(forged(jcs(members)))) == f"statement.{code}"
    else:
        assert read_keyset(sign_keyset(keyset_payload(members), [key("ann")])).epoch == 1


@pytest.mark.parametrize("name", keyset_members())
def test_member_left_out(name: str) -> None:
    """K2: each member is needed."""
    members = keyset_members()
    del members[name]
    code = "statement.format" if name == "format" else "statement.members"
    assert refusal(lambda: keyset_payload(members)) == code


def card(**changes: Any) -> Members:
    """An entry of `cards`."""
    return {"url": URL, "kind": "public", "payload_sha256": "0" * 64, "seq": 3, **changes}


OLD_AND_NEW = [card(), card(payload_sha256="1" * 64, seq=5)]
RELEASES: dict[str, tuple[Members, str]] = {
    **CASES["release"],
    "a digest in base64url": ({"cards": [card(payload_sha256="A" * 43)]}, "members"),
    "a floor above the release": ({"floor": {URL: 6}}, "floor"),
    # The honest twins.
    "no card": ({"cards": [], "floor": {}}, ""),
    "both payloads while caches hold either": ({"cards": OLD_AND_NEW, "floor": {URL: 5}}, ""),
}


@pytest.mark.parametrize(("changes", "code"), RELEASES.values(), ids=RELEASES)
def test_what_a_release_says(changes: Members, code: str) -> None:
    """K2, K9 and K10."""
    if not code:
        assert signed_release(signed_keyset("ann"), "rel", **changes).seq == 5
        return
    members = release_members(signed_keyset("ann"), **changes)
    assert refusal(lambda: release_payload(members)) == f"statement.{code}"
    untrusted = forged(jcs(members), "rel", envelopes.TYP_RELEASE)
    assert refusal(lambda: read_release(untrusted)) == f"statement.{code}"


TIMES: dict[str, tuple[int, str]] = {
    "on the second of issue": (0, ""),
    "a clock behind by the skew": (-300, ""),
    "a second more": (-301, "statement.not_yet"),
    "1970": (-T0, "statement.not_yet"),
    "the last second": (90 * DAY - 1, ""),
    "at exp": (90 * DAY, "statement.expired"),
    "2100": (75 * 365 * DAY, "statement.expired"),
}


@pytest.mark.parametrize(("offset", "code"), TIMES.values(), ids=TIMES)
def test_times(offset: int, code: str) -> None:
    """K9: iat - skew <= now < exp; the skew forgives a future iat and no expiry."""
    now, skew = NOW + timedelta(seconds=offset), timedelta(seconds=300)
    check = partial(envelopes.check_times, T0, T0 + 90 * DAY, now=now, skew=skew)
    assert (refusal(check) == code) if code else (check() is None)


def test_count_looks_at_each_signature_alone() -> None:
    """K5: unknown ones are skipped, bad ones by known keys reported; good ones stay good."""
    payload = keyset_payload(keyset_members())
    document = {
        "payload": encode_base64url(payload),
        "signatures": [
            forged_entry(payload, "eve", thumbprint("eve")),
            forged_entry(payload, "eve", thumbprint("bob")),
            forged_entry(payload, "rsa", thumbprint("bob")),
            forged_entry(payload, "ann", "alias of ann"),
            forged_entry(payload, "ann", thumbprint("ann")),
            forged_entry(payload, "ann", thumbprint("ann")),
        ],
    }
    statement = read_keyset(json.dumps(document).encode())
    signers = envelopes.list_signers(statement.envelope, [key("ann").public, key("bob").public])
    assert signers == {thumbprint("ann")}
    assert statement.root.holders(signers) == {"ann"}


def added(statement: bytes, *names: str) -> bytes:
    """A keyset statement, signed once more by these."""
    envelope = envelopes.read_envelope(statement, envelopes.TYP_KEYSET)
    return sign_keyset(envelope.payload, map(key, names), envelope.signatures)


def test_signatures_are_added_one_by_one() -> None:
    """Holders sign one after the other; who signs again replaces his own."""
    alone = sign_keyset(keyset_payload(keyset_members()), [key("ann")])
    both = added(alone, "bob")
    assert both == honest()
    assert added(both, "ann", "bob") == both


def signed_by(alg: str) -> bytes:
    """A keyset statement with a signature by a key of joserfc."""
    payload, signer = keyset_payload(keyset_members()), made(alg)
    header = {"alg": alg, "kid": signer.public.thumbprint, "typ": envelopes.TYP_KEYSET}
    document = {"payload": encode_base64url(payload)}
    document["signatures"] = [signer.sign(payload, **header)]  # type: ignore[assignment]
    return json.dumps(document).encode()


class Unasked:
    """A signer that must not be asked."""

    def __init__(self, public: PublicKey) -> None:
        self.public = public

    def sign(self, signing_input: bytes) -> bytes:
        """Fail the test."""
        raise AssertionError(f"asked to sign {signing_input[:20]!r}")


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_no_statement_knows_another_algorithm(alg: str) -> None:
    """K1, K4: it lists no such key, is unreadable with such a signature, and is signed by none.

    A key for EdDSA may sign cards. Nobody is asked beside one that may not sign.
    """
    jwk = made(alg).public.jwk()
    alone = {"threshold": 1, "keys": [{"public": jwk, "holder": "zoe"}]}
    cards = {"keys": [entry("card", "card", public=jwk)]}
    places = [{"root": alone}, {"recovery": alone}, {"keys": [entry("x", "release", public=jwk)]}]
    for members in [keyset_members(**place) for place in (*places, cards)]:
        if alg == "Ed25519" and members["keys"] == cards["keys"]:
            assert read_keyset(forged(keyset_payload(members))).keys
            continue
        assert refusal(partial(keyset_payload, members)) == "statement.bad_key"
        assert refusal(partial(read_keyset, forged(jcs(members)))) == "statement.bad_key"
    assert refusal(lambda: read_keyset(signed_by(alg))) == "statement.header"
    signer: Any = Unasked(PublicKey.from_jwk(made(alg).jwk, algorithms=ALGORITHMS))
    beside: Any = Unasked(made("RS256").public)
    payload = keyset_payload(keyset_members())
    for kept in ((), envelopes.read_envelope(honest(), envelopes.TYP_KEYSET).signatures):
        for signers in ([signer], [beside, signer]):
            with pytest.raises(KeyRefused, match=r"key\.unsupported.*expected ES256 or RS256"):
                sign_keyset(payload, signers, kept)
        with pytest.raises(AssertionError, match=r"^asked to sign"):
            sign_keyset(payload, [beside], kept)


def test_kid_is_the_thumbprint_whatever_the_key_is_called() -> None:
    """A signer's own name for a key does not get into a statement."""
    named = PrivateKey.from_pkcs8_der(key("ann").to_pkcs8_der(), kid="blue token")
    statement = read_keyset(sign_keyset(keyset_payload(keyset_members()), [named]))
    assert [one.kid for one in statement.envelope.signatures] == [thumbprint("ann")]
    assert envelopes.list_signers(statement.envelope, [key("ann").public]) == {thumbprint("ann")}


def test_nobody_signs_what_is_no_statement() -> None:
    """K12: a typ stands only over what it names."""
    payload = keyset_payload(keyset_members())
    assert refusal(lambda: sign_keyset(b"{}", [key("ann")])) == "statement.format"
    assert refusal(lambda: sign_release(payload, [key("ann")])) == "statement.format"
    with pytest.raises(SigningRefused, match=r"sign\.no_key"):
        sign_keyset(payload, [])
    # Nor is one added where the envelope is in good form and somebody has signed it already.
    theirs = forged_entry(b"{}", "ann", thumbprint("ann"))
    others = json.dumps({"payload": encode_base64url(b"{}"), "signatures": [theirs]}).encode()
    assert refusal(lambda: added(others, "bob")) == "statement.format"


def test_refusal_says_where() -> None:
    """A place inside the payload is a JSON pointer into it."""
    members = keyset_members(recovery=root_with(public("rita"), public("bo", alg="RS256"))["root"])
    with pytest.raises(envelopes.StatementRefused) as refused:
        keyset_payload(members)
    assert refused.value.path == "/recovery/keys/1/public/alg"
