"""Ed25519 keys: one spelling of each, and none under which anybody can sign."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.keys import PublicKey
from tests.jose.explicit_making import check_input, input_of

P = 2**255 - 19


def refusal_of(encoded: bytes) -> str | None:
    """Why these bytes are no key; None where they are one."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": base64url.encode(encoded)}
    try:
        key = PublicKey.from_jwk(jwk, algorithms=["EdDSA"])
    except KeyRefused as refusal:
        return f"{refusal.code} {refusal.path} {refusal.message}"
    assert key.numbers == jwk
    return None


# The eight points of small order, the published list of them.
SMALL_ORDER = {
    "order 1": "01" + "00" * 31,
    "order 2": "ec" + "ff" * 30 + "7f",
    "order 4, x even": "00" * 32,
    "order 4, x odd": "00" * 31 + "80",
    "order 8, first": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "order 8, second": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "order 8, third": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "order 8, fourth": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
}


@pytest.mark.parametrize("text", SMALL_ORDER.values(), ids=SMALL_ORDER)
def test_small_order(text: str) -> None:
    """Under such a key one signature, made by nobody, is good for many messages."""
    encoded = bytes.fromhex(text)
    refusal = refusal_of(encoded) or ""
    assert refusal.startswith("key.malformed /x ")
    assert "small order" in refusal


@pytest.mark.parametrize("y", [2, 7, 8, 2**254, P - 2])
def test_off_the_curve(y: int) -> None:
    """Half of all y belong to no point; their neighbours may be keys."""
    assert refusal_of(y.to_bytes(32, "little")) == (
        "key.malformed /x the member 'x' is no point of the curve Ed25519"
    )
    assert refusal_of((3).to_bytes(32, "little")) is None


@pytest.mark.parametrize("y", range(P, 2**255), ids=lambda y: f"p + {y - P}")
@pytest.mark.parametrize("sign", [0, 1])
def test_second_spelling(y: int, sign: int) -> None:
    """A y that is not reduced would be another thumbprint for the same key."""
    encoded = (y | sign << 255).to_bytes(32, "little")
    assert "reduced" in (refusal_of(encoded) or "")


@pytest.mark.parametrize("size", [0, 1, 31, 33, 57, 64])
def test_length(size: int) -> None:
    """A key has 32 bytes."""
    fault = f"has {size} bytes, expected 32" if size else "is empty"
    assert fault in (refusal_of(bytes(size)) or "")


@given(st.binary(min_size=32, max_size=32))
def test_every_real_key_is_read(seed: bytes) -> None:
    """What a generator makes is accepted, and checks what it signs."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    x = base64url.encode(private.public_key().public_bytes_raw())
    key = PublicKey.from_jwk({"kty": "OKP", "crv": "Ed25519", "x": x}, algorithms=ALGORITHMS)
    check_input(key, input_of(key), private.sign(input_of(key)))
