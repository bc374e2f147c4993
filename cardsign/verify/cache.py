"""Trusted verdicts of before, in memory only, until the least of their deadlines.

A verdict is reused for the same bytes, subject, policy, statements and mode, never for the same
bytes alone: evil.example may serve a genuine card of somebody else (threat 3). It is not
kept on a disk: a check takes a fraction of a millisecond, and a forged verdict would be for ever.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Final, TypeAlias

from cardsign.lru import Lru
from cardsign.trust.policy import Expectation, Policy
from cardsign.trust.resolve import IssuerTrust
from cardsign.verify.report import Report, found_later, without_card

#: Verdicts; one holds a card of some 10 KiB, and 256 KiB at most.
DEFAULT_CAPACITY: Final = 1024


#: All that a verdict is about, but for the time; two that are equal get one verdict.
Matter: TypeAlias = tuple[object, ...]


def matter_of(
    untrusted_bytes: bytes, expect: Expectation | None, policy: Policy, trust: IssuerTrust
) -> Matter:
    """What the verdict on a card would be about."""
    digest = hashlib.sha256(untrusted_bytes).digest()
    return digest, expect, policy.digest, trust.fingerprint


class VerdictCache:
    """A bounded cache of trusted verdicts, for any number of threads.

    Verdicts other than ``trusted`` are not kept: what was missing may have come meanwhile.

    Args:
        capacity: Verdicts kept at most; the one used longest ago goes first.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        # Each with its card as JSON text, which no caller who changes his card can change.
        self._verdicts: Lru[Matter, tuple[Report, str]] = Lru(capacity)

    def __bool__(self) -> bool:
        return True  # an empty cache is one

    def __len__(self) -> int:
        return len(self._verdicts)

    def get(self, matter: Matter, now: datetime) -> Report | None:
        """The verdict reached before in the same matter, if it still holds; as of now."""
        report, card = self._verdicts.get(matter) or (None, "")
        if report is None or not _holds(report, now):
            return None
        return found_later(
            lambda name: json.loads(card) if name == "card" else getattr(report, name),
            checked_at=now,
        )

    def put(self, matter: Matter, now: datetime, report: Report) -> None:
        """Keep a verdict if it is ``trusted``."""
        if report.verdict != "trusted":
            return
        self._verdicts.put(matter, (without_card(report, now), json.dumps(report.card)))


def _holds(report: Report, now: datetime) -> bool:
    """Not before it was reached, for a key may not have counted then; not after it ends."""
    since, until = report.checked_at, report.valid_until
    return (since is None or since <= now) and (until is None or now < until)
