"""What docs/concepts/profiles.md shows is what the profiles make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cardsign.card.profiles import PROFILES, canonicalize

FENCED = re.compile(r"```json\n(.*?)```(.*?)(?=```|\n## )", re.DOTALL)
ROW = re.compile(r"^\| `([a-z0-9.-]+)` \| `(\{.*\})` \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The page's text."""
    return (root / "docs" / "concepts" / "profiles.md").read_text(encoding="utf-8")


def test_the_examples_have_the_payloads_shown(page: str) -> None:
    """Each JSON block is followed by a table: profile, payload."""
    shown = [
        (profile, json.loads(card), payload)
        for card, table in FENCED.findall(page)
        for profile, payload in ROW.findall(table)
    ]

    assert {profile for profile, _, _ in shown} == set(PROFILES)
    for profile, card, payload in shown:
        assert canonicalize(card, profile).data.decode() == payload, profile


def test_every_profile_has_its_rule(page: str) -> None:
    """Defined once, in the tables whose head says so; a new profile needs its row."""
    tables = re.findall(r"\| profile \| rule \| who verifies by it \|\n(.*?)\n\n", page, re.DOTALL)
    rows = [line for table in tables for line in table.splitlines()[1:]]

    assert [re.findall(r"`([^`]+)`", row)[0] for row in rows] == list(PROFILES)
