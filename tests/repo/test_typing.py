"""What a type checker stops: an unverified card where a verified one is wanted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from datetime import datetime
import json

from cardsign import Policy, VerifiedCard, examine_card, verify_card

URL = "https://tides.example/.well-known/agent-card.json"


def call(card: VerifiedCard) -> None: ...


def honest(untrusted_bytes: bytes, policy: Policy, now: datetime) -> None:
    card = verify_card(untrusted_bytes, policy=policy, url=URL, now=now)
    call(card)
    print(card.document["skills"][0]["id"], card["skills"][0]["id"])


def hasty(
    untrusted_bytes: bytes, policy: Policy, now: datetime, card: VerifiedCard
) -> None:
    untrusted: dict[str, object] = json.loads(untrusted_bytes)
    call(untrusted)  # a parsed file
    call(untrusted_bytes)  # the bytes
    report = examine_card(untrusted_bytes, url=URL, policy=policy, now=now)
    call(report)  # a verdict, whatever it is
    call(report.card)  # what may be None
    call(VerifiedCard(report))  # of one's own making
    verify_card(card, policy=policy, url=URL)  # what is verified already
"""


def errors(root: Path, *files: Path) -> set[tuple[str, int]]:
    """The files and lines that mypy --strict objects to."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, files)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found = re.findall(r"^(.+):(\d+): error:", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found}


@pytest.mark.needs_a2a  # with FastAPI, which the page for Python mounts
def test_only_a_verified_card_passes_for_one(root: Path, tmp_path: Path) -> None:
    """Each hasty line is an error; the honest ones and what the pages show are not."""
    files = [tmp_path / "caller.py"]
    files[0].write_text(PROGRAM)
    for page in (root / "README.md", root / "docs/guides/python.md"):
        text = page.read_text(encoding="utf-8")
        for body in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if "def test_" not in body:  # few annotate those
                files.append(tmp_path / f"page_{len(files)}.py")
                files[-1].write_text(body)
    assert len(files) > 3
    hasty = {("caller.py", at) for at, line in enumerate(PROGRAM.split("\n"), 1) if "  # " in line}
    assert len(hasty) == 6
    assert errors(root, *files) == hasty
