"""Private keys: DER and JWK in, DER out, and nothing that leaks.

PEM files are in tests/keys/test_imports.py.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc.jwk import ECKey, RSAKey

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, PassphraseFault, SignerFault
from cardsign.jose import base64url
from cardsign.jose.keys import PrivateKey, PublicKey

DER = serialization.Encoding.DER
PKCS8 = serialization.PrivateFormat.PKCS8
LOCKED = serialization.BestAvailableEncryption(b"sesame")

Native = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def native_of(key: PrivateKey) -> Native:
    """The key as `cryptography` holds it."""
    native = serialization.load_der_private_key(key.to_pkcs8_der(), None)
    assert isinstance(native, Native)
    return native


def private_jwk(key: PrivateKey) -> dict[str, Json]:
    """The key as joserfc writes it."""
    library = RSAKey if key.public.alg == "RS256" else ECKey
    return {**library.import_key(native_of(key)).as_dict(private=True), "kid": key.public.kid}


def test_no_generated_kid_is_taken_for_an_option() -> None:
    """One thumbprint in 64 begins with a hyphen; of 400 hardly ever none would."""
    kids = [PrivateKey.generate("ES256").public.kid for _ in range(400)]

    assert not [kid for kid in kids if kid.startswith("-")]


def test_generated_kid_is_the_thumbprint() -> None:
    """A key without a name is called by its thumbprint; no two are alike."""
    first, second = (PrivateKey.generate("ES256").public for _ in range(2))
    assert first.kid == first.thumbprint != second.kid == second.thumbprint


def test_signatures_are_stable(key: PrivateKey) -> None:
    """The same input gives the same bytes, another input another nonce."""
    signature = key.sign(b"a.b")
    assert signature == key.sign(b"a.b")
    assert len(signature) == key.public.signature_bytes
    assert key.sign(b"a.c")[:32] != signature[:32]


def test_old_openssl(es256: PrivateKey) -> None:
    """A machine without RFC 6979 gives no signature rather than one with random nonces."""

    class Old:
        def sign(self, data: bytes, algorithm: ec.ECDSA) -> bytes:
            assert algorithm.deterministic_signing
            raise UnsupportedAlgorithm("deterministic signing")

    with pytest.raises(SignerFault) as fault:
        PrivateKey(es256.public, Old()).sign(b"a.b")  # type: ignore[arg-type]
    assert fault.value.code == "signer.failed"


def test_der_round_trip(key: PrivateKey) -> None:
    """What is written is read back as the same key."""
    again = PrivateKey.from_pkcs8_der(key.to_pkcs8_der(), key.public.kid)
    assert again == key
    assert again.sign(b"a.b") == key.sign(b"a.b")


def test_encrypted_der(es256: PrivateKey) -> None:
    """An encrypted DER is not what our envelope holds, and says so."""
    with pytest.raises(PassphraseFault, match=r"passphrase\.none"):
        PrivateKey.from_pkcs8_der(native_of(es256).private_bytes(DER, PKCS8, LOCKED))


@pytest.mark.parametrize("change", [lambda der: der[:-1], lambda der: der + b"\0"])
def test_refused_der(es256: PrivateKey, change: Callable[[bytes], bytes]) -> None:
    """A DER that was cut, or has something behind it, is refused."""
    with pytest.raises(KeyRefused, match=r"key\.malformed"):
        PrivateKey.from_pkcs8_der(change(es256.to_pkcs8_der()))


def test_jwk(key: PrivateKey) -> None:
    """A private JWK is read, with its kid or with another."""
    jwk = private_jwk(key)
    assert PrivateKey.from_jwk(jwk) == key
    assert PrivateKey.from_jwk({**jwk, "use": "sig", "key_ops": ["sign"]}) == key
    assert PrivateKey.from_jwk(jwk, kid="other").public.kid == "other"


def test_rsa_jwk_needs_no_primes(rs256: PrivateKey) -> None:
    """n, e and d are enough (RFC 7518 6.3.2), and make the same key."""
    jwk = {name: private_jwk(rs256)[name] for name in ("kty", "n", "e", "d", "kid")}
    assert PrivateKey.from_jwk(jwk).sign(b"a.b") == rs256.sign(b"a.b")


def _number(value: int, size: int) -> str:
    return base64url.encode(value.to_bytes(size))


REFUSED_JWK: dict[str, tuple[str, dict[str, Json], str]] = {
    "EC, d of another key": ("es256", {"d": _number(5, 32)}, "key.malformed"),
    "EC, d too short": ("es256", {"d": _number(5, 31)}, "key.malformed"),
    "EC, d is null": ("es256", {"d": None}, "key.malformed"),
    "EC, to verify only": ("es256", {"key_ops": ["verify"]}, "key.use"),
    "EC, kid with a tab": ("es256", {"kid": "a\tb"}, "key.malformed"),
    "RSA, d of another key": ("rs256", {"d": _number(2**2000 + 1, 251)}, "key.malformed"),
    "RSA, d is huge": ("rs256", {"d": "_" * 43_692}, "key.malformed"),
    "RSA, p is one": ("rs256", {"p": "AQ"}, "key.malformed"),
    "RSA, qi of another key": ("rs256", {"qi": "AQ"}, "key.malformed"),
    "RSA, p without qi": ("rs256", {"qi": None}, "key.malformed"),
    "RSA, d not minimal": ("rs256", {"d": "AAAB"}, "key.malformed"),
    "RSA, three primes": ("rs256", {"oth": []}, "key.unsupported"),
}


@pytest.mark.parametrize(("name", "members", "code"), REFUSED_JWK.values(), ids=REFUSED_JWK)
def test_refused_jwk(
    request: pytest.FixtureRequest, name: str, members: dict[str, Json], code: str
) -> None:
    """A private JWK whose halves do not belong together, or that is not for us, is refused."""
    with pytest.raises(KeyRefused) as refusal:
        PrivateKey.from_jwk({**private_jwk(request.getfixturevalue(name)), **members})
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("d", "fault"),
    [("AQ", "does not belong"), ("Aw", "does not belong"), ("_" * 43_692, "not less than")],
)
def test_wrong_exponent_without_primes(rs256: PrivateKey, d: str, fault: str) -> None:
    """Primes cannot be computed from an exponent that is not the key's, however long it is."""
    jwk = {name: private_jwk(rs256)[name] for name in ("kty", "n", "e")}
    with pytest.raises(KeyRefused, match=rf"key\.malformed: .*{fault}"):
        PrivateKey.from_jwk({**jwk, "d": d})


def test_public_jwk_is_no_private_key(key: PrivateKey) -> None:
    """Without `d` there is nothing to sign with."""
    with pytest.raises(KeyRefused, match="'d' is missing"):
        PrivateKey.from_jwk(key.public.jwk())


def test_nothing_leaks(key: PrivateKey) -> None:
    """No way of printing a key shows a private number, in any of the usual spellings."""
    d = base64url.decode(str(private_jwk(key)["d"]))
    shown = f"{key} {key!r} {[key]} {key.public} {key.public.jwk()}"
    assert key.public.kid in shown
    for secret in (base64url.encode(d), d.hex(), str(int.from_bytes(d)), repr(d)[2:-1]):
        assert secret not in shown


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_no_copies(key: PrivateKey, attempt: Callable[[PrivateKey], object]) -> None:
    """A private key is neither pickled nor copied."""
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        attempt(key)


def test_equality_is_that_of_the_public_half(es256: PrivateKey) -> None:
    """Two objects are one key if they are published alike."""
    again = PrivateKey.from_pkcs8_der(es256.to_pkcs8_der(), "es")
    assert {again, es256} == {es256}
    assert again != PrivateKey.from_pkcs8_der(es256.to_pkcs8_der())
    assert isinstance(again.public, PublicKey)
