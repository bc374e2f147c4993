"""What ``transcripts/trust*.txt`` cannot tell: several people at once, another SDK's signature."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policyfile import read_policy
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, by_another_sdk, dump

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


def test_an_sdks_own_signature_counts_where_it_is_accepted(cardsign: Cardsign) -> None:
    """By keys alone, and by a policy whose entry does not say so."""
    key = PrivateKey.generate("ES256")
    Path("jwks.json").write_bytes(JwkSet.of([key.public]).to_bytes())
    card = {**PORTABLE, "documentationUrl": ""}
    Path("card.json").write_bytes(dump(by_another_sdk(card, key, "prune-empty")))
    origin = "https://tides.example"
    assert cardsign("trust", "add", "us", "--origin", origin, "--jwks", "jwks.json").status == 0
    for subject in (("--jwks", "jwks.json"), ("--issuer", "us")):
        assert cardsign("verify", "card.json", *subject).status == 1
        assert cardsign("verify", "card.json", *subject, "--accept", "sdk").status == 0
