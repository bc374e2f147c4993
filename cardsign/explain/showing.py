"""Short excerpts: of a text around a place, of a card around a member, of one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from cardsign.card.pointer import split
from cardsign.card.strictjson import Json

MAX_SHOWN: Final = 80  # characters of one value, or of one line of the input
_AROUND: Final = 1  # lines, or members, before and behind the one that is meant
_HERE, _BESIDE = "> ", "  "


def shown(value: Json) -> str:
    """A value as compact JSON, shortened where long; still foreign text."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def at(document: Json, pointer: str) -> Json:
    """The value at a pointer.

    Raises:
        KeyError: There is none.
    """
    for token in split(pointer):
        if isinstance(document, dict):
            document = document[token]
        elif isinstance(document, list) and token.isdecimal() and int(token) < len(document):
            document = document[int(token)]
        else:
            raise KeyError(pointer)
    return document


def members_around(document: Mapping[str, Json], pointer: str) -> tuple[str, ...]:
    """The member or element at a pointer, one line for it and each neighbour."""
    parent = at(dict(document), pointer.rpartition("/")[0])
    last = split(pointer)[-1]
    if isinstance(parent, dict):
        members = [(f"{shown(name)}:", child) for name, child in parent.items()]
        here = list(parent).index(last)
    elif isinstance(parent, list):
        members = [(f"[{index}]", child) for index, child in enumerate(parent)]
        here = int(last)
    else:
        return ()
    first = max(0, here - _AROUND)
    return tuple(
        f"{_HERE if number == here else _BESIDE}{name} {shown(child)}"
        for number, (name, child) in enumerate(members[first : here + _AROUND + 1], first)
    )


def lines_around(data: bytes, line: int | None, column: int | None) -> tuple[str, ...]:
    """The lines of an input around a place, each cut to a window about the place's column."""
    if line is None or column is None or not data:
        return ()
    lines = data.decode("utf-8", errors="replace").split("\n")
    start = max(0, column - 1 - MAX_SHOWN // 2)
    first = max(0, line - 1 - _AROUND)
    return tuple(
        (_HERE if number == line else _BESIDE) + text[start : start + MAX_SHOWN]
        for number, text in enumerate(lines[first : line + _AROUND], first + 1)
    )
