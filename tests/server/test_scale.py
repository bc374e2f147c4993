"""docs/concepts/scale.md: its table is the output of its model, with the ages of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cardsign.publish import DEFAULT_MAX_AGE
from cardsign.publish.generation import MAX_STATEMENT_AGE
from cardsign.statements import MAX_STATEMENT_BYTES

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "docs/picture/scale.py"


def told(*options: str) -> dict[str, str]:
    """The rows of the model."""
    command = [sys.executable, str(MODEL), *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert options or printed in (ROOT / "docs/concepts/scale.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines()[2:]]
    return dict(map(tuple, rows))  # type: ignore[arg-type]


def test_the_page_has_what_the_model_prints() -> None:
    """And a release of that many cards is none that a verifier would refuse."""
    rows = told()
    assert int(rows["bytes of one release"].replace(",", "")) < MAX_STATEMENT_BYTES
    assert int(rows["minutes until a revocation is everywhere"]) * 60 == MAX_STATEMENT_AGE
    page = (ROOT / "docs/concepts/scale.md").read_text("utf-8")
    assert f"the default is {DEFAULT_MAX_AGE}." in page


def test_the_origin_is_asked_by_caches_and_not_by_callers() -> None:
    """Ten times the callers change nothing for it; ten times the agents do."""
    cards = "GETs of cards that reach the origin, a day"
    plain = told()[cards]
    assert told("--requests", "10000000000")[cards] == plain
    assert told("--agents", "100000")[cards] == plain.replace("24", "240", 1)
