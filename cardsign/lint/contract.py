"""Rules for contract cards: skills with ids, strict schemas, and an identity.

The rules are those of a standard for departments of agents. They apply to cards with a `skill_id`
or a `spiffe_id`, and where the group is chosen. A built card has the same facts in the `params` of
our extension: `spiffe_id`, and under `skills` the schemas by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from semver import Version

from cardsign.card.extensions import SCHEMA_MEMBERS, contract_member, skill_schemas
from cardsign.card.security import authentication_schemes
from cardsign.card.values import Json, elements_of, finding_at, members_of
from cardsign.errors import CardRefused
from cardsign.findings import Finding
from cardsign.lint.rules import Breach, LintedCard, Tokens
from cardsign.lint.schemas import find_fault

_STRICT: Final = ("description", "spiffe_id", "authentication")
_SKILL_ID: Final = re.compile(r"(?P<prefix>[a-z][a-z0-9_]*)\.(?P<verb>[a-z0-9]+)(?:_[a-z0-9]+)+")
#: The verbs that the standard lists. Its own examples use others, so they are only notes.
_VERBS: Final = frozenset({"check", "run", "create", "aggregate", "analyze"})
_SPIFFE: Final = re.compile(
    r"spiffe://(?P<domain>[a-z0-9._-]+)/agent/(?P<name>[^/]+)/(?P<env>[^/]+)/(?P<region>[^/]+)"
    r"/(?P<version>[^/]+)"
)
_VAGUE: Final = re.compile(
    r"(?:(?:the|an?|some)\s+)?(?:(?:input|output|result|response|request|return)s?(?:\s+(?:data|"
    r"object|value|payload|parameters?|schema))?|data|object|value|payload|parameters?|todo|tbd)\.?",
    re.IGNORECASE,
)
# Keywords that give a value a type.
_KINDS: Final = ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "if", "not")
_ALL_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_MAX_DEPTH: Final = 16  # levels of one schema; the strict reader allows 32 for the whole card


# Required members, and skills.


def required(subject: LintedCard) -> Iterator[Breach]:
    """Yield which members are missing, and a version that is not semantic.

    The settings may ask for more of them; security schemes stand for `authentication`.
    """
    for name in ("name", "version", "skills"):
        if not subject.document.get(name):
            yield "contract.required", (), f"{name!r} is missing"
    version = str(subject.document.get("version") or "0.0.0")[:100]
    if not Version.is_valid(version):
        message = f"{version[:40]!r} is no semantic version"
        yield "contract.required", ("version",), message
    for name in _STRICT if subject.settings.strict else ():
        schemes = name == "authentication" and subject.document.get("securitySchemes")
        if not schemes and contract_member(subject.document, name)[1] in (None, "", {}, []):
            yield "contract.strict", (), f"{name!r} is missing"


def skills(subject: LintedCard) -> Iterator[Breach]:
    """Yield what skills lack, malformed ids, those of a department that the settings do not list,
    verbs that the standard does not list, and a number of skills other than two to five.

    The schemas of a skill may stand in an extension.
    """
    schemas = {(skill, kind) for skill, kind, *_ in skill_schemas(subject.document)}
    prefixes = subject.settings.prefixes
    for tokens, skill in subject.skills:
        name = skill.get("skill_id") or skill.get("id") or ""
        there = {member: skill.get(member) for member in ("name", "description")}
        there |= {kind: (str(name), kind) in schemas for kind in SCHEMA_MEMBERS}
        for member, value in {"skill_id": name, **there}.items():
            if not value:
                yield "contract.skill", tokens, f"{member!r} is missing"
        match = _SKILL_ID.fullmatch(str(name))
        if match and prefixes and match["prefix"] not in prefixes:
            message = f"{match['prefix'][:40]!r} is none of {', '.join(prefixes)}"
            yield "contract.skill-id", tokens, message
        elif not match and isinstance(name, str) and name:
            yield "contract.skill-id", tokens, f"{name[:60]!r} is not department.verb_noun"
        if match and match["verb"] not in _VERBS:
            yield "contract.verb", tokens, f"the verb is {match['verb'][:40]!r}"
    count = len(subject.skills)
    if count and not 2 <= count <= 5:
        yield "contract.skill-count", ("skills",), f"{count} skill{'s' * (count > 1)}"


# Schemas.


def _places(tokens: Tokens, schema: Json) -> Iterator[tuple[Tokens, Mapping[str, Json], bool]]:
    """Yield a schema and those in it, each with its place, and whether it is a field's."""
    pending: list[tuple[Tokens, Json, bool, int]] = [(tokens, schema, False, 0)]
    for at, schema_at, is_field, depth in pending:  # which grows as it is read
        if not isinstance(schema_at, dict) or depth > _MAX_DEPTH:
            continue
        yield at, schema_at, is_field
        for name, child in members_of(schema_at.get("properties")).items():
            pending.append(((*at, "properties", name), child, True, depth + 1))
        if isinstance(schema_at.get("items"), dict):
            pending.append(((*at, "items"), schema_at["items"], True, depth + 1))
        for member in ("anyOf", "oneOf", "allOf"):
            for index, child in enumerate(elements_of(schema_at.get(member))):
                pending.append(((*at, member, str(index)), child, False, depth + 1))


def _all_places(subject: LintedCard) -> Iterator[tuple[Tokens, Mapping[str, Json], bool]]:
    for _, _, tokens, schema in skill_schemas(subject.document):
        yield from _places(tokens, schema)


