"""From what a profile leaves of a card to the bytes that are signed.

RFC 8785 (JCS) is the specification's choice; what Python's json module writes was a2a-sdk's
until 1.1.4. This is the only module that uses rfc8785.
"""

from __future__ import annotations

import json
from typing import Final

import rfc8785

from cardsign.card.strictjson import MAX_INTEGER, Json
from cardsign.errors import CanonicalizationError


def jcs(value: Json) -> bytes:
    """RFC 8785 bytes of a JSON value that came through the strict reader.

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


def is_plain(value: Json) -> bool:
    """Whether :func:`plain_jcs` gives the bytes of RFC 8785 for a value, and for parts of it.

    So it is if there are no fractions, no integers that a double does not hold, and no member
    names with a character from U+D800 on: below, code points and UTF-16 units have one order.
    """
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if not all(name.isascii() or max(name) < "\ud800" for name in one):
                return False
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, float) or (isinstance(one, int) and abs(one) > MAX_INTEGER):
            return False
    return True


def plain_jcs(value: Json) -> bytes:
    """What :func:`jcs` gives for a plain value, some ten times as fast.

    Raises:
        CanonicalizationError: As for :func:`jcs`.
    """
    try:
        return _PLAIN.encode(value).encode()
    except (ValueError, TypeError, RecursionError):
        return jcs(value)


_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


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
    return python_json(_with_doubles(value))


def _with_doubles(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _with_doubles(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_with_doubles(child) for child in value]
    return float(value) if type(value) is int else value
