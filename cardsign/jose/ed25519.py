"""Which Ed25519 keys we accept: points of the curve in their one spelling, none of small order.

OpenSSL takes any 32 bytes for a key (RFC 8032 5.1.3 is left to the verification), and under a
key of small order one signature fits a good part of all messages. Not checked: that a point
lies in the subgroup of prime order; who publishes another harms only his own signatures.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from cardsign.errors import KeyRefused

#: Bytes of a public key: y in little endian, and in the highest bit the lowest of x.
KEY_BYTES: Final = 32
#: Bytes of a signature: the point R and the scalar S.
SIGNATURE_BYTES: Final = 64

_FIELD: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _FIELD) % _FIELD
# y of a point of order 8; the other such points have -y. Orders 1, 2 and 4: y = 1, -1 and 0.
_Y8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER_Y: Final = frozenset({0, 1, _FIELD - 1, _Y8, _FIELD - _Y8})


def read_key(encoded: bytes) -> Ed25519PublicKey:
    """The key that the bytes of ``x`` encode (RFC 8032 5.1.3, RFC 8037 2).

    Raises:
        KeyRefused: ``key.malformed``: another length, a y that is not reduced, no point of the
            curve, or a point of order 1, 2, 4 or 8.
    """
    if len(encoded) != KEY_BYTES:
        raise _refused(f"has {len(encoded)} bytes, expected {KEY_BYTES}")
    y = int.from_bytes(encoded, "little") & ~(1 << 255)
    if y >= _FIELD:
        raise _refused("is no reduced coordinate, expected the one spelling of a point")
    if not _is_on_curve(y):
        raise _refused("is no point of the curve Ed25519")
    if y in _SMALL_ORDER_Y:
        raise _refused("is a point of small order, under which anybody can sign")
    return Ed25519PublicKey.from_public_bytes(encoded)


def _is_on_curve(y: int) -> bool:
    """Whether x^2 = (y^2 - 1) / (d y^2 + 1) has a solution, by Euler's criterion."""
    square = y * y
    return pow((square - 1) * (_D * square + 1), (_FIELD - 1) // 2, _FIELD) != _FIELD - 1


def _refused(fault: str) -> KeyRefused:
    return KeyRefused("key.malformed", f"the member 'x' {fault}", path="/x")
