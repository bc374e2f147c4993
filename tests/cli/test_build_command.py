"""``cardsign build``: what it writes, what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cardsign.cli import command_line

SKILL = "---\nname: tides\ndescription: Says when the tide is high\n---\n"
URL = "https://{name}.example/a2a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one skill."""
    (tmp_path / "SKILL.md").write_text(SKILL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    """Run the command without raising."""
    return CliRunner().invoke(command_line, ["build", *words], standalone_mode=False)


def test_a_card_is_written(folder: Path) -> None:
    """To the file that is named, or to standard output."""
    done = run("SKILL.md", "--url", URL, "-o", "card.json")
    assert done.return_value == 0
    card = json.loads((folder / "card.json").read_bytes())
    assert card["supportedInterfaces"][0]["url"] == "https://tides.example/a2a"
    assert "wrote card.json" in done.stderr
    assert json.loads(run("SKILL.md", "--url", URL, "-o", "-").stdout) == card


def test_both_are_written_beside_each_other(folder: Path) -> None:
    """And not to standard output."""
    assert run("SKILL.md", "--url", URL, "-o", "card.json", "--a2a", "both").return_value == 0
    assert "supportedInterfaces" in json.loads((folder / "card.json").read_bytes())
    assert json.loads((folder / "card.0.3.json").read_bytes())["protocolVersion"] == "0.3.0"
    refused = run("SKILL.md", "--url", URL, "-o", "-", "--a2a", "both")
    assert getattr(refused.exception, "code", None) == "usage.conflict"


def test_explain_names_the_source_and_line_of_each_member(folder: Path) -> None:
    """As text, and in JSON."""
    shown = run("SKILL.md", "--url", URL, "-o", "card.json", "--explain", "--set", "version=1.0.0")
    lines = dict(line.split(None, 1) for line in shown.stdout.splitlines())
    assert lines["skills.tides.description"] == "SKILL.md:3"
    assert lines["version"] == "--set version"
    assert lines["supportedInterfaces"] == "--url"
    found = json.loads(run("SKILL.md", "--url", URL, "-o", "card.json", "--json").stdout)
    assert found["whole"] is True
    assert {"member": ["name"], "file": "SKILL.md", "line": 2} in found["members"]
    assert {one["code"] for one in found["reasons"]} == {"build.filled"}


def test_settings_of_the_project_are_used(folder: Path) -> None:
    """Options override them."""
    (folder / "cardsign.toml").write_text(f'format = 1\n[build]\na2a = "0.3"\nurl = "{URL}"\n')
    assert run("SKILL.md", "-o", "card.json").return_value == 0
    assert json.loads((folder / "card.json").read_bytes())["protocolVersion"] == "0.3.0"
    assert run("SKILL.md", "-o", "card.json", "--a2a", "1.0").return_value == 0
    assert "supportedInterfaces" in json.loads((folder / "card.json").read_bytes())


def test_keep_going_ends_with_1(folder: Path) -> None:
    """The card is there, and what was refused is told."""
    (folder / "bad.md").write_text("---\n- a\n---\n")
    refused = run("SKILL.md", "bad.md", "--url", URL, "-o", "card.json")
    assert getattr(refused.exception, "code", None) == "build.syntax"
    assert not (folder / "card.json").exists()
    done = run("SKILL.md", "bad.md", "--url", URL, "-o", "card.json", "--keep-going")
    assert done.return_value == 1
    assert "build.refused" in done.stderr
    assert "bad.md:2" in done.stderr
    assert (folder / "card.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "nonsense=1"),
        ("--set", "capabilities.nonsense=true"),
        ("--set", "version"),
        ("--url", "ftp://x.example"),
    ],
)
def test_what_is_said_wrongly_is_refused(folder: Path, words: tuple[str, str]) -> None:
    """As a mistake of the command line; nothing is written."""
    refused = run("SKILL.md", "--url", URL, "-o", "card.json", *words)
    assert getattr(refused.exception, "code", None) == "usage.invalid"
    assert not (folder / "card.json").exists()
