"""keys/: the project's own trust material is public, belongs together and says what it is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign import NotTrusted, NoVerdict, verify_card
from cardsign.trust.policy import Policy
from cardsign.trust.walk import SuppliedStatements

THEN = datetime(2026, 11, 24, tzinfo=UTC)  # between the release and its end


@pytest.fixture
def keys(root: Path) -> Path:
    """The folder."""
    return root / "keys"


def _verified(keys: Path, card: bytes, now: datetime, release: bytes | None = None) -> str:
    statements = SuppliedStatements(
        untrusted_keysets=((keys / "keyset/1.1.json").read_bytes(),),
        untrusted_releases=(release or (keys / "release.json").read_bytes(),),
    )
    policy = Policy.load(keys / "trust.toml")
    return str(
        verify_card(card, policy=policy, issuer="demo", statements=statements, now=now)["name"]
    )


def test_the_demo_card_is_trusted_by_the_committed_policy(keys: Path) -> None:
    """All four answers are yes while the release lasts."""
    assert _verified(keys, (keys / "agent-card.json").read_bytes(), THEN) == "Weather Desk"


def test_the_command_of_the_readme_shows_what_is_past(root: Path) -> None:
    """It names its time, so no date breaks it: four times yes, and status 3."""
    readme = (root / "keys/README.md").read_text("utf-8")
    (command,) = re.findall(r"^    cardsign (verify .*?\\\n.*)$", readme, re.MULTILINE)
    words = shlex.split(command.replace("\\\n", " "))
    done = subprocess.run(
        [sys.executable, "-m", "cardsign", *words, "--verbose"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    answers = re.findall(r"^  (?:integrity|authorised|current|complete) +(\w+)", done.stdout, re.M)
    assert answers == ["yes"] * 4


def test_no_workflow_leans_on_statements_that_end(root: Path) -> None:
    """Those of keys/ are of a day in 2026."""
    for workflow in root.glob(".github/**/*.yml"):
        assert "keys/release.json" not in workflow.read_text("utf-8"), workflow


def test_a_changed_demo_card_is_refused(keys: Path) -> None:
    """The negative twin."""
    card = (keys / "agent-card.json").read_bytes().replace(b"Weather Desk", b"Weather Dusk")
    with pytest.raises(NotTrusted):
        _verified(keys, card, THEN)


def test_the_demo_card_ends_with_its_release(keys: Path) -> None:
    """Nobody can renew it, since its keys are gone."""
    with pytest.raises((NoVerdict, NotTrusted)):
        _verified(keys, (keys / "agent-card.json").read_bytes(), datetime(2026, 12, 8, tzinfo=UTC))


@pytest.mark.parametrize("name", ["log.jsonl", "private/x.key", ".lock", "statements/x.json"])
def test_git_ignores_a_store_of_a_developer(root: Path, tmp_path: Path, name: str) -> None:
    """What `make keys` makes never becomes part of a commit."""
    (tmp_path / ".gitignore").write_bytes((root / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    command = ["git", "-C", str(tmp_path), "check-ignore", "-q", f"keys/{name}"]
    assert subprocess.run(command, check=False).returncode == 0
