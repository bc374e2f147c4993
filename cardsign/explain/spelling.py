"""The ways in which signers write JSON that is not canonical: the mistakes of old SDKs.

Each deviates from RFC 8785 in one or more of four respects. They can be combined, so a
spelling is named by its deviations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Final, Literal, get_args

from cardsign.card.canonical import jcs
from cardsign.card.strictjson import Json

Order = Literal["utf-16", "code points", "as received"]
Characters = Literal["as they are", "ascii", "html", "slashes"]
Numbers = Literal["ecmascript", "python", "floats"]
Spacing = Literal["none", "spaces"]

_SAYING: Final[dict[str, str]] = {
    "code points": "members in the order of code points, not of UTF-16 units",
    "as received": "members in the order received, not sorted",
    "ascii": "all but ASCII as \\u escapes, as Python's json and others write it",
    "html": "<, > and & as \\u escapes, as Go's encoding/json writes them",
    "slashes": "/ as \\/ and all but ASCII as \\u escapes, as PHP writes them",
    "python": "numbers as Python prints them, such as 1.0 and 1e-07",
    "floats": "every number as a Python float, such as 1.0 for 1",
    "spaces": "a space after each comma and colon, as Python's json writes by default",
}
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a JSON value; all defaults together are RFC 8785."""

    order: Order = "utf-16"
    characters: Characters = "as they are"
    numbers: Numbers = "ecmascript"
    spacing: Spacing = "none"

    @property
    def deviations(self) -> tuple[str, ...]:
        """In what it deviates from RFC 8785, in words; empty for RFC 8785 itself."""
        chosen = (getattr(self, field.name) for field in fields(self))
        return tuple(_SAYING[one] for one in chosen if one in _SAYING)

    def deviations_in(self, value: Json) -> tuple[str, ...]:
        """Those of them that this value shows: without one of them its bytes would be others."""
        plainest = self
        for field in fields(self):
            default: dict[str, Any] = {field.name: field.default}
            plainer = replace(plainest, **default)
            if plainer.write(value) == self.write(value):
                plainest = plainer
        return plainest.deviations

    def write(self, value: Json) -> bytes:
        """The bytes, in UTF-8; `value` came through the strict reader."""
        return "".join(self._parts(value)).encode("utf-8")

    def _parts(self, value: Json) -> Iterator[str]:
        comma, colon = (", ", ": ") if self.spacing == "spaces" else (",", ":")
        if isinstance(value, dict):
            opening = "{"
            for name in self._ordered(value):
                yield f"{opening}{self._text(name)}{colon}"
                yield from self._parts(value[name])
                opening = comma
            yield "}" if value else "{}"
        elif isinstance(value, list):
            opening = "["
            for element in value:
                yield opening
                yield from self._parts(element)
                opening = comma
            yield "]" if value else "[]"
        elif isinstance(value, str):
            yield self._text(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield self._number(value)
        else:
            yield json.dumps(value)

    def _ordered(self, members: dict[str, Json]) -> list[str]:
        if self.order == "as received":
            return list(members)
        by_units: Callable[[str], bytes] = lambda name: name.encode("utf-16-be")  # noqa: E731
        return sorted(members, key=by_units if self.order == "utf-16" else None)

    def _text(self, text: str) -> str:
        if self.characters == "html":
            return json.dumps(text, ensure_ascii=False).translate(_HTML)
        if self.characters == "slashes":
            return json.dumps(text).replace("/", "\\/")
        return json.dumps(text, ensure_ascii=self.characters == "ascii")

    def _number(self, number: float) -> str:
        if self.numbers == "ecmascript":
            return jcs(number).decode("ascii")
        return repr(float(number) if self.numbers == "floats" else number)


_CHOICES: Final = (get_args(Order), get_args(Characters), get_args(Numbers), get_args(Spacing))
_ALL: Final = tuple(Spelling(*chosen) for chosen in product(*_CHOICES))
#: All of them but RFC 8785, those with the fewest deviations first.
SPELLINGS: Final = tuple(
    sorted((one for one in _ALL if one.deviations), key=lambda one: len(one.deviations))
)
#: What the standard libraries of Python, JavaScript and Go write, with sorted members and without.
COMMON: Final = (
    Spelling("as received"),
    Spelling("code points", "ascii", "python"),
    Spelling("code points", "ascii", "python", "spaces"),
    Spelling("as received", "ascii", "python", "spaces"),
    Spelling("code points", "html"),
)
