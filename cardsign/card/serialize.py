"""From what a profile leaves of a card to the bytes that are signed.

RFC 8785 (JCS) is the specification's choice; what Python's json module writes was a2a-sdk's
until 1.1.4. This is the only module that uses rfc8785.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, Final

import rfc8785

from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError

_NUMBERS: Final = frozenset({int, float})


def jcs(value: Json) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises:
        CanonicalizationError: A number or string has no canonical form (not finite, beyond
            +-(2^53-1), a lone surrogate), or the value is nested too deeply.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as exc:
        # rfc8785 0.1.4 lets UnicodeError and RecursionError through.
        raise CanonicalizationError(
            "canonical.no_form", f"the value has no RFC 8785 form: {exc}"
        ) from exc


def _with_numbers(value: Json, change: Callable[[Any], Json]) -> Json:
    """A copy in which each number is what `change` makes of it."""
    if isinstance(value, dict):
        return {name: _with_numbers(child, change) for name, child in value.items()}
    if isinstance(value, list):
        return [_with_numbers(child, change) for child in value]
    return change(value) if type(value) in _NUMBERS else value


def base64url(data: bytes) -> bytes:
    """Bytes as JOSE writes and signs them: base64url without padding (RFC 7515 2 and 5.1)."""
    # To replace two characters is cheaper than to translate all of them.
    text = b2a_base64(data, newline=False)
    return text.replace(b"+", b"-").replace(b"/", b"_").rstrip(b"=")


def python_json(value: Json) -> bytes:
    """What Python writes: names in the order of code points, ASCII alone, numbers by `repr`.

    Raises:
        CanonicalizationError: The value is empty; a2a-sdk spells that `null` and cannot sign it.
    """
    if not value:
        raise CanonicalizationError("canonical.no_form", "nothing of the card is left to sign")
    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as exc:
        raise CanonicalizationError(
            "canonical.no_form", f"the value has no form in Python's json: {exc}"
        ) from exc
    return text.encode("ascii")


def python_json_of_doubles(value: Json) -> bytes:
    """The same after protobuf's Struct, where every number is a double: 1 becomes ``1.0``.

    Raises:
        CanonicalizationError: As for :func:`python_json`.
    """
    return python_json(_with_numbers(value, float))
