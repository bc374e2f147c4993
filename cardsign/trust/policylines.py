"""On which line of a TOML text a member stands, which no TOML reader tells.

Positions only: `tomllib` has read the text before, so nothing is refused here. What has no place of
its own is given the line of what encloses it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate
from typing import Final, TypeAlias

from cardsign.records import dataclass

#: Names of members and indices of lists, such as ``("issuer", 0, "origins", 1)``.
Location: TypeAlias = tuple[str | int, ...]

_NAME: Final = re.compile(r"""[^\s\[\]{}=,."'#]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_NAMES: Final = rf"(?:{_NAME.pattern})(?:[ \t]*\.[ \t]*(?:{_NAME.pattern}))*"
_HEADER: Final = re.compile(rf"[ \t]*\[(?P<repeated>\[)?[ \t]*(?P<names>{_NAMES})")
_MEMBER: Final = re.compile(rf"[ \t]*(?P<names>{_NAMES})[ \t]*=[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR: Final = re.compile(
    r"""\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^,\]}\n\#]*""",
    re.DOTALL,
)


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
        """Place everything in a text that `tomllib` has read, in time linear in its length."""
        lines = tuple(text.split("\n"))
        ends = list(accumulate(len(line) + 1 for line in lines))
        found = _offsets(text)
        return cls(lines, {at: bisect_left(ends, pos + 1) + 1 for at, pos in found.items()})

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


def _offsets(text: str) -> dict[Location, int]:
    """Where in the text each member, element and table begins."""
    found: dict[Location, int] = {}
    last: dict[Location, int] = {}  # the index of the last table of each array of tables
    table: Location = ()
    pos = _after(text, 0)
    while pos < len(text):
        if text[pos] == "[":
            table, pos = _header(text, pos, found, last)
        else:
            pos = _member(text, pos, table, found)
        end = text.find("\n", pos)  # what is left of the line is blank, a comment or brackets
        pos = _after(text, end) if end >= 0 else len(text)
    return found


def _after(text: str, pos: int) -> int:
    """The next place that is neither blank nor a comment."""
    match = _BLANK.match(text, pos)
    return match.end() if match else pos


def _header(
    text: str, pos: int, found: dict[Location, int], last: dict[Location, int]
) -> tuple[Location, int]:
    header = _HEADER.match(text, pos)
    if header is None:
        return (), pos
    table: Location = ()
    for name in _NAME.finditer(header["names"]):
        table = _place((*table, name[0].strip("\"'")), pos, found)
        if header["repeated"] and name.end() == len(header["names"]):
            last[table] = last.get(table, -1) + 1
        if table in last:
            table = _place((*table, last[table]), pos, found)
    return table, header.end()


def _member(text: str, pos: int, table: Location, found: dict[Location, int]) -> int:
    member = _MEMBER.match(text, pos)
    if member is None:
        return pos
    for name in _NAME.finditer(member["names"]):
        table = _place((*table, name[0].strip("\"'")), pos, found)
    return _value(text, member.end(), table, found)


def _value(text: str, pos: int, at: Location, found: dict[Location, int]) -> int:
    """Place what a value holds; where the value ends."""
    opening = text[pos]
    if opening not in "[{":
        scalar = _SCALAR.match(text, pos)
        return scalar.end() if scalar else pos
    index, pos = 0, _after(text, pos + 1)
    while text[pos] not in "]}":
        if opening == "[":
            pos = _value(text, pos, _place((*at, index), pos, found), found)
        else:
            pos = _member(text, pos, at, found)
        index, pos = index + 1, _after(text, pos)
        if text[pos] == ",":
            pos = _after(text, pos + 1)
    return pos + 1


def _place(location: Location, pos: int, found: dict[Location, int]) -> Location:
    found.setdefault(location, pos)
    return location
