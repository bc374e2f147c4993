"""ECDSA signatures in the two forms that they come in: DER (X9.62), and r and s (RFC 7518 3.4)."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)


def raw_from_der(der: bytes, *, size: int) -> bytes:
    """Return r and s, `size` bytes each, big-endian: the form of JWS.

    Not checked: that the numbers lie within the curve's order, or that they sign anything.

    Raises:
        ValueError: It is not DER, or not in the one form that DER has, or does not fit.
    """
    try:
        r, s = decode_dss_signature(der)
        if encode_dss_signature(r, s) == der:
            return r.to_bytes(size) + s.to_bytes(size)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"expected DER of two numbers of {size} bytes") from exc
    raise ValueError("expected DER in its shortest form")


def der_from_raw(raw: bytes) -> bytes:
    """Return as DER what holds r and s, half of the bytes each."""
    half = len(raw) // 2
    return encode_dss_signature(int.from_bytes(raw[:half]), int.from_bytes(raw[half:]))
