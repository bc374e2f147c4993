"""`cardsign lint` of more cards than are read; ``transcripts`` have the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, dump


def test_a_folder_of_more_cards_than_are_read_is_refused(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the limit would pass unread."""
    monkeypatch.setattr("cardsign.projects.MAX_CARDS", 2)
    Path("many").mkdir()
    for number in (1, 2):
        Path(f"many/{number}.json").write_bytes(dump(PORTABLE))
    assert cardsign("lint", "many").status == 0
    Path("many/3.json").write_bytes(dump(PORTABLE))
    ended = cardsign("lint", "many")
    assert (ended.status, ended.out) == (2, b"")
    assert "the folder holds more than 2 cards (many)" in ended.err
