"""Public keys: what is read, what is refused, and which signatures they confirm."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key
from explicit_making import PAYLOAD, check_input, input_of
from joserfc.jwk import ECKey, RSAKey

from cardsign.card.values import Json
from cardsign.errors import KeyRefused, SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import SIGNING_ALGORITHMS, STATEMENT_ALGORITHMS
from cardsign.jose.keys import PrivateKey, PublicKey

# The order of the P-256 group (SEC 2, section 2.4.2).
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
FIELD = 2**256 - 2**224 + 2**192 + 2**96 - 1
Y_AT_5 = "RZJDuapYGAb-kTvOmYF63hHKUDxk2aPFM0FcCDJI-8w"  # of the point of P-256 with x = 5

Change = Callable[[dict[str, Json]], None]


def put(**members: Json) -> Change:
    """Set members of a JWK."""
    return lambda jwk: jwk.update(members)


def drop(name: str) -> Change:
    """Remove a member of a JWK."""
    return lambda jwk: jwk.__delitem__(name)


def respell(name: str, change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of a number of a JWK."""
    return lambda jwk: jwk.update(
        {name: base64url.encode(change(base64url.decode(str(jwk[name]))))}
    )


def padded(data: bytes) -> bytes:
    """The same number, one byte longer."""
    return b"\0" + data


