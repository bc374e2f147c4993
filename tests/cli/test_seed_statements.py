"""The documents of the five systems, statement by statement: ``tests/seeds/NAME.toml``.

A statement names the lines of the document that it is about, the requirements (``rows``), and how
they are checked: by commands as a user types them (``run``, as in ``transcripts``), by tests or
transcripts that are named (``tests``), or by tests that are named after the rows. ``shows`` are the
lines of a card that the commands before have to make. ``out`` says why lines ask for nothing here.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cardsign, World
from tests.cli.test_transcripts import play

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"
SEEDS = {path.stem: tomllib.loads(path.read_text()) for path in TESTS.glob("seeds/*.toml")}
STATEMENTS = [(name, entry) for name, seed in SEEDS.items() for entry in seed["statement"]]


def numbers(text: str) -> Iterator[int]:
    """The lines that a text names, such as ``1-4, 7``."""
    for part in text.split(", "):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@cache
def read_tests() -> str:
    """The text of all tests."""
    return "".join(path.read_text() for path in TESTS.rglob("test_*.py"))


def find_named_tests() -> set[str]:
    """The rows of the requirements after which a test is named, or in a story's first line."""
    exchanges = "".join(path.read_text() for path in TESTS.glob("server/exchanges/*.txt"))
    names = re.findall(r"(?:def test_|^== )((?:[BFGLO]\d+[_ ])+)", read_tests() + exchanges, re.M)
    names += (path.read_text().partition("\n")[0] for path in TESTS.glob("cli/transcripts/*.txt"))
    return {row for text in names for row in re.findall(r"(?<![^\W_])[BFGLO]\d+", text)}


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", SEEDS)
def test_no_line_of_a_document_is_left_out(name: str, shared: Path) -> None:
    """Each is in a statement, or there is said why it asks for nothing."""
    lines = (shared / "seeds" / SEEDS[name]["seed"]).read_text(encoding="utf-8").split("\n")
    named = {line for entry in SEEDS[name]["statement"] for line in numbers(entry["lines"])}
    text = {at for at, line in enumerate(lines, 1) if re.search(r"\w", line)}
    assert sorted(text - named) == []


@pytest.mark.needs_shared
def test_every_requirement_is_in_a_statement(shared: Path) -> None:
    """And no statement names one that there is not."""
    page = (shared / "reference/requirements.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([BFGLO]\d+) \|", page, re.MULTILINE))
    assert {row for _, entry in STATEMENTS for row in entry.get("rows", "").split()} == rows


@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_a_statement_is_checked_or_out_of_scope(name: str, statement: dict[str, Any]) -> None:
    """By its commands, by tests that are there, or by those that its rows give their names to."""
    for test in statement.get("tests", ()):
        stories = (TESTS / "cli/transcripts" / test, TESTS / test)
        is_story = test.endswith(".txt") and any(story.is_file() for story in stories)
        assert is_story or f"def {test}(" in read_tests()
    if not statement.keys() & {"run", "tests", "out"}:
        assert set(statement["rows"].split()) <= find_named_tests(), name
    assert ("says" in statement) is not ("out" in statement)


@pytest.mark.needs_shared
@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("name", SEEDS)
def test_a_document_holds(name: str, shared: Path, cardsign: Cardsign, world: World) -> None:
    """Its commands in their order, in a copy of the example."""
    seed = SEEDS[name]
    shutil.copytree(EXAMPLES / seed["example"], Path.cwd(), dirs_exist_ok=True)
    lines = (shared / "seeds" / seed["seed"]).read_text(encoding="utf-8").split("\n")
    for statement in seed["statement"]:
        difference = play(statement.get("run", ""), cardsign, world)
        assert not difference, difference
        if at := statement.get("shows"):
            text = "\n".join(lines[line - 1] for line in numbers(at))
            shown, _ = json.JSONDecoder().raw_decode(text)
            shown["skills"].sort(key=lambda skill: skill["id"])
            assert json.loads(Path("card.json").read_bytes()) == shown
