"""What a type checker stops: an unverified card where a verified one is wanted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
from datetime import datetime
import json

from cardsign import Policy, VerifiedCard, examine_card, verify_card
from cardsign.trust import CardUrl

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
    report = examine_card(untrusted_bytes, expect=CardUrl(URL), policy=policy, now=now)
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
