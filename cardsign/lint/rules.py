"""Lint rules: what each finds, why it matters, what to do; the source of docs/reference/lint.md.

A rule's text and its check stand together, bound by :func:`rule`. The check is asked about every
value of a card (:mod:`cardsign.card.walk`) and says what is wrong with it, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeAlias

from cardsign.card.strictjson import Json, pointer
from cardsign.card.walk import Spot
from cardsign.records import dataclass

#: What is wrong with a value, without a final period; None where nothing is.
Check: TypeAlias = Callable[[Spot], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule, once released, keeps its id and what it means.

    Attributes:
        id: ``group.name``; the group is the target that the rule belongs to.
        summary: What it finds; one sentence.
        why: Which profiles disagree there, and what follows from that.
        fix: What a person can do about it.
        check: Finds it.
        fixable: Whether :func:`cardsign.lint.fix` fixes it, because that loses no meaning.
    """

    id: str
    summary: str
    why: str
    fix: str
    check: Check = field(compare=False)
    fixable: Callable[[Spot], bool] = field(compare=False)

    @property
    def group(self) -> str:
        """The target that the rule belongs to."""
        return self.id.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in a card that breaks a rule.

    Attributes:
        rule: The rule, which says why and how to fix it.
        tokens: The reference tokens (RFC 6901) of the member or element.
        message: What was found there, without a final period.
        fixable: :func:`cardsign.lint.fix` fixes it.
    """

    rule: Rule
    tokens: tuple[str, ...]
    message: str
    fixable: bool = False

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer; made anew each time."""
        return pointer(*self.tokens)

    def to_json(self) -> dict[str, Json]:
        """The finding for programs, with all that its rule says."""
        return {
            "rule": self.rule.id,
            "path": self.pointer,
            "message": self.message,
            "why": self.rule.why,
            "fix": self.rule.fix,
            "fixable": self.fixable,
        }


_RULES: Final[dict[str, Rule]] = {}


def never(_: Spot) -> bool:
    """What :func:`cardsign.lint.fix` leaves alone."""
    return False


def always(_: Spot) -> bool:
    """What :func:`cardsign.lint.fix` fixes wherever it is found."""
    return True


def rule(
    name: str, *, summary: str, why: str, fix: str, fixable: Callable[[Spot], bool] = never
) -> Callable[[Check], Check]:
    """Make a check the check of a new rule; the texts are those of :class:`Rule`."""

    def bind(check: Check) -> Check:
        _RULES[name] = Rule(name, summary, why, fix, check, fixable)
        return check

    return bind


def rules_of(group: str) -> tuple[Rule, ...]:
    """The rules of one group, in the order in which they were bound."""
    return tuple(one for one in _RULES.values() if one.group == group)
