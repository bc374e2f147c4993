"""Whom a card is to be fit for, and which rules that takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.strictjson import Json
from cardsign.card.walk import walk
from cardsign.errors import UsageFault
from cardsign.lint import portable as portable  # their rules bind themselves
from cardsign.lint import sdks as sdks
from cardsign.lint.rules import Finding, Rule, rules_of
from cardsign.records import dataclass

_PORTABLE: Final = "portable"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of reader, or all of them.

    Attributes:
        name: What ``--for`` takes; its own rules carry it in their ids.
        summary: What a card without findings is; for after that verb.
    """

    name: str
    summary: str

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of rules that it takes; every target takes the portable ones."""
        return tuple(dict.fromkeys((_PORTABLE, self.name)))


TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        Target(
            _PORTABLE,
            "one for which the four default profiles make the same bytes, so that one signature "
            "serves them all",
        ),
        Target(
            "js-resolver",
            "portable, and the client of @a2a-js/sdk (1.0.1 to 1.3.0) verifies it by the same "
            "bytes (profile `js-instance`)",
        ),
        Target(
            "py-1.1",
            "portable, and a2a-sdk 1.0.0 to 1.1.3 verifies it by the same bytes (profile "
            "`sdk-1.0-legacy`)",
        ),
    )
}


#: All rules by their ids, by target.
RULES: Final[dict[str, Rule]] = {one.id: one for name in TARGETS for one in rules_of(name)}


def lint_document(document: Mapping[str, Json], target: str = "portable") -> tuple[Finding, ...]:
    """List what makes a card unfit for a target, in document order by group of rules.

    Says nothing of whether the card is complete, true or wise, nor of its signatures.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it: what that
            refuses, such as a duplicate member or 2^53, no rule looks for.
        target: A name of :data:`TARGETS`.

    Raises:
        UsageFault: ``usage.conflict``: there is no such target.
    """
    if target not in TARGETS:
        known = ", ".join(TARGETS)
        raise UsageFault("usage.conflict", f"unknown target {target!r}; known are {known}")
    return tuple(one for group in TARGETS[target].groups for one in _findings(document, group))


def _findings(document: Mapping[str, Json], group: str) -> Iterator[Finding]:
    """What breaks the rules of one group, in document order."""
    rules = rules_of(group)
    found = (
        Finding(rule, spot.tokens, message, rule.fixable(spot))
        for spot in walk(document)
        for rule in rules
        if (message := rule.check(spot)) is not None
    )
    yield from portable.beside_legacy_members(found) if group == _PORTABLE else found
