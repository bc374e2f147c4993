"""On which line of a TOML text a member stands, which no TOML reader tells.

Positions only: the text has been read by `tomllib` before, so nothing is refused here, and what
cannot be placed is given the line of what encloses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from cardsign.records import dataclass

#: Names of members and indices of lists, such as ``("issuer", 0, "origins", 1)``.
Location: TypeAlias = tuple[str | int, ...]

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
    |(?P<newline>\n)
    |(?P<string>\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
    |(?P<mark>[\[\]{}=,.])
    |(?P<word>[^\s\[\]{}=,."'\#]+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a text, and where its members stand.

    Attributes:
        text: The lines, without their ends.
        places: The line of each member, element and table, counted from 1.
    """

    text: tuple[str, ...]
    places: dict[Location, int]

    @classmethod
    def of(cls, text: str) -> Lines:
        """Place everything in a text that `tomllib` has read.

        Raises:
            RecursionError: As `tomllib`, of values that are nested without end.
        """
        return cls(tuple(text.split("\n")), _Scan(text).places())

    def line_of(self, location: Location) -> int:
        """The line of a member, or of the nearest table around it; 1 for the whole text."""
        while location and location not in self.places:
            location = location[:-1]
        return self.places.get(location, 1)

    def holds(self, location: Location) -> bool:
        """Whether the text itself says something there."""
        return location in self.places

    def shown(self, line: int) -> str:
        """The text of a line, without white space around it."""
        return self.text[line - 1].strip() if 1 <= line <= len(self.text) else ""


class _Scan:
    """One pass over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._ahead = next(self._tokens)
        self._places: dict[Location, int] = {}
        self._arrays: dict[Location, int] = {}  # arrays of tables, and their last index

    def places(self) -> dict[Location, int]:
        table: Location = ()
        while self._ahead.kind != "end":
            if self._ahead.text == "[":
                table = self._header()
            elif self._ahead.kind in ("word", "string"):
                self._member(table)
            else:
                self._take()
        return self._places

    def _take(self) -> _Token:
        taken, self._ahead = self._ahead, next(self._tokens)
        return taken

    def _keys(self) -> list[_Token]:
        """``a.b."c"`` and the mark behind it."""
        keys = []
        while (token := self._take()).kind in ("word", "string") or token.text == ".":
            if token.text != ".":
                keys.append(token)
        return keys

    def _header(self) -> Location:
        self._take()
        repeated = self._ahead.text == "["
        if repeated:
            self._take()
        table: Location = ()
        keys = self._keys()
        for at, key in enumerate(keys):
            table = self._place((*table, _name(key)), key.line)
            if repeated and at == len(keys) - 1:
                self._arrays[table] = self._arrays.get(table, -1) + 1
            if table in self._arrays:
                table = self._place((*table, self._arrays[table]), key.line)
        if repeated:
            self._take()
        return table

    def _member(self, table: Location) -> None:
        location = table
        for key in self._keys():
            location = self._place((*location, _name(key)), key.line)
        self._value(location)

    def _value(self, location: Location) -> None:
        opening = self._take()
        if opening.text == "[":
            self._array(location)
        elif opening.text == "{":
            while self._ahead.text != "}" and self._ahead.kind != "end":
                if self._ahead.kind in ("word", "string"):
                    self._member(location)
                else:
                    self._take()
            self._take()
        else:
            while self._ahead.kind not in ("newline", "end") and self._ahead.text not in ",]}":
                self._take()

    def _array(self, location: Location) -> None:
        index = 0
        while self._ahead.text != "]" and self._ahead.kind != "end":
            if self._ahead.kind == "newline" or self._ahead.text == ",":
                index += self._take().text == ","
            else:
                self._value(self._place((*location, index), self._ahead.line))
        self._take()

    def _place(self, location: Location, line: int) -> Location:
        self._places.setdefault(location, line)
        return location


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield _Token(str(match.lastgroup), match[0], line)
        line += match[0].count("\n")
    while True:
        yield _Token("end", "", line)


def _name(key: _Token) -> str:
    return key.text if key.kind == "word" else key.text[1:-1]
