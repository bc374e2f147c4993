"""JWK Sets: refused whole, passed over in part, or read; and written alike everywhere."""

from __future__ import annotations

import itertools
import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet, PrivateKey
from tests.jose.explicit_making import HEADER_ALGS, made
from tests.support import each_case


def document(*keys: object, **members: object) -> bytes:
    """A JWK Set of these JWKs."""
    return json.dumps({"keys": keys, **members}).encode()


def refusal_of(untrusted_bytes: bytes) -> tuple[str, str]:
    """Code and path of the refusal of a set."""
    with pytest.raises(KeyRefused) as refusal:
        JwkSet.from_bytes(untrusted_bytes)
    return refusal.value.code, refusal.value.path


def pem_of(native: rsa.RSAPublicKey) -> str:
    """A public key as the samples of A2A publish it."""
    return native.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def test_pem_by_kid(es256: PrivateKey) -> None:
    """A broken one is named by its kid, and no library warns on its own."""
    sound = es256.public.native.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys = {"es": sound.decode()}
    assert JwkSet.from_bytes(json.dumps(keys).encode()).keys == (es256.public,)
    private = "-----BEGIN {} KEY-----\nA".format("PRIVATE")  # that nobody could read
    for pem, code, path in (
        (pem_of(rsa.generate_private_key(65537, 1024).public_key()), "key.weak_rsa", "/a~1b/n"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "key.malformed", "/a~1b"),
        ("no PEM", "key.malformed", "/a~1b"),
        (keys["es"] * 2, "key.malformed", "/a~1b"),  # of which one alone would be read
        (7, "key.malformed", "/a~1b"),
        (keys["es"] + private, "key.private_material", "/a~1b"),
    ):
        assert refusal_of(json.dumps({**keys, "a/b": pem}).encode()) == (code, path)


def test_find(es256: PrivateKey, rs256: PrivateKey) -> None:
    """A key is found by exactly its kid, or if it has none by its thumbprint."""
    jwks = JwkSet.of([es256.public, rs256.public])
    assert jwks.find("rs") == rs256.public
    assert [jwks.find(kid) for kid in ("RS", "rs ", "", rs256.public.thumbprint)] == [None] * 4
    nameless = {**es256.public.jwk()}
    del nameless["kid"]
    assert JwkSet.from_bytes(document(nameless)).find(es256.public.thumbprint)


@each_case(__file__, "malformed", "text", "path")
def test_malformed(text: str, path: str) -> None:
    """What is no JWK Set is refused, with the place."""
    assert refusal_of(text.encode("latin-1")) == ("jwks.malformed", path)
    assert refusal_of(b'{"keys": []}' + b" " * MAX_JWKS_BYTES) == ("jwks.malformed", "")


def test_place_of_a_syntax_error() -> None:
    """Line and column come through."""
    with pytest.raises(KeyRefused) as refusal:
        JwkSet.from_bytes(b'{\n  "keys": [}\n}')
    assert (refusal.value.finding.place.line, refusal.value.finding.place.column) == (2, 12)


@each_case(__file__, "broken", "members", "code", "path")
def test_one_broken_key(
    es256: PrivateKey, rs256: PrivateKey, members: Json, code: str, path: str
) -> None:
    """A set with one broken key is refused whole, with the key's place; one alone in its own."""
    broken = {**es256.public.jwk(), **members} if isinstance(members, dict) else members
    assert refusal_of(document(rs256.public.jwk(), broken)) == (code, f"/keys/1{path}")
    if isinstance(broken, dict):
        assert refusal_of(json.dumps(broken).encode()) == (code, path)


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_keys_for_a_policy_to_name(alg: str, es256: PrivateKey) -> None:
    """A set holds the keys of every algorithm that may be accepted, and finds them alike."""
    jwks = JwkSet.from_bytes(document(made(alg).jwk, es256.public.jwk(), issuer="x"))
    assert jwks == JwkSet.of([made(alg).public, es256.public])
    assert jwks.find("k") == JwkSet.from_bytes(jwks.to_bytes()).find("k") == made(alg).public


@each_case(__file__, "elsewhere", "members", "code")
def test_key_for_another_purpose(
    es256: PrivateKey, rs256: PrivateKey, members: dict[str, Json], code: str
) -> None:
    """A key that is not for our signatures is passed over and reported, never used."""
    other = {**es256.public.jwk(), "kid": "other", **members}
    jwks = JwkSet.from_bytes(document(other, rs256.public.jwk()))
    assert jwks.keys == (rs256.public,)
    kid = "other" if other["kid"] == "other" else ""
    assert [key[:2] for key in jwks.skipped] == [(kid, code)]
    assert jwks.find("other") is None
    assert not JwkSet.from_bytes(document()).keys


def test_duplicate_kid(es256: PrivateKey, rs256: PrivateKey) -> None:
    """Two keys under one kid are refused in either order, be they one key, or passed over.

    A kid may not pretend to be the thumbprint by which a nameless key is found either. Two keys
    without a kid may be passed over, and one key have two kids: it shares no prime with itself.
    """
    es, rs = es256.public.jwk(), rs256.public.jwk()
    nameless = {name: value for name, value in es.items() if name != "kid"}
    unread = {"kty": "OKP", "crv": "X25519", "kid": "es"}  # another reader would use it
    pretender = {**rs, "kid": es256.public.thumbprint}
    clashes = [(es, rs | {"kid": "es"}), (es, es), (nameless, nameless), (nameless, pretender)]
    for clash in (*clashes, (unread, es)):
        for keys in itertools.permutations(clash):
            assert refusal_of(document(*keys)) == ("jwks.duplicate_kid", "/keys")
    twice = [rs, {**rs, "kid": "b"}, *[{"kty": "OKP", "crv": "X25519"}] * 2]
    jwks = JwkSet.from_bytes(document(*twice))
    assert [key.kid for key in jwks.keys] == ["rs", "b"]
    assert [kid for kid, *_ in jwks.skipped] == ["", ""]


def test_shared_prime_across_algorithms() -> None:
    """A common prime gives both keys away, whatever each is for."""
    first, second = (rsa.generate_private_key(65537, 2048).private_numbers() for _ in range(2))
    moduli = [encode_base64url((first.p * q).to_bytes(256)) for q in (first.q, second.q)]
    keys = [
        {"kty": "RSA", "alg": alg, "n": modulus, "e": "AQAB"}
        for alg, modulus in zip(("PS256", "RS512"), moduli, strict=True)
    ]
    assert refusal_of(document(*keys)) == ("jwks.shared_prime", "/keys")


def test_written(es256: PrivateKey, rs256: PrivateKey) -> None:
    """Every replica writes the same bytes, whatever order it holds the keys in; and reads them."""
    written = JwkSet.of([rs256.public, es256.public]).to_bytes()
    skipped = ("other", "key.use", "to encrypt")
    assert written == JwkSet.of([es256.public, rs256.public], [skipped]).to_bytes()
    assert json.loads(written) == {"keys": [es256.public.jwk(), rs256.public.jwk()]}
    assert written.startswith(b'{\n  "keys": [\n    {\n      "kty": "EC",\n      "crv": ')
    assert written.endswith(b"\n}\n")
    assert JwkSet.from_bytes(written) == JwkSet.of([es256.public, rs256.public])
