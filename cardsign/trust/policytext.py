"""`trust.toml` as text: on which line a member stands, and edits as a careful person makes them.

`tomllib` tells no lines, so they are looked up. Comments and the order of things stay in an edit;
:func:`cardsign.trust.disk.edit_policy` reads what came of it before it replaces the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from cardsign.files import read_toml
from cardsign.statements.keyset import KeysetId
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor

#: Names of members and indices of lists, such as ``("issuer", 0, "origins", 1)``.
Location: TypeAlias = tuple[str | int, ...]

_HEADER: Final = re.compile(r"\s*(\[\[?)([^\[\]=,]+)\]\]?\s*(?:#.*)?$")
_MEMBER: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[\w"'-]+)*)\s*=""")


def find_lines(text: str) -> dict[Location, int]:
    """Return the line of each table, and of each member that begins a line.

    A member within a value stands on the line of that value, as :func:`line_of` has it.
    """
    lines: dict[Location, int] = {(): 1}
    counts: dict[Location, int] = {}  # the index of the last table of each array of tables
    table: Location = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = ()
            for name in _split_key(header[2]):
                table = (*table, counts[table], name) if table in counts else (*table, name)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table[:1], number)
            lines.setdefault(table, number)
        elif member := _MEMBER.match(line):
            lines.setdefault((*table, *_split_key(member[1])), number)
    return lines


def _split_key(key: str) -> list[str]:
    return [name.strip(" \t\"'") for name in key.split(".")]


def line_of(lines: Mapping[Location, int], location: Location) -> int:
    """Return the line of a member, or of the nearest table around it."""
    while location not in lines:
        location = location[:-1]
    return lines[location]


#: The format of the file.
FORMAT: Final = 1
#: What stands in a table: strings, whole numbers, lists and tables of them.
Members: TypeAlias = Mapping[str, Any]

EMPTY_POLICY: Final = f"""\
# Which issuers this verifier trusts, and by which keys. What is not allowed here is denied.
# Add an issuer with `cardsign trust add`, or by hand; docs/reference/formats.md lists every member.
format = {FORMAT}
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
    index, lines, places = _index(text, name), text.split("\n"), find_lines(text)
    start = line_of(places, ("issuer", index))
    end = len(lines) + 1
    for place, line in places.items():
        if line > start and place[:2] != ("issuer", index):
            end = min(end, line)
    while end - 1 > start and re.fullmatch(r"\s*(#.*)?", lines[end - 2]):
        end -= 1
    return "\n".join([*lines[: start - 1], *lines[end - 1 :]])


def with_pin(text: str, name: str, pin: KeysetId) -> str:
    """The text with the keyset statement that an issuer's anchor pins replaced."""
    import tomlkit  # which no verdict needs

    document = tomlkit.parse(text)
    issuers: Any = document["issuer"]
    issuers[_index(text, name)]["anchor"]["keyset"].update(pin.to_json())
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
