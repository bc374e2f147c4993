"""The vectors that we publish for other implementations, put to our own verifier."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy
from tests.support import NOW, holder_of, reach_verdict

FILES = sorted((Path(__file__).parent / "vectors" / "cards").glob("*.json"))
MEMBERS = {"id", "says", "origin", "card_base64", "jwks", "accepted_profiles", "expect"}


def _read(path: Path) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(path.read_text())
    return vector


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_our_verifier_agrees_with_the_vector(path: Path) -> None:
    """Verdict, every signature's verdict, the weightiest reason, coverage."""
    vector = _read(path)
    jwks = JwkSet.from_bytes(json.dumps(vector["jwks"]).encode())
    policy = Policy.from_jwks(
        jwks, name="the vector's keys", accept="sdk", only=tuple(vector["accepted_profiles"])
    )
    card = base64.b64decode(vector["card_base64"], validate=True)
    report = reach_verdict(card, expect=holder_of(policy), policy=policy, now=NOW)
    trusted = report.verdict == "trusted"
    assert {
        "verdict": report.verdict,
        "signatures": [one.verdict for one in report.signatures],
        "reason": None if trusted else report.reasons[0].code,
        "uncovered": sorted(report.uncovered),
    } == vector["expect"]


def test_the_set_is_whole_and_shows_both_sides() -> None:
    """Every file is in the form of the README, and neither yes nor no to everything would do."""
    vectors = [_read(path) for path in FILES]
    assert len(vectors) > 50
    assert all(set(vector) == MEMBERS for vector in vectors)
    verdicts = Counter(vector["expect"]["verdict"] for vector in vectors)
    assert min(verdicts[name] for name in ("trusted", "untrusted", "invalid")) >= 10
    expected = [vector["expect"] for vector in vectors]
    assert all((one["reason"] is None) == (one["verdict"] == "trusted") for one in expected)
    assert not any("d" in key for vector in vectors for key in vector["jwks"]["keys"])
