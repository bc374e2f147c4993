"""Fix a card where that loses nothing of meaning.

What is fixed is what the findings call fixable: members that say what their absence says
(null, a default, outside everything about who may call), and protobuf spellings. So the
payload of ``prune-empty`` and that of ``prune-empty-upgraded`` stay what they were, and that of
``rule-1-as-written`` but for members in protobuf spelling and nulls of 0.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Final, TypeAlias

from cardsign.card.document import Card, render
from cardsign.card.strictjson import Json
from cardsign.lint.portability import lint_portability
from cardsign.lint.rules import Finding
from cardsign.records import dataclass

_RENAMED: Final = "portable.snake-case"
_Tokens: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FixResult:
    """What `fix` made of a card.

    Attributes:
        document: As given where nothing was fixed; else JSON with an indent of two spaces,
            member order kept, UTF-8, a newline at the end.
        fixed: What was found in the card that was given, and is no more.
        left: What is found in `document`, by its pointers; nothing there is fixable.
        signatures_removed: How many signatures were taken off, since they were made over
            other bytes.
    """

    document: bytes
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]
    signatures_removed: int


def fix(untrusted_bytes: bytes, target: str = "portable") -> FixResult:
    """Fix what can be fixed in a card.

    Args:
        untrusted_bytes: The card, UTF-8 JSON.
        target: A name of :data:`cardsign.lint.TARGETS`.

    Raises:
        JsonRefused, CardRefused: The bytes are no card that can be read one way only.
        UsageFault: There is no such target.
    """
    card = Card.from_bytes(untrusted_bytes)
    findings = lint_portability(card.document, target)
    fixed = tuple(finding for finding in findings if finding.fixable)
    if not fixed:
        return FixResult(untrusted_bytes, (), findings, 0)
    unsigned = {name: value for name, value in card.document.items() if name != "signatures"}
    renamed = {one.tokens for one in fixed if one.rule.id == _RENAMED}
    dropped = {one.tokens for one in fixed if one.rule.id != _RENAMED}
    document = _members(unsigned, (), renamed, dropped)
    left = lint_portability(document, target)
    return FixResult(render(document), fixed, left, len(card.signatures))


def _members(
    value: Mapping[str, Json], above: _Tokens, renamed: Set[_Tokens], dropped: Set[_Tokens]
) -> dict[str, Json]:
    kept = {}
    for name, child in value.items():
        tokens = (*above, name)
        if tokens in dropped:
            continue
        new_name = camel_case(name) if tokens in renamed else name
        kept[new_name] = _below(child, tokens, renamed, dropped)
    return kept


def _below(value: Json, tokens: _Tokens, renamed: Set[_Tokens], dropped: Set[_Tokens]) -> Json:
    if isinstance(value, dict):
        return _members(value, tokens, renamed, dropped)
    if isinstance(value, list):
        places = (((*tokens, str(index)), element) for index, element in enumerate(value))
        return [_below(element, place, renamed, dropped) for place, element in places]
    return value


def camel_case(snake_name: str) -> str:
    """The JSON name of a protobuf field: ``icon_url`` is iconUrl."""
    return re.sub("_(.)", lambda match: match[1].upper(), snake_name)
