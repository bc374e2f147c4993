"""When to ask once more: only where copies of two ages explain the verdict."""

from __future__ import annotations

import pytest

from cardsign.findings import Finding
from cardsign.verify.report import Answers, Report, Verdict, ask_again

CASES: dict[str, tuple[Verdict, str, bool]] = {
    "a new card before an old release": ("untrusted", "card.digest_unlisted", True),
    "an old card before a new floor": ("untrusted", "card.rollback", True),
    "a card by a key that an old keyset lacks": ("untrusted", "key.unknown", True),
    "a release of another keyset": ("indeterminate", "statement.keyset", True),
    "a card that is trusted": ("trusted", "statement.keyset", False),
    "a bad signature": ("untrusted", "sig.bad", False),
    "an old card by a key that is revoked by now": ("untrusted", "key.revoked", True),
    "an old release": ("indeterminate", "statement.expired", True),
    "a fork": ("indeterminate", "statement.fork", False),
}


@pytest.mark.parametrize(("verdict", "code", "again"), CASES.values(), ids=CASES)
def test_it_is_asked_again_where_that_can_help(verdict: Verdict, code: str, again: bool) -> None:
    """Once, uncached, for all three (threat 15)."""
    report = Report(verdict, "tides", Answers(), (Finding(code, "so it is"),))
    assert ask_again(report) is again
