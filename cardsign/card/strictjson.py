"""Untrusted bytes to one JSON object that every reader understands alike, or a refusal.

JSON as in RFC 8259, narrowed to I-JSON (RFC 7493) because a signature is worth nothing where
two readers see different values in the same bytes: no member twice, no number that a double
cannot hold, no lone surrogate, no byte order mark, and nothing after the object.

The standard library's parser reads, and :func:`object_or_none` decides what is refused. Only where
it refuses does :func:`offsets` go through the text, to say of the first fault what and where it is.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from cardsign.card.values import Json, is_deeper, pointer
from cardsign.errors import JsonRefused

#: Bytes. The largest of 100 public cards has 69 KiB.
MAX_CARD_BYTES: Final = 256 * 1024
#: Levels of arrays and objects, the root being 1. Public cards use up to 12; other JSON readers
#: stop somewhere near 100.
MAX_DEPTH: Final = 32
#: RFC 7493 2.2: beyond it, two integers can be one and the same double.
MAX_INTEGER: Final = 2**53 - 1

_INTEGER_CHARS: Final = len(str(-MAX_INTEGER))
_SPACES: Final = " \t\n\r"
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
) -> dict[str, Json]:
    """Read one strict JSON object.

    A number without fraction and exponent is an ``int`` (``-0`` is 0), any other a ``float``,
    rounded as IEEE 754 demands: ``1e30``, ``9007199254740993.0`` and ``1e-999`` (0.0) pass.
    Members keep their order. What the object means is not checked.

    Args:
        untrusted_bytes: UTF-8 without byte order mark.
        max_bytes: The most bytes that are looked at.
        max_depth: The most levels of arrays and objects; the root is level 1.

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
        raise JsonRefused("json.too_large", f"the input is longer than {max_bytes} bytes")
    document = object_or_none(untrusted_bytes, max_depth=max_depth)
    if document is not None:
        return document
    text = _decode(untrusted_bytes)
    for _ in offsets(text, max_depth=max_depth):  # raises at the first fault
        pass
    line, column = position(text[: text.index(text.lstrip(_SPACES))])
    message = "the JSON value is not an object"
    raise JsonRefused("json.not_object", message, line=line, column=column)


def object_or_none(untrusted_bytes: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Json] | None:
    """Return the object that the input is, whatever its size; None where it is refused."""
    try:
        text = untrusted_bytes.strip(_SPACES.encode()).decode("utf-8")
        value, end = _DECODER.raw_decode(text)
        if end != len(text) or type(value) is not dict:
            return None
        # Replacing a byte takes less time than counting it.
        rest = untrusted_bytes.replace(b"{", b"").replace(b"[", b"")
        if len(untrusted_bytes) - len(rest) > max_depth and is_deeper(value, max_depth):
            return None
        # An escape is the only way to a surrogate in decoded UTF-8.
        if "\\" in text and ("\\ud" in text or "\\uD" in text):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _without_duplicates(members: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(members)
    if len(value) < len(members):
        raise ValueError("duplicate member")
    return value


def _no_constant(_: str) -> NoReturn:
    raise ValueError("no JSON number")


def integer(literal: str) -> int:
    """Return the value of a JSON number without fraction and exponent.

    Raises:
        ValueError: It lies beyond +-MAX_INTEGER.
    """
    # The length first: int() takes quadratic time.
    if len(literal) <= _INTEGER_CHARS and abs(value := int(literal)) <= MAX_INTEGER:
        return value
    raise ValueError("beyond +-(2^53-1)")


def double(literal: str) -> float:
    """Return the value of any other JSON number, rounded to the nearest double.

    Raises:
        ValueError: It is too large for a double.
    """
    if math.isfinite(value := float(literal)):
        return value
    raise ValueError("too large for a double")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=integer,
    parse_float=double,
    parse_constant=_no_constant,
)


def _decode(untrusted_bytes: bytes) -> str:
    if untrusted_bytes.startswith(_BYTE_ORDER_MARKS):
        message = "the input starts with a byte order mark, where UTF-8 without one is expected"
        raise JsonRefused("json.bom", message, line=1, column=1)
    try:
        return untrusted_bytes.decode("utf-8")
    except UnicodeDecodeError as exc:
        line, column = position(untrusted_bytes[: exc.start].decode("utf-8"))
        message = f"byte {exc.start} (0x{untrusted_bytes[exc.start]:02X}) is not valid UTF-8"
        raise JsonRefused("json.not_utf8", message, line=line, column=column) from exc


def position(prefix: str) -> tuple[int, int]:
    """Return line and column, in characters from 1, of what follows `prefix`."""
    return prefix.count("\n") + 1, len(prefix) - prefix.rfind("\n")


# Where each value of a text stands, and what its first fault is.


