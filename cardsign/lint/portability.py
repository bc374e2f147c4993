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
from typing import Final

from cardsign.card.document import Card, render, unsigned
from cardsign.card.schema import Field, JsonType, fold
from cardsign.card.values import Json, members_of
from cardsign.errors import closest
from cardsign.findings import Finding
from cardsign.lint.rules import LintedCard, Rule, Spot, Tokens, apply_rules

_MAX_MISSPELT: Final = 64  # characters of a name for which a similar one is looked for


# Members of no 1.0 schema.


def unknown_member(spot: Spot) -> str | None:
    """Say that neither version has a member, in an object that 1.0 has."""
    if spot.role != "member" or spot.message is None or spot.field or spot.old_field:
        return None
    folded = {**(spot.old_message.folded if spot.old_message else {}), **spot.message.folded}
    name = spot.name or ""
    meant = folded.get(fold(name))
    hint = f"; did you mean {meant.name}?" if meant is not None else ""
    if not hint and len(name) <= _MAX_MISSPELT:
        hint = closest(name, [field.name for field in folded.values()])
    return f"neither A2A 1.0 nor 0.3 defines this member here{hint}"


def legacy_member(spot: Spot) -> str | None:
    """Say that only 0.3 has a member, in an object that 1.0 has."""
    if spot.role != "member" or spot.message is None or spot.field or not spot.old_field:
        return None
    return "a null member of A2A 0.3" if spot.value is None else "a member of A2A 0.3"


def snake_case(spot: Spot) -> str | None:
    """Say that a member has its other name, which protobuf's JSON readers take."""
    field = spot.field
    if spot.role != "member" or field is None or field.name == spot.name:
        return None
    return f"the protobuf spelling of {field.name}"


def oneof(spot: Spot) -> str | None:
    """Say that another member of the same oneof is set."""
    field, owner = spot.field, spot.owner
    if spot.role != "member" or field is None or not field.oneof or spot.value is None:
        return None
    chosen = None
    for name, value in owner.items() if isinstance(owner, dict) else ():
        if name == spot.name:
            break
        other = spot.message.spelled.get(name) if spot.message else None
        if other is not None and other.oneof and value is not None:
            chosen = other.name
    return None if chosen is None else f"{chosen} and {field.name} in one object"


# What a member holds.


def null(spot: Spot) -> str | None:
    """Say that a member is null, which means the same as its absence."""
    return "is null" if _is_null(spot) else None


def default(spot: Spot) -> str | None:
    """Say that a member has its default, which means the same as its absence."""
    return f"is {json.dumps(spot.value)}, its default" if _is_default(spot) else None


def empty_value(spot: Spot) -> str | None:
    """Say what the pruning profiles drop, unless it is free-form or about who may call."""
    field = spot.field
    return _empty(spot) if field and field.kind != "free" and not spot.security else None


def empty_params(spot: Spot) -> str | None:
    """Say what the pruning profiles drop of free-form content."""
    if spot.role == "free":
        return f"is {json.dumps(spot.value)}" if _is_empty(spot.value) else None
    field = spot.field
    return _empty(spot) if field and field.kind == "free" and not spot.security else None


def empty_security(spot: Spot) -> str | None:
    """Say what the pruning profiles drop of who may call."""
    return _empty(spot) if spot.role != "free" and spot.security else None


def wrong_type(spot: Spot) -> str | None:
    """Say that the schema of 1.0 has another type here."""
    expected = _expected(spot)
    if expected is None or spot.value is None or isinstance(spot.value, expected[0]):
        return None
    return f"expected {expected[1]}"


def _expected(spot: Spot) -> JsonType | None:
    """Return the JSON type that 1.0 has here; None where it has none."""
    if spot.field is None or spot.role not in ("member", "element"):
        return None
    return spot.field.expected if spot.role == "member" else spot.field.element


def _is_null(spot: Spot) -> bool:
    is_known = spot.role == "member" and spot.field is not None
    return is_known and spot.value is None and not spot.security


def _is_default(spot: Spot) -> bool:
    field: Field | None = spot.field
    if spot.role != "member" or field is None or field.required or spot.security:
        return False
    return field.is_default(spot.value)


def _empty(spot: Spot) -> str | None:
    """Say what is empty here, unless it is a null or default that is left out."""
    value, expected = spot.value, _expected(spot)
    if expected is None or not (value is None or isinstance(value, expected[0])):
        return None
    unset = value is False and spot.field is not None and not spot.field.presence
    if not (_is_empty(value) or unset) or _is_null(spot) or _is_default(spot):
        return None
    return f"is {json.dumps(value)}"


def _is_empty(value: Json) -> bool:
    return value is None or value in ("", [], {})


# No rule asks what it means that a 1.0 member is there, be it as null: that depends on the quirks
# of a2a-sdk's rewriting (cardsign.card.rules), which reads these.
_REWRITTEN: Final = frozenset(
    {"url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security", "type"}
    | {"supportsAuthenticatedExtendedCard"}
)
_DEPENDS_ON_REWRITING: Final = frozenset({"portable.null", "portable.snake-case"})


def find_unportable(card: LintedCard) -> Iterator[Finding]:
    """Yield what makes a card unportable, in document order by group of rules.

    Says nothing of whether the card is complete, true or wise, nor of its signatures.
    """
    findings = tuple(apply_rules(RULES, card))
    # Where a2a-sdk would rewrite the card, less can be fixed without a change of its meaning.
    is_rewritten = any(_is_of_rewriting(finding) and not finding.fixable for finding in findings)
    for finding in findings:
        if is_rewritten and (finding.code in _DEPENDS_ON_REWRITING or _is_of_rewriting(finding)):
            yield replace(finding, fixable=False)
        else:
            yield finding


def _is_of_rewriting(finding: Finding) -> bool:
    """Return whether the rewriting reads it as a 0.3 member, whose null is not its absence."""
    return finding.code == "portable.legacy-member" and finding.place.tokens[-1] in _REWRITTEN


def _always(_: Spot) -> bool:
    return True


def _is_idle(spot: Spot) -> bool:
    return spot.value is None and not spot.security


RULES: Final = {
    "portable.unknown-member": Rule("warning", unknown_member),
    "portable.legacy-member": Rule("warning", legacy_member, is_fixable=_is_idle),
    "portable.snake-case": Rule("warning", snake_case, is_fixable=_always),
    "portable.oneof": Rule("error", oneof),
    "portable.null": Rule("warning", null, is_fixable=_always),
    "portable.default": Rule("note", default, is_fixable=_always),
    "portable.empty-value": Rule("note", empty_value),
    "portable.empty-params": Rule("note", empty_params),
    "portable.empty-security": Rule("note", empty_security),
    "portable.wrong-type": Rule("error", wrong_type),
}


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
