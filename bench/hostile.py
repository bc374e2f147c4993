"""What cards of 256 KiB that were made to be expensive cost a verdict."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the shapes, which tests use too

from measuring import table

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy, Subject
from cardsign.verify.verifier import Verifier
from tests.hostile import KEY, SHAPES, card

_POLICY: Final = Policy.from_jwks(JwkSet.of([KEY.public]), name="them", accept="sdk")
_NOW: Final = datetime(2026, 7, 1, tzinfo=UTC)
_SHOWN: Final = 3


def measure_hostile() -> dict[str, str]:
    """Return the table `hostile`: the shapes that cost a verdict most, in seconds of CPU."""
    seconds = {shape: _verify(card(shape, MAX_CARD_BYTES)) for shape in SHAPES}
    worst = sorted(seconds.items(), key=lambda row: -row[1])[:_SHOWN]
    rows = ([shape, f"{cost:.2f}"] for shape, cost in worst)
    return {"hostile": table([f"the worst of {len(SHAPES)} shapes", "seconds"], *rows)}


def _verify(untrusted_bytes: bytes) -> float:
    start = time.process_time()
    Verifier(_POLICY, clock=lambda: _NOW).judge(
        untrusted_bytes, Subject(issuer=_POLICY.issuers[0].name)
    )
    return time.process_time() - start
