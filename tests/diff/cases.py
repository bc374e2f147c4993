"""Cases of a change, in text files that say how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cardsign.findings import Finding
from tests.support import edited


class Case(NamedTuple):
    """Two documents, and what is expected of their comparison, line by line."""

    old: Any
    new: Any
    expected: list[str]


def effect_of(change: Finding) -> str:
    """What a change means for a caller, without the prefix of its code."""
    return change.code.removeprefix("diff.")


def read_changes(name: str, base: Any) -> list[Any]:
    """The cases of a file that edits a document, as parameters of a test."""
    _, *blocks = Path(__file__).with_name(name).read_text(encoding="utf-8").split("\n\n")
    cases = []
    for title, *lines in (block.strip().splitlines() for block in blocks):
        sides, expected = {"-": base, "+": base}, []
        for line in lines:
            side, *edit = line.split(" ", 2)
            if side not in sides:
                expected.append(line)
                continue
            place, *values = edit
            if place == "/":
                sides[side] = json.loads(*values)
            else:
                sides[side] = edited(sides[side], [(place, *map(json.loads, values))])
        cases.append(pytest.param(Case(sides["-"], sides["+"], expected), id=title))
    return cases
