"""From what a profile leaves of a card to the bytes that are signed.

RFC 8785 (JCS) is the specification's choice; what Python's json module writes was a2a-sdk's
until 1.1.4. This is the only module that uses rfc8785 and orjson.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

import rfc8785

from cardsign.card.paranoid import is_paranoid
from cardsign.card.strictjson import MAX_INTEGER
from cardsign.card.values import Json, levels
from cardsign.errors import CanonicalizationError

_JSON_TYPES: Final = frozenset({dict, list, str, bool, int, float, type(None)})
_NUMBERS: Final = frozenset({int, float})
# From here on, code points (which encoders sort by) and UTF-16 units part.
_UNSORTED: Final = re.compile("[\ud800-\U0010ffff]")
# What an encoder is tried on: no card has more levels or values, a circle has both without end.
_MAX_LEVELS: Final = 64
_MAX_VALUES: Final = 2**18
# Between these, `repr` of a fraction is what RFC 8785 wants.
_LEAST, _MOST = 1e-4, 1e16


class _NotProven(Exception):
    """Nothing says that an encoder writes the bytes of RFC 8785 for a value."""


def jcs(value: Json, free_parts: list[Json] | None = None) -> bytes:
    """RFC 8785 bytes of a JSON value, as :func:`plain_jcs` gives them, but faster.

    An encoder writes them, orjson if it is installed, where they are proven to be the same.

    Args:
        value: Any.
        free_parts: All of it that may be more than texts and booleans under ASCII names; where
            that is not known, None.

    Raises:
        CanonicalizationError: As for :func:`plain_jcs`.
    """
    if is_paranoid():
        return plain_jcs(value)
    try:
        # Another value comes back where a number has to be spelled in another way.
        proven = free_parts is not None and (not free_parts or _provable(free_parts) is free_parts)
        return _encoder()(value if proven else _provable(value))
    except (_NotProven, ValueError, TypeError, RecursionError):
        return plain_jcs(value)


def plain_jcs(value: Json) -> bytes:
    """RFC 8785 bytes of a JSON value, by rfc8785, which defines them.

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


@cache
def _encoder() -> Callable[[Json], bytes]:
    """The fastest encoder that is installed; both escape strings as RFC 8785 does."""
    try:
        import orjson
    except ImportError:
        return lambda value: _PYTHON.encode(value).encode()
    return partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)


_PYTHON: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False
)


def _provable(value: Json) -> Json:
    """The value, with whole numbers for fractions that are some, if an encoder can write it.

    So it is if it is made of JSON's own types, all names sort alike by code points and by
    UTF-16 units, and each number has one spelling. A lone surrogate fails in the encoder.

    Raises:
        _NotProven, TypeError: It may be another value.
    """
    names, values = _parts(value)
    joined = "".join(names)  # a TypeError if one is no text
    kinds = set(map(type, values))
    if not kinds <= _JSON_TYPES:
        raise _NotProven
    if not joined.isascii() and _UNSORTED.search(joined):
        raise _NotProven
    if kinds.isdisjoint(_NUMBERS):
        return value
    if any(type(one) is int and abs(one) > MAX_INTEGER for one in values):
        raise _NotProven
    fractions = [one for one in values if type(one) is float]
    whole = [one for one in fractions if one.is_integer()]
    if any(abs(one) > MAX_INTEGER for one in whole):
        raise _NotProven
    if not all(_LEAST <= abs(one) < _MOST or one.is_integer() for one in fractions):
        raise _NotProven
    if not whole:
        return value
    # RFC 8785 spells 100 for 100.0, and 0 for -0.0.
    return _with_numbers(value, lambda one: int(one) if float(one).is_integer() else one)


def _parts(value: Json) -> tuple[set[str], list[Json]]:
    """All names in a value, and all values, itself and containers included.

    Raises:
        _NotProven: There are more, or on more levels, than in any card.
    """
    values: list[Json] = []
    for index, level in enumerate(levels(value)):
        values += level
        if index >= _MAX_LEVELS or len(values) > _MAX_VALUES:
            raise _NotProven
    return set().union(*[one for one in values if type(one) is dict]), values


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
