"""Does each member of a card fit its schema: which are missing, which are of another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cardsign.card.document import A2aVersion
from cardsign.card.schema import CARD_0_3, CARD_1_0, JSON_TYPES, Field, Message
from cardsign.card.values import Json, children_of, finding_at
from cardsign.findings import Finding


def check_members(document: Mapping[str, Json], a2a_version: A2aVersion) -> tuple[Finding, ...]:
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
