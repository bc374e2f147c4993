"""`publish --watch` as a process of its own: it follows the sources of a card and the settings."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cardsign.publish.generation import load_current
from tests.cli.conftest import Cardsign, run
from tests.support import PORTABLE

AGENT = {**PORTABLE, "skills": [], "capabilities": {}}
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


def write_skill(description: str) -> None:
    """The source of the card: a skill's file."""
    text = f"---\nname: tides\ndescription: {description}\n---\nRead the table.\n"
    Path("skills/tides/SKILL.md").write_text(text)


def test_L4_a_watcher_follows_the_source_and_the_settings(cardsign: Cardsign, cheap: None) -> None:
    """Both are read at each look; while one is broken, the last good card stays."""
    public, messages, settings = Path("public"), Path("messages"), Path("cardsign.toml")
    Path("skills/tides").mkdir(parents=True)
    write_skill("Says when the water comes.")
    Path("agent.json").write_text(json.dumps(AGENT))
    run(cardsign("init", "--issuer", "https://tides.example", "--recovery-out", "recovery.key"))
    text = settings.read_text() + BUILT
    settings.write_text(text)

    def stays(message: str) -> None:
        before = {path: path.read_bytes() for path in public.rglob("*") if path.is_file()}
        wait_until(lambda: message in messages.read_text())
        assert {path: path.read_bytes() for path in public.rglob("*") if path.is_file()} == before

    command = [sys.executable, "-m", "cardsign", "publish", "--watch", "--every", "1"]
    with messages.open("wb") as err, subprocess.Popen(command, stderr=err) as watcher:
        try:
            wait_until((public / "current").exists)
            Path("agent.json").write_text("{")
            stays("what is published stays")
            write_skill("Says when it goes.")
            Path("agent.json").write_text(json.dumps(AGENT))
            wait_until(lambda: b"Says when it goes." in load_current(public).card)
            settings.write_text(text.replace("[build]", "[bild]"))
            stays("bild")
            Path("other.json").write_text(json.dumps({**AGENT, "description": "Another source."}))
            settings.write_text(text.replace('"agent.json"', '"other.json"'))
            wait_until(lambda: b"Another source." in load_current(public).card)
            assert watcher.poll() is None
            assert messages.read_text().count("what is published stays") == 1
            assert messages.read_text().count("bild") == 1
        finally:
            watcher.terminate()
