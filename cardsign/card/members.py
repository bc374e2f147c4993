"""Do a card's members have the JSON types of the A2A schema, and are the REQUIRED ones there?

Nothing is converted, unknown members pass, and null in a schema member counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.document import Generation
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.strictjson import Json, append
from cardsign.errors import CardRefused
from cardsign.records import dataclass

#: The claims of a JWT (RFC 7519 4.1) by which a token can be told from a card.
TOKEN_CLAIMS: Final = frozenset({"iss", "sub", "aud", "exp", "nbf", "iat", "jti"})
_KINDS: Final = {
    "string": (str, "a string"),
    "bool": (bool, "true or false"),
    "free": (dict, "an object"),
}


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
        problems.extend(_of_message(dict(document), CARD_1_0, ""))
    if generation in ("0.3", "mixed"):
        old = _of_message(dict(document), CARD_0_3, "")
        problems.extend(p for p in old if generation == "0.3" or not p.missing)
    return tuple(dict.fromkeys(problems))


def _of_message(value: Json, message: Message, where: str) -> Iterator[MemberProblem]:
    if not isinstance(value, dict):
        yield MemberProblem(where, False, "expected an object")
        return
    for name, field in message.fields.items():
        child = value.get(name)
        if child is not None:
            yield from _of_field(child, field, append(where, name))
        elif field.required:
            yield MemberProblem(append(where, name), True, "a REQUIRED member is missing")


def _of_field(value: Json, field: Field, where: str) -> Iterator[MemberProblem]:
    if field.shape == "one":
        yield from _of_value(value, field, where)
    elif not isinstance(value, list if field.shape == "list" else dict):
        wanted = "a list" if field.shape == "list" else "an object"
        yield MemberProblem(where, False, f"expected {wanted}")
    else:
        for token, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _of_value(child, field, append(where, token))


def _of_value(value: Json, field: Field, where: str) -> Iterator[MemberProblem]:
    if field.message is not None:
        yield from _of_message(value, field.message, where)
        return
    kind, wanted = _KINDS[field.kind]
    if not isinstance(value, kind):
        yield MemberProblem(where, False, f"expected {wanted}")
