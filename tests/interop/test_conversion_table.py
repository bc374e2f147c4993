"""docs/reports/conversion.md is what the SDKs' conversions lose today, and ours loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from conversions import PAGE, page, rows
from judges import Judge


@pytest.mark.needs_shared
@pytest.mark.needs_judges
def test_the_page_is_what_is_found_out(shared: Path, sdk: Judge, js: Judge) -> None:
    """And cardsign converts every card, without a loss."""
    found = rows(shared, {"a2a-sdk": sdk.convert, "@a2a-js/sdk": js.convert})
    for made in found.values():
        ours = made[0]
        assert ours.name == "cardsign"
        assert ours.cards > 20
        assert (ours.refused, ours.lossy) == (0, 0)
    assert any(one.lossy for made in found.values() for one in made[1:])  # the table can tell
    assert PAGE.read_text(encoding="utf-8") == page(found)
