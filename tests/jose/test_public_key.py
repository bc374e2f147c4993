"""Public keys: what is read, what is refused, and which signatures they confirm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PrivateKey, PublicKey
from tests.jose.explicit_making import check_input, input_of

Change = Callable[[dict[str, Json]], None]


def put(**members: Json) -> Change:
    """Set members of a JWK."""
    return lambda jwk: jwk.update(members)


def drop(name: str) -> Change:
    """Remove a member of a JWK."""
    return lambda jwk: jwk.__delitem__(name)


HARMLESS: dict[str, Change] = {
    "no alg": drop("alg"),
    "no use": drop("use"),
    "among other operations": put(key_ops=["sign", "verify"]),
    "certificates": put(x5c=["junk"], x5u="http://127.0.0.1/"),
    "unknown members": put(status="active", **{"x-n": None}),
    "a kid that looks like a path": put(kid="../../etc/passwd"),
    "the longest kid": put(kid="~" * 256),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_harmless(key: PrivateKey, change: Change) -> None:
    """What does not touch the numbers leaves the key as it is."""
    jwk: dict[str, Json] = {**key.public.jwk()}
    change(jwk)
    read = PublicKey.from_jwk(jwk)
    assert read.kid == jwk["kid"]
    assert (read.alg, read.numbers) == (key.public.alg, key.public.numbers)


def test_given_kid_goes_first(es256: PrivateKey) -> None:
    """A caller's name replaces the JWK's, even one that would be refused."""
    assert PublicKey.from_jwk({**es256.public.jwk(), "kid": 1}, kid="mine").kid == "mine"


@pytest.mark.parametrize(
    "public_key",
    [
        pytest.param(ec.generate_private_key(ec.SECP384R1()).public_key(), id="P-384"),
        pytest.param(ec.generate_private_key(ec.SECP256K1()).public_key(), id="secp256k1"),
        pytest.param(ed448.Ed448PrivateKey.generate().public_key(), id="Ed448"),
        pytest.param(ec.generate_private_key(ec.SECP256R1()), id="a private key"),
        pytest.param(b"MFkw", id="bytes"),
    ],
)
def test_from_cryptography_unsupported(public_key: object) -> None:
    """Only P-256, Ed25519 and RSA public keys are taken over."""
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_cryptography(public_key)
    assert refusal.value.code == "key.unsupported"


def test_from_cryptography_ed25519() -> None:
    """Where statements or key services are meant it is none."""
    native = ed25519.Ed25519PrivateKey.generate().public_key()
    assert PublicKey.from_cryptography(native).alg == "EdDSA"
    with pytest.raises(KeyRefused, match=r"key\.unsupported"):
        PublicKey.from_cryptography(native, algorithms=STATEMENT_ALGORITHMS)


def test_wrong_length_is_named(key: PrivateKey) -> None:
    """A signature of the wrong length, DER most of all, is told apart from a wrong one."""
    expected = key.public.signature_bytes
    with pytest.raises(SignatureRefused, match=f"has 70 bytes, expected {expected} for"):
        check_input(key.public, input_of(key.public), bytes(70))
