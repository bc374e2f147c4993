"""`trust.toml` as text: edits as a careful person makes them.

Comments and the order of things stay in an edit;
:func:`cardsign.trust.disk.edit_policy` reads what came of it before it replaces the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from cardsign.statements.keyset import KeysetId
from cardsign.tomltext import find_lines, line_of, read_toml
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor

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