REFUSED_EC: dict[str, tuple[Change, str, str]] = {
    "no kty": (drop("kty"), "key.malformed", "/kty"),
    "kty is a list": (put(kty=["EC"]), "key.malformed", "/kty"),
    "kty unknown": (put(kty="AKP"), "key.unsupported", "/kty"),
    "kty of another curve": (put(kty="OKP"), "key.unsupported", "/crv"),
    "kty in lower case": (put(kty="ec"), "key.unsupported", "/kty"),
    "kty is a secret": (put(kty="oct"), "key.private_material", "/kty"),
    "no curve": (drop("crv"), "key.malformed", "/crv"),
    "another curve": (put(crv="P-384"), "key.unsupported", "/crv"),
    "the curve of Bitcoin": (put(crv="secp256k1"), "key.unsupported", "/crv"),
    "off the curve": (
        respell("y", lambda y: y[:-1] + bytes([y[-1] ^ 1])),
        "key.malformed",
        "/x",
    ),
    "x without y": (drop("y"), "key.malformed", "/y"),
    "y is a number": (put(y=1), "key.malformed", "/y"),
    "x with a leading zero byte": (respell("x", padded), "key.malformed", "/x"),
    "y with a leading zero byte": (respell("y", padded), "key.malformed", "/y"),
    "x one byte short": (respell("x", lambda x: x[1:]), "key.malformed", "/x"),
    "x is empty": (put(x=""), "key.malformed", "/x"),
    "x with padding": (lambda jwk: jwk.update(x=f"{jwk['x']}="), "key.malformed", "/x"),
    "x with stray bits": (put(x="A" * 42 + "B"), "key.malformed", "/x"),
    "x is the field's order": (
        put(x=base64url.encode(FIELD.to_bytes(32))),
        "key.malformed",
        "/x",
    ),
    "x of a point of the curve, not reduced": (
        put(x=base64url.encode((FIELD + 5).to_bytes(32)), y=Y_AT_5),
        "key.malformed",
        "/x",
    ),
    "the point at infinity": (
        put(x=base64url.encode(bytes(32)), y=base64url.encode(bytes(32))),
        "key.malformed",
        "/x",
    ),
    "another algorithm": (put(alg="ES384"), "key.alg_mismatch", "/alg"),
    "the other type's algorithm": (put(alg="RS256"), "key.alg_mismatch", "/alg"),
    "no algorithm": (put(alg="none"), "key.alg_mismatch", "/alg"),
    "algorithm null": (put(alg=None), "key.malformed", "/alg"),
    "for encryption": (put(use="enc"), "key.use", "/use"),
    "use is a list": (put(use=["sig"]), "key.malformed", "/use"),
    "for signing only": (put(key_ops=["sign"]), "key.use", "/key_ops"),
    "for nothing": (put(key_ops=[]), "key.use", "/key_ops"),
    "operations as text": (put(key_ops="verify"), "key.malformed", "/key_ops"),
    "with its private half": (put(d="AA"), "key.private_material", "/d"),
    "with a private member null": (put(d=None), "key.private_material", "/d"),
    "kid is a number": (put(kid=1), "key.malformed", "/kid"),
    "kid is null": (put(kid=None), "key.malformed", "/kid"),
    "kid is empty": (put(kid=""), "key.malformed", "/kid"),
    "kid too long": (put(kid="k" * 257), "key.malformed", "/kid"),
    "kid with a line feed": (put(kid="k\n"), "key.malformed", "/kid"),
    "kid with NUL": (put(kid="k\0"), "key.malformed", "/kid"),
    "kid that reverses the text": (put(kid="k\u202e"), "key.malformed", "/kid"),
}
REFUSED_RSA: dict[str, tuple[Change, str, str]] = {
    "no n": (drop("n"), "key.malformed", "/n"),
    "no e": (drop("e"), "key.malformed", "/e"),
    "n is empty": (put(n=""), "key.malformed", "/n"),
    "n with a leading zero byte": (respell("n", padded), "key.malformed", "/n"),
    "e with a leading zero byte": (respell("e", padded), "key.malformed", "/e"),
    "n in the other alphabet": (
        lambda jwk: jwk.update(n=f"+{str(jwk['n'])[1:]}"),
        "key.malformed",
        "/n",
    ),
    "e is a number": (put(e=65537), "key.malformed", "/e"),
    "for the PSS padding": (put(alg="PS256"), "key.alg_mismatch", "/alg"),
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


@pytest.mark.parametrize("member", ["n", "e"])
def test_leading_zero_would_be_an_alias(rs256: PrivateKey, member: str) -> None:
    """For joserfc the same RSA key has another thumbprint in another spelling."""
    jwk: dict[str, Json] = {**rs256.public.numbers}
    respell(member, padded)(jwk)
    alias = RSAKey.import_key(jwk)
    assert alias.raw_value.public_numbers() == rs256.public.native.public_numbers()
    assert alias.thumbprint() != rs256.public.thumbprint


def test_leading_zero_would_be_an_alias_on_a_curve_too(es256: PrivateKey) -> None:
    """For joserfc the same EC key has another thumbprint in another spelling."""
    jwk: dict[str, Json] = {**es256.public.numbers}
    respell("x", padded)(jwk)
    alias = ECKey.import_key(jwk)
    assert alias.raw_value.public_numbers() == es256.public.native.public_numbers()
    assert alias.thumbprint() != es256.public.thumbprint


def test_thumbprint() -> None:
    """The example of RFC 7638 section 3.1 comes out."""
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJ"
        "ECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW"
        "2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQ"
        "Fh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    key = PublicKey.from_jwk({"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RS256"})
    assert key.thumbprint == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    assert key.kid == key.thumbprint


def test_thumbprint_is_that_of_others(key: PrivateKey) -> None:
    """For a key in its one spelling, joserfc computes the same thumbprint."""
    library = RSAKey if key.public.alg == "RS256" else ECKey
    assert library.import_key(dict(key.public.numbers)).thumbprint() == key.public.thumbprint


def test_jwk(es256: PrivateKey) -> None:
    """What is published is the numbers, the kid, and what the key is for."""
    jwk = es256.public.jwk()
    assert jwk == {**es256.public.numbers, "kid": "es", "use": "sig", "alg": "ES256"}
    assert PublicKey.from_jwk({**jwk, "x5c": ["junk"]}).jwk() == jwk


def test_given_kid_goes_first(es256: PrivateKey) -> None:
    """A caller's name replaces the JWK's, even one that would be refused."""
    assert PublicKey.from_jwk({**es256.public.jwk(), "kid": 1}, kid="mine").kid == "mine"


def test_pickle(key: PrivateKey) -> None:
    """A key survives the way to another process."""
    copy = pickle.loads(pickle.dumps(key.public))
    assert copy == key.public
    assert copy.numbers == key.public.numbers


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


def test_confirms_its_own(key: PrivateKey) -> None:
    """A signature fits the bytes that were signed, and no others."""
    signature = key.sign(input_of(key.public))
    check_input(key.public, input_of(key.public), signature)
    _refuses(key.public, signature, payload=b"another")


def test_confirms_no_other_keys(es256: PrivateKey) -> None:
    """Another key of the same kind does not confirm it."""
    _refuses(PrivateKey.generate("ES256").public, es256.sign(input_of(es256.public)))


def test_both_halves_of_the_range(es256: PrivateKey) -> None:
    """(r, n-s) is as good as (r, s), in either direction (RFC 7518 3.4)."""
    r, s = _halves(es256.sign(input_of(es256.public)))
    check_input(es256.public, input_of(es256.public), _joined(r, s))
    check_input(es256.public, input_of(es256.public), _joined(r, ORDER - s))


ES256_FORGERIES: dict[str, Callable[[int, int], bytes]] = {
    "DER": encode_dss_signature,
    "empty": lambda r, s: b"",
    "63 bytes": lambda r, s: _joined(r, s)[1:],
    "65 bytes": lambda r, s: _joined(r, s) + b"\0",
    "r alone": lambda r, s: r.to_bytes(32),
    "all zero": lambda r, s: bytes(64),
    "r is zero": lambda r, s: _joined(0, s),
    "s is zero": lambda r, s: _joined(r, 0),
    "r is the group's order": lambda r, s: _joined(ORDER, s),
    "s is the group's order": lambda r, s: _joined(r, ORDER),
    "all ones": lambda r, s: b"\xff" * 64,
    "r and s exchanged": lambda r, s: _joined(s, r),
    "r is one": lambda r, s: _joined(1, s),
}


@pytest.mark.parametrize("forged", ES256_FORGERIES.values(), ids=ES256_FORGERIES)
def test_es256_forgery(es256: PrivateKey, forged: Callable[[int, int], bytes]) -> None:
    """Whatever is not r and s of this input, at full length, is refused."""
    _refuses(es256.public, forged(*_halves(es256.sign(input_of(es256.public)))))


RS256_FORGERIES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda signature: b"",
    "a zero byte in front": lambda signature: b"\0" + signature,
    "a byte behind": lambda signature: signature + b"\0",
    "a byte short": lambda signature: signature[:-1],
    "all zero": lambda signature: bytes(len(signature)),
    "one": lambda signature: bytes(len(signature) - 1) + b"\1",
    "all ones": lambda signature: b"\xff" * len(signature),
}


