"""Untrusted bytes to one JSON object that every reader understands alike, or a refusal.

JSON as in RFC 8259, narrowed to I-JSON (RFC 7493) because a signature is worth nothing where
two readers see different values in the same bytes: no member twice, no number that a double
cannot hold, no lone surrogate, no byte order mark, and nothing after the object.

The scanner in :mod:`cardsign.card.jsonscanner` is the definition. The standard library's is
faster, but laxer, and does not say where a value stands; :func:`_read_fast` keeps its answer
only where the scanner would give the same, so every refusal of the text is the scanner's.
"""

from __future__ import annotations

import codecs
import json
from typing import Final, NoReturn

from cardsign.card.jsonscanner import Json as Json
from cardsign.card.jsonscanner import Scanner, double, integer, position
from cardsign.errors import JsonRefused

#: Bytes. The largest of 100 public cards has 69 KiB; a hostile input of this size costs the
#: scanner some 0.3 s.
MAX_CARD_BYTES: Final = 256 * 1024
#: Levels of arrays and objects, the root being 1. Public cards use up to 12; other JSON readers
#: stop somewhere near 100, and the scanner takes two stack frames a level.
MAX_DEPTH: Final = 32

# UTF-32 in little-endian order starts like UTF-16 and needs no row.
_BYTE_ORDER_MARKS: Final = (
    codecs.BOM_UTF8,
    codecs.BOM_UTF16_LE,
    codecs.BOM_UTF16_BE,
    codecs.BOM_UTF32_BE,
)


def parse_object(
    untrusted_bytes: bytes,
    *,
    max_bytes: int = MAX_CARD_BYTES,
    max_depth: int = MAX_DEPTH,
    paranoid: bool = False,
) -> dict[str, Json]:
    """Read one strict JSON object.

    A number without fraction and exponent is an ``int`` (``-0`` is 0), any other a ``float``,
    rounded as IEEE 754 demands: ``1e30``, ``9007199254740993.0`` and ``1e-999`` (0.0) pass.
    Members keep their order. What the object means is not checked.

    Args:
        untrusted_bytes: UTF-8 without byte order mark.
        max_bytes: The most bytes that are looked at.
        max_depth: The most levels of arrays and objects; the root is level 1.
        paranoid: Let the definition read all of it, without the fast path.

    Raises:
        JsonRefused: ``json.too_large`` before anything else, then ``json.bom``,
            ``json.not_utf8``, and of ``json.syntax``, ``json.duplicate_member``,
            ``json.number``, ``json.integer_range``, ``json.surrogate``, ``json.depth``,
            ``json.trailing`` and ``json.not_object`` the one that is met first. ``path`` is
            the JSON pointer of the value at fault (the second member of a name; the object,
            where a name cannot be read), ``line`` and ``column`` the place in the input.
            ``json.too_large`` has neither.
    """
    if len(untrusted_bytes) > max_bytes:
        raise JsonRefused(
            "json.too_large",
            f"{len(untrusted_bytes)} bytes of input, where at most {max_bytes} are read",
        )
    text = _decode(untrusted_bytes)
    fast = None if paranoid else _read_fast(text, max_depth)
    return Scanner(text, max_depth).document() if fast is None else fast


def _decode(untrusted_bytes: bytes) -> str:
    if untrusted_bytes.startswith(_BYTE_ORDER_MARKS):
        raise JsonRefused(
            "json.bom",
            "the input starts with a byte order mark, where UTF-8 without one is expected",
            line=1,
            column=1,
        )
    try:
        return untrusted_bytes.decode("utf-8")
    except UnicodeDecodeError as exc:
        line, column = position(untrusted_bytes[: exc.start].decode("utf-8"))
        raise JsonRefused(
            "json.not_utf8",
            f"byte {exc.start} (0x{untrusted_bytes[exc.start]:02X}) is not valid UTF-8",
            line=line,
            column=column,
        ) from exc


def _read_fast(text: str, max_depth: int) -> dict[str, Json] | None:
    """What the scanner would return, read by the standard library; None in any doubt."""
    try:
        value: Json = _FAST.decode(text)
        if not isinstance(value, dict) or _is_deeper(value, max_depth):
            return None
        if "\\ud" in text or "\\uD" in text:  # the only way to a surrogate in decoded UTF-8
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _is_deeper(document: dict[str, Json], levels: int) -> bool:
    level: list[dict[str, Json] | list[Json]] = [document]
    for _ in range(levels):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _without_duplicates(members: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(members)
    if len(value) < len(members):
        raise ValueError("duplicate member")
    return value


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(literal)


_FAST: Final = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=integer,
    parse_float=double,
    parse_constant=_no_constant,
)
