"""Lint: what makes a card unfit for some of its readers, why, and how to fix it. Pure."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.lint.fixing import FixResult as FixResult
    from cardsign.lint.fixing import camel_case as camel_case
    from cardsign.lint.fixing import fix as fix
    from cardsign.lint.rules import Finding as Finding
    from cardsign.lint.targets import RULES as RULES
    from cardsign.lint.targets import TARGETS as TARGETS
    from cardsign.lint.targets import lint_document as lint_document

_NAMES = {
    "fixing": "FixResult camel_case fix",
    "rules": "Finding",
    "targets": "RULES TARGETS lint_document",
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
