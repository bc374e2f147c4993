"""`trust.toml` as text: on which line a member stands, and edits as a careful person makes them.

No TOML reader tells lines. Comments and the order of things stay in an edit;
:meth:`cardsign.trust.disk.PolicyFile.edit` reads what came of it before it replaces the file.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

from cardsign.files import read_toml
from cardsign.statements.keyset import KeysetId
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor

# Lines. `tomllib` has read the text before, so nothing is refused here. What has no place of its
# own is given the line of what encloses it.


#: Names of members and indices of lists, such as ``("issuer", 0, "origins", 1)``.
Location: TypeAlias = tuple[str | int, ...]

_NAME: Final = re.compile(r"""[^\s\[\]{}=,."'#]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_NAMES: Final = rf"(?:{_NAME.pattern})(?:[ \t]*\.[ \t]*(?:{_NAME.pattern}))*"
_HEADER: Final = re.compile(rf"[ \t]*\[(?P<repeated>\[)?[ \t]*(?P<names>{_NAMES})")
_MEMBER: Final = re.compile(rf"[ \t]*(?P<names>{_NAMES})[ \t]*=[ \t]*")
_BLANK: Final = re.compile(r"[ \t\r\n]*(?:#[^\n]*[ \t\r\n]*)*")
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
        offsets = _offsets(text)
        return cls(lines, {at: bisect_left(ends, pos + 1) + 1 for at, pos in offsets.items()})

    def line_of(self, location: Location) -> int:
        """The line of a member, or of the nearest table around it; 1 for the whole text."""
        while location and location not in self.places:
            location = location[:-1]
        return self.places.get(location, 1)


def _offsets(text: str) -> dict[Location, int]:
    """Where in the text each member, element and table begins."""
    offsets: dict[Location, int] = {}
    last: dict[Location, int] = {}  # the index of the last table of each array of tables
    table: Location = ()
    pos = _after(text, 0)
    while pos < len(text):
        if text[pos] == "[":
            table, pos = _header(text, pos, offsets, last)
        else:
            pos = _member(text, pos, table, offsets)
        end = text.find("\n", pos)  # what is left of the line is blank, a comment or brackets
        pos = _after(text, end) if end >= 0 else len(text)
    return offsets


def _after(text: str, pos: int) -> int:
    """The next place that is neither blank nor a comment."""
    match = _BLANK.match(text, pos)
    return match.end() if match else pos


def _header(
    text: str, pos: int, offsets: dict[Location, int], last: dict[Location, int]
) -> tuple[Location, int]:
    header = _HEADER.match(text, pos)
    if header is None:
        return (), pos
    table: Location = ()
    for name in _NAME.finditer(header["names"]):
        table = _place((*table, name[0].strip("\"'")), pos, offsets)
        if header["repeated"] and name.end() == len(header["names"]):
            last[table] = last.get(table, -1) + 1
        if table in last:
            table = _place((*table, last[table]), pos, offsets)
    return table, header.end()


def _member(text: str, pos: int, table: Location, offsets: dict[Location, int]) -> int:
    member = _MEMBER.match(text, pos)
    if member is None:
        return pos
    for name in _NAME.finditer(member["names"]):
        table = _place((*table, name[0].strip("\"'")), pos, offsets)
    return _value(text, member.end(), table, offsets)


def _value(text: str, pos: int, at: Location, offsets: dict[Location, int]) -> int:
    """Place what a value holds; where the value ends."""
    opening = text[pos]
    if opening not in "[{":
        scalar = _SCALAR.match(text, pos)
        return scalar.end() if scalar else pos
    index, pos = 0, _after(text, pos + 1)
    while text[pos] not in "]}":
        if opening == "[":
            pos = _value(text, pos, _place((*at, index), pos, offsets), offsets)
        else:
            pos = _member(text, pos, at, offsets)
        index, pos = index + 1, _after(text, pos)
        if text[pos] == ",":
            pos = _after(text, pos + 1)
    return pos + 1


def _place(location: Location, pos: int, offsets: dict[Location, int]) -> Location:
    offsets.setdefault(location, pos)
    return location


# Edits.


#: The format of the file.
FORMAT: Final = 1
#: What stands in a table: strings, whole numbers, lists and tables of them.
Members: TypeAlias = Mapping[str, Any]

EMPTY_POLICY: Final = f"""\
# Which issuers this verifier trusts, and by which keys. What is not allowed here is denied.
# Add an issuer with `cardsign trust add`, or by hand; docs/reference/formats.md lists every member.
format = {FORMAT}

# [limits]              # may only be lower than the built-in ones
# skew = "5m"           # how far clocks may differ
# keyset_age = "90d"    # how long after its iat a keyset statement is accepted at most
# release_age = "7d"    # the same of a release statement

# [[issuer]]
# name = "acme-geo"                          # your own name for it
# origins = ["https://geo.acme.example"]     # where its cards and interfaces may stand
# cards = ["https://geo.acme.example/"]      # what `cardsign peers verify` looks at
# require = ["publisher"]                    # holders who must all have signed
# [issuer.anchor]                            # exactly one: keyset, roots, keys or jwks
# keyset = {{ epoch = 1, version = 1, digest = "..." }}
"""


def anchor_members(anchor: Anchor) -> Members:
    """The member of `[issuer.anchor]` that says what an anchor says."""
    match anchor:
        case KeysetAnchor(pin, issuer):
            named = {} if issuer is None else {"issuer": issuer}
            if isinstance(pin, KeysetId):
                return {"keyset": {**pin.to_json(), **named}}
            pairs = sorted(pin.holders, key=lambda pair: pair[::-1])
            roots = [{"thumbprint": thumbprint, "holder": holder} for thumbprint, holder in pairs]
            return {"roots": {**named, "threshold": pin.threshold, "keys": roots}}
        case KeysAnchor(keys, holders):
            named_keys = {kid: {"holder": holder} for kid, holder in holders.items()}
            public = {key.kid: {**key.jwk(), **key.validity.members()} for key in keys.keys}
            return {
                "keys": [{**named_keys.get(kid, {}), "public": jwk} for kid, jwk in public.items()]
            }
        case JwksAnchor(url):
            return {"jwks": url}


def anchor_text(anchor: Anchor) -> str:
    """The same in TOML."""
    return "\n".join(_lines(anchor_members(anchor)))


def with_issuer(text: str, members: Members, anchor: Anchor) -> str:
    """The text with one more `[[issuer]]` at its end."""
    lines = ["[[issuer]]", *_lines(members), "", "[issuer.anchor]", anchor_text(anchor)]
    return "\n".join([*text.rstrip().split("\n"), "", *lines, ""])


def without_issuer(text: str, name: str) -> str:
    """The text without an issuer's tables; comments around them stay."""
    index = _index(text, name)
    lines = Lines.of(text)
    start = lines.line_of(("issuer", index))
    others = [
        line
        for place, line in lines.places.items()
        if line > start and place[:2] != ("issuer", index)
    ]
    end = min(others, default=len(lines.text) + 1)
    while end - 1 > start and re.fullmatch(r"\s*(#.*)?", lines.text[end - 2]):
        end -= 1
    kept = [*lines.text[: start - 1], *lines.text[end - 1 :]]
    return "\n".join(kept)


def with_anchor(text: str, name: str, anchor: Anchor) -> str:
    """The text with an issuer's anchor replaced, the members of the table itself in place."""
    import tomlkit  # which no verdict needs

    document = tomlkit.parse(text)
    issuers: Any = document["issuer"]
    table = issuers[_index(text, name)]["anchor"]
    for kind, value in anchor_members(anchor).items():
        for other in [one for one in table if one != kind]:
            del table[other]
        if isinstance(value, Mapping) and kind in table:
            for member, one in value.items():
                table[kind][member] = tomlkit.value(_text(one))
        else:
            table[kind] = tomlkit.value(_text(value))
    return tomlkit.dumps(document)


def _index(text: str, name: str) -> int:
    return [table["name"] for table in read_toml(text.encode())["issuer"]].index(name)


def _lines(members: Members) -> list[str]:
    return [f"{name} = {_text(value)}" for name, value in members.items()]


def _text(value: Any) -> str:
    """A value in TOML, tables inline, each table of a list on its own line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    if isinstance(value, list):
        texts = [_text(element) for element in value]
        if any(isinstance(element, Mapping) for element in value):
            return "[\n" + "".join(f"  {text},\n" for text in texts) + "]"
        return f"[{', '.join(texts)}]"
    import tomlkit

    text: str = tomlkit.item(value).as_string()
    return text
