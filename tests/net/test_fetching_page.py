"""docs/reference/fetching.md says what the constants say, and names every code of a fetch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cardsign import urls
from cardsign.net import discovery, fetch, fetcher, guarded
from cardsign.reasons import REASONS
from cardsign.trust import refresh

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "fetching.md"
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (discovery, fetch, fetcher, guarded, refresh, urls)
}
UNITS = {"s": 1, "s each": 1, "KiB": 1024, "MiB": 1024**2, "characters": 1, "": 1}

ROW = re.compile(r"\| [^|]+ \| (\d+) ?([^|]*?) \| `(\w+)\.(\w+)` \|")


def limits(text: str) -> dict[str, tuple[float, float]]:
    """By constant: what the page says, and what it is."""
    return {
        f"{module}.{name}": (int(number) * UNITS[unit], getattr(MODULES[module], name))
        for number, unit, module, name in ROW.findall(text)
    }


def test_limits() -> None:
    """Each row of the table is the constant that it names."""
    found = limits(PAGE.read_text(encoding="utf-8"))
    assert len(found) == 20
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize(
    ("row", "fits"),
    [
        ("| a card | 256 KiB | `fetch.MAX_CARD_BYTES` |", True),
        ("| a card | 255 KiB | `fetch.MAX_CARD_BYTES` |", False),
        ("| all of it | 11 s | `fetch.TOTAL_SECONDS` |", False),
    ],
)
def test_a_wrong_row_would_be_seen(row: str, fits: bool) -> None:
    """So that the test above can fail."""
    ((said, is_so),) = limits(row).values()
    assert (said == is_so) is fits


def test_codes() -> None:
    """Every code of a failed fetch stands in the table of refusals, and no other does."""
    rows = set(re.findall(r"^\| `(fetch\.\w+)` \|", PAGE.read_text(encoding="utf-8"), re.M))
    assert rows == {code for code in REASONS if code.startswith("fetch.")} - {"fetch.stale"}
