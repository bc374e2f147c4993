"""Public keys: what is read, what is refused, and which signatures they confirm."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519
from explicit_making import check_input, input_of

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, STATEMENT_ALGORITHMS
from cardsign.jose.keys import PrivateKey, PublicKey

FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
Y_AT_5 = "RZJDuapYGAb-kTvOmYF63hHKUDxk2aPFM0FcCDJI-8w"  # of the point of P-256 with x = 5

Change = Callable[[dict[str, Json]], None]


def put(**members: Json) -> Change:
    """Set members of a JWK."""
    return lambda jwk: jwk.update(members)


def drop(name: str) -> Change:
    """Remove a member of a JWK."""
    return lambda jwk: jwk.__delitem__(name)


REFUSED_EC: dict[str, tuple[Change, str, str]] = {
    "no kty": (drop("kty"), "key.malformed", "/kty"),
    "kty is a list": (put(kty=["EC"]), "key.malformed", "/kty"),
    "kty of another curve": (put(kty="OKP"), "key.unsupported", "/crv"),
    "kty in lower case": (put(kty="ec"), "key.unsupported", "/kty"),
    "the curve of Bitcoin": (put(crv="secp256k1"), "key.unsupported", "/crv"),
    "y is a number": (put(y=1), "key.malformed", "/y"),
    "x is empty": (put(x=""), "key.malformed", "/x"),
    "x with stray bits": (put(x="A" * 42 + "B"), "key.malformed", "/x"),
    "x of a point of the curve, not reduced": (
        put(x=base64url.encode((FIELD + 5).to_bytes(32)), y=Y_AT_5),
        "key.malformed",
        "/x",
    ),
    "use is a list": (put(use=["sig"]), "key.malformed", "/use"),
    "for nothing": (put(key_ops=[]), "key.use", "/key_ops"),
    "kid is a number": (put(kid=1), "key.malformed", "/kid"),
    "kid is null": (put(kid=None), "key.malformed", "/kid"),
    "kid is empty": (put(kid=""), "key.malformed", "/kid"),
    "kid too long": (put(kid="k" * 257), "key.malformed", "/kid"),
    "kid with NUL": (put(kid="k\0"), "key.malformed", "/kid"),
    "kid that reverses the text": (put(kid="k\u202e"), "key.malformed", "/kid"),
}
REFUSED_RSA: dict[str, tuple[Change, str, str]] = {
    "no n": (drop("n"), "key.malformed", "/n"),
    "no e": (drop("e"), "key.malformed", "/e"),
    "n is empty": (put(n=""), "key.malformed", "/n"),
    "n in the other alphabet": (
        lambda jwk: jwk.update(n=f"+{str(jwk['n'])[1:]}"),
        "key.malformed",
        "/n",
    ),
    "e is a number": (put(e=65537), "key.malformed", "/e"),
    **{
        f"with the private member {name}": (put(**{name: "AA"}), "key.private_material", f"/{name}")
        for name in ("d", "p", "q", "dp", "dq", "qi", "oth")
    },
}


@pytest.mark.parametrize(("change", "code", "path"), REFUSED_EC.values(), ids=REFUSED_EC)
def test_refused_ec(es256: PrivateKey, change: Change, code: str, path: str) -> None:
    """An EC key that is malformed, unsafe, or not for our signatures is refused."""
    _check_refusal(es256.public.jwk(), change, code, path)


@pytest.mark.parametrize(("change", "code", "path"), REFUSED_RSA.values(), ids=REFUSED_RSA)
def test_refused_rsa(rs256: PrivateKey, change: Change, code: str, path: str) -> None:
    """An RSA key that is malformed, unsafe, or not for our signatures is refused."""
    _check_refusal(rs256.public.jwk(), change, code, path)


def _check_refusal(good: Mapping[str, str], change: Change, code: str, path: str) -> None:
    jwk: dict[str, Json] = dict(good)
    PublicKey.from_jwk(jwk, algorithms=SIGNING_ALGORITHMS)
    change(jwk)
    with pytest.raises(KeyRefused) as refusal:
        PublicKey.from_jwk(jwk, algorithms=SIGNING_ALGORITHMS)
    assert (refusal.value.code, refusal.value.path) == (code, path)


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
