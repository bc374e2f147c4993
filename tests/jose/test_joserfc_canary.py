"""What we rely on joserfc for, line by line: a new version that differs fails here first."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from explicit_making import HEADER_ALGS, made
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey, RSAKey

from cardsign.errors import SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.keys import PrivateKey
from cardsign.jose.signature import (
    MAX_HEADER_BYTES,
    MAX_SIGNATURE_BYTES,
    REGISTRY,
    check_signature,
)


def is_good(header: str, payload: bytes, signature: bytes, key: Any) -> bool:
    """Whether joserfc finds a signature good, asked in the one way that we ask it."""
    try:
        check_signature(header, payload, signature, key)
    except SignatureRefused:
        return False
    return True


def protected(**members: Any) -> str:
    """A protected header."""
    return base64url.encode(json.dumps(members).encode())


def signing_input(header: str, payload: bytes) -> bytes:
    """What a signature is made over."""
    return f"{header}.{base64url.encode(payload)}".encode()


@pytest.mark.parametrize("size", [0, 1, 128_001, 256 * 1024])
def test_a_detached_payload_of_any_size_is_verified(es256: PrivateKey, size: int) -> None:
    """joserfc's limit of 128,000 bytes is one of attached payloads."""
    header, payload = protected(alg="ES256", kid="k"), b"x" * size
    signature = es256.sign(signing_input(header, payload))
    assert is_good(header, payload, signature, es256.public.jose)
    assert not is_good(header, payload + b"x", signature, es256.public.jose)


def test_a_header_of_our_limit_is_verified(es256: PrivateKey) -> None:
    """The default registry ends at 512 bytes, and is left as it is."""
    shortest = len(json.dumps({"alg": "ES256", "x5c": ""}))
    header = protected(alg="ES256", x5c="A" * (MAX_HEADER_BYTES - shortest))
    signature = es256.sign(signing_input(header, b"{}"))
    assert is_good(header, b"{}", signature, es256.public.jose)
    token = f"{header}..{base64url.encode(signature)}"
    with pytest.raises(JoseError, match="exceeds 512 bytes"):
        jws.deserialize_compact(token, es256.public.jose, payload=b"{}")


def test_the_signature_of_the_largest_rsa_key_is_not_too_long() -> None:
    """8192 bits; joserfc's own limit lies below."""
    largest = base64url.encode(bytes(MAX_SIGNATURE_BYTES)).encode()
    REGISTRY.validate_signature_size(largest)
    with pytest.raises(JoseError, match="exceeds"):
        jws.default_registry.validate_signature_size(largest)


def test_an_rsa_key_serves_the_one_algorithm_that_it_names() -> None:
    """A good PS256 signature is none for a key of RS256."""
    key = rsa.generate_private_key(65537, 2048)
    header = protected(alg="PS256")
    pss = padding.PSS(padding.MGF1(SHA256()), 32)
    signature = key.sign(signing_input(header, b"{}"), pss, SHA256())
    for alg, good in (("PS256", True), ("RS256", False)):
        public = RSAKey.import_key(key.public_key(), {"alg": alg})
        assert is_good(header, b"{}", signature, public) is good


@pytest.mark.parametrize(
    "alg", ["none", "HS256", "ES384", "RS256", "es256", "", None, 7, ["ES256"]]
)
def test_no_header_chooses_another_algorithm(es256: PrivateKey, alg: object) -> None:
    """Least of all one without a key, or with the public key for a secret."""
    header = protected(alg=alg)
    for signature in (b"", es256.sign(signing_input(header, b"{}"))):
        assert not is_good(header, b"{}", signature, es256.public.jose)


@pytest.mark.parametrize("alg", [*HEADER_ALGS, "EdDSA"])
def test_no_algorithm_of_ours_is_warned_of(alg: str) -> None:
    """joserfc warns of EdDSA by its older name, which is what most headers have."""
    key = made("Ed25519" if alg == "EdDSA" else alg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry = key.sign(b"{}", alg=alg)
    signature = base64url.decode(str(entry["signature"]))
    assert is_good(str(entry["protected"]), b"{}", signature, key.public.jose)


@pytest.mark.parametrize("header", ["", "e30", "W10", "AA", "bnVsbA", "!", "eyJhbGciOjF9"])
def test_garbage_is_no_signature_and_no_crash(es256: PrivateKey, header: str) -> None:
    """Whatever joserfc raises, nothing of it gets out."""
    assert not is_good(header, b"{}", bytes(64), es256.public.jose)


def test_numbers_and_thumbprint_come_from_the_key() -> None:
    """A JWK with a needless zero is the same key; only rebuilt has it the same thumbprint."""
    while True:
        native = ec.generate_private_key(ec.SECP256R1()).public_key()
        members = ECKey.import_key(native).as_dict()
        if base64url.decode(str(members["x"]))[0] == 0:
            break
    assert len(base64url.decode(str(members["x"]))) == 32
    short = {**members, "x": base64url.encode(base64url.decode(str(members["x"]))[1:])}
    other = ECKey.import_key(short)
    assert other.public_key == native
    assert other.thumbprint() != ECKey.import_key(native).thumbprint()
    assert ECKey.import_key(other.public_key).thumbprint() == ECKey.import_key(native).thumbprint()


def test_text_becomes_a_symmetric_key() -> None:
    """So joserfc gets native keys and checked JWKs from us, never text."""
    assert OctKey.import_key("garbage, as long as a secret").raw_value