@pytest.mark.parametrize("forged", RS256_FORGERIES.values(), ids=RS256_FORGERIES)
def test_rs256_forgery(rs256: PrivateKey, forged: Callable[[bytes], bytes]) -> None:
    """Whatever is not the signature, at the length of the modulus, is refused."""
    _refuses(rs256.public, forged(rs256.sign(input_of(rs256.public))))


def test_wrong_length_is_named(key: PrivateKey) -> None:
    """A signature of the wrong length, DER most of all, is told apart from a wrong one."""
    expected = key.public.signature_bytes
    with pytest.raises(SignatureRefused, match=f"has 70 bytes, expected {expected} for"):
        check_input(key.public, input_of(key.public), bytes(70))


def test_pss_is_not_rs256(rs256: PrivateKey) -> None:
    """A good PS256 signature of the same key and input, as OpenBao makes by default, is refused."""
    native = load_der_private_key(rs256.to_pkcs8_der(), None)
    assert isinstance(native, rsa.RSAPrivateKey)
    _refuses(
        rs256.public,
        native.sign(
            input_of(rs256.public),
            padding.PSS(padding.MGF1(SHA256()), SHA256.digest_size),
            SHA256(),
        ),
    )


def _refuses(key: PublicKey, signature: bytes, *, payload: bytes = PAYLOAD) -> None:
    with pytest.raises(SignatureRefused) as refusal:
        check_input(key, input_of(key, payload), signature)
    assert refusal.value.code == "sig.bad"


def _joined(r: int, s: int) -> bytes:
    return r.to_bytes(32) + s.to_bytes(32)


def _halves(signature: bytes) -> tuple[int, int]:
    return int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
