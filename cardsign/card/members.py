"""A card held against the schemas of A2A 1.0 and 0.3: its values, and which of them do not fit.

Where a schema ends (an unknown member, a value of another type, free-form content) :func:`walk`
goes on, so that a search finds every place. Nothing is converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cardsign.card.document import DocumentVersion, unsigned
from cardsign.card.schema import CARD_0_3, CARD_1_0, JSON_TYPES, Field, Message
from cardsign.card.values import Json, children_of, finding_at, pointer
from cardsign.findings import Finding

#: ``member`` of an object for which a schema has a message; ``element`` of a list or map that a
#: field holds; ``free`` for what stands inside free-form content of 1.0; ``outside`` otherwise.
Role = Literal["member", "element", "free", "outside"]


@dataclass(slots=True)
class Spot:
    """One value of a document, and what the schemas say about its place.

    Attributes:
        tokens: The reference tokens (RFC 6901) of its pointer.
        name: Of the member; None for an element of a list.
        value: The value itself.
        role: In which way it stands there.
        owner: The object or list in which it stands.
        message: What 1.0 says of that object; None where 1.0 knows nothing of it.
        field: The field of 1.0 that it is, or that holds it.
        old_field: The field of 0.3, likewise.
        security: It is, or stands in, a member that says who may call, and how.
        old_message: What 0.3 says of the object in which it stands.
    """

    tokens: tuple[str, ...]
    name: str | None
    value: Json
    role: Role
    owner: Mapping[str, Json] | list[Json]
    message: Message | None = None
    field: Field | None = None
    old_field: Field | None = None
    security: bool = False
    old_message: Message | None = None

    @property
    def pointer(self) -> str:
        """Where it stands, as a JSON pointer; made anew each time."""
        return pointer(*self.tokens)


def walk(document: Mapping[str, Json]) -> Iterator[Spot]:
    """Every member and element of a card but `signatures`, in document order, each before its own.

    Fields of 1.0 are found in both spellings of proto3 JSON, and those of 0.3 by the same name.

    Args:
        document: As :func:`cardsign.card.strictjson.parse_object` reads it.
    """
    return _members(unsigned(document), (), CARD_1_0, CARD_0_3, False)


def _members(
    owner: Mapping[str, Json],
    above: tuple[str, ...],
    message: Message | None,
    old: Message | None,
    security: bool,
) -> Iterator[Spot]:
    for name, value in owner.items():
        field = message.spelled.get(name) if message else None
        old_field = old.fields.get(field.name if field else name) if old else None
        secure = security or any(
            entry is not None and entry.security for entry in (field, old_field)
        )
        context = message, field, old_field, secure, old
        spot = Spot((*above, name), name, value, "member", owner, *context)
        yield spot
        yield from _inside(spot, value)


def _inside(spot: Spot, value: Json) -> Iterator[Spot]:
    """What a member holds: the elements or entries of its field, or its one value's members."""
    field = spot.field or spot.old_field
    if field is None or not isinstance(value, dict | list):
        yield from _below(spot, value, "outside")
    elif field.shape == "one":
        yield from _content(spot, field, value)
    elif isinstance(value, list if field.shape == "list" else dict):
        for element in _elements(spot, value, "element"):
            yield element
            yield from _content(element, field, element.value)
    else:
        yield from _below(spot, value, "outside")


def _content(spot: Spot, field: Field, value: Json) -> Iterator[Spot]:
    """What one value of a field holds."""
    if field.message is not None and isinstance(value, dict):
        message = spot.field.message if spot.field else None
        old = spot.old_field.message if spot.old_field else None
        yield from _members(value, spot.tokens, message, old, spot.security)
    else:
        free = spot.field is not None and field.kind == "free" and isinstance(value, dict)
        yield from _below(spot, value, "free" if free else "outside")


def _below(spot: Spot, value: Json, role: Role) -> Iterator[Spot]:
    """All that a value holds of which no schema says anything."""
    if isinstance(value, dict | list):
        for child in _elements(spot, value, role):
            yield child
            yield from _below(child, child.value, role)


def _elements(spot: Spot, value: dict[str, Json] | list[Json], role: Role) -> Iterator[Spot]:
    named = isinstance(value, dict)
    for token, child in children_of(value):
        text = str(token)
        yield Spot(
            (*spot.tokens, text),
            text if named else None,
            child,
            role,
            value,
            None,
            spot.field if role != "outside" else None,
            spot.old_field if role == "element" else None,
            spot.security,
        )


# Which members are missing, and which are of another type.


def check_members(
    document: Mapping[str, Json], a2a_version: DocumentVersion
) -> tuple[Finding, ...]:
    """List the schema members of wrong type and the REQUIRED ones that are missing.

    The findings are ``card.type`` and ``card.missing_required``, at the place where the member
    should stand. A mixed document is held against both schemas for its types, and against 1.0 for
    REQUIRED.
    """
    problems: list[Finding] = []
    if a2a_version != "0.3":
        problems.extend(_of_message(dict(document), CARD_1_0, ()))
    if a2a_version in ("0.3", "mixed"):
        old = _of_message(dict(document), CARD_0_3, ())
        problems.extend(p for p in old if a2a_version == "0.3" or p.code == "card.type")
    return tuple(dict.fromkeys(problems))


def type_problems(value: Json, message: Message) -> Sequence[Finding]:
    """List the members of one message that have the wrong JSON type."""
    return [problem for problem in _of_message(value, message, ()) if problem.code == "card.type"]


def _of_message(value: Json, message: Message, where: tuple[str, ...]) -> Sequence[Finding]:
    if not isinstance(value, dict):
        return _wrong("an object", where)
    problems: list[Finding] = []
    for name, field in message.fields.items():
        child = value.get(name)
        if child is not None:
            problems += _of_field(child, field, (*where, name))
        elif field.required:
            missing = "a REQUIRED member is missing"
            problems.append(finding_at("card.missing_required", (*where, name), missing))
    return problems


def _of_field(value: Json, field: Field, where: tuple[str, ...]) -> Sequence[Finding]:
    if field.shape == "one":
        return _of_value(value, field, where)
    if not isinstance(value, list if field.shape == "list" else dict):
        return _wrong("a list" if field.shape == "list" else "an object", where)
    return [
        problem
        for key, element in children_of(value)
        for problem in _of_value(element, field, (*where, str(key)))
    ]


def _of_value(value: Json, field: Field, where: tuple[str, ...]) -> Sequence[Finding]:
    if field.message is not None:
        return _of_message(value, field.message, where)
    kind, expected = JSON_TYPES[field.kind]
    return () if isinstance(value, kind) else _wrong(expected, where)


def _wrong(expected: str, where: tuple[str, ...]) -> Sequence[Finding]:
    return (finding_at("card.type", where, f"expected {expected}"),)
