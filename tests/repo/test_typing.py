"""What a type checker stops: an unverified card where a verified one is wanted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
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


def test_only_a_verified_card_passes_for_one(root: Path, tmp_path: Path) -> None:
    """Each hasty line is an error and the honest ones are not."""
    file = tmp_path / "caller.py"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    stopped = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    hasty = {at for at, line in enumerate(PROGRAM.splitlines(), 1) if "  # " in line}
    assert len(hasty) == 6
    assert stopped == hasty


PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_of(pages: Iterable[Path], folder: Path) -> list[Path]:
    """Each Python block of a page but the tests, which few annotate, in a file of its own."""
    files = []
    for page in pages:
        for index, body in enumerate(PYTHON.findall(page.read_text(encoding="utf-8"))):
            if "def test_" in body:
                continue
            files.append(folder / f"{page.stem.lower().replace('-', '_')}_{index}.py")
            files[-1].write_text(body)
    return files


@pytest.mark.needs_a2a  # with FastAPI, which the page for Python mounts
def test_what_the_pages_show_has_the_right_types(root: Path, tmp_path: Path) -> None:
    """A reader who copies a block into a strictly typed program has nothing to add."""
    pages = [root / "README.md", root / "docs/guides/python.md"]
    files = python_of(pages, tmp_path)
    assert len(files) > len(pages)
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
