"""What lint finds unportable in a card."""

from __future__ import annotations

from typing import Any

from cardsign.findings import Finding
from cardsign.lint.portability import find_unportable
from cardsign.lint.rules import LintedCard


def unportable(card: Any) -> tuple[Finding, ...]:
    """The findings of the portability rules alone."""
    return tuple(find_unportable(LintedCard(card)))
