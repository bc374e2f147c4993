"""Untrusted bytes to one JSON object that every reader understands alike, or a refusal.

JSON as in RFC 8259, narrowed to I-JSON (RFC 7493) because a signature is worth nothing where
two readers see different values in the same bytes: no member twice, no number that a double
cannot hold, no lone surrogate, no byte order mark, and nothing after the object.

The scanner below is the definition. The standard library's is faster, but laxer, and does not say
where a value stands. `_FAST` keeps its answer only where the scanner would give the
same, so every refusal of the text is the scanner's.
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

# The definition: one scanner that reads strict JSON or says where it is none.


#: RFC 7493 2.2: beyond it, two integers can be one and the same double.
MAX_INTEGER: Final = 2**53 - 1

_INTEGER_CHARS: Final = len(str(-MAX_INTEGER))
_PEM: Final = "-----BEGIN"
_SHOWN_CHARS: Final = 24  # of the input in a message

_SPACES: Final = b" \t\n\r"
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
_WORD: Final = re.compile(r"[-+.0-9A-Za-z_]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_UNICODE_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")
_SURROGATE_PAIR: Final = re.compile(
    r"\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})"
)

_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


def position(prefix: str) -> tuple[int, int]:
    """Line and column, in characters from 1, of what follows the text `before`."""
    return prefix.count("\n") + 1, len(prefix) - prefix.rfind("\n")


def integer(literal: str) -> int:
    """The value of a JSON number without fraction and exponent.

    Raises:
        ValueError: It lies beyond +-MAX_INTEGER.
    """
    # The length first: int() takes quadratic time.
    if len(literal) <= _INTEGER_CHARS and abs(value := int(literal)) <= MAX_INTEGER:
        return value
    raise ValueError("beyond +-(2^53-1)")


def double(literal: str) -> float:
    """The value of any other JSON number, rounded to the nearest double.

    Raises:
        ValueError: It is too large for a double.
    """
    if math.isfinite(value := float(literal)):
        return value
    raise ValueError("too large for a double")


class Scanner:
    """Reads decoded text once, from left to right, up to the first fault.

    Recurses once a level, so that `max_depth` bounds its stack; use an instance once.
    """

    __slots__ = ("_max_depth", "_path", "_pos", "_text")

    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._pos = 0
        self._path: list[str | int] = []

    def document(self) -> dict[str, Json]:
        """The whole text as one object.

        Raises:
            JsonRefused: As listed at :func:`parse_object`.
        """
        self._next()
        start = self._pos
        value = self._value()
        if self._next():
            raise self._refused("json.trailing", f"{self._found()} follows the JSON value")
        if not isinstance(value, dict):
            raise self._refused("json.not_object", "the JSON value is not an object", at=start)
        return value

    def _value(self) -> Json:
        match self._next():
            case "{":
                return self._object()
            case "[":
                return self._array()
            case '"':
                return self._string()
            case _:
                return self._literal()

    def _object(self) -> dict[str, Json]:
        members: dict[str, Json] = {}
        if self._enter("}"):
            return members
        while True:
            if self._next() != '"':
                raise self._expected("a member name in double quotes")
            start = self._pos
            name = self._string()
            self._path.append(name)
            if name in members:
                raise self._refused(
                    "json.duplicate_member",
                    "the object already has a member of this name",
                    at=start,
                )
            if self._next() != ":":
                raise self._expected("a colon after the member name")
            self._pos += 1
            members[name] = self._value()
            self._path.pop()
            if self._leave("}"):
                return members

    def _array(self) -> list[Json]:
        elements: list[Json] = []
        if self._enter("]"):
            return elements
        while True:
            self._path.append(len(elements))
            elements.append(self._value())
            self._path.pop()
            if self._leave("]"):
                return elements

    def _enter(self, close: str) -> bool:
        """Step into an array or object; whether it is empty, and left again."""
        if len(self._path) >= self._max_depth:
            raise self._refused(
                "json.depth", f"arrays and objects are nested more than {self._max_depth} deep"
            )
        self._pos += 1
        empty = self._next() == close
        self._pos += empty
        return empty

    def _leave(self, close: str) -> bool:
        """Step past the comma or bracket after an element; whether it was the bracket."""
        token = self._next()
        if token not in {",", close}:
            raise self._expected(f"`,` or `{close}`")
        self._pos += 1
        return token == close

    def _literal(self) -> Json:
        start = self._pos
        word = self._run(_WORD)
        if word in _LITERALS:
            return _LITERALS[word]
        if word in _NOT_FINITE:
            raise self._refused("json.number", f"`{word}` is no JSON number", at=start)
        if not _NUMBER.fullmatch(word):
            raise self._expected("a JSON value", at=start)
        whole = word.lstrip("-").isdecimal()
        try:
            return integer(word) if whole else double(word)
        except ValueError as exc:
            code = "json.integer_range" if whole else "json.number"
            raise self._refused(code, f"{self._found(start)} is {exc}", at=start) from exc

    def _string(self) -> str:
        """The string whose opening quote is here."""
        start = self._pos
        self._pos += 1
        parts = []
        while True:
            parts.append(self._run(_PLAIN))
            match self._here():
                case '"':
                    self._pos += 1
                    return "".join(parts)
                case "\\":
                    parts.append(self._escape())
                case "":
                    raise self._refused("json.syntax", "a string has no closing quote", at=start)
                case _:
                    raise self._expected("an escape such as \\n instead of a control character")

    def _escape(self) -> str:
        r"""The character that the escape here stands for; a pair of ``\u`` makes one."""
        if plain := _ESCAPES.get(self._text[self._pos + 1 : self._pos + 2]):
            self._pos += 2
            return plain
        if pair := _SURROGATE_PAIR.match(self._text, self._pos):
            self._pos = pair.end()
            high, low = (int(unit, 16) & 0x3FF for unit in pair.groups())
            return chr(0x10000 + (high << 10 | low))
        unit = _UNICODE_ESCAPE.match(self._text, self._pos)
        if not unit:
            raise self._refused("json.syntax", "a backslash starts no JSON escape")
        character = chr(int(unit[1], 16))
        if "\ud800" <= character <= "\udfff":
            raise self._refused("json.surrogate", f"`{unit[0]}` is half of a character")
        self._pos = unit.end()
        return character

    def _here(self) -> str:
        """The character that is next; empty at the end."""
        return self._text[self._pos : self._pos + 1]

    def _next(self) -> str:
        """The next character that is no whitespace; empty at the end."""
        self._run(_WHITESPACE)
        return self._here()

    def _run(self, pattern: re.Pattern[str]) -> str:
        """What `pattern` matches here; the scanner then stands behind it."""
        match = pattern.match(self._text, self._pos)
        run = match.group() if match else ""
        self._pos += len(run)
        return run

    def _found(self, at: int | None = None) -> str:
        """What stands at `at`, fit for a message on any terminal."""
        at = self._pos if at is None else at
        match = _WORD.match(self._text, at, at + _SHOWN_CHARS + 1)
        word = match.group() if match else ""
        if word == _PEM:
            return "a PEM file, which holds a key"
        if len(word) > _SHOWN_CHARS:
            return f"`{word[:_SHOWN_CHARS]}...`"
        character = word or self._text[at : at + 1]
        if character.isascii() and character.isprintable():
            return f"`{character}`" if character else "the end of the input"
        return f"U+{ord(character):04X}"

    def _expected(self, expected: str, *, at: int | None = None) -> JsonRefused:
        is_key = self._text.startswith(_PEM)
        hint = "Name the file of the card, or the JWK Set in place of a PEM file." if is_key else ""
        message = f"expected {expected}, found {self._found(at)}"
        return self._refused("json.syntax", message, at=at, hint=hint)

    def _refused(
        self, code: str, message: str, *, at: int | None = None, hint: str = ""
    ) -> JsonRefused:
        line, column = position(self._text[: self._pos if at is None else at])
        path = pointer(*self._path)
        return JsonRefused(code, message, path=path, line=line, column=column, hint=hint)


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
    return scan_object(untrusted_bytes, max_depth=max_depth)


def scan_object(untrusted_bytes: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Json]:
    """Read one object by the scanner alone, which says where a fault is.

    Raises:
        JsonRefused: As :func:`parse_object`, but that no size is refused.
    """
    return Scanner(_decode(untrusted_bytes), max_depth).document()


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def offsets(text: str) -> Iterator[tuple[tuple[str | int, ...], int, int]]:
    """Where each value of a text begins that was read strictly before.

    Yields:
        The value's tokens, where its name begins (of what has none, the value), where it begins.
    """
    path: list[str | int] = []
    is_name, name = False, -1
    for token in _TOKEN.finditer(text):
        part, at = token[0], token.start()
        if part in "}]":
            path.pop()
        elif part == ",":
            last = path[-1]
            is_name = isinstance(last, str)
            path[-1] = last if isinstance(last, str) else last + 1
        elif part == ":":
            is_name = False
        elif is_name:
            path[-1], name = json.loads(part), at
        else:
            yield tuple(path), at if name < 0 else name, at
            name = -1
            if part in "{[":
                is_name = part == "{"
                path.append("" if is_name else 0)


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


def object_or_none(untrusted_bytes: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Json] | None:
    """Return what the scanner would, by the standard library, of input of any size.

    Returns:
        None where the scanner would refuse the input, or might.
    """
    try:
        text = untrusted_bytes.strip(_SPACES).decode("utf-8")
        value, end = _FAST.raw_decode(text)
        if end != len(text) or type(value) is not dict:
            return None
        # To take a byte out is cheaper than to count it.
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


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(literal)


_FAST: Final = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=integer,
    parse_float=double,
    parse_constant=_no_constant,
)
