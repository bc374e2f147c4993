"""A folder to write sources into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build.making import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the folder of the test; returns its path."""

    def writing(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return writing
