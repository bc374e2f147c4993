"""The one description of the A2A 1.0 and 0.3 Agent Card fields, as ``a2a.txt`` has them.

That file says everything: names, types, REQUIRED and proto `optional`. Canonicalization, coverage,
spelling and type checks walk what is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from cardsign.card.values import Json, children_of, finding_at
from cardsign.findings import Finding

#: A version of A2A that cards are written in. Of 0.2 no schema is kept; it differs little from 0.3.
A2aVersion: TypeAlias = Literal["0.2", "0.3", "1.0"]
#: What a document is written in: a version, both at once, or neither.
DocumentVersion: TypeAlias = A2aVersion | Literal["mixed", "none"]

JsonKind = Literal["string", "bool", "message", "free"]
Shape = Literal["one", "list", "map"]
#: A type of Python's, and how messages call it.
JsonType: TypeAlias = tuple[type, str]
_OBJECT: Final[JsonType] = (dict, "an object")
#: Of a kind or shape; all others are objects.
_JSON_TYPES: Final[Mapping[str, JsonType]] = {
    "string": (str, "a string"),
    "bool": (bool, "true or false"),
    "list": (list, "a list"),
}

_A2A_1_0, _A2A_0_3 = Path(__file__).with_name("a2a.txt").read_text("utf-8").split("\n\n")[1:]
#: Members that say who may call, and how: never excused when uncovered.
_SECURITY: Final = frozenset({"securitySchemes", "securityRequirements", "security"})
_FIELD: Final = re.compile(
    r"(?P<name>\w+)(?::(?P<shape>[\[{]?)(?P<type>\w+)[\]}]?)?(?P<mark>[!?]?)"
)
_SHAPES: Final[Mapping[str, Shape]] = {"": "one", "[": "list", "{": "map"}


@dataclass(frozen=True, slots=True, eq=False)  # by identity: there is one of each
class Field:
    """One member of a message, as the walks need it.

    `snake_name` is the protobuf spelling, which proto3 JSON parsers accept as well.
    `shape` says whether `kind` stands alone, in a list, or as a map's values. A `free` value
    is not looked into. `presence` tells set from unset (messages, structs, proto `optional`).
    `expected` is the JSON type of the whole value, and `element` that of what its list or map
    holds; of a field of another shape both are the same.
    """

    name: str
    snake_name: str
    kind: JsonKind
    shape: Shape
    expected: JsonType
    element: JsonType
    message: Message | None
    required: bool
    presence: bool
    security: bool
    oneof: bool

    def is_default(self, value: object) -> bool:
        """Return whether `value` is what proto3 JSON leaves out for a member without presence."""
        if self.shape != "one":
            return not value and isinstance(value, self.expected[0])
        if self.presence:
            return False
        return value == "" if self.kind == "string" else value is False


@dataclass(frozen=True, eq=False)
class Message:
    """A message: its fields by camelCase name, in schema order."""

    name: str
    fields: dict[str, Field]

    @cached_property
    def spelled(self) -> dict[str, Field]:
        """The fields by either spelling that proto3 JSON parsers accept."""
        return {f.snake_name: f for f in self.fields.values()} | self.fields

    @cached_property
    def messages(self) -> dict[str, Message]:
        """The messages that fields hold, by the name of the field."""
        return {f.name: f.message for f in self.fields.values() if f.message is not None}

    @cached_property
    def leaves(self) -> frozenset[str]:
        """The names of the fields that hold no message."""
        return frozenset(self.fields.keys() - self.messages.keys())

    @cached_property
    def folded(self) -> dict[str, Field]:
        """The fields by :func:`fold` of their names; no two of them fall together."""
        return {fold(name): f for name, f in self.fields.items()}


def snake(name: str) -> str:
    """Return a camelCase name in snake_case."""
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


def fold(name: str) -> str:
    """Return `name` as a lenient reader sees it: without case and underscores."""
    return name.replace("_", "").casefold()


def respelled(
    value: Any,
    message: Message,
    *,
    lenient: bool = True,
    spell: Callable[[Field], str] = attrgetter("name"),
) -> Any:
    """Return a copy of a message's value in which its members have the names of the schema.

    Unknown members keep their names. Two spellings of one member are for the caller to refuse.
    Not `lenient`, only the two spellings of proto3 JSON are read. `spell` names a field.
    """
    if not isinstance(value, dict):
        return value
    renamed = {}
    for name, child in value.items():
        field = message.folded.get(fold(name)) if lenient else message.spelled.get(name)
        if field is not None and field.message is not None:
            respell = partial(respelled, message=field.message, lenient=lenient, spell=spell)
            if field.shape == "list" and isinstance(child, list):
                child = [respell(element) for element in child]
            elif field.shape == "map" and isinstance(child, dict):
                child = {key: respell(element) for key, element in child.items()}
            else:
                child = respell(child)
        renamed[spell(field) if field else name] = child
    return renamed


def _read_messages(table: str, others: Mapping[str, Message]) -> dict[str, Message]:
    """Return the messages of a table by name; those that it does not have are of `others`."""
    lines = [line.split() for line in table.strip().replace("\n    ", " ").splitlines()]
    messages = {**others, **{n.rstrip("|"): Message(n.rstrip("|"), {}) for n, *_ in lines}}
    for name, *fields in lines:
        read = (_read_field(text, messages, oneof=name.endswith("|")) for text in fields)
        messages[name.rstrip("|")].fields.update((member.name, member) for member in read)
    return messages


def _read_field(text: str, messages: Mapping[str, Message], *, oneof: bool) -> Field:
    match = _FIELD.fullmatch(text)
    assert match is not None, text  # noqa: S101 - the tables are ours
    name, type_name, mark = match["name"], match["type"] or "string", match["mark"]
    message, shape = messages.get(type_name), _SHAPES[match["shape"] or ""]
    kind = cast(JsonKind, "message" if message else type_name)
    return Field(
        name=name,
        snake_name=snake(name),
        kind=kind,
        shape=shape,
        expected=_JSON_TYPES.get(kind if shape == "one" else shape, _OBJECT),
        element=_JSON_TYPES.get(kind, _OBJECT),
        message=message,
        required=mark == "!",
        presence=mark == "?" or (shape == "one" and kind in ("message", "free")),
        security=name in _SECURITY,
        oneof=oneof,
    )


def _merged(message: Message, other: Message) -> Message:
    """Return a message with the fields of both; of a field in both, with those of its messages."""
    fields = dict(message.fields)
    for name, field in other.fields.items():
        own = fields.setdefault(name, field)
        if own.message is not None and field.message is not None:
            fields[name] = replace(own, message=_merged(own.message, field.message))
    return Message(message.name, fields)


_MESSAGES_1_0: Final = _read_messages(_A2A_1_0, {})
CARD_1_0: Final = _MESSAGES_1_0["AgentCard"]
CARD_0_3: Final = _read_messages(_A2A_0_3, _MESSAGES_1_0)["AgentCard"]
#: What some client of either version reads.
ANY_CARD: Final = _merged(CARD_1_0, CARD_0_3)
CAPABILITIES_1_0: Final = _MESSAGES_1_0["AgentCapabilities"]
SKILL_1_0: Final = _MESSAGES_1_0["AgentSkill"]


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
        problems.extend(_of_message(document, CARD_1_0, ()))
    if a2a_version in ("0.3", "mixed"):
        old = _of_message(document, CARD_0_3, ())
        problems.extend(p for p in old if a2a_version == "0.3" or p.code == "card.type")
    return tuple(dict.fromkeys(problems))


def type_problems(value: Mapping[str, Json], message: Message) -> Iterator[Finding]:
    """Yield the members of one message that have the wrong JSON type."""
    return (problem for problem in _of_message(value, message, ()) if problem.code == "card.type")


def _of_message(
    value: Mapping[str, Json], message: Message, above: tuple[str, ...]
) -> Iterator[Finding]:
    for name, field in message.fields.items():
        child = value.get(name)
        if child is None:
            if field.required:
                missing = "a REQUIRED member is missing"
                yield finding_at("card.missing_required", (*above, name), missing)
            name = field.snake_name  # which proto3 JSON readers take as well
            child = value.get(name)
        if child is None:
            continue
        place = (*above, name)
        if not isinstance(child, field.expected[0]):
            yield finding_at("card.type", place, f"expected {field.expected[1]}")
        elif field.shape != "one":
            for token, element in children_of(child):
                if not isinstance(element, field.element[0]):
                    inner = (*place, str(token))
                    yield finding_at("card.type", inner, f"expected {field.element[1]}")
                elif field.message is not None and isinstance(element, dict):
                    yield from _of_message(element, field.message, (*place, str(token)))
        elif field.message is not None and isinstance(child, dict):
            yield from _of_message(child, field.message, place)
