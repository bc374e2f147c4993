"""Rules about portability: where the default profiles differ.

A document has no finding here exactly if :data:`cardsign.card.profiles.DEFAULT_PROFILES` all make
the same payload of it, although no payload is computed. These rules suffice because prune-empty
changes a document exactly where there is a finding; rule 1 drops nothing that prune-empty keeps;
and in what prune-empty leaves alone a2a-sdk's rewriting finds no 0.3 member.

Duplicate members, lone surrogates, excessive depth and numbers are refused by the strict reader
before any lint. An absent REQUIRED member makes no difference to the default profiles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from cardsign.card.document import Card, render, unsigned
from cardsign.card.schema import Field, Message
from cardsign.card.values import Json, finding_at, members_of
from cardsign.errors import closest
from cardsign.findings import Finding
from cardsign.lint.rules import LintedCard, Spot, Tokens

_MAX_MISSPELT: Final = 64  # characters of a name for which a similar one is looked for
_MAX_MISSPELT_IN: Final = 100  # members of an object in which it is


# No rule asks what it means that a 1.0 member is there, be it as null: that depends on the quirks
# of a2a-sdk's rewriting (cardsign.card.rules), which reads these.
_REWRITTEN: Final = frozenset(
    {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security", "type"}
    | {"supportsAuthenticatedExtendedCard"}
)
_DEPENDS_ON_REWRITING: Final = frozenset({"portable.null", "portable.snake-case"})


def find_unportable(card: LintedCard) -> Iterator[Finding]:
    """Yield what makes a card unportable, in document order.

    Says nothing of whether the card is complete, true or wise, nor of its signatures.
    """
    findings: list[Finding] = []
    for spot in card.spots:
        if spot.role == "member" and spot.message is not None:
            findings += _check_name(spot, spot.message)
        if spot.field is not None:
            findings += _check_value(spot, spot.field)
    # Where a2a-sdk would rewrite the card, less can be fixed without a change of its meaning.
    is_rewritten = any(_is_of_rewriting(finding) and not finding.fixable for finding in findings)
    for finding in findings:
        depends = finding.code in _DEPENDS_ON_REWRITING or _is_of_rewriting(finding)
        yield replace(finding, fixable=False) if is_rewritten and depends else finding


def _is_of_rewriting(finding: Finding) -> bool:
    """Return whether the rewriting reads it as a 0.3 member, whose null is not its absence."""
    return finding.code == "portable.legacy-member" and finding.place.tokens[-1] in _REWRITTEN


def _check_value(spot: Spot, field: Field) -> Iterator[Finding]:
    """Yield what is wrong with a value of a member that 1.0 has."""
    value = spot.value
    expected, type_name = field.expected if spot.role == "member" else field.element
    is_empty = value is None or value in ("", [], {})
    means_absence = spot.role == "member" and not spot.security
    if spot.role == "free":
        if is_empty:
            yield _finding("portable.empty-params", spot, f"is {json.dumps(value)}")
    elif value is not None and not isinstance(value, expected):
        yield _finding("portable.wrong-type", spot, f"expected {type_name}")
    elif means_absence and value is None:
        yield _finding("portable.null", spot, "is null", fixable=True)
    elif means_absence and not field.required and field.is_default(value):
        text = f"is {json.dumps(value)}, its default"
        yield _finding("portable.default", spot, text, fixable=True)
    elif is_empty or (value is False and not field.presence):
        code = "portable.empty-params" if field.kind == "free" else "portable.empty-value"
        code = "portable.empty-security" if spot.security else code
        yield _finding(code, spot, f"is {json.dumps(value)}")


def _check_name(spot: Spot, message: Message) -> Iterator[Finding]:
    """Yield what is wrong with the name of a member of an object that 1.0 has."""
    field, name, value = spot.field, spot.tokens[-1], spot.value
    if field is None and spot.old_field is not None:
        text = "a null member of A2A 0.3" if value is None else "a member of A2A 0.3"
        fixable = value is None and not spot.security
        yield _finding("portable.legacy-member", spot, text, fixable=fixable)
    elif field is None:
        text = f"neither A2A 1.0 nor 0.3 defines this member here{_suggest_name(spot, message)}"
        yield _finding("portable.unknown-member", spot, text)
    elif field.name != name:
        text = f"the protobuf spelling of {field.name}"
        yield _finding("portable.snake-case", spot, text, fixable=True)
    if field is not None and field.oneof and value is not None:
        members = takewhile(lambda member: member[0] != name, members_of(spot.owner).items())
        fields = (message.spelled.get(other) for other, child in members if child is not None)
        others = [other.name for other in fields if other is not None and other.oneof]
        if others:
            yield _finding("portable.oneof", spot, f"{others[-1]} and {field.name} in one object")


def _suggest_name(spot: Spot, message: Message) -> str:
    """Return which member may be meant by an unknown name, as the end of a sentence."""
    name = spot.tokens[-1]
    if len(members_of(spot.owner)) > _MAX_MISSPELT_IN or len(name) > _MAX_MISSPELT:
        return ""
    return closest(name, message.fields)


def _finding(code: str, spot: Spot, message: str, *, fixable: bool = False) -> Finding:
    return replace(finding_at(code, spot.tokens, message), fixable=fixable)


# Fixing.

_RENAMED: Final = "portable.snake-case"


@dataclass(frozen=True, slots=True)
class FixResult:
    """What `fix` made of a card.

    Attributes:
        document: As given where nothing was fixed; else JSON with an indent of two spaces,
            member order kept, UTF-8, a newline at the end.
        fixed: The findings that no longer apply. A finding that only showed after a member was
            renamed has the new name.
        signatures_removed: The number of signatures that were removed, because they no longer
            match.
    """

    document: bytes
    fixed: tuple[Finding, ...]
    signatures_removed: int


def fix(untrusted_bytes: bytes) -> FixResult:
    """Fix what makes a card unportable, where no meaning is lost.

    Exactly the findings that are `fixable` are fixed. Members that mean the same as their absence
    are removed (nulls and defaults, but none about security), and protobuf spellings become
    camelCase. The payloads of ``prune-empty`` and ``prune-empty-upgraded`` do not change; that of
    ``rule-1-as-written`` changes only by respelled members and nulls of 0.3.

    Args:
        untrusted_bytes: The card, UTF-8 JSON.

    Raises:
        JsonRefused, CardRefused: The card is ambiguous or not strict JSON.
    """
    card = Card.from_bytes(untrusted_bytes)
    document: Mapping[str, Json] = card.document
    fixed: tuple[Finding, ...] = ()
    # Each round removes what it fixes and adds nothing fixable, so this ends.
    while fixable := tuple(
        finding for finding in find_unportable(LintedCard(document)) if finding.fixable
    ):
        fixed += fixable
        # A member that is dropped need not be renamed.
        by_place = sorted(fixable, key=lambda finding: finding.code != _RENAMED)
        codes = {finding.place.tokens: finding.code for finding in by_place}
        document = members_of(_fixed(unsigned(document), (), codes))
    if not fixed:
        return FixResult(untrusted_bytes, (), 0)
    return FixResult(render(document), fixed, len(card.signatures))


def _fixed(value: Json, tokens: Tokens, codes: Mapping[Tokens, str]) -> Json:
    """Return a value without what is dropped in it, and with members renamed."""
    if isinstance(value, list):
        return [_fixed(part, (*tokens, str(index)), codes) for index, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Json] = {}
    for name, child in value.items():
        code = codes.get(place := (*tokens, name))
        if code in (None, _RENAMED):
            kept[camel_case(name) if code else name] = _fixed(child, place, codes)
    return kept


def camel_case(snake_name: str) -> str:
    """Return the JSON name of a protobuf field: ``icon_url`` is iconUrl."""
    return re.sub("_(.)", lambda match: match[1].upper(), snake_name)
