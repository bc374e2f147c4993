"""What cards of 256 KiB that were made to be expensive cost their readers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the shapes, which tests use too

from cardsign.card import MAX_CARD_BYTES
from cardsign.explain import explain_card
from cardsign.jose import JwkSet
from cardsign.trust import Holder, Policy
from cardsign.verify import reach_verdict
from tests.hostile import KEY, SHAPES, card

_JWKS: Final = JwkSet.of([KEY.public])
_POLICY: Final = Policy.from_jwks(_JWKS, name="them", accept="sdk")
_NOW: Final = datetime(2026, 7, 1, tzinfo=UTC)

BARE: Final = "the bare primitive"
READERS: Final[dict[str, Callable[[bytes], object]]] = {
    "verify": lambda data: reach_verdict(data, expect=Holder(), policy=_POLICY, now=_NOW),
    "explain": lambda data: explain_card(data, jwks=_JWKS),
}


#: Of so many times the least counts: what else the machine does only adds to them.
TIMES: Final = 3
_BARE: Final = 500


def bare_verification(times: int = TIMES) -> float:
    """CPU seconds of one bare verification of 2 KB."""
    message = b"x" * 2048
    signature = KEY.sign(message)

    def check() -> None:
        for _ in range(_BARE):
            KEY.public.check(message, signature)

    return _least(check, times) / _BARE


def _least(work: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def hostile(size: int = MAX_CARD_BYTES, times: int = TIMES) -> dict[str, dict[str, float]]:
    """CPU seconds of each reader for each shape of card, and of the primitive just before."""
    found: dict[str, dict[str, float]] = {name: {} for name in (*READERS, BARE)}
    for shape in SHAPES:
        data = card(shape, size)
        found[BARE][shape] = bare_verification(times)
        for name, read in READERS.items():
            found[name][shape] = round(_least(partial(read, data), times), 3)
    return found
