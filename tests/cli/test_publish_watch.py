"""`publish --watch`: it follows the sources of a card and the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cardsign.publish.generation import load_current
from tests.cli.conftest import Cardsign, run
from tests.support import PORTABLE

PUBLIC = Path("public")
AGENT = {**PORTABLE, "skills": [], "capabilities": {}}
BUILT = """
[build]
url = "https://tides.example/{name}"

[[card]]
build = ["agent.json", "skills"]
signed = "signed.json"
"""


def write_sources(description: str) -> None:
    """The two sources of the card: an agent, and a skill's file."""
    Path("agent.json").write_text(json.dumps(AGENT))
    text = f"---\nname: tides\ndescription: {description}\n---\nRead the table.\n"
    Path("skills/tides/SKILL.md").write_text(text)


def published() -> dict[str, bytes]:
    """Every byte of the publication."""
    return {str(path): path.read_bytes() for path in PUBLIC.rglob("*") if path.is_file()}


def changes(settings: Path) -> Iterator[None]:
    """What happens between two looks, and what is published then; a fault lasts for two of them."""
    text, first = settings.read_text(), published()
    Path("agent.json").write_text("{")
    yield
    yield
    assert published() == first
    write_sources("Says when it goes.")
    yield
    second = published()
    assert b"Says when it goes." in load_current(PUBLIC).card
    settings.write_text(text.replace("[build]", "[bild]"))
    yield
    yield
    assert published() == second
    Path("other.json").write_text(json.dumps({**AGENT, "description": "Another source."}))
    settings.write_text(text.replace('"agent.json"', '"other.json"'))
    yield
    assert b"Another source." in load_current(PUBLIC).card
    raise KeyboardInterrupt


def test_L4_a_watcher_follows_the_source_and_the_settings(
    cardsign: Cardsign, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are read at each look; while one is broken, the last good card stays."""
    Path("skills/tides").mkdir(parents=True)
    write_sources("Says when the water comes.")
    run(cardsign("init", "--issuer", "https://tides.example", "--recovery-out", "recovery.key"))
    settings = Path("cardsign.toml")
    settings.write_text(settings.read_text() + BUILT)
    looks = changes(settings)
    pause = SimpleNamespace(wait=lambda seconds: next(looks))
    monkeypatch.setattr("cardsign.cli.project.threading", SimpleNamespace(Event=lambda: pause))
    ended = cardsign("publish", "--watch")
    assert (ended.status, ended.err.count("cardsign: stopped")) == (2, 1), ended.err
    assert ended.err.count("what is published stays") == 1
    assert ended.err.count("bild") == 1
