"""The threat model names its proofs, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "concepts" / "threat-model.md"
FINDINGS = 27


def proofs(text: str) -> tuple[set[int], set[str]]:
    """The attacks and the test files that a text calls its proof."""
    numbers = re.findall(r"[Aa]ttacks? ((?:\d+(?:, and | and |, )?)+)", text)
    attacks = {int(one) for some in numbers for one in re.findall(r"\d+", some)}
    return attacks, set(re.findall(r"`(tests/[\w/]+\.py)`", text))


def test_every_finding_has_its_place() -> None:
    """27 of them, in their order, each with what stops it or what remains."""
    parts = re.split(r"^### (\d+)\. .*$", PAGE.read_text(), flags=re.MULTILINE)
    numbers, texts = parts[1::2], parts[2::2]

    assert [int(number) for number in numbers] == list(range(1, FINDINGS + 1))
    for number, text in zip(numbers, texts, strict=True):
        assert "**Stops it:**" in text or "**Remains:**" in text or "Belongs to" in text, number


def test_every_proof_is_there() -> None:
    """Each attack that is named is one of the corpus, each test a file."""
    attacks, tests = proofs(PAGE.read_text())
    there = {int(path.name[:3]) for path in (ROOT / "tests" / "attacks").glob("[0-9]*.json")}

    assert len(attacks) > FINDINGS // 2
    assert attacks <= there
    assert tests
    assert [name for name in tests if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "attacks"),
    [
        ("Attack 104.", {104}),
        ("attacks 73 and 103", {73, 103}),
        ("attack 110, and 47", {110, 47}),
        ("no number", set()),
    ],
)
def test_proofs_are_found(text: str, attacks: set[int]) -> None:
    """A proof that is misspelt would otherwise not be missed."""
    assert proofs(text)[0] == attacks
