"""The counts of docs/reports/lint.md are those of today's run over the corpus."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from cardsign.lint import lint_card

PAGE = Path(__file__).resolve().parents[2] / "docs/reports/lint.md"
ROW = re.compile(r"^\| `([a-z.-]+)` \| ([\d,]+) \| (\d+) \| (\d*) \|", re.MULTILINE)


def number(text: str) -> int:
    """As the page writes it."""
    return int(text.replace(",", "") or 0)


@pytest.mark.needs_shared
def test_the_page_counts_what_lint_finds(shared: Path) -> None:
    """By rule, findings and cards; whoever changes a rule judges its findings anew."""
    findings: Counter[str] = Counter()
    cards: Counter[str] = Counter()
    paths = [one for one in (shared / "corpus/cards").glob("*.json*") if one.suffix != ".jsonl"]
    for path in paths:
        data = path.read_bytes()
        found = lint_card(gzip.decompress(data) if path.suffix == ".gz" else data).findings
        findings.update(one.rule.id for one in found)
        cards.update({one.rule.id for one in found})
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert {rule: number(count) for rule, count, _, _ in rows} == findings
    assert {rule: number(count) for rule, _, count, _ in rows} == cards


def test_the_precision_is_that_of_the_table() -> None:
    """The sums in the prose."""
    text = PAGE.read_text(encoding="utf-8")
    rows = ROW.findall(text)
    total = sum(number(count) for _, count, _, _ in rows)
    debatable = sum(number(count) for _, _, _, count in rows)
    assert f"None of the {total:,} findings is wrong. {debatable} are debatable" in text
    assert f"{100 * (total - debatable) / total:.1f} % are of use" in text
