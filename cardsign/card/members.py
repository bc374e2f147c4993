"""Does each member of a card fit its schema: which are missing, which are of another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cardsign.card.document import A2aVersion
from cardsign.card.schema import CARD_0_3, CARD_1_0, JSON_TYPES, Field, Message
from cardsign.card.values import Json, pointer


@dataclass(frozen=True, slots=True)
class MemberProblem:
    """One member that does not fit the schema.

    Attributes:
        tokens: The reference tokens of the member; of a missing one, where it should stand.
        missing: It is REQUIRED and absent; otherwise it has the wrong JSON type.
        message: What was expected.
    """

    tokens: tuple[str, ...]
    missing: bool
    message: str

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer."""
        return pointer(*self.tokens)


def check_members(
    document: Mapping[str, Json], a2a_version: A2aVersion
) -> tuple[MemberProblem, ...]:
    """List the schema members of wrong type and the REQUIRED ones that are missing.

    A mixed document is held against both schemas for its types, and against 1.0 for REQUIRED.
    """
    problems: list[MemberProblem] = []
    if a2a_version != "0.3":
        problems.extend(_of_message(dict(document), CARD_1_0, ()))
    if a2a_version in ("0.3", "mixed"):
        old = _of_message(dict(document), CARD_0_3, ())
        problems.extend(p for p in old if a2a_version == "0.3" or not p.missing)
    return tuple(dict.fromkeys(problems))


def type_problems(value: Json, message: Message) -> Sequence[MemberProblem]:
    """List the members of one message that have the wrong JSON type."""
    return [one for one in _of_message(value, message, ()) if not one.missing]


def _of_message(value: Json, message: Message, where: tuple[str, ...]) -> Sequence[MemberProblem]:
    if not isinstance(value, dict):
        return _wrong("an object", where)
    found: list[MemberProblem] = []
    for name, field in message.fields.items():
        child = value.get(name)
        if child is None:
            if field.required:
                found.append(MemberProblem((*where, name), True, "a REQUIRED member is missing"))
        elif field.shape == "one":
            if type(child) is not str or field.kind != "string":  # as most are
                found += _of_value(child, field, (*where, name))
        elif not isinstance(child, list if field.shape == "list" else dict):
            wanted = "a list" if field.shape == "list" else "an object"
            found += _wrong(wanted, (*where, name))
        else:
            for key, one in child.items() if isinstance(child, dict) else enumerate(child):
                if type(one) is not str or field.kind != "string":
                    found += _of_value(one, field, (*where, name, str(key)))
    return found


def _of_value(value: Json, field: Field, where: tuple[str, ...]) -> Sequence[MemberProblem]:
    if field.message is not None:
        return _of_message(value, field.message, where)
    kind, wanted = JSON_TYPES[field.kind]
    return () if isinstance(value, kind) else _wrong(wanted, where)


def _wrong(wanted: str, where: tuple[str, ...]) -> Sequence[MemberProblem]:
    return (MemberProblem(where, False, f"expected {wanted}"),)
