"""Private keys: DER and JWK in, DER out, and nothing that leaks.

PEM files are in tests/keys/test_imports.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding
from cryptography.hazmat.primitives.serialization import PrivateFormat as Format

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, PassphraseFault
from cardsign.jose.jwk import decode_base64url, encode_base64url
from cardsign.jose.keys import PrivateKey
from tests.jose.explicit_making import made
from tests.support import native


def test_no_generated_kid_is_taken_for_an_option() -> None:
    """One thumbprint in 64 begins with a hyphen; of 400 hardly ever none would."""
    generated = [PrivateKey.generate("ES256").public for _ in range(400)]
    assert not [key.kid for key in generated if key.kid.startswith("-")]
    assert all(key.kid == key.thumbprint for key in generated)
    with pytest.raises(ValueError, match="expected ES256, RS256 or EdDSA"):
        PrivateKey.generate("ES384")  # type: ignore[arg-type]


def test_signatures_are_stable(key: PrivateKey) -> None:
    """The same input gives the same bytes, another input another nonce."""
    assert key.sign(b"a.b") == key.sign(b"a.b")
    assert key.sign(b"a.c")[:32] != key.sign(b"a.b")[:32]


@pytest.mark.parametrize("change", [lambda der: der[:-1], lambda der: der + b"\0"])
def test_refused_der(es256: PrivateKey, change: Callable[[bytes], bytes]) -> None:
    """A DER that was cut, has something behind it, or is encrypted, is refused."""
    with pytest.raises(KeyRefused, match=r"key\.malformed"):
        PrivateKey.from_pkcs8_der(change(es256.to_pkcs8_der()))
    locked = BestAvailableEncryption(b"sesame")
    with pytest.raises(PassphraseFault, match=r"passphrase\.none"):
        PrivateKey.from_pkcs8_der(native(es256).private_bytes(Encoding.DER, Format.PKCS8, locked))


@pytest.mark.parametrize("alg", ["ES256", "RS256", "Ed25519"])
def test_jwk(alg: str) -> None:
    """A private JWK is read, with its kid or with another."""
    jwk = made(alg).private_jwk
    assert (
        PrivateKey.from_jwk({**jwk, "use": "sig", "key_ops": ["sign"]}).public == made(alg).public
    )
    assert PrivateKey.from_jwk(jwk, kid="other").public.kid == "other"
    with pytest.raises(KeyRefused, match="'d' is missing"):
        PrivateKey.from_jwk(made(alg).jwk)


N_E_AND_D = ("kty", "n", "e", "d", "kid")


def test_rsa_jwk_needs_no_primes() -> None:
    """n, e and d are enough (RFC 7518 6.3.2), and make the same key."""
    whole = made("RS256").private_jwk
    jwk = {name: whole[name] for name in N_E_AND_D}
    assert PrivateKey.from_jwk(jwk).sign(b"a.b") == PrivateKey.from_jwk(whole).sign(b"a.b")


FIVE = encode_base64url((5).to_bytes(32))
REFUSED_JWK: list[tuple[str, dict[str, Json], str]] = [
    *(("ES256", {"d": d}, "key.malformed") for d in (FIVE, FIVE[1:], None)),
    ("ES256", {"key_ops": ["verify"]}, "key.use"),
    ("ES256", {"kid": "a\tb"}, "key.malformed"),
    *(("Ed25519", {"d": d}, "key.malformed") for d in ("AA", "A" * 43)),
    ("Ed25519", {"x": "A" * 43}, "key.malformed"),
    *(("RS256", {"d": d}, "key.malformed") for d in ("AQ" * 125, "_" * 43_692, "AAAB")),
    *(("RS256", {"p": p}, "key.malformed") for p in ("AQ", "_" * 43_692)),
    *(("RS256", {"qi": qi}, "key.malformed") for qi in ("AQ", None)),
    ("RS256", {"n": "_" * 43_692}, "key.weak_rsa"),
]


@pytest.mark.parametrize(("alg", "members", "code"), REFUSED_JWK)
def test_refused_jwk(alg: str, members: dict[str, Json], code: str) -> None:
    """A private JWK whose halves do not belong together, or that is not for us, is refused."""
    with pytest.raises(KeyRefused) as refusal:
        PrivateKey.from_jwk({**made(alg).private_jwk, **members})
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("d", "fault"), [("AQ", "does not belong"), ("Aw", "does not"), ("_" * 43_692, "is longer")]
)
def test_wrong_exponent_without_primes(d: str, fault: str) -> None:
    """Primes cannot be computed from an exponent that is not the key's, nor for minutes tried."""
    jwk = {name: made("RS256").private_jwk[name] for name in N_E_AND_D}
    with pytest.raises(KeyRefused, match=rf"key\.malformed: the member 'd' {fault}"):
        PrivateKey.from_jwk({**jwk, "d": d})


@pytest.mark.parametrize("alg", ["ES256", "RS256", "Ed25519"])
def test_nothing_leaks(alg: str) -> None:
    """No way of printing a key shows a private number, and it is not pickled."""
    key = PrivateKey.from_jwk(made(alg).private_jwk)
    d = decode_base64url(str(made(alg).private_jwk["d"]))
    shown = f"{key} {key!r} {[key]} {key.public} {key.public.jwk()}"
    assert key.public.kid in shown
    for secret in (encode_base64url(d), d.hex(), str(int.from_bytes(d)), repr(d)[2:-1]):
        assert secret not in shown
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(key)


def test_equality_is_that_of_the_public_half(es256: PrivateKey) -> None:
    """Two objects are one key if they are published alike."""
    assert {PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), "es"), es256} == {es256}
    assert PrivateKey.from_pkcs8_der(es256.to_pkcs8_der()) != es256
