"""docs/reference/settings.md names every member of cardsign.toml and every variable."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from cardsign.config import ProjectConfig, read_config
from cardsign.keys.agenda import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.ledger import ROLES, passphrase_variable

VARIABLE = re.compile(r"\b_?CARDSIGN_[A-Z0-9_]+\b")


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page."""
    return (root / "docs/reference/settings.md").read_text(encoding="utf-8")


def test_the_example_is_read_and_holds_the_defaults(page: str, tmp_path: Path) -> None:
    """Every setting of the timeline, at its default."""
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "cardsign.toml").write_text(example)
    found = read_config(tmp_path / "cardsign.toml")
    assert found.timeline == DEFAULT_SETTINGS
    assert tomllib.loads(example)["timeline"] == asdict(DEFAULT_SETTINGS)
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert rows == list(ProjectConfig.model_json_schema()["properties"])
    assert len(fields(TimelineSettings)) == 5


def test_every_variable_is_named(page: str, root: Path) -> None:
    """Those that the code reads or sets, and no other."""
    used = {
        name
        for path in (root / "cardsign").rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    } | set(map(passphrase_variable, ROLES))
    assert {"CARDSIGN_TRUST", "CARDSIGN_KEYSTORE"} <= used
    assert set(VARIABLE.findall(page)) | {"_CARDSIGN_COMPLETE"} == used | {"_CARDSIGN_COMPLETE"}
