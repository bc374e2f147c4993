"""Is it strict JSON, and are the members of its A2A version there, with their types?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.interfaces import interfaces_of
from cardsign.card.schema import snake
from cardsign.card.strictjson import MAX_CARD_BYTES, Json, members_of, split, value_at
from cardsign.errors import InputRefused
from cardsign.lint.rules import Example, Finding, Found, Rule, Subject, add_rule, card_rule
from cardsign.reasons import REASONS

_GOOD: Final = Example({}, written=b"{}")
# Of a flat scheme, `type` alone is reported.
_FOLLOWS_TYPE: Final = ("in", "name", "scheme", "flows", "bearerFormat", "openIdConnectUrl")
_A2A: Final = "A2A 1.0 4.4, 0.3 5.5"

# What the strict reader refuses: one rule for each of its codes, in the words of the registry.

_UNREADABLE: Final[dict[str, bytes]] = {
    "json.too_large": b" " * (MAX_CARD_BYTES + 1),
    "json.too_many_values": b'{"a": [' + b"0, " * 20_000 + b"0]}",
    "json.not_utf8": b'{"name": "\xff"}',
    "json.bom": b'\xef\xbb\xbf{"name": "a"}',
    "json.syntax": b"{'name': 1}",
    "json.duplicate_member": b'{"name": "a", "name": "b"}',
    "json.number": b'{"a": NaN}',
    "json.integer_range": b'{"a": 9007199254740993}',
    "json.surrogate": b'{"a": "\\ud800"}',
    "json.depth": b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
    "json.trailing": b"{} {}",
    "json.not_object": b"[]",
    "card.two_spellings": b'{"iconUrl": "a", "icon_url": "b"}',
    "card.signatures_shape": b'{"signatures": {}}',
    "card.signatures_too_many": b'{"signatures": [' + b"{}, " * 16 + b"{}]}",
}
_JSON_WHY: Final = (
    "Readers disagree about such bytes or refuse them. They are neither signed nor verified."
)


def _read_rule(code: str, bad: bytes) -> Rule:
    known = REASONS[code]
    # What is refused of JSON that could be read is about members.
    name = code if code.startswith("json.") else code.replace("card.", "members.").replace("_", "-")
    texts = known.meaning, _JSON_WHY, known.hint, "RFC 8259, 7493"
    return add_rule(name, "error", *texts, bad=Example({}, written=bad), good=_GOOD)


_READING: Final = {code: _read_rule(code, bad) for code, bad in _UNREADABLE.items()}


def unreadable(refusal: InputRefused) -> Finding:
    """What the strict reader says of bytes, as a finding."""
    rule = _READING[refusal.code]
    tokens = tuple(split(refusal.path)) if refusal.path.startswith("/") else ()
    return Finding(rule, tokens, refusal.message, line=refusal.line, column=refusal.column)


# What the schema of the card's A2A version asks for.

_ENDPOINTS: Final = (("supportedInterfaces",), ("url",))


@card_rule(
    "members.missing",
    "error",
    summary="A REQUIRED member is missing.",
    why="A2A calls it REQUIRED. SDKs refuse the card, or fill in an empty value.",
    fix="Add the member. Whatever the card's source calls optional, A2A decides.",
    reference=_A2A,
    bad=Example({"/description": ...}),
    good=Example({"/provider": ...}),
)
def missing(subject: Subject) -> Iterator[Found]:
    """Absent, or null, under the name that the schema gives it."""
    groups = subject.settings.groups
    is_said = (groups is None or "meaning" in groups) and not any(interfaces_of(subject.document))
    for problem in subject.problems:
        if problem.missing:
            tokens = tuple(split(problem.pointer))
            if is_said and tokens in _ENDPOINTS:
                continue  # meaning.no-interface says what that comes to
            yield tokens, problem.message + _said_otherwise(subject.document, tokens)


def _said_otherwise(document: Mapping[str, Json], tokens: tuple[str, ...]) -> str:
    """A hint at the member's protobuf spelling, where the card has that."""
    other = snake(tokens[-1])
    is_there = other != tokens[-1] and other in members_of(value_at(document, tokens[:-1]))
    return f"; the card spells it {other}, which few readers know" if is_there else ""


@card_rule(
    "members.type",
    "error",
    summary="A member of the A2A schema has the wrong JSON type.",
    why="SDKs refuse the card, convert the value, or read it as empty.",
    fix="Give the member the type that A2A names. What A2A has no place for goes into the `params` "
    "of an extension.",
    reference=_A2A,
    bad=Example({"/capabilities": ["streaming"]}),
    good=Example({"/capabilities": {"streaming": True}}),
)
def wrong_type(subject: Subject) -> Iterator[Found]:
    """Held against the schema of the card's version; of both where it is of both."""
    for problem in subject.problems:
        if not problem.missing:
            yield tuple(split(problem.pointer)), problem.message


@card_rule(
    "members.empty",
    "warning",
    summary="A REQUIRED text or list is empty.",
    why="A2A wants at least one element in a REQUIRED list (1.0 5.7), and an empty text says "
    "nothing. The conformance kit of 0.3 and a2a-inspector refuse an agent without skills.",
    fix="Fill it in.",
    reference="A2A 1.0 5.7",
    bad=Example({"/skills": []}),
    good=Example({"/skills/0/examples": ["When?"]}),
)
def empty(subject: Subject) -> Iterator[Found]:
    """In either version's sense."""
    for spot in subject.spots:
        field = spot.field or spot.old_field
        if spot.role != "member" or field is None or not field.required:
            continue
        if spot.value == "" or (spot.value == [] and isinstance(spot.value, list)):
            yield spot.tokens, "is empty"


@card_rule(
    "members.version",
    "error",
    summary="A member of one A2A version in a card of the other.",
    why="Readers of the card's version do not know the member. A requirement of callers that is "
    "written so is not seen at all.",
    fix="Write it as the card's version does. A card for both versions has the interfaces of both.",
    reference=_A2A,
    bad=Example({"/security": [{"harbour": []}]}),
    good=Example({}, "0.3"),
)
def of_the_other_version(subject: Subject) -> Iterator[Found]:
    """Only where the card is plainly of one version."""
    if subject.a2a_version not in ("1.0", "0.3"):
        return
    other = "0.3" if subject.a2a_version == "1.0" else "1.0"
    for spot in subject.spots:
        field, old_field = spot.field, spot.old_field
        mine, theirs = (field, old_field) if other == "0.3" else (old_field, field)
        if spot.tokens[0] == "securitySchemes" and spot.name in _FOLLOWS_TYPE:
            continue
        if spot.role == "member" and spot.value is not None and theirs and not mine:
            yield spot.tokens, f"A2A {other} has this member, and {subject.a2a_version} has not"
