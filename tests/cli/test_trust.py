"""`cardsign trust` of several people at once; ``transcripts/trust*.txt`` have the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cardsign.trust.policyfile import read_policy
from tests.cli.conftest import Cardsign

ROOT = Path(__file__).resolve().parents[2]


def test_several_people_enrol_at_once(cardsign: Cardsign) -> None:
    """Nobody's entry is lost."""
    policy = Path("trust.toml")
    policy.write_text("format = 1\n")
    names = [f"peer{number}" for number in range(3)]
    program = (sys.executable, "-m", "cardsign", "trust", "add")
    by_url = ("--jwks-url", "https://keys.example/k", "--origin")
    adding = [
        subprocess.Popen(
            [*program, name, *by_url, f"https://{name}.example"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for name in names
    ]
    assert [process.wait() for process in adding] == [0, 0, 0]
    assert sorted(issuer.name for issuer in read_policy(policy).issuers) == names
