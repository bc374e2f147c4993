"""A folder to write sources into, and a build of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build.making import Build, Write, built


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below the folder of the test; returns its path."""

    def writing(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return writing


@pytest.fixture
def build() -> Build:
    """Build sources, with a url unless the test says otherwise; the card as an object."""

    def building(*sources: str | Path, **options: Any) -> dict[str, Any]:
        card: dict[str, Any] = json.loads(built(*sources, **options).document)
        return card

    return building
