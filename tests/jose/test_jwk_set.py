"""JWK Sets: refused whole, passed over in part, or read; and written alike everywhere."""

from __future__ import annotations

import itertools
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet, PrivateKey, SkippedKey
from tests.jose.explicit_making import HEADER_ALGS, made


def document(*keys: object, **members: object) -> bytes:
    """A JWK Set of these JWKs."""
    return json.dumps({"keys": keys, **members}).encode()


def refusal_of(untrusted_bytes: bytes) -> tuple[str, str]:
    """Code and path of the refusal of a set."""
    with pytest.raises(KeyRefused) as refusal:
        JwkSet.from_bytes(untrusted_bytes)
    return refusal.value.code, refusal.value.path


def test_read(es256: PrivateKey, rs256: PrivateKey) -> None:
    """A set is read in its order; members that we do not know are ignored."""
    found = JwkSet.from_bytes(
        document(rs256.public.jwk(), {**es256.public.jwk(), "status": 1}, issuer="x")
    )
    assert found == JwkSet.of([rs256.public, es256.public])
    assert found.skipped == ()


def pem_of(native: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    """A public key as the samples of A2A publish it."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return native.public_bytes(serialization.Encoding.PEM, form).decode()


#: Of which one alone would be read.
TWO_KEYS = "".join(pem_of(ec.generate_private_key(ec.SECP256R1()).public_key()) for _ in "12")


@pytest.mark.parametrize(
    ("pem", "code"),
    [
        (pem_of(rsa.generate_private_key(65537, 1024).public_key()), "key.weak_rsa"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "key.malformed"),
        ("no PEM", "key.malformed"),
        (TWO_KEYS, "key.malformed"),
        (7, "key.malformed"),
    ],
    ids=["weak", "malformed", "text", "two keys", "number"],
)
@pytest.mark.filterwarnings("error")
def test_pem_by_kid(es256: PrivateKey, pem: object, code: str) -> None:
    """A broken one is named by its kid, and no library warns on its own."""
    native = es256.public.native
    assert isinstance(native, ec.EllipticCurvePublicKey)
    keys = {"es": pem_of(native)}
    assert JwkSet.from_bytes(json.dumps(keys).encode()).keys == (es256.public,)
    assert refusal_of(json.dumps({**keys, "a/b": pem}).encode()) == (code, "/a~1b")


def test_find(es256: PrivateKey, rs256: PrivateKey) -> None:
    """A key is found by exactly its kid."""
    found = JwkSet.of([es256.public, rs256.public])
    assert found.find("rs") == rs256.public
    assert [found.find(kid) for kid in ("RS", "rs ", "", rs256.public.thumbprint)] == [None] * 4


def test_empty() -> None:
    """A set may be empty: its issuer vouches for no key."""
    assert JwkSet.from_bytes(b'{"keys": []}') == JwkSet.of([])


def test_key_without_kid(es256: PrivateKey) -> None:
    """A key without a kid is found by its thumbprint."""
    (key,) = JwkSet.from_bytes(document(dict(es256.public.numbers))).keys
    assert key.kid == es256.public.thumbprint


MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", ""),
    "no JSON": (b"keys", ""),
    "a list": (b"[]", ""),
    "byte order mark": (b'\xef\xbb\xbf{"keys": []}', ""),
    "keys twice": (b'{"keys": [], "keys": []}', "/keys"),
    "no keys": (b'{"key": []}', "/keys"),
    "keys is an object": (b'{"keys": {}}', "/keys"),
    "keys is null": (b'{"keys": null}', "/keys"),
    "a key is text": (b'{"keys": ["k"]}', "/keys/0"),
    "a key is null": (b'{"keys": [null]}', "/keys/0"),
    "too large": (b'{"keys": []}' + b" " * MAX_JWKS_BYTES, ""),
    "nested too deeply": (b'{"keys": [], "x": ' + b"[" * 99 + b"]" * 99 + b"}", "/x" + "/0" * 31),
}


@pytest.mark.parametrize(("untrusted_bytes", "path"), MALFORMED.values(), ids=MALFORMED)
def test_malformed(untrusted_bytes: bytes, path: str) -> None:
    """What is no JWK Set is refused, with the place."""
    assert refusal_of(untrusted_bytes) == ("jwks.malformed", path)


def test_place_of_a_syntax_error() -> None:
    """Line and column come through."""
    with pytest.raises(KeyRefused) as refusal:
        JwkSet.from_bytes(b'{\n  "keys": [}\n}')
    assert (refusal.value.finding.place.line, refusal.value.finding.place.column) == (2, 12)


BROKEN: dict[str, tuple[dict[str, Json], str, str]] = {
    "malformed": ({"x": "AA"}, "key.malformed", "/keys/1/x"),
    "without kty": ({"kty": None}, "key.malformed", "/keys/1/kty"),
    "with a kid that is none": ({"kid": "\x07"}, "key.malformed", "/keys/1/kid"),
    "weak": ({"kty": "RSA", "alg": "RS256", "n": "Aw", "e": "Aw"}, "key.weak_rsa", "/keys/1/n"),
    "with its private half": ({"d": "AA"}, "key.private_material", "/keys/1/d"),
    "a secret": ({"kty": "oct"}, "key.private_material", "/keys/1/kty"),
    "a private key of an unknown type": (
        {"kty": "AKP", "priv": "AA"},
        "key.private_material",
        "/keys/1/priv",
    ),
    "a private key for encryption": (
        {"use": "enc", "d": "AA"},
        "key.private_material",
        "/keys/1/d",
    ),
}


@pytest.mark.parametrize(("members", "code", "path"), BROKEN.values(), ids=BROKEN)
def test_one_broken_key(
    es256: PrivateKey, rs256: PrivateKey, members: dict[str, Json], code: str, path: str
) -> None:
    """A set with one broken key is refused whole, with the key's place."""
    broken = {**es256.public.jwk(), **members}
    assert refusal_of(document(rs256.public.jwk(), broken)) == (code, path)


def test_a_broken_key_alone_is_placed_in_its_own_document(es256: PrivateKey) -> None:
    """There is no set around it."""
    assert refusal_of(json.dumps({**es256.public.jwk(), "x": "AA"}).encode())[1] == "/x"
    assert refusal_of(json.dumps({**es256.public.jwk(), "d": "AA"}).encode())[1] == "/d"


def test_private_material_goes_before_all_else(es256: PrivateKey) -> None:
    """That a key is compromised is said even where another key is malformed."""
    private = {**es256.public.jwk(), "d": "AA"}
    assert refusal_of(document({"kty": 1}, private)) == ("key.private_material", "/keys/1/d")


@pytest.mark.parametrize("alg", HEADER_ALGS)
def test_keys_for_a_policy_to_name(alg: str, es256: PrivateKey) -> None:
    """A set holds the keys of every algorithm that may be accepted, and finds them alike."""
    key = made(alg)
    found = JwkSet.from_bytes(document(key.jwk, es256.public.jwk()))
    assert found == JwkSet.of([key.public, es256.public])
    assert found.find("k") == key.public
    assert found.keys[0].alg == key.name
    assert JwkSet.from_bytes(found.to_bytes()).find("k") == key.public


ELSEWHERE: dict[str, tuple[dict[str, Json], str]] = {
    "a type of tomorrow": ({"kty": "AKP", "alg": "ML-DSA-65"}, "key.unsupported"),
    "Ed448": ({"kty": "OKP", "crv": "Ed448", "alg": "EdDSA"}, "key.unsupported"),
    "another curve": ({"crv": "secp256k1"}, "key.unsupported"),
    "RSA for an algorithm that is not verified": (
        {"kty": "RSA", "alg": "RSA-OAEP"},
        "key.alg_mismatch",
    ),
    "another algorithm": ({"alg": "ECDH-ES"}, "key.alg_mismatch"),
    "for encryption": ({"use": "enc"}, "key.use"),
    "for no verification": ({"key_ops": ["deriveKey"]}, "key.use"),
}


@pytest.mark.parametrize(("members", "code"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_key_for_another_purpose(
    es256: PrivateKey, rs256: PrivateKey, members: dict[str, Json], code: str
) -> None:
    """A key that is not for our signatures is passed over and reported, never used."""
    other = {**es256.public.jwk(), "kid": "other", **members}
    found = JwkSet.from_bytes(document(other, rs256.public.jwk()))
    assert found.keys == (rs256.public,)
    assert [(skipped.kid, skipped.code) for skipped in found.skipped] == [("other", code)]
    assert found.find("other") is None


@pytest.mark.parametrize("kid", [{}, {"kid": None}, {"kid": 7}, {"kid": "\x1b[2J"}, {"kid": ""}])
def test_skipped_key_without_a_usable_kid(kid: dict[str, Json]) -> None:
    """What a report shows of a skipped key's name is harmless, and several may have none."""
    other = {"kty": "OKP", "crv": "X25519", **kid}
    assert [key.kid for key in JwkSet.from_bytes(document(other, other)).skipped] == ["", ""]


def test_duplicate_kid(es256: PrivateKey, rs256: PrivateKey) -> None:
    """Two keys under one kid are refused in either order, be they one key, or passed over.

    A kid may not pretend to be the thumbprint by which a nameless key is found either.
    """
    es, rs, numbers = es256.public.jwk(), rs256.public.jwk(), dict(es256.public.numbers)
    unread = {"kty": "OKP", "crv": "X25519", "kid": "es"}  # another reader would use it
    pretender = {**rs, "kid": es256.public.thumbprint}
    clashes = [(es, rs | {"kid": "es"}), (es, es), (numbers, numbers), (numbers, pretender)]
    for clash in (*clashes, (unread, es)):
        for keys in itertools.permutations(clash):
            assert refusal_of(document(*keys)) == ("jwks.duplicate_kid", "/keys")
    with pytest.raises(KeyRefused, match="two keys have the kid 'es'"):
        JwkSet.of([es256.public, es256.public])


def test_two_kids_for_one_key(es256: PrivateKey, rs256: PrivateKey) -> None:
    """A key may be published under two kids; it is one key, not two that share their primes."""
    twice = [key.public.jwk() for key in (es256, rs256)]
    found = JwkSet.from_bytes(
        document(*twice, *({**jwk, "kid": "b" + jwk["kid"]} for jwk in twice))
    )
    assert [key.kid for key in found.keys] == ["es", "rs", "bes", "brs"]
    assert len({key.thumbprint for key in found.keys}) == 2


def test_shared_prime_across_algorithms() -> None:
    """A common prime gives both keys away, whatever each is for."""
    first, second = (rsa.generate_private_key(65537, 2048).private_numbers() for _ in range(2))
    keys: list[dict[str, str]] = [
        {"kty": "RSA", "alg": alg, "n": base64url.encode(modulus.to_bytes(256)), "e": "AQAB"}
        for alg, modulus in (("PS256", first.p * first.q), ("RS512", first.p * second.q))
    ]
    assert refusal_of(document(*keys)) == ("jwks.shared_prime", "/keys")


def test_written(es256: PrivateKey, rs256: PrivateKey) -> None:
    """Every replica writes the same bytes, whatever order it holds the keys in; and reads them."""
    written = JwkSet.of([rs256.public, es256.public]).to_bytes()
    assert written == JwkSet.of([es256.public, rs256.public]).to_bytes()
    assert json.loads(written) == {"keys": [es256.public.jwk(), rs256.public.jwk()]}
    assert written.startswith(b'{\n  "keys": [\n    {\n      "kty": ')
    assert written.endswith(b"\n}\n")
    wider = JwkSet((rs256.public, es256.public), (SkippedKey("other", "key.use", "to encrypt"),))
    assert wider.to_bytes() == written
    assert JwkSet.from_bytes(written) == JwkSet.of([es256.public, rs256.public])
