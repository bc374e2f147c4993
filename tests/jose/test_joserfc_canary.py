"""What we rely on joserfc for, line by line: a new version that differs fails here first."""

from __future__ import annotations

import warnings

import pytest
from joserfc import jws
from joserfc.errors import JoseError

from cardsign.errors import SignatureRefused
from cardsign.jose import base64url
from cardsign.jose.keys import MAX_SIGNATURE_BYTES, REGISTRY, PrivateKey, PublicKey
from tests.jose.explicit_making import HEADER_ALGS, made


def is_good(header: str, payload: bytes, signature: bytes, key: PublicKey) -> bool:
    """Whether joserfc finds a signature good, asked in the one way that we ask it."""
    try:
        key.check(header, payload, signature)
    except SignatureRefused:
        return False
    return True


def test_the_signature_of_the_largest_rsa_key_is_not_too_long() -> None:
    """8192 bits; joserfc's own limit lies below."""
    largest = base64url.encode(bytes(MAX_SIGNATURE_BYTES)).encode()
    REGISTRY.validate_signature_size(largest)
    with pytest.raises(JoseError, match="exceeds"):
        jws.default_registry.validate_signature_size(largest)


@pytest.mark.parametrize("alg", [*HEADER_ALGS, "EdDSA"])
def test_no_algorithm_of_ours_is_warned_of(alg: str) -> None:
    """joserfc warns of EdDSA by its older name, which is what most headers have."""
    key = made("Ed25519" if alg == "EdDSA" else alg)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry = key.sign(b"{}", alg=alg)
    signature = base64url.decode(str(entry["signature"]))
    assert is_good(str(entry["protected"]), b"{}", signature, key.public)


@pytest.mark.parametrize(
    "header", ["", "e30", "eyJhbGciOiJub25lIn0", "W10", "AA", "bnVsbA", "!", "eyJhbGciOjF9"]
)
def test_garbage_is_no_signature_and_no_crash(es256: PrivateKey, header: str) -> None:
    """Whatever joserfc raises, nothing of it gets out."""
    assert not is_good(header, b"{}", bytes(64), es256.public)


@pytest.mark.parametrize("name", ["HS256", "none", "ES256K", "Ed448", ""])
def test_our_registry_knows_no_other_algorithm(name: str) -> None:
    """Whatever a header says that was not refused before."""
    with pytest.raises(JoseError):
        REGISTRY.get_alg(name)
