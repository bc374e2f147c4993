"""Statements know ES256 and RS256, whatever else a policy may name for cards."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cardsign.card.values import jcs
from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.statements.envelope import TYP_KEYSET, list_signers
from cardsign.statements.keyset import read_keyset
from cardsign.statements.signing import add_signatures, sign_statement
from tests.jose.explicit_making import HEADER_ALGS, Made, made
from tests.statements.making import (
    Members,
    entry,
    forged,
    keyset_members,
    keyset_payload,
    refusal,
)


def quorum_of(jwk: dict[str, str]) -> Members:
    """One holder with this key."""
    return {"threshold": 1, "keys": [{"public": jwk, "holder": "zoe"}]}


PLACES: dict[str, Callable[[dict[str, str]], Members]] = {
    "root": lambda jwk: {"root": quorum_of(jwk)},
    "recovery": lambda jwk: {"recovery": quorum_of(jwk)},
    "cards": lambda jwk: {"keys": [entry("card", "card", public=jwk)]},
    "releases": lambda jwk: {"keys": [entry("card", "release", public=jwk)]},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("alg", ["RS256", *HEADER_ALGS])
def test_key_of_a_statement(alg: str, place: str) -> None:
    """K4: a key for RS256 has a place in a statement, the same numbers for PS256 have none.

    What signs cards alone may be for EdDSA.
    """
    members = keyset_members(**PLACES[place](made(alg).public.jwk()))
    untrusted = forged(jcs(members))
    if alg == "RS256" or (alg, place) == ("Ed25519", "cards"):
        assert keyset_payload(members) == read_keyset(untrusted).envelope.payload
        return
    assert refusal(lambda: keyset_payload(members)) == "statement.bad_key"
    assert refusal(lambda: read_keyset(untrusted)) == "statement.bad_key"


def signed_by(key: Made, *, alg: str) -> bytes:
    """A keyset statement with a signature by a key of joserfc, under any alg."""
    payload = keyset_payload(keyset_members())
    header = {"alg": alg, "kid": key.public.thumbprint, "typ": TYP_KEYSET}
    document = {"payload": base64url.encode(payload), "signatures": [key.sign(payload, **header)]}
    return json.dumps(document).encode()


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_header_of_a_statement(alg: str) -> None:
    """K1: a signature by another algorithm makes the envelope unreadable."""
    untrusted = signed_by(made(alg), alg=alg)
    assert refusal(lambda: read_keyset(untrusted)) == "statement.header"


def signers(untrusted: bytes, key: PublicKey) -> frozenset[str]:
    """Whose signatures are good with one key."""
    return list_signers(read_keyset(untrusted).envelope, [key])


@pytest.mark.parametrize("alg", ["PS256", "RS384", "RS512"])
def test_key_for_another_algorithm_counts_nowhere(alg: str) -> None:
    """K5: a good RS256 signature is bad for a key that is published for something else."""
    untrusted = signed_by(made("RS256"), alg="RS256")
    other, thumbprint_ = made(alg).public, made("RS256").public.thumbprint
    assert other.thumbprint == thumbprint_
    assert signers(untrusted, made("RS256").public) == {thumbprint_}
    assert signers(untrusted, other) == frozenset()


class Unasked:
    """A signer that must not be asked."""

    def __init__(self, public: PublicKey) -> None:
        self.public = public

    def sign(self, signing_input: bytes) -> bytes:
        """Fail the test."""
        raise AssertionError(f"asked to sign {signing_input[:20]!r}")


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_nobody_signs_a_statement_by_it(alg: str) -> None:
    """A device that could is refused before it, or anybody beside it, is asked."""
    signer: Any = Unasked(PublicKey.from_jwk(made(alg).jwk, algorithms=ALGORITHMS))
    beside: Any = Unasked(made("RS256").public)
    payload = keyset_payload(keyset_members())
    signed = signed_by(made("RS256"), alg="RS256")
    for attempt in (
        lambda: sign_statement(payload, [signer], TYP_KEYSET),
        lambda: sign_statement(payload, [beside, signer], TYP_KEYSET),
        lambda: add_signatures(signed, [signer], TYP_KEYSET),
        lambda: add_signatures(signed, [beside, signer], TYP_KEYSET),
    ):
        with pytest.raises(KeyRefused, match=r"expected ES256 or RS256") as refused:
            attempt()
        assert refused.value.code == "key.unsupported"


def test_who_may_sign_a_statement_is_asked() -> None:
    """The twin: what refuses the others does not stand in the way of RS256."""
    signer: Any = Unasked(made("RS256").public)
    with pytest.raises(AssertionError, match=r"^asked to sign"):
        sign_statement(keyset_payload(keyset_members()), [signer], TYP_KEYSET)
    with pytest.raises(AssertionError, match=r"^asked to sign"):
        add_signatures(signed_by(made("RS256"), alg="RS256"), [signer], TYP_KEYSET)
