"""Lint: what makes a card unfit for some of its readers, why, and how to mend it. Pure."""

from cardsign.card.lint.findings import Finding, Rule
from cardsign.card.lint.mend import Mending, fix
from cardsign.card.lint.rules import RULES
from cardsign.card.lint.targets import TARGETS, Target, lint

__all__ = ["RULES", "TARGETS", "Finding", "Mending", "Rule", "Target", "fix", "lint"]
