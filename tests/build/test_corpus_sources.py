"""Every source of the corpus becomes a sound card, or is refused with the reason that is listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_sources import PAGE, ROOT, Row, page, row_of, sources

from cardsign import PrivateKey

#: What a refusal may say: a fact is missing that no rule fills, or the file is none of its format.
REASONS = (
    "`build.missing`",
    "`build.reference`",
    "`build.syntax`",
)


@pytest.fixture(scope="module")
def rows(shared: Path, alice: PrivateKey) -> list[Row]:
    """All of them."""
    corpus = shared / "corpus/sources"
    return [row_of(corpus, name, alice) for name in sources(corpus)]


@pytest.mark.needs_shared
def test_every_source_is_built_or_refused_for_what_is_missing(rows: list[Row]) -> None:
    """A card that is built has no error of lint, is signed, and verifies."""
    assert len(rows) > 80
    assert sum(row.is_built for row in rows) >= 50
    assert [row for row in rows if not row.is_built and not row.outcome.startswith(REASONS)] == []
    assert [row for row in rows if row.is_built and "lint errors" in row.outcome] == []


@pytest.mark.needs_shared
def test_the_report_says_what_happens(rows: list[Row]) -> None:
    """`python tests/build/corpus_sources.py` would change nothing."""
    assert page(rows) == (ROOT / PAGE).read_text(encoding="utf-8")
