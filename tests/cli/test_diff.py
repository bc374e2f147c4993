"""`cardsign diff`: files, git revisions, words, Markdown, and the exit status."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, dump


def git(*words: str) -> None:
    """Git, with nothing of the machine's configuration."""
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *settings, *words], check=True, capture_output=True)


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
    Path("card.json").write_bytes(dump(PORTABLE))
    ended = cardsign("diff", "9" * 40 + ":card.json", "card.json")
    assert ended.status == 2
    assert not Path("ran").exists()
