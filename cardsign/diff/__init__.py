"""Diff: what changed between two cards, what breaks a caller, and the version it needs. Pure."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.diff.cards import CardDiff as CardDiff
    from cardsign.diff.cards import diff_cards as diff_cards
    from cardsign.diff.schemas import MAX_STEPS as MAX_STEPS
    from cardsign.diff.schemas import Change as Change
    from cardsign.diff.schemas import Work as Work
    from cardsign.diff.schemas import compare_schemas as compare_schemas

__getattr__ = lazy_names(__name__)
