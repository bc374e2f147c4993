"""Ed25519 keys: one spelling of each, and none under which anybody can sign."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.values import Json
from cardsign.errors import KeyRefused
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PublicKey
from tests.jose.explicit_making import check_input, input_of

P = 2**255 - 19


def jwk_of(x: bytes) -> dict[str, Json]:
    """The JWK of these bytes, whatever they are."""
    return {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(x)}


#: The eight points of small order, the published list of them: 1, 2, 4 and 4, 8 four times.
SMALL_ORDER = [
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "00" * 32,
    "00" * 31 + "80",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
]
#: What is refused, and why: under a point of small order one signature, made by nobody, is good
#: for many messages; half of all y belong to no point; a y that is not reduced would be another
#: thumbprint for the same key.
REFUSED = [
    *((bytes.fromhex(text), "small order") for text in SMALL_ORDER),
    *((y.to_bytes(32, "little"), "not a point") for y in (2, 7, 8, 2**254, P - 2)),
    *((y.to_bytes(32, "little"), "reduced") for y in range(P, 2**255)),
    *(((y | 1 << 255).to_bytes(32, "little"), "reduced") for y in range(P, 2**255)),
    *((bytes(size), f"has {size} bytes, expected 32") for size in (1, 31, 33, 57, 64)),
    (b"", "is empty"),
]


@pytest.mark.parametrize(("x", "fault"), REFUSED)
def test_refused(x: bytes, fault: str) -> None:
    """Only what is a point of the curve, in its one spelling, can be a key."""
    with pytest.raises(KeyRefused, match=fault) as refusal:
        PublicKey.from_jwk(jwk_of(x))
    assert (refusal.value.code, refusal.value.path) == ("key.malformed", "/x")


@given(st.binary(min_size=32, max_size=32))
def test_every_real_key_is_read(seed: bytes) -> None:
    """What a generator makes is accepted, and checks what it signs."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    key = PublicKey.from_jwk(jwk_of(private.public_key().public_bytes_raw()))
    check_input(key, input_of(key), private.sign(input_of(key)))
    PublicKey.from_jwk(jwk_of((3).to_bytes(32, "little")))  # the neighbour of one that is none
