"""Do a card's members have the JSON types of the A2A schema, and are the REQUIRED ones there?

The TypedDicts of :mod:`cardsign.card.schema` are validated by pydantic in strict mode; unknown
members pass, null in a schema member counts as absent. The card itself is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from cardsign.card.document import Generation
from cardsign.card.schema import CARD_0_3, CARD_1_0, AgentCard03, AgentCard10, Field, Message
from cardsign.card.strictjson import Json, pointer
from cardsign.errors import CardRefused
from cardsign.records import dataclass

#: The claims of a JWT (RFC 7519 4.1) by which a token can be told from a card.
TOKEN_CLAIMS: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})


def check_is_agent_card(payload: Mapping[str, Json]) -> None:
    """Refuse what is no card: a key signs tokens, links and events too.

    A card has a `name` that is a non-empty string, and `skills` that are a list or
    `capabilities` that are an object. Its other members are not looked at.

    Raises:
        CardRefused: ``card.not_agent_card``.
    """
    name = payload.get("name")
    if not isinstance(name, str) or not name:
        lacking = "a `name` that is a non-empty string"
    elif not isinstance(payload.get("skills"), list) and not isinstance(
        payload.get("capabilities"), dict
    ):
        lacking = "both a list of `skills` and an object of `capabilities`"
    else:
        return
    raise CardRefused("card.not_agent_card", f"the object lacks {lacking}")


def token_claims(payload: Mapping[str, Json]) -> tuple[str, ...]:
    """The claims of a token that stand at the top of an object, null ones included."""
    return tuple(name for name in payload if name in TOKEN_CLAIMS)


@dataclass(frozen=True, slots=True)
class MemberProblem:
    """One member that does not fit the schema.

    Attributes:
        pointer: JSON pointer of the member; for a missing one, where it should stand.
        missing: It is REQUIRED and absent; otherwise it has the wrong JSON type.
        message: What was expected.
    """

    pointer: str
    missing: bool
    message: str


def check_members(
    document: Mapping[str, Json], generation: Generation
) -> tuple[MemberProblem, ...]:
    """List the schema members of wrong type and the REQUIRED ones that are missing.

    A mixed document is held against both schemas for its types, and against 1.0 for REQUIRED.
    """
    problems: list[MemberProblem] = []
    if generation != "0.3":
        problems.extend(_check(document, CARD_1_0, AgentCard10))
    if generation in ("0.3", "mixed"):
        old = _check(document, CARD_0_3, AgentCard03)
        problems.extend(p for p in old if generation == "0.3" or not p.missing)
    return tuple(dict.fromkeys(problems))


def _check(document: Mapping[str, Json], message: Message, typed_dict: Any) -> list[MemberProblem]:
    from pydantic import ValidationError

    try:
        _adapter(typed_dict).validate_python(dict(document))
    except ValidationError:  # because of nulls alone, perhaps
        try:
            _adapter(typed_dict).validate_python(_without_nulls(dict(document), message))
        except ValidationError as errors:
            found = errors.errors(include_url=False, include_input=False)
            return [_problem(error) for error in found]
    return []


@cache
def _adapter(typed_dict: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(strict=True, extra="allow"))(typed_dict))


def _problem(error: Any) -> MemberProblem:
    where = pointer(*(str(token) for token in error["loc"]))
    if error["type"] == "missing":
        return MemberProblem(where, True, "a REQUIRED member is missing")
    wanted = {"string_type": "a string", "bool_type": "true or false", "list_type": "a list"}
    expected = wanted.get(error["type"], "an object")
    return MemberProblem(where, False, f"expected {expected}")


def _without_nulls(value: Json, message: Message) -> Json:
    if not isinstance(value, dict):
        return value
    fields = message.fields
    return {
        name: _descend(child, fields[name]) if name in fields else child
        for name, child in value.items()
        if child is not None or name not in fields
    }


def _descend(value: Json, field: Field) -> Json:
    if (message := field.message) is None:
        return value
    if isinstance(value, list) and field.shape == "list":
        return [_without_nulls(child, message) for child in value]
    if isinstance(value, dict) and field.shape == "map":
        return {key: _without_nulls(child, message) for key, child in value.items()}
    return _without_nulls(value, message)
