"""Lint: what makes a card unfit for some of its readers, why, and how to fix it. Pure."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.lint.cards import GROUPS as GROUPS
    from cardsign.lint.cards import RULES as RULES
    from cardsign.lint.cards import CardReport as CardReport
    from cardsign.lint.cards import FixResult as FixResult
    from cardsign.lint.cards import camel_case as camel_case
    from cardsign.lint.cards import fix as fix
    from cardsign.lint.cards import lint_card as lint_card
    from cardsign.lint.cards import lint_references as lint_references
    from cardsign.lint.portability import lint_portability as lint_portability
    from cardsign.lint.rules import Example as Example
    from cardsign.lint.rules import Finding as Finding
    from cardsign.lint.rules import LintSettings as LintSettings
    from cardsign.lint.rules import Rule as Rule
    from cardsign.lint.rules import Waiver as Waiver

__getattr__ = lazy_names(__name__)
