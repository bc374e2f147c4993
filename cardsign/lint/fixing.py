"""Fix a card where that loses nothing of meaning.

What is fixed is what the findings call fixable. Members go that say what their absence says (null,
a default, outside everything about who may call), and protobuf spellings become camelCase. So the
payload of ``prune-empty`` and that of ``prune-empty-upgraded`` stay what they were, and that of
``rule-1-as-written`` but for members in protobuf spelling and nulls of 0.3. Values that a rule of
meaning repairs are changed in every payload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cardsign.card.document import Card, render, unsigned
from cardsign.card.strictjson import Json
from cardsign.lint.cards import RULES
from cardsign.lint.portability import lint_portability
from cardsign.lint.rules import Finding, LintSettings, Rule, Subject, Tokens, asked
from cardsign.records import dataclass

_RENAMED: Final = "portable.snake-case"


@dataclass(frozen=True, slots=True)
class FixResult:
    """What `fix` made of a card.

    Attributes:
        document: As given where nothing was fixed; else JSON with an indent of two spaces,
            member order kept, UTF-8, a newline at the end.
        fixed: What was found in the card that was given, and is no more. What could be seen
            only after a member had its right name has that name.
        left: What is found in `document`, by its pointers; nothing there is fixable.
        signatures_removed: How many signatures were taken off, since they were made over
            other bytes.
    """

    document: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    signatures_removed: int


def fix(untrusted_bytes: bytes, target: str | None = None) -> FixResult:
    """Fix what can be fixed in a card.

    Args:
        untrusted_bytes: The card, UTF-8 JSON.
        target: A name of :data:`cardsign.lint.TARGETS`: fix and report only what these readers
            need. None for ``portable`` and the rules of meaning that have a repair.

    Raises:
        JsonRefused, CardRefused: The bytes are no card that can be read one way only.
        UsageFault: There is no such target.
    """
    card = Card.from_bytes(untrusted_bytes)
    document: Mapping[str, Json] = card.document
    fixed: tuple[Finding, ...] = ()
    left = _findings(document, target)
    # Each round removes what it fixes and makes nothing of that kind, so this ends.
    while fixable := tuple(one for one in left if one.fixable):
        fixed += fixable
        # Of two findings at one place, what is dropped need not be renamed.
        by_place = sorted(fixable, key=lambda one: one.rule.id != _RENAMED)
        document = _members(unsigned(document), (), {one.tokens: one.rule for one in by_place})
        left = _findings(document, target)
    if not fixed:
        return FixResult(untrusted_bytes, (), left, 0)
    return FixResult(render(document), fixed, left, len(card.signatures))


def _findings(document: Mapping[str, Json], target: str | None) -> tuple[Finding, ...]:
    found = lint_portability(document, target or "portable")
    if target is None:
        subject = Subject(document, LintSettings())
        for rule in RULES.values():
            found += tuple(asked(rule, subject)) if rule.repair else ()
    return found


def _members(
    value: Mapping[str, Json], above: Tokens, rules: Mapping[Tokens, Rule]
) -> dict[str, Json]:
    kept = {}
    for name, child in value.items():
        tokens = (*above, name)
        rule = rules.get(tokens)
        if rule is None or rule.repair:
            kept[name] = _below(child, tokens, rules)
        elif rule.id == _RENAMED:
            kept[camel_case(name)] = _below(child, tokens, rules)
    return kept


def _below(value: Json, tokens: Tokens, rules: Mapping[Tokens, Rule]) -> Json:
    if isinstance(value, dict):
        value = _members(value, tokens, rules)
    elif isinstance(value, list):
        places = (((*tokens, str(index)), element) for index, element in enumerate(value))
        value = [_below(element, place, rules) for place, element in places]
    rule = rules.get(tokens)
    return rule.repair(value) if rule is not None and rule.repair else value


def camel_case(snake_name: str) -> str:
    """The JSON name of a protobuf field: ``icon_url`` is iconUrl."""
    return re.sub("_(.)", lambda match: match[1].upper(), snake_name)
