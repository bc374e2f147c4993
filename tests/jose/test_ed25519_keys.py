"""Ed25519 keys: one spelling of each, and none under which anybody can sign."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from explicit_making import check_input, input_of
from hypothesis import example, given
from hypothesis import strategies as st

from cardsign.errors import KeyRefused
from cardsign.jose import base64url
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.keys import PublicKey

P = 2**255 - 19
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int]


def decompressed(encoded: bytes) -> Point | None:
    """The point, as RFC 8032 5.1.3 decodes it; None where it says that decoding fails."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number % 2**255
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == -u % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if v * x * x % P != u or (x == 0 and sign):
        return None
    return (P - x if x % 2 != sign else x), y


def added(one: Point, other: Point) -> Point:
    """The sum of two points, by the law of RFC 8032 5.1.4 in affine coordinates."""
    (x1, y1), (x2, y2) = one, other
    twist = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + twist, P - 2, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - twist, P - 2, P) % P


def order_divides_8(point: Point) -> bool:
    """Whether eight times the point is nothing."""
    for _ in range(3):
        point = added(point, point)
    return point == (0, 1)


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


def test_the_list_is_whole() -> None:
    """The eight are different, all are of small order, and a group has no ninth."""
    points = {decompressed(bytes.fromhex(text)) for text in SMALL_ORDER.values()}
    assert len(points) == 8
    assert None not in points
    assert all(point and order_divides_8(point) for point in points)
    assert all(added(one, other) in points for one in points for other in points if one and other)


@pytest.mark.parametrize("text", SMALL_ORDER.values(), ids=SMALL_ORDER)
def test_small_order(text: str) -> None:
    """Refused by us, though the library beneath would take it."""
    encoded = bytes.fromhex(text)
    refusal = refusal_of(encoded) or ""
    assert refusal.startswith("key.malformed /x ")
    assert "small order" in refusal
    Ed25519PublicKey.from_public_bytes(encoded)


@pytest.mark.parametrize("text", SMALL_ORDER.values(), ids=SMALL_ORDER)
def test_why_small_order_is_refused(text: str) -> None:
    """With such a key the library finds one signature, made by nobody, good for many messages."""
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    by_nobody = bytes.fromhex(SMALL_ORDER["order 1"]) + bytes(32)
    found = 0
    for number in range(200):
        try:
            key.verify(by_nobody, b"%d" % number)
        except InvalidSignature:
            continue
        found += 1
    assert found >= 5


@pytest.mark.parametrize("y", range(P, 2**255), ids=lambda y: f"p + {y - P}")
@pytest.mark.parametrize("sign", [0, 1])
def test_second_spelling(y: int, sign: int) -> None:
    """A y that is not reduced would be another thumbprint for the same key."""
    encoded = (y | sign << 255).to_bytes(32, "little")
    assert "reduced" in (refusal_of(encoded) or "")


def test_zero_without_a_sign() -> None:
    """x = 0 has no negative: these two would be second spellings as well."""
    for y in (1, P - 1):
        encoded = (y | 1 << 255).to_bytes(32, "little")
        assert decompressed(encoded) is None
        assert refusal_of(encoded) is not None


@pytest.mark.parametrize("size", [0, 1, 31, 33, 57, 64])
def test_length(size: int) -> None:
    """A key has 32 bytes."""
    assert f"has {size} bytes, expected 32" in (refusal_of(bytes(size)) or "")


@given(st.binary(min_size=32, max_size=32))
@example((2).to_bytes(32, "little"))
@example((3).to_bytes(32, "little"))
def test_what_is_a_key(encoded: bytes) -> None:
    """Of all 32 bytes those are a key that decode to a point of no small order (RFC 8032)."""
    point = decompressed(encoded)
    sound = point is not None and not order_divides_8(point)
    assert (refusal_of(encoded) is None) is sound


@given(st.binary(min_size=32, max_size=32))
def test_every_real_key_is_read(seed: bytes) -> None:
    """What a generator makes is accepted, and checks what it signs."""
    private = Ed25519PrivateKey.from_private_bytes(seed)
    x = base64url.encode(private.public_key().public_bytes_raw())
    key = PublicKey.from_jwk({"kty": "OKP", "crv": "Ed25519", "x": x}, algorithms=ALGORITHMS)
    check_input(key, input_of(key), private.sign(input_of(key)))
