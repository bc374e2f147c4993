"""Rules for contract cards: skills with ids, strict schemas, and an identity.

The rules are those of a standard for departments of agents. They apply to cards with a `skill_id`
or a `spiffe_id`, and where the group is chosen. A built card has the same facts in the `params` of
our extension: `spiffe_id`, and under `skills` the schemas by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from semver import Version

from cardsign.card.extensions import SCHEMA_MEMBERS, contract_member, skill_schemas
from cardsign.card.security import authentication_schemes
from cardsign.card.values import Json, elements_of, members_of
from cardsign.errors import CardRefused
from cardsign.lint.rules import Found, LintedCard, Rule, Tokens
from cardsign.lint.schemas import MAX_STEPS, Steps, TooMuchWork, find_fault

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


# Required members.


def required(subject: LintedCard) -> Iterator[Found]:
    """Yield which of name, version and skills are missing, and a version that is not semantic."""
    for name in ("name", "version", "skills"):
        if not subject.document.get(name):
            yield (), f"{name!r} is missing"
    version = str(subject.document.get("version") or "0.0.0")[:100]
    if not Version.is_valid(version):
        yield ("version",), f"{version[:40]!r} is no semantic version"


def strictly_required(subject: LintedCard) -> Iterator[Found]:
    """Yield what `strict` asks for; security schemes stand for `authentication`."""
    for name in _STRICT if subject.settings.strict else ():
        schemes = name == "authentication" and subject.document.get("securitySchemes")
        if not schemes and contract_member(subject.document, name)[1] in (None, "", {}, []):
            yield (), f"{name!r} is missing"


def skill_members(subject: LintedCard) -> Iterator[Found]:
    """Yield what skills lack; their schemas may stand in an extension."""
    schemas = {(entry.skill, entry.kind) for entry in skill_schemas(subject.document)}
    for tokens, skill in subject.skills:
        name = skill.get("skill_id") or skill.get("id") or ""
        there = {member: skill.get(member) for member in ("name", "description")}
        there |= {kind: (str(name), kind) in schemas for kind in SCHEMA_MEMBERS}
        for member, value in {"skill_id": name, **there}.items():
            if not value:
                yield tokens, f"{member!r} is missing"


def skill_id(subject: LintedCard) -> Iterator[Found]:
    """Yield malformed ids, and ids of a department that the settings do not list."""
    prefixes = subject.settings.prefixes
    for tokens, skill in subject.skills:
        name = skill.get("skill_id") or skill.get("id")
        if not isinstance(name, str) or not name:
            continue
        match = _SKILL_ID.fullmatch(name)
        if match is None:
            yield tokens, f"{name[:60]!r} is not department.verb_noun"
        elif prefixes and match["prefix"] not in prefixes:
            yield tokens, f"{match['prefix'][:40]!r} is none of {', '.join(prefixes)}"


def verb(subject: LintedCard) -> Iterator[Found]:
    """Yield verbs that the standard does not list, in ids of the right form."""
    for tokens, skill in subject.skills:
        match = _SKILL_ID.fullmatch(str(skill.get("skill_id") or skill.get("id")))
        if match and match["verb"] not in _VERBS:
            yield tokens, f"the verb is {match['verb'][:40]!r}"


def skill_count(subject: LintedCard) -> Iterator[Found]:
    """Yield a number of skills other than two to five."""
    count = len(subject.skills)
    if count and not 2 <= count <= 5:
        yield ("skills",), f"{count} skill{'s' * (count > 1)}"


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
    for skill_schema in skill_schemas(subject.document):
        yield from _places(skill_schema.tokens, skill_schema.schema)


def schema(subject: LintedCard) -> Iterator[Found]:
    """Yield what the meta-schema refuses. Patterns come from a stranger and are never compiled."""
    from jsonschema import Draft7Validator, Draft201909Validator, Draft202012Validator

    steps = Steps(left=MAX_STEPS * 2 // 3)  # for all schemas of the card
    for skill_schema in skill_schemas(subject.document):
        value = skill_schema.schema
        if not isinstance(value, dict):
            yield skill_schema.tokens, "expected an object"
            continue
        draft = str(value.get("$schema"))
        if re.search(r"/draft-0[1-6]/", draft):
            yield skill_schema.tokens, "it is of a draft before 7"
            continue
        checker: Any = Draft202012Validator
        if "/draft-07/" in draft or "/2019-09/" in draft:
            checker = Draft7Validator if "/draft-07/" in draft else Draft201909Validator
        try:
            fault = find_fault(value, checker, steps)
        except TooMuchWork:
            yield skill_schema.tokens, "it is too large to be held against the meta-schema"
            return
        if fault is not None:
            yield (*skill_schema.tokens, *fault[0]), fault[1]


def empty_schema(subject: LintedCard) -> Iterator[Found]:
    """Yield schemas that accept any value."""
    for skill_schema in skill_schemas(subject.document):
        value = skill_schema.schema
        if isinstance(value, dict) and "$comment" not in value and _says_nothing(value):
            yield skill_schema.tokens, "it takes anything"


def _says_nothing(value: Mapping[str, Json]) -> bool:
    words = {"type", "description", "title", "$schema", "default", "examples", "properties"}
    return (
        value.get("type", "object") == "object"
        and not value.get("properties")
        and not (value.keys() - words)
    )


def open_object(subject: LintedCard) -> Iterator[Found]:
    """Yield fields that accept any value; :func:`empty_schema` covers whole schemas."""
    for at, inner, is_field in _all_places(subject):
        types = inner.get("type")
        if not is_field or "$comment" in inner:
            continue
        if isinstance(types, list) and {str(name) for name in types} | {"null"} >= _ALL_TYPES:
            yield at, "it is of any type"
        elif types == "object" and _says_nothing(inner):
            yield at, "an object without properties"


def field_type(subject: LintedCard) -> Iterator[Found]:
    """Yield properties and list elements without a type, at every depth."""
    for at, inner, is_field in _all_places(subject):
        if is_field and "$comment" not in inner and not any(name in inner for name in _KINDS):
            yield at, "has no type"


def undescribed(subject: LintedCard) -> Iterator[Found]:
    """Yield schemas without `required`, and own fields with neither description nor enum."""
    for skill_schema in skill_schemas(subject.document):
        value = skill_schema.schema
        fields = members_of(members_of(value).get("properties"))
        if not isinstance(value, dict) or not fields:
            continue
        if "required" not in value:
            yield skill_schema.tokens, "has no `required`"
        if skill_schema.kind == "input_schema":
            for name, field in fields.items():
                if isinstance(field, dict) and not {"description", "enum", "$ref"} & field.keys():
                    yield (*skill_schema.tokens, "properties", name), "has no description"


def vague(subject: LintedCard) -> Iterator[Found]:
    """Yield descriptions of schemas, fields and skills without content."""
    texts = [(at, inner.get("description")) for at, inner, _ in _all_places(subject)]
    texts += [(tokens, skill.get("description")) for tokens, skill in subject.skills]
    for at, text in texts:
        if isinstance(text, str) and _VAGUE.fullmatch(text.strip()):
            yield (*at, "description"), f"{text.strip()[:40]!r} says nothing"


def names(subject: LintedCard) -> Iterator[Found]:
    """Yield that field names mix snake_case and camelCase."""
    styles: dict[str, str] = {}
    for _, inner, _ in _all_places(subject):
        for name in members_of(inner.get("properties")):
            if re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)+", name):
                styles.setdefault("snake_case", name)
            elif re.fullmatch(r"[a-z0-9]+(?:[A-Z][a-z0-9]*)+", name):
                styles.setdefault("camelCase", name)
    if len(styles) > 1:
        shown = " and ".join(f"{name[:40]!r} ({style})" for style, name in styles.items())
        yield ("skills",), shown


# Identity and authentication.


def spiffe(subject: LintedCard) -> Iterator[Found]:
    """Yield a malformed SPIFFE ID, and one of another agent or version."""
    tokens, value = contract_member(subject.document, "spiffe_id")
    if value is None:
        return
    match = _SPIFFE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        yield tokens, "expected spiffe://DOMAIN/agent/NAME/ENV/REGION/VERSION"
        return
    for part in ("name", "version"):
        own = subject.document.get(part)
        if isinstance(own, str) and own and match[part] != own:
            yield tokens, f"it names the {part} {match[part][:40]!r}, the card {own[:40]!r}"


def authentication(subject: LintedCard) -> Iterator[Found]:
    """Yield an `authentication` that `build` could not map."""
    value = subject.document.get("authentication")
    if value is not None:
        try:
            authentication_schemes(value)
        except CardRefused as refusal:
            yield ("authentication",), refusal.message


def find_references(
    document: Mapping[str, Json], cards: Mapping[str, Mapping[str, Json]]
) -> Iterator[Found]:
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
            yield place, f"there is no card of {str(name)[:60]!r}"
            continue
        back = members_of(contract_member(other, "metadata")[1]).get(member)
        if back is not None and own_name not in (back if isinstance(back, list) else [back]):
            message = f"{str(name)[:60]!r} does not name this agent as {member}"
            yield place, message


RULES: Final = {
    "contract.required": Rule("error", required),
    "contract.strict": Rule("error", strictly_required),
    "contract.skill": Rule("error", skill_members),
    "contract.skill-id": Rule("error", skill_id),
    "contract.verb": Rule("note", verb),
    "contract.skill-count": Rule("note", skill_count),
    "contract.schema": Rule("error", schema),
    "contract.empty-schema": Rule("error", empty_schema),
    "contract.open-object": Rule("warning", open_object),
    "contract.field-type": Rule("error", field_type),
    "contract.undescribed": Rule("note", undescribed),
    "contract.vague": Rule("warning", vague),
    "contract.names": Rule("note", names),
    "contract.spiffe": Rule("error", spiffe),
    "contract.authentication": Rule("error", authentication),
    "contract.reference": Rule("error"),
    "contract.no-card": Rule("error"),
    "contract.untracked": Rule("warning"),
    "contract.path-constant": Rule("note"),
    "contract.app-version": Rule("note"),
}
