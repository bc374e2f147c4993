"""Every rule, threat and decision that code, tests or pages cite is written down in docs."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Where the rows are: a table's first cell, or a numbered heading.
ROWS = {
    "docs/concepts/statements.md": r"^\| (K\d+) \|",
    "docs/concepts/verdicts.md": r"^\| (V\d+) \|",
    "docs/contributing/decisions.md": r"^\| ([CDES]\d+) \|",
    "docs/concepts/threat-model.md": r"^### (\d+)\. ",
}
RULE = re.compile(r"(?<![\w./\"'-])([KV]\d{1,2})(?![\w\"'-])")
DECISION = re.compile(r"(?:\(|decisions? )([CDES]\d{1,2})(?=[):,;. ])")
THREATS = re.compile(r"\bthreats? (\d+(?:(?:, and |, | and )\d+)*)")
DECIDED = re.compile(r'^decision = "(\w+)"$', re.MULTILINE)


def written(root: Path) -> set[str]:
    """Every number that has a row; a threat's has no letter."""
    return {
        number
        for page, row in ROWS.items()
        for number in re.findall(row, (root / page).read_text(encoding="utf-8"), re.MULTILINE)
    }


def prose(path: Path) -> str:
    """The comments and docstrings of a module, or the whole of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')))
    )


def cited(text: str) -> Iterator[str]:
    """The numbers that a text cites."""
    yield from RULE.findall(text)
    yield from DECISION.findall(text)
    for some in THREATS.findall(text):
        yield from re.findall(r"\d+", some)


def test_no_citation_dangles(root: Path, tracked: list[Path]) -> None:
    """A reader who meets a number finds what it means."""
    known = written(root)
    assert {"K1", "K12", "V1", "V8", "1", "27"} <= known
    dangling = {
        f"{path.relative_to(root)}: {number}"
        for path in tracked
        if path.suffix in {".py", ".md"}
        and path.relative_to(root).parts[0] in {"cardsign", "tests", "docs"}
        for number in cited(prose(path))
        if number not in known
    }
    assert dangling == set()


def test_a_change_of_the_oracle_names_a_decision_that_is_written_down(root: Path) -> None:
    """Each entry of changes.toml."""
    decided = set(DECIDED.findall((root / "tests/oracle/changes.toml").read_text(encoding="utf-8")))
    assert decided
    assert decided <= written(root)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("As K9 says (V4).", ["K9", "V4"]),
        ("it waits (threat 13), and threats 1, 7 and 22", ["13", "1", "7", "22"]),
        ("by decision E1 (S11)", ["E1", "S11"]),
        ("P-256, ES256, `KV1x`, RFC 8785", []),
    ],
)
def test_citations_are_found(text: str, numbers: list[str]) -> None:
    """A form that is not recognised would never dangle."""
    assert list(cited(text)) == numbers
