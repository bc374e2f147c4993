"""Cards that are built whenever they are signed: `publish --watch`, and a form of older clients."""

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
from tests.cli.conftest import Cardsign
from tests.cli.test_project_cards import ISSUER, run
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
legacy = "0.3"
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
    run(cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key"))
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


def test_L4_a_computed_card_is_built_signed_listed_and_published(issuer: Cardsign) -> None:
    """By the commands, and by the one that a rotation is: unchanged it stays, to the byte."""
    run(issuer("publish"))
    assert tells() == "Says when the water comes."
    run(issuer("sign"))
    assert run(issuer("publish", "--json")).json["created"] is False
    assert run(issuer("publish", "--dry-run", "--json")).json["planned"] == []
    run(issuer("keys", "rotate"))  # which makes the successors of all keys once
    before = tree()
    run(issuer("sign"))
    run(issuer("keys", "rotate"))
    assert tree() == before

    write("Says when it goes.")
    assert run(issuer("publish", "--dry-run", "--json")).json["planned"] != []
    assert tree() == before
    run(issuer("publish"))
    assert tells() == "Says when it goes."
    assert issuer("verify", "signed.json", "--jwks", "public/000001/jwks.json").status == 0


def test_L4_a_source_that_is_broken_harms_nothing_that_is_published(issuer: Cardsign) -> None:
    """It is said, and the release is renewed all the same."""
    run(issuer("keys", "rotate"))
    card = load_current(PUBLIC).card
    Path("agent.json").write_text("{")
    ended = issuer("keys", "rotate")
    assert (ended.status, "what is published stays" in ended.err) == (1, True)
    assert "agent.json" in ended.err
    assert "Do this: cardsign keys rotate\n" in ended.err
    assert load_current(PUBLIC).card == card
    assert issuer("sign").status != 0
    assert issuer("publish").status != 0
    assert load_current(PUBLIC).card == card


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


@pytest.mark.parametrize("option", ["--drop-others", "--dry-run", "--json"])
def test_watching_takes_no_other_option(issuer: Cardsign, option: str) -> None:
    """Nor a card."""
    for words in ((option,), ("signed.json",)):
        ended = issuer("publish", "--watch", *words)
        assert (ended.status, "usage.conflict" in ended.err) == (2, True)


# ------------------------------------------------------------------ for older clients


def test_F2_the_settings_name_the_form_for_older_clients(issuer: Cardsign) -> None:
    """It is made from the same source, signed, listed and published next to the card."""
    run(issuer("keys", "rotate"))
    generation = load_current(PUBLIC)
    assert generation.legacy_card == Path("signed.0.3.json").read_bytes()
    old, new = json.loads(generation.legacy_card), json.loads(generation.card)
    assert (old["protocolVersion"], "supportedInterfaces" in old) == ("0.3.0", False)
    assert (old["name"], old["skills"]) == (new["name"], new["skills"])
    jwks = "public/000001/jwks.json"
    assert issuer("verify", "signed.0.3.json", "--jwks", jwks).status == 0


def test_F2_an_older_form_may_be_that_of_0_2(issuer: Cardsign) -> None:
    """And its twin: without the line there is none."""
    text = Path("cardsign.toml").read_text()
    Path("cardsign.toml").write_text(text.replace('legacy = "0.3"\n', ""))
    run(issuer("keys", "rotate"))
    assert load_current(PUBLIC).legacy_card is None
    Path("cardsign.toml").write_text(text.replace('legacy = "0.3"', 'legacy = "0.2"'))
    run(issuer("keys", "rotate"))
    older = load_current(PUBLIC).legacy_card
    assert older is not None
    assert json.loads(older)["protocolVersion"].startswith("0.2")


BAD = {
    "both a source and a build": 'source = "a.json"\nbuild = ["b"]\nsigned = "s.json"\n',
    "neither": 'signed = "s.json"\n',
    "an older form of an extended card": (
        'source = "a.json"\nsigned = "s.json"\naudience = "a"\nexpires = "9d"\nlegacy = "0.3"\n'
    ),
    "an older form that is none": 'source = "a.json"\nsigned = "s.json"\nlegacy = "0.1"\n',
    "a source outside": 'build = ["../x"]\nsigned = "s.json"\n',
}


@pytest.mark.parametrize("table", BAD.values(), ids=BAD)
def test_tables_that_do_not_fit_are_refused(table: str, cardsign: Cardsign) -> None:
    """Before anything is read."""
    Path("cardsign.toml").write_text(f"format = 1\n[[card]]\n{table}")
    ended = cardsign("config", "check")
    assert (ended.status, "config." in ended.err) == (2, True), ended.err