_SHOWN_CHARS: Final = 24  # of the input in a message
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_WORD: Final = re.compile(r"[-+.0-9A-Za-z_]*")
#: What the decoder says of a string, up to a colon, in whole sentences.
_STRING_FAULTS: Final = {
    "Invalid control character at": "a control character in a string needs an escape such as \\n",
    "Unterminated string starting at": "the string that begins here has no end",
    "Invalid \\escape": "this backslash begins no escape that JSON knows",
    "Invalid \\uXXXX escape": "\\u in a string needs four hexadecimal digits",
}


def offsets(
    text: str, *, max_depth: int = MAX_DEPTH
) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield where each value of a text begins: its tokens, and its offset or that of its name.

    Raises:
        JsonRefused: As :func:`parse_object`, at the first fault.
    """
    return _Walk(text, max_depth).values()


class _Walk:
    """Goes through a text once, from left to right, up to its end or first fault."""

    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._pos = 0
        self._path: list[str | int] = []

    def values(self) -> Iterator[tuple[tuple[str | int, ...], int]]:
        """Yield as :func:`offsets` does."""
        yield from self._value()
        if self._next():
            raise self._refused("json.trailing", f"{self._found()} follows the JSON value")

    def _value(self, name_pos: int | None = None) -> Iterator[tuple[tuple[str | int, ...], int]]:
        char = self._next()
        yield tuple(self._path), self._pos if name_pos is None else name_pos
        if char in ("{", "["):
            yield from self._children("}" if char == "{" else "]")
        else:
            self._leaf()

    def _children(self, close: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
        """Yield what stands in the object or array that opens here, and step behind it."""
        if len(self._path) >= self._max_depth:
            message = f"arrays and objects are nested more than {self._max_depth} deep"
            raise self._refused("json.depth", message)
        self._pos += 1
        names: set[str] = set()
        index, char = 0, self._next()
        if char == close:
            self._pos += 1
        while char != close:
            if close == "}":
                yield from self._value(self._name(names))
            else:
                self._path.append(index)
                yield from self._value()
            self._path.pop()
            index, char = index + 1, self._next()
            if char not in {",", close}:
                raise self._expected(f"`,` or `{close}`")
            self._pos += 1

    def _name(self, names: set[str]) -> int:
        """Read a name that is not among `names`, and its colon; return where the name begins."""
        if self._next() != '"':
            raise self._expected("a member name in double quotes")
        start = self._pos
        name = self._leaf()
        self._path.append(name)
        if name in names:
            message = "the object already has a member of this name"
            raise self._refused("json.duplicate_member", message, at=start)
        names.add(name)
        if self._next() != ":":
            raise self._expected("a colon after the member name")
        self._pos += 1
        return start

    def _leaf(self) -> str:
        """Step behind the string, number or literal that begins here; return it as text."""
        start = self._pos
        try:
            value, self._pos = _DECODER.raw_decode(self._text, start)
            str(value).encode()
        except json.JSONDecodeError as exc:
            if exc.pos == start and self._text[start : start + 1] != '"':
                raise self._expected("a JSON value") from exc
            message = _STRING_FAULTS.get(exc.msg.partition(":")[0], exc.msg)
            raise self._refused("json.syntax", message, at=exc.pos) from exc
        except UnicodeEncodeError as exc:
            message = "an escape in the string is half of a character"
            raise self._refused("json.surrogate", message, at=start) from exc
        except ValueError as exc:
            code = "json.integer_range" if self._word().lstrip("-").isdecimal() else "json.number"
            raise self._refused(code, f"{self._found()} is {exc}") from exc
        return str(value)

    def _next(self) -> str:
        """Step over whitespace; return the character that is next, empty at the end."""
        if match := _WHITESPACE.match(self._text, self._pos):
            self._pos = match.end()
        return self._text[self._pos : self._pos + 1]

    def _word(self) -> str:
        match = _WORD.match(self._text, self._pos)
        return match[0] if match else ""

    def _found(self) -> str:
        """Return what stands here, fit for a message on any terminal."""
        word = self._word()
        if len(word) > _SHOWN_CHARS:
            return f"`{word[:_SHOWN_CHARS]}...`"
        character = word or self._text[self._pos : self._pos + 1]
        if character.isascii() and character.isprintable():
            return f"`{character}`" if character else "the end of the input"
        return f"U+{ord(character):04X}"

    def _expected(self, expected: str) -> JsonRefused:
        return self._refused("json.syntax", f"expected {expected}, found {self._found()}")

    def _refused(self, code: str, message: str, *, at: int | None = None) -> JsonRefused:
        line, column = position(self._text[: self._pos if at is None else at])
        return JsonRefused(code, message, path=pointer(*self._path), line=line, column=column)
