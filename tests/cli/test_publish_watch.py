"""`publish --watch` as a process of its own: it follows the sources of a card and the settings."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cardsign.publish.generation import load_current
from tests.cli.conftest import Cardsign, run
from tests.support import PORTABLE

PUBLIC = Path("public")
AGENT = {**PORTABLE, "skills": [], "capabilities": {}}
SKILL = """---
name: tides
description: {0}
---
Read the table.
"""
BUILT = """
[build]
url = "https://tides.example/{name}"

[[card]]
build = ["agent.json", "skills"]
signed = "signed.json"
"""


def wait_until(is_done: Callable[[], object]) -> None:
    """Wait for an event, generously."""
    for _ in range(600):
        if is_done():
            return
        time.sleep(0.2)
    raise AssertionError("it did not happen")


def write(description: str) -> None:
    """The source of the card: a skill's file."""
    Path("skills/tides").mkdir(parents=True, exist_ok=True)
    Path("skills/tides/SKILL.md").write_text(SKILL.format(description))


@pytest.fixture
def issuer(cardsign: Cardsign, cheap: None) -> Cardsign:
    """Statements, and a card that is computed from two sources."""
    write("Says when the water comes.")
    Path("agent.json").write_text(json.dumps(AGENT))
    run(cardsign("init", "--issuer", "https://tides.example", "--recovery-out", "recovery.key"))
    with open("cardsign.toml", "a") as config:
        config.write(BUILT)
    return cardsign


def tells() -> str:
    """What the published card says of its first skill."""
    card: dict[str, Any] = json.loads(load_current(PUBLIC).card)
    text: str = card["skills"][0]["description"]
    return text


def tree() -> dict[str, bytes]:
    """Every byte of the publication."""
    return {str(one): one.read_bytes() for one in sorted(PUBLIC.rglob("*")) if one.is_file()}


def test_L4_a_watcher_follows_the_source_and_the_settings(issuer: Cardsign) -> None:
    """Both are read at each look; while one is broken, the last good card stays."""
    said, settings = Path("said.txt"), Path("cardsign.toml")
    text = settings.read_text()
    command = [sys.executable, "-m", "cardsign", "publish", "--watch", "--every", "1"]
    with said.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as watcher:
        try:
            wait_until((PUBLIC / "current").exists)
            first = tree()
            Path("agent.json").write_text("{")
            wait_until(lambda: "what is published stays" in said.read_text())
            assert tree() == first
            write("Says when it goes.")
            Path("agent.json").write_text(json.dumps(AGENT))
            wait_until(lambda: tells() == "Says when it goes.")
            second = tree()
            settings.write_text(text.replace("[build]", "[bild]"))
            wait_until(lambda: "bild" in said.read_text())
            assert tree() == second
            Path("other.json").write_text(json.dumps({**AGENT, "description": "Another source."}))
            settings.write_text(text.replace('"agent.json"', '"other.json"'))
            wait_until(lambda: b"Another source." in load_current(PUBLIC).card)
            assert watcher.poll() is None
            assert said.read_text().count("what is published stays") == 1
            assert said.read_text().count("bild") == 1
        finally:
            watcher.terminate()
