"""Cases of a change, in text files that say how they are written."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cardsign.findings import Finding


class Case(NamedTuple):
    """Two documents, and what is expected of their comparison, line by line."""

    old: Any
    new: Any
    expected: list[str]


def effect_of(change: Finding) -> str:
    """What a change means for a caller, without the prefix of its code."""
    return change.code.removeprefix("diff.")


def edited(base: Any, path: str, value: Any) -> Any:
    """A copy of a document with another value at a place; None removes, and a list may grow."""
    if path == "/":
        return value
    changed = copy.deepcopy(base)
    *above, last = [int(token) if token.isdecimal() else token for token in path[1:].split("/")]
    place: Any = changed
    for token in above:
        place = place[token]
    if value is None:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return changed


def read_cases(name: str, base: Any) -> list[Any]:
    """The cases of a file that edits a document, as parameters of a test."""
    _, *blocks = Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n\n")
    cases = []
    for title, *lines in (block.strip().splitlines() for block in blocks):
        sides, expected = {"-": base, "+": base}, []
        for line in lines:
            side, _, edit = line.partition(" ")
            path, _, value = edit.partition(" ")
            if side in sides:
                sides[side] = edited(sides[side], path, json.loads(value) if value else None)
            else:
                expected.append(line)
        cases.append(pytest.param(Case(sides["-"], sides["+"], expected), id=title))
    return cases
