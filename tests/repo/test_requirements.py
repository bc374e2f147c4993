"""docs/reference/requirements.md lists each row once, `done` if and only if a test shows it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

COUNTS = {"F": 48, "G": 18, "O": 33, "B": 36, "L": 23}
IDS = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]

ROW = re.compile(r"^\| ([A-Z]\d+) \| ([^|]+) \| (\w+) \|([^|]*)\|$", re.MULTILINE)
NAMED = re.compile(r"test_((?:[FGOBL]\d+_)+)")


class Row(NamedTuple):
    """A row of the table."""

    id: str
    behaviour: str
    status: str
    tests: list[str]


@pytest.fixture(scope="module")
def rows(root: Path) -> list[Row]:
    """The rows, in their order."""
    text = (root / "docs/reference/requirements.md").read_text(encoding="utf-8")
    return [Row(*row[:3], re.findall(r"`(\w+)`", row[3])) for row in ROW.findall(text)]


@pytest.fixture(scope="module")
def shown_by(root: Path) -> dict[str, list[str]]:
    """The tests that are named after each row."""
    shown: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (named := NAMED.match(node.name)):
                for row in named[1].strip("_").split("_"):
                    shown.setdefault(row, []).append(node.name)
    return shown


def test_every_row_is_listed_once(rows: list[Row]) -> None:
    """158 of them, in order; each is done or planned, but for the one that asks for nothing."""
    assert [row.id for row in rows] == IDS
    assert len(IDS) == 158
    assert {row.status for row in rows} - {"planned"} == {"done", "inapplicable"}
    assert [row.id for row in rows if row.status == "inapplicable"] == ["B26"]


def test_done_means_that_a_test_shows_it(rows: list[Row], shown_by: dict[str, list[str]]) -> None:
    """A row is done if and only if tests bear its name, and lists all of them."""
    listed = {row.id: row.tests for row in rows if row.tests}
    assert listed == shown_by
    assert [row.id for row in rows if row.status == "done"] == list(listed)
