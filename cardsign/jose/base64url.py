"""Base64url as JOSE demands it (RFC 7515 section 2), in exactly one spelling per value.

A lenient decoder reads many texts as the same bytes; then two signatures, or two keys, that
look different are one, and whatever compares texts can be walked around.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from binascii import a2b_base64


def encode(data: bytes) -> str:
    """Return `data` as base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def encoded_length(size: int) -> int:
    """Return how many characters `size` bytes take."""
    return (size * 4 + 2) // 3


def decode(text: str) -> bytes:
    """Return the bytes of which :func:`encode` makes exactly `text`.

    Raises:
        ValueError: Padding, a character of another alphabet (``+``, ``/``, whitespace), a length
            that no bytes have, or stray bits behind the last byte.
    """
    data = a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
    if encode(data) != text:
        raise ValueError("not the one spelling of these bytes")
    return data
