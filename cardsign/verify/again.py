"""When a verdict is worth asking for once more: copies of different ages met (threats.md 15)."""

from __future__ import annotations

from typing import Final

from cardsign.verdict import Report

# What a copy that is older than another explains.
_OF_TWO_AGES: Final = frozenset(
    {
        "card.digest_unlisted",
        "card.rollback",
        "extended.ahead",
        "extended.rollback",
        "key.expired",
        "key.revoked",
        "key.unknown",
        "statement.expired",
        "statement.gap",
        "statement.keyset",
        "statement.rollback",
    }
)


def ask_again(report: Report) -> bool:
    """Whether copies of different ages may explain a verdict, so that all are fetched anew, once.

    Card, release and keyset lie in caches of their own, and are replaced at different times.
    """
    codes = {reason.code for reason in report.reasons}
    return report.verdict != "trusted" and not codes.isdisjoint(_OF_TWO_AGES)
