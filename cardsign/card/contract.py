"""What a contract says beyond A2A, wherever a card keeps it: schemas of skills, an identity.

A contract card has it in its skills and at its top. A card of A2A has it in the `params` of an
extension, what belongs to a skill below `skills` and the skill's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from cardsign.card.document import extensions_of
from cardsign.card.strictjson import Json, members_of, objects_in
from cardsign.records import dataclass

_Tokens: TypeAlias = tuple[str, ...]

#: How the two schemas of a skill are spelled.
SCHEMA_MEMBERS: Final = {
    "input_schema": ("input_schema", "inputSchema"),
    "output_schema": ("output_schema", "outputSchema"),
}


@dataclass(frozen=True, slots=True)
class SkillSchema:
    """One schema of a skill, wherever the card keeps it.

    Attributes:
        skill: The id; empty where it has none.
        kind: ``input_schema`` or ``output_schema``.
        tokens: Where it stands.
        schema: As it stands there.
    """

    skill: str
    kind: str
    tokens: _Tokens
    schema: Json


def skill_schemas(document: Mapping[str, Json]) -> Iterator[SkillSchema]:
    """The schemas of a card's skills: in the skills, then in the `params` of extensions."""
    for index, skill in objects_in(document.get("skills")):
        name = skill.get("skill_id") or skill.get("id")
        yield from _schemas(str(name or ""), skill, ("skills", str(index)))
    for tokens, params in _params(document):
        for name, kept_skill in members_of(params.get("skills")).items():
            yield from _schemas(name, members_of(kept_skill), (*tokens, "skills", name))


def _schemas(skill: str, owner: Mapping[str, Json], at: _Tokens) -> Iterator[SkillSchema]:
    for kind, spellings in SCHEMA_MEMBERS.items():
        for member in spellings:
            if member in owner:
                yield SkillSchema(skill, kind, (*at, member), owner[member])


def _params(document: Mapping[str, Json]) -> Iterator[tuple[_Tokens, Mapping[str, Json]]]:
    for index, one in enumerate(extensions_of(document)):
        params = members_of(one).get("params")
        if isinstance(params, dict):
            yield ("capabilities", "extensions", str(index), "params"), params


def kept(document: Mapping[str, Json], name: str) -> tuple[_Tokens, Json]:
    """A member of a contract card, at the top or in the `params` of an extension; else None."""
    if name in document:
        return (name,), document[name]
    found = ((tokens, params) for tokens, params in _params(document) if name in params)
    return next((((*tokens, name), params[name]) for tokens, params in found), ((), None))
