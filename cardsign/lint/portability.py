"""Portability: where the default profiles differ.

A document is clean here exactly if :data:`cardsign.card.canonical.DEFAULT_PROFILES` all make
the same bytes of it. No payload is computed. The reason that these rules suffice: prune-empty
changes a document exactly where it is not clean; rule 1 drops nothing that prune-empty keeps;
and in what prune-empty leaves alone a2a-sdk's rewriting finds no 0.3 member.

Duplicate members, lone surrogates, excessive depth and numbers are refused by the strict reader
before any lint. An absent REQUIRED member makes no difference to the four profiles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from cardsign.card.schema import JSON_TYPES, Field, Shape, fold
from cardsign.card.spots import Spot
from cardsign.card.values import Json
from cardsign.lint.rules import (
    DEFAULT_SETTINGS,
    Example,
    Finding,
    Subject,
    always,
    asked,
    rule,
    rules_of,
)

_CONTAINERS: Final[dict[Shape, type]] = {"list": list, "map": dict}
_WORDING: Final = {str: "a string", bool: "true or false", dict: "an object", list: "a list"}


# ------------------------------------------------------------------ members of no 1.0 schema


@rule(
    "portable.unknown-member",
    "warning",
    bad=Example({"/x-berth": 4}),
    good=Example({"/iconUrl": "https://tides.example/i.png"}),
    summary="A member that neither A2A 1.0 nor 0.3 defines.",
    why="The full profiles sign it and the pruning ones drop it. So most SDKs would not notice "
    "a change of it.",
    fix="Put it into the `params` of an extension in `capabilities.extensions`, or leave it out.",
)
def unknown_member(spot: Spot) -> str | None:
    """A member of neither schema, where 1.0 knows the object in which it stands."""
    if spot.role != "member" or spot.message is None or spot.field or spot.old_field:
        return None
    known = {**(spot.old_message.folded if spot.old_message else {}), **spot.message.folded}
    meant = known.get(fold(spot.name or ""))
    hint = f"; did you mean {meant.name}?" if meant is not None else ""
    return f"neither A2A 1.0 nor 0.3 defines this member here{hint}"


@rule(
    "portable.legacy-member",
    "warning",
    bad=Example({"/preferredTransport": "JSONRPC"}),
    good=Example({}),
    summary="A member of A2A 0.3.",
    why="The full profiles sign it as it is, prune-empty drops it, and a2a-sdk rewrites it before "
    "it looks at the signature.",
    fix="Serve clients of 0.3 a document of their own, or leave it out. --fix drops it only if "
    "it is null.",
    fixable=lambda spot: spot.value is None and not spot.security,
)
def legacy_member(spot: Spot) -> str | None:
    """A member of 0.3 alone, where 1.0 knows the object in which it stands."""
    if spot.role != "member" or spot.message is None or spot.field or not spot.old_field:
        return None
    return "a null member of A2A 0.3" if spot.value is None else "a member of A2A 0.3"


@rule(
    "portable.snake-case",
    "warning",
    bad=Example({"/icon_url": "https://tides.example/i.png"}),
    good=Example({"/iconUrl": "https://tides.example/i.png"}),
    summary="A 1.0 member in its protobuf spelling.",
    why="The SDKs sign it under its camelCase name, and the full profiles under the name in the "
    "card. Clients that read plain JSON do not see it at all.",
    fix="Use the camelCase name. --fix does that, unless the card has a 0.3 member too.",
    fixable=always,
)
def snake_case(spot: Spot) -> str | None:
    """A member under the other name that protobuf's JSON readers take."""
    field = spot.field
    if spot.role != "member" or field is None or field.name == spot.name:
        return None
    return f"the protobuf spelling of {field.name}"


@rule(
    "portable.oneof",
    "error",
    bad=Example({"/securitySchemes/harbour/mtlsSecurityScheme": {"description": "d"}}),
    good=Example({"/securitySchemes/tls": {"mtlsSecurityScheme": {"description": "d"}}}),
    summary="Two members of which A2A 1.0 allows one, such as two kinds of one security scheme.",
    why="The full profiles sign both; clients that use protobuf refuse the card.",
    fix="Split them into two schemes, each with a name of its own.",
)
def oneof(spot: Spot) -> str | None:
    """A member beside another, of which one may be set."""
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


# ------------------------------------------------------------------ what a member holds


@rule(
    "portable.null",
    "warning",
    bad=Example({"/documentationUrl": None}),
    good=Example({}),
    summary="A member that is null.",
    why="served-as-is signs the null, and every other profile drops it.",
    fix="Leave the member out. --fix does that, unless the card has a 0.3 member too.",
    fixable=always,
)
def null(spot: Spot) -> str | None:
    """A null that says what the member's absence says."""
    return "is null" if _is_null(spot) else None


@rule(
    "portable.default",
    "note",
    bad=Example({"/skills/0/examples": []}),
    good=Example({"/skills/0/examples": ["When?"]}),
    summary="A non-REQUIRED member that holds its default: false, or empty.",
    why="served-as-is signs it, and every other profile drops it. Without it the card means the "
    "same.",
    fix="Leave the member out. --fix does that.",
    fixable=always,
)
def default(spot: Spot) -> str | None:
    """A default that says what the member's absence says."""
    return f"is {json.dumps(spot.value)}, its default" if _is_default(spot) else None


