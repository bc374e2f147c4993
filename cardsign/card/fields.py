"""The fields of a card as walks need them: tables derived from :mod:`cardsign.card.schema`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, Any, Final, Literal, Required, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from cardsign.card.schema import ONEOF, PRESENCE, SECURITY, AgentCard03, AgentCard10, Struct

Kind = Literal["string", "bool", "message", "free"]
Shape = Literal["one", "list", "map"]


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a message, as the walks need it.

    `shape` says whether `kind` stands alone, in a list, or as a map's values. A `free` value
    is not looked into. `presence` tells set from unset (messages, structs, proto `optional`).
    """

    name: str
    kind: Kind
    shape: Shape
    message: Message | None
    required: bool
    presence: bool
    security: bool
    oneof: bool

    @property
    def snake_name(self) -> str:
        """The protobuf spelling, which proto3 JSON parsers accept as well."""
        return snake(self.name)

    def is_default(self, value: object) -> bool:
        """Whether `value` is what proto3 JSON leaves out for a member without presence."""
        if self.shape == "list":
            return value == [] and isinstance(value, list)
        if self.shape == "map":
            return value == {} and isinstance(value, dict)
        if self.presence:
            return False
        return value == "" if self.kind == "string" else value is False


@dataclass(frozen=True)
class Message:
    """A message: its fields by camelCase name, in schema order."""

    name: str
    fields: dict[str, Field] = field(hash=False)

    @cached_property
    def spelled(self) -> dict[str, Field]:
        """The fields by either spelling that proto3 JSON parsers accept."""
        return {f.snake_name: f for f in self.fields.values()} | self.fields

    @cached_property
    def folded(self) -> dict[str, Field]:
        """The fields by :func:`fold` of their names; no two of them fall together."""
        return {fold(name): f for name, f in self.fields.items()}


@cache
def snake(name: str) -> str:
    """A camelCase name in snake_case."""
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


def fold(name: str) -> str:
    """`name` as a lenient reader sees it: without case and without underscores."""
    return name.replace("_", "").casefold()


@cache
def _message(typed_dict: Any) -> Message:
    hints = get_type_hints(typed_dict, include_extras=True)
    return Message(typed_dict.__name__, {name: _field(name, hint) for name, hint in hints.items()})


def _field(name: str, hint: Any) -> Field:
    required = get_origin(hint) is Required
    if required:
        (hint,) = get_args(hint)
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    shape, kind_type = _shape(hint)
    message = _message(kind_type) if is_typeddict(kind_type) else None
    kind: Kind = "string" if kind_type is str else "bool" if kind_type is bool else "free"
    if message:
        kind = "message"
    return Field(
        name=name,
        kind=kind,
        shape=shape,
        message=message,
        required=required,
        presence=PRESENCE in marks or (shape == "one" and kind in ("message", "free")),
        security=SECURITY in marks,
        oneof=ONEOF in marks,
    )


def _shape(hint: Any) -> tuple[Shape, Any]:
    if get_origin(hint) is list:
        return "list", get_args(hint)[0]
    if hint == Struct:  # get_type_hints builds an equal alias, not the same one
        return "one", hint
    if get_origin(hint) is dict:
        return "map", get_args(hint)[1]
    return "one", hint


CARD_1_0: Final = _message(AgentCard10)
CARD_0_3: Final = _message(AgentCard03)