def schemas(subject: LintedCard) -> Iterator[Breach]:
    """Yield schemas that the meta-schema refuses, or that take anything.

    Patterns come from a stranger and are never compiled.
    """
    for _, _, where, value in skill_schemas(subject.document):
        if not isinstance(value, dict):
            yield "contract.schema", where, "expected an object"
            continue
        if "$comment" not in value and _says_nothing(value):
            yield "contract.empty-schema", where, "it takes anything"
        draft = str(value.get("$schema"))
        fault = find_fault(value, lists_items="/draft-07/" in draft or "/2019-09/" in draft)
        if re.search(r"/draft-0[1-6]/", draft):
            yield "contract.schema", where, "it is of a draft before 7"
        elif fault is not None:
            yield "contract.schema", (*where, *fault[0]), fault[1]


def _says_nothing(value: Mapping[str, Json]) -> bool:
    words = {"type", "description", "title", "$schema", "default", "examples", "properties"}
    return (
        value.get("type", "object") == "object"
        and not value.get("properties")
        and not (value.keys() - words)
    )


def fields(subject: LintedCard) -> Iterator[Breach]:
    """Yield fields and list elements, at every depth, without a type or of any value."""
    for at, inner, is_field in _all_places(subject):
        types = inner.get("type")
        if not is_field or "$comment" in inner:
            continue
        if isinstance(types, list) and {str(name) for name in types} | {"null"} >= _ALL_TYPES:
            yield "contract.open-object", at, "it is of any type"
        elif types == "object" and _says_nothing(inner):
            yield "contract.open-object", at, "an object without properties"
        if not any(name in inner for name in _KINDS):
            yield "contract.field-type", at, "has no type"


def undescribed(subject: LintedCard) -> Iterator[Breach]:
    """Yield schemas without `required`, and own fields with neither description nor enum."""
    for _, kind, where, value in skill_schemas(subject.document):
        properties = members_of(members_of(value).get("properties"))
        if not isinstance(value, dict) or not properties:
            continue
        if "required" not in value:
            yield "contract.undescribed", where, "has no `required`"
        for name, field in properties.items() if kind == "input_schema" else ():
            if isinstance(field, dict) and not {"description", "enum", "$ref"} & field.keys():
                place = (*where, "properties", name)
                yield "contract.undescribed", place, "has no description"


def words(subject: LintedCard) -> Iterator[Breach]:
    """Yield descriptions of schemas, fields and skills without content, and that field names mix
    snake_case and camelCase."""
    styles: dict[str, str] = {}
    texts: list[tuple[Tokens, Json]] = []
    for at, inner, _ in _all_places(subject):
        texts.append((at, inner.get("description")))
        for name in members_of(inner.get("properties")):
            if re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)+", name):
                styles.setdefault("snake_case", name)
            elif re.fullmatch(r"[a-z0-9]+(?:[A-Z][a-z0-9]*)+", name):
                styles.setdefault("camelCase", name)
    texts += [(tokens, skill.get("description")) for tokens, skill in subject.skills]
    for at, text in texts:
        if isinstance(text, str) and _VAGUE.fullmatch(text.strip()):
            message = f"{text.strip()[:40]!r} says nothing"
            yield "contract.vague", (*at, "description"), message
    if len(styles) > 1:
        shown = " and ".join(f"{name[:40]!r} ({style})" for style, name in styles.items())
        yield "contract.names", ("skills",), shown


# Identity and authentication.


def identity(subject: LintedCard) -> Iterator[Breach]:
    """Yield a malformed SPIFFE ID, one of another agent or version, and an `authentication` that
    `build` could not map."""
    tokens, value = contract_member(subject.document, "spiffe_id")
    match = _SPIFFE.fullmatch(value) if isinstance(value, str) else None
    if value is not None and match is None:
        expected = "expected spiffe://DOMAIN/agent/NAME/ENV/REGION/VERSION"
        yield "contract.spiffe", tokens, expected
    for part in ("name", "version") if match else ():
        own = subject.document.get(part)
        if match and isinstance(own, str) and own and match[part] != own:
            message = f"it names the {part} {match[part][:40]!r}, the card {own[:40]!r}"
            yield "contract.spiffe", tokens, message
    declared = subject.document.get("authentication")
    try:
        authentication_schemes(declared)
    except CardRefused as refusal:
        yield "contract.authentication", ("authentication",), refusal.message


def find_references(
    document: Mapping[str, Json], cards: Mapping[str, Mapping[str, Json]]
) -> Iterator[Finding]:
    """Yield references to other agents whose cards are missing, or do not refer back.

    A foreman lists its `metadata.specialists`, and each of them names its `metadata.foreman`.
    """
    own_name = str(document.get("name"))
    tokens, value = contract_member(document, "metadata")
    metadata = members_of(value)
    named: list[tuple[Tokens, Json, str]] = [
        ((*tokens, "specialists", str(index)), name, "foreman")
        for index, name in enumerate(elements_of(metadata.get("specialists")))
    ]
    if isinstance(foreman := metadata.get("foreman"), str):
        named.append(((*tokens, "foreman"), foreman, "specialists"))
    for place, name, member in named:
        other = cards.get(str(name))
        if other is None:
            message = f"there is no card of {str(name)[:60]!r}"
            yield finding_at("contract.reference", place, message)
            continue
        back = members_of(contract_member(other, "metadata")[1]).get(member)
        if back is not None and own_name not in (back if isinstance(back, list) else [back]):
            message = f"{str(name)[:60]!r} does not name this agent as {member}"
            yield finding_at("contract.reference", place, message)


CHECKS: Final = (required, skills, schemas, fields, undescribed, words, identity)