@rule(
    "portable.empty-value",
    "note",
    bad=Example({"/capabilities": {}}),
    good=Example({"/capabilities": {"streaming": False}}),
    summary="An empty member, list element or map entry that is not a default.",
    why="The full profiles keep it, and the pruning ones drop it. Where a list element is "
    "dropped, the elements after it move up.",
    fix="Give it a value, or leave it out if it is not REQUIRED and says nothing. `capabilities` "
    "needs one member: `streaming` is enough, true or false.",
)
def empty_value(spot: Spot) -> str | None:
    """What the pruning profiles drop, of all that is neither free-form nor about who may call."""
    field = spot.field
    return _empty(spot) if field and field.kind != "free" and not spot.security else None


@rule(
    "portable.empty-params",
    "note",
    bad=Example(
        {"/capabilities/extensions": [{"uri": "https://e.example/x", "params": {"a": ""}}]}
    ),
    good=Example(
        {"/capabilities/extensions": [{"uri": "https://e.example/x", "params": {"a": 0}}]}
    ),
    summary="Something null or empty in the `params` of an extension.",
    why="The full profiles keep everything in `params`; the pruning ones drop what is empty.",
    fix="Give it a value. Leave it out only if the extension treats that the same.",
)
def empty_params(spot: Spot) -> str | None:
    """What the pruning profiles drop of free-form content."""
    if spot.role == "free":
        return f"is {json.dumps(spot.value)}" if _is_empty(spot.value) else None
    field = spot.field
    return _empty(spot) if field and field.kind == "free" and not spot.security else None


@rule(
    "portable.empty-security",
    "note",
    bad=Example({"/securityRequirements/0/schemes/harbour/list": []}),
    good=Example({"/securityRequirements/0/schemes/harbour/list": ["read"]}),
    summary="Something null, empty or false in a member that says who may call.",
    why="The pruning profiles drop it. Most SDKs do not sign a scheme without scopes, which is "
    "the most common requirement. So anyone could remove it or add it.",
    fix="Name a scope if the scheme has one. Otherwise sign the card as it is: the full profiles "
    "cover the requirement. Never delete a requirement to satisfy this rule.",
)
def empty_security(spot: Spot) -> str | None:
    """What the pruning profiles drop of what says who may call."""
    return _empty(spot) if spot.role != "free" and spot.security else None


@rule(
    "portable.wrong-type",
    "error",
    bad=Example({"/capabilities/streaming": "yes"}),
    good=Example({"/capabilities/streaming": False}),
    summary="A member of A2A 1.0 with the wrong JSON type.",
    why="The full profiles sign it as it is. SDKs refuse it, convert it, or read it as empty.",
    fix="Give the member the type that A2A 1.0 names.",
)
def wrong_type(spot: Spot) -> str | None:
    """A value that the schema of 1.0 does not allow here."""
    expected = _expected(spot)
    if expected is None or spot.value is None or isinstance(spot.value, expected):
        return None
    return f"expected {_WORDING[expected]}"


def _expected(spot: Spot) -> type | None:
    """The JSON type that 1.0 wants here; None where it wants none."""
    field = spot.field
    if field is None or spot.role not in ("member", "element"):
        return None
    whole = _CONTAINERS.get(field.shape) if spot.role == "member" else None
    return whole or JSON_TYPES[field.kind][0]


def _is_null(spot: Spot) -> bool:
    known = spot.role == "member" and spot.field is not None
    return known and spot.value is None and not spot.security


def _is_default(spot: Spot) -> bool:
    field: Field | None = spot.field
    if spot.role != "member" or field is None or field.required or spot.security:
        return False
    return field.is_default(spot.value)


def _empty(spot: Spot) -> str | None:
    """What is empty here and neither a null nor a default to be left out."""
    value, expected = spot.value, _expected(spot)
    if expected is None or not (value is None or isinstance(value, expected)):
        return None
    unset = value is False and spot.field is not None and not spot.field.presence
    if not (_is_empty(value) or unset) or _is_null(spot) or _is_default(spot):
        return None
    return f"is {json.dumps(value)}"


def _is_empty(value: Json) -> bool:
    return value is None or value in ("", [], {})


# ------------------------------------------------------------------ all of them

# Not among these: what it means that a 1.0 member is there, be it as null, hangs on the quirks of
# a2a-sdk's rewriting (cardsign.card.profiles.rules).
_REWRITTEN: Final = frozenset(
    {
        "url",
        "preferredTransport",
        "protocolVersion",
        "additionalInterfaces",
        "supportsAuthenticatedExtendedCard",
        "security",
        "type",
    }
)
_DEPENDS_ON_REWRITING: Final = frozenset({"portable.null", "portable.snake-case"})


def lint_portability(document: Mapping[str, Json]) -> tuple[Finding, ...]:
    """List what makes a card unportable, in document order by group of rules.

    Says nothing of whether the card is complete, true or wise, nor of its signatures.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it: what that
            refuses, such as a duplicate member or 2^53, no rule looks for.
    """
    return tuple(find_unportable(Subject(document, DEFAULT_SETTINGS)))


def find_unportable(subject: Subject) -> Iterator[Finding]:
    """As :func:`lint_portability`, of a card that other rules look at, too."""
    findings = tuple(asked(rules_of("portable"), subject))
    # Where a2a-sdk would rewrite the card, less can be fixed without a change of its meaning.
    is_rewritten = any(_is_of_rewriting(finding) and not finding.fixable for finding in findings)
    for finding in findings:
        if is_rewritten and (finding.rule.id in _DEPENDS_ON_REWRITING or _is_of_rewriting(finding)):
            yield replace(finding, fixable=False)
        else:
            yield finding


def _is_of_rewriting(finding: Finding) -> bool:
    """Whether it is a 0.3 member that the rewriting reads: its null, too, is not its absence."""
    return finding.rule.id == "portable.legacy-member" and finding.tokens[-1] in _REWRITTEN
