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
LATER = datetime(2026, 12, 8, tzinfo=UTC)


def test_the_demo_card_is_trusted_until_its_release_ends(root: Path) -> None:
    """By the committed policy; a changed one never is, and nobody can renew it."""
    keys = root / "keys"
    statements = SuppliedStatements(
        untrusted_keysets=((keys / "keyset/1.1.json").read_bytes(),),
        untrusted_releases=((keys / "release.json").read_bytes(),),
    )
    how = {"policy": Policy.load(keys / "trust.toml"), "issuer": "demo", "statements": statements}
    card = (keys / "agent-card.json").read_bytes()
    assert verify_card(card, now=THEN, **how)["name"] == "Weather Desk"
    for data, now in ((card.replace(b"Weather Desk", b"Weather Dusk"), THEN), (card, LATER)):
        with pytest.raises((NotTrusted, NoVerdict)):
            verify_card(data, now=now, **how)


def test_the_command_of_the_readme_shows_what_is_past(root: Path) -> None:
    """It names its time, so no date breaks it: four times yes, and status 3."""
    readme = (root / "keys/README.md").read_text("utf-8")
    (command,) = re.findall(r"^    cardsign (verify .*?\\\n.*)$", readme, re.MULTILINE)
    words = [*shlex.split(command.replace("\\\n", " ")), "--verbose"]
    program = [sys.executable, "-m", "cardsign", *words]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    answers = re.findall(r"^  (?:integrity|authorised|current|complete) +(\w+)", done.stdout, re.M)
    assert answers == ["yes"] * 4


def test_git_ignores_a_store_of_a_developer(root: Path, tmp_path: Path) -> None:
    """What `make keys` makes never becomes part of a commit."""
    (tmp_path / ".gitignore").write_bytes((root / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    names = ["keys/log.jsonl", "keys/private/x.key", "keys/.lock", "keys/statements/x.json"]
    ignored = subprocess.check_output(["git", "-C", tmp_path, "check-ignore", *names], text=True)
    assert ignored.split() == names
