"""`cardsign diff`: files, git revisions, words, Markdown, and the exit status."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, put

OLD = put(PORTABLE, "/version", "1.2.3")


def card(name: str, version: str, **members: Any) -> str:
    """A card in the working directory."""
    Path(name).write_text(json.dumps({**put(OLD, "/version", version), **members}))
    return name


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    card("old.json", "1.2.3")


def test_a_version_that_is_enough(cardsign: Cardsign) -> None:
    """Status 0; the changes by what they mean."""
    ended = cardsign("diff", "old.json", card("new.json", "1.2.4", description="Of old"))
    assert ended.status == 0
    assert ended.text == (
        "1 change: old.json to new.json\n\n"
        "  Words only:\n    /description  `description` changed\n\n"
        "version 1.2.3 to 1.2.4: enough\n"
    )


def test_a_version_that_is_too_low(cardsign: Cardsign) -> None:
    """Status 1, and the version that would be enough."""
    ended = cardsign("diff", "old.json", card("new.json", "1.2.4", skills=[]))
    assert ended.status == 1
    assert ended.text.endswith("version 1.2.3 to 1.2.4: too low; 2.0.0 or higher is needed\n")


def test_the_half_for_clients_of_0_3_is_compared(cardsign: Cardsign) -> None:
    """A card for clients of both versions whose `url` moves; drift shows it too."""
    half = {"url": "https://weather.example/a2a", "protocolVersion": "0.3.0"}
    both = card("both.json", "1.2.3", **half)
    moved = card("moved.json", "1.2.3", **half | {"url": "https://evil.example/a2a"})
    ended = cardsign("diff", both, moved)
    assert ended.status == 1
    assert (
        "/url  the interface JSONRPC 0.3.0 at https://weather.example/a2a was removed" in ended.text
    )
    assert "/url  the interface JSONRPC 0.3.0 at https://evil.example/a2a is new" in ended.text
    ended = cardsign("drift", both, moved)
    assert ended.status == 1
    assert "https://evil.example/a2a is new" in ended.text
    assert cardsign("diff", both, card("same.json", "1.2.3", **half)).status == 0


def test_what_cannot_be_told(cardsign: Cardsign) -> None:
    """Status 3: a person has to decide."""
    ended = cardsign("diff", "old.json", card("new.json", "1.3.0", mystery=1))
    assert ended.status == 3
    assert "Cannot be told" in ended.text


def test_the_same_for_programs(cardsign: Cardsign) -> None:
    """The status is the same, and everything stands in one object."""
    ended = cardsign("diff", "old.json", card("new.json", "1.3.0", skills=[]), "--json")
    assert ended.status == 1
    assert ended.json["version"]["verdict"] == "too-low"
    assert ended.json["version"]["least"] == "2.0.0"
    assert {one["effect"] for one in ended.json["changes"]} == {"breaking"}


def test_a_comment_holds_no_markup_of_a_card(cardsign: Cardsign) -> None:
    """A card's text neither mentions people nor links anywhere."""
    skill = {"id": "@all [x](https://e.example) `x`", "name": "x", "description": "x", "tags": []}
    ended = cardsign("diff", "old.json", card("new.json", "1.3.0", skills=[skill]), "--github")
    assert "### Agent Card" in ended.text
    assert not any(mark in ended.text for mark in ("@all", "](", "https://e"))


def git(*words: str) -> None:
    """Git, with nothing of the machine's configuration."""
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *settings, *words], check=True, capture_output=True)


def test_a_card_of_a_git_revision(cardsign: Cardsign) -> None:
    """The path counts from the working directory, as git's `./` does."""
    git("init", "-q")
    Path("cards").mkdir()
    Path("old.json").rename("cards/card.json")
    git("add", "cards")
    git("commit", "-qm", "x")
    card("cards/card.json", "2.0.0", skills=[])
    assert cardsign("diff", "HEAD:cards/card.json", "cards/card.json").status == 0
    assert cardsign("diff", "cards/card.json", "cards/card.json").status == 0
    gone = cardsign("diff", "HEAD:absent.json", "cards/card.json")
    assert (gone.status, gone.err.split(":")[1].strip()) == (2, "file.not_found")
    assert "absent.json' does not exist in 'HEAD'" in gone.err
    assert "fatal:" not in gone.err
    commands = re.findall(r"`git (.*?)`", " ".join(gone.err.split()))
    assert len(commands) == 2
    for command in commands:
        git(*shlex.split(command))
    option = cardsign("diff", "--", "--batch:x", "cards/card.json")
    assert option.status == 2


def test_a_repository_starts_nothing(cardsign: Cardsign) -> None:
    """A partial clone names a remote and how to reach it; neither is asked."""
    git("init", "-q")
    git("commit", "-qm", "x", "--allow-empty")
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialclone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://e.example/x",
        "core.sshCommand": "touch ran; false",
        "core.fsmonitor": "touch ran",
    }.items():
        git("config", name, value)
    Path("old.json").rename("card.json")
    ended = cardsign("diff", "9" * 40 + ":card.json", "card.json")
    assert ended.status == 2
    assert not Path("ran").exists()


def test_a_file_that_is_named_like_a_revision(cardsign: Cardsign) -> None:
    """The file is read."""
    Path("old.json").rename("HEAD:card.json")
    assert cardsign("diff", "HEAD:card.json", card("new.json", "1.2.3")).status == 0
