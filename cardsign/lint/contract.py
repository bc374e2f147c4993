"""Rules for contract cards: skills with ids, strict schemas, and an identity.

The rules are those of a standard for departments of agents. They apply to cards with a `skill_id`
or a `spiffe_id`, and where the group is chosen. A built card has the same facts in the `params` of
our extension: `spiffe_id`, and under `skills` the schemas by id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from semver import Version

from cardsign.card.extensions import SCHEMA_MEMBERS, contract_member, skill_schemas
from cardsign.card.security import authentication_schemes
from cardsign.card.values import Json, children_of, elements_of, finding_at, levels, members_of
from cardsign.errors import CardRefused
from cardsign.findings import Finding
from cardsign.lint.rules import Breach, LintedCard, Tokens

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
_TYPING: Final = ("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "if", "not")
_ALL_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
#: What a schema of any object may say.
_SILENT: Final = frozenset(
    {"type", "description", "title", "$schema", "default", "examples", "properties"}
)
_STYLE: Final = re.compile(
    r"(?P<snake_case>[a-z0-9]+(?:_[a-z0-9]+)+)|(?P<camelCase>[a-z0-9]+(?:[A-Z][a-z0-9]*)+)"
)


# Required members, and skills.


def required(subject: LintedCard) -> Iterator[Breach]:
    """Yield which members are missing, and a version that is not semantic.

    The settings may ask for more of them; security schemes stand for `authentication`.
    """
    document = subject.document
    for name in ("name", "version", "skills"):
        if not document.get(name):
            yield "contract.required", (), f"{name!r} is missing"
    version = str(document.get("version") or "0.0.0")[:100]
    if not Version.is_valid(version):
        yield "contract.required", ("version",), f"{version[:40]!r} is not a semantic version"
    for name in _STRICT if subject.settings.strict else ():
        has_schemes = name == "authentication" and document.get("securitySchemes")
        if not has_schemes and contract_member(document, name)[1] in (None, "", {}, []):
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
        there = {"skill_id": name, **{key: skill.get(key) for key in ("name", "description")}}
        there |= {kind: (str(name), kind) in schemas for kind in SCHEMA_MEMBERS}
        for member in (member for member, value in there.items() if not value):
            yield "contract.skill", tokens, f"{member!r} is missing"
        match = _SKILL_ID.fullmatch(str(name))
        if match is None and isinstance(name, str) and name:
            yield "contract.skill-id", tokens, f"{name[:60]!r} is not department.verb_noun"
        if match and prefixes and match["prefix"] not in prefixes:
            message = f"{match['prefix'][:40]!r} is none of {', '.join(prefixes)}"
            yield "contract.skill-id", tokens, message
        if match and match["verb"] not in _VERBS:
            yield "contract.verb", tokens, f"the verb is {match['verb'][:40]!r}"
        yield from _check_words(tokens, skill)
    count = len(subject.skills)
    if count and not 2 <= count <= 5:
        yield "contract.skill-count", ("skills",), f"{count} skill{'s' * (count > 1)}"


# Schemas, and the fields in them.


def schemas(subject: LintedCard) -> Iterator[Breach]:
    """Yield the faults of a card's schemas and of the fields in them, at every depth.

    A schema is refused by the meta-schema, or takes anything; a field has no type, or takes
    anything; a description is missing, or says nothing; names mix snake_case and camelCase.

    Patterns come from a stranger and are never compiled.
    """
    names: list[str] = []
    for _, kind, where, schema in skill_schemas(subject.document):
        if not isinstance(schema, dict):
            yield "contract.schema", where, "expected an object"
            continue
        yield from _check_schema(where, schema)
        for at, inner, is_field in _places(where, schema):
            yield from _check_words(at, inner)
            if is_field and "$comment" not in inner:
                yield from _check_field(at, inner)
            is_own = kind == "input_schema" and at[:-1] == (*where, "properties")
            if is_own and not {"description", "enum", "$ref"} & inner.keys():
                yield "contract.undescribed", at, "has no description"
            names += members_of(inner.get("properties"))
    styles: dict[str | None, str] = {}
    for name in names:
        if match := _STYLE.fullmatch(name):
            styles.setdefault(match.lastgroup, name)
    if len(styles) > 1:
        shown = " and ".join(f"{name[:40]!r} ({style})" for style, name in styles.items())
        yield "contract.names", ("skills",), shown


def _places(tokens: Tokens, schema: Json) -> Iterator[tuple[Tokens, Mapping[str, Json], bool]]:
    """Yield a schema and those in it, each with its place, and whether it is a field's."""
    pending: list[tuple[Tokens, Json, bool]] = [(tokens, schema, False)]
    for at, inner, is_field in pending:  # which grows as it is read
        if not isinstance(inner, dict):
            continue
        yield at, inner, is_field
        for name, child in members_of(inner.get("properties")).items():
            pending.append(((*at, "properties", name), child, True))
        pending.append(((*at, "items"), inner.get("items"), True))
        for member in ("anyOf", "oneOf", "allOf"):
            for index, child in enumerate(elements_of(inner.get(member))):
                pending.append(((*at, member, str(index)), child, False))


def _check_schema(where: Tokens, schema: dict[str, Json]) -> Iterator[Breach]:
    if "$comment" not in schema and _says_nothing(schema):
        yield "contract.empty-schema", where, "it takes anything"
    draft = str(schema.get("$schema"))
    fault = find_fault(schema, lists_items="/draft-07/" in draft or "/2019-09/" in draft)
    if re.search(r"/draft-0[1-6]/", draft):
        yield "contract.schema", where, "it is of a draft before 7"
    elif fault is not None:
        yield "contract.schema", (*where, *fault[0]), fault[1]
    if members_of(schema.get("properties")) and "required" not in schema:
        yield "contract.undescribed", where, "has no `required`"


def _check_field(at: Tokens, field: Mapping[str, Json]) -> Iterator[Breach]:
    types = field.get("type")
    if isinstance(types, list) and {*map(str, types), "null"} >= _ALL_TYPES:
        yield "contract.open-object", at, "it is of any type"
    elif types == "object" and _says_nothing(field):
        yield "contract.open-object", at, "an object without properties"
    if field.keys().isdisjoint(_TYPING):
        yield "contract.field-type", at, "has no type"


def _says_nothing(schema: Mapping[str, Json]) -> bool:
    """Return whether a schema is of any object: what else it says is for people."""
    is_object = schema.get("type", "object") == "object" and not schema.get("properties")
    return is_object and schema.keys() <= _SILENT


def _check_words(tokens: Tokens, owner: Mapping[str, Json]) -> Iterator[Breach]:
    """Yield that the description of a schema, field or skill has no content."""
    text = owner.get("description")
    if isinstance(text, str) and _VAGUE.fullmatch(text.strip()):
        yield "contract.vague", (*tokens, "description"), f"{text.strip()[:40]!r} says nothing"


# Identity and authentication.


def identity(subject: LintedCard) -> Iterator[Breach]:
    """Yield a malformed SPIFFE ID, one of another agent or version, and an `authentication` that
    `build` could not map."""
    document = subject.document
    tokens, value = contract_member(document, "spiffe_id")
    match = _SPIFFE.fullmatch(value) if isinstance(value, str) else None
    if match is None and value is not None:
        yield "contract.spiffe", tokens, "expected spiffe://DOMAIN/agent/NAME/ENV/REGION/VERSION"
    for part in ("name", "version"):
        own = document.get(part)
        if match and isinstance(own, str) and own and match[part] != own:
            message = f"its {part} is {match[part][:40]!r}, and the card's is {own[:40]!r}"
            yield "contract.spiffe", tokens, message
    try:
        authentication_schemes(document.get("authentication"))
    except CardRefused as refusal:
        yield "contract.authentication", ("authentication",), refusal.message


def find_references(
    document: Mapping[str, Json], cards: Mapping[str, Mapping[str, Json]]
) -> Iterator[Finding]:
    """Yield references to other agents whose cards are missing, or do not refer back.

    A foreman lists its `metadata.specialists`, and each of them names its `metadata.foreman`.
    """
    tokens, metadata = contract_member(document, "metadata")
    named = [
        ((*tokens, "specialists", str(index)), str(name), "foreman")
        for index, name in enumerate(elements_of(members_of(metadata).get("specialists")))
    ]
    if isinstance(foreman := members_of(metadata).get("foreman"), str):
        named.append(((*tokens, "foreman"), foreman, "specialists"))
    for place, name, member in named:
        if name not in cards:
            yield finding_at("contract.reference", place, f"there is no card of {name[:60]!r}")
            continue
        back = members_of(contract_member(cards[name], "metadata")[1]).get(member)
        names = back if isinstance(back, list) else [back]
        if back is not None and str(document.get("name")) not in names:
            message = f"{name[:60]!r} does not name this agent as {member}"
            yield finding_at("contract.reference", place, message)


CHECKS: Final = (required, schemas, skills, identity)


# Untrusted JSON Schemas, and values against them, in bounded time. A schema can refer to itself,
# and values can be large, so the steps are counted as well as the sizes. A `pattern` comes from a
# stranger and is never compiled or run, so a result that depends on one is unclear. References
# outside the schema are not followed.


#: Steps of one comparison: about one for each keyword of a schema that is applied to a value.
MAX_STEPS: Final = 30_000
#: Keywords that are applied within one another, far below the limit of Python's stack: where that
#: is met in a library written in Rust, the process ends.
MAX_KEYWORDS: Final = 150
#: Problems of one value that are listed.
MAX_PROBLEMS: Final = 50
#: Keywords that need a pattern, and those that turn a value that fits into one that does not.
_PATTERNS: Final = ("pattern", "patternProperties")
_TURNING: Final = ("not", "oneOf", "if", "maxContains")
_COMPARED: Final = ("const", "enum", "uniqueItems")
_ALTERNATIVES: Final = ("anyOf", "oneOf")
#: What gives a part of a schema a name of its own, or looks for one.
_NAMES: Final = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor"})
_NO_SCHEMA: Final = (AttributeError, LookupError, TypeError, ValueError)
#: Where in a value, and what is wrong there.
Problem: TypeAlias = tuple[tuple[str, ...], str]


# What the meta-schemas ask of the keywords. The library takes a millisecond for each subschema, and
# cards have thousands.

_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of_names(value: Json) -> bool:
    """Return whether no name in a list is there twice; what is none is found by itself."""
    names = [name for name in elements_of(value) if isinstance(name, str)]
    return isinstance(value, list) and len(set(names)) == len(names)


def _is_type(value: Json) -> bool:
    names: list[Json] = value if isinstance(value, list) else [value]
    return names != [] and all(name in _TYPES for name in names) and _is_list_of_names(names)


#: By kind of value: what it takes, and the keywords of that kind in drafts 7 to 2020-12.
_KINDS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "a schema": (
        lambda value: isinstance(value, dict | bool),
        "additionalProperties contains contentSchema else if items not propertyNames then "
        "unevaluatedItems unevaluatedProperties",
    ),
    "schemas": (lambda value: elements_of(value) != [], "allOf anyOf oneOf prefixItems"),
    "schemas by name": (
        lambda value: isinstance(value, dict),
        "$defs definitions dependentSchemas patternProperties properties",
    ),
    "an object": (lambda value: isinstance(value, dict), "$vocabulary dependencies"),
    "a text": (
        lambda value: isinstance(value, str),
        "$anchor $comment $dynamicAnchor $dynamicRef $id $ref $schema contentEncoding "
        "contentMediaType description format pattern title",
    ),
    "a number": (_is_number, "exclusiveMaximum exclusiveMinimum maximum minimum"),
    "a positive number": (lambda value: _is_number(value) and value > 0, "multipleOf"),
    "a count": (
        lambda value: _is_number(value) and value >= 0 and float(value).is_integer(),
        "maxContains maxItems maxLength maxProperties minContains minItems minLength minProperties",
    ),
    "true or false": (
        lambda value: isinstance(value, bool),
        "deprecated readOnly uniqueItems writeOnly",
    ),
    "a list": (lambda value: isinstance(value, list), "enum examples"),
    "names": (_is_list_of_names, "required"),
    "names by name": (
        lambda value: isinstance(value, dict) and all(map(_is_list_of_names, value.values())),
        "dependentRequired",
    ),
    "types": (_is_type, "type"),
}
_KIND_OF: Final = {name: kind for kind, (_, names) in _KINDS.items() for name in names.split()}


def find_fault(schema: Json, *, lists_items: bool = False) -> Problem | None:
    """Return the first place at which a schema is invalid, and why; None if it is valid.

    Args:
        schema: As parsed JSON. A pattern in it is not looked at.
        lists_items: Whether `items` may be a list, as before draft 2020-12.
    """
    return min(_list_faults(schema, (), lists_items), default=None)


def _list_faults(schema: Json, place: tuple[str, ...], lists_items: bool) -> Iterator[Problem]:
    if not isinstance(schema, dict | bool):
        yield place, "a schema is an object, true or false"
    for name, value in members_of(schema).items():
        at, kind = (*place, name), _KIND_OF.get(name)
        if name == "items" and lists_items and isinstance(value, list):
            kind = "schemas"
        if kind == "a schema":
            yield from _list_faults(value, at, lists_items)
        elif kind and not _KINDS[kind][0](value):
            yield at, f"`{name}` cannot have this value"
        elif kind in ("schemas", "schemas by name"):
            for token, part in children_of(value):
                yield from _list_faults(part, (*at, str(token)), lists_items)
        elif kind == "names":
            for index, part in enumerate(elements_of(value)):
                if not isinstance(part, str):
                    yield (*at, str(index)), "expected a name"


# Values.


@dataclass(slots=True)
class _Budget:
    """What one comparison may still cost, and whether a pattern was skipped."""

    steps: int = MAX_STEPS
    depth: int = 0
    met_pattern: bool = False

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TimeoutError("too many steps")

    def bound(self, keyword: str, apply: Any) -> Any:
        """Return the function of a keyword, wrapped so that it spends its steps."""

        def bounded(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            steps = 1 + sum(len(v) for v in (value, instance) if isinstance(v, dict | list)) // 50
            if keyword in _COMPARED:  # which looks at all that is in both
                steps += (len(str(value)) + len(str(instance))) // 256
            if keyword == "uniqueItems" and isinstance(instance, list):
                steps += len(instance) ** 2 // 10  # compared in pairs at worst
            self.spend(steps)
            is_open = keyword == "additionalProperties" and "patternProperties" in schema
            if is_open or keyword in _PATTERNS:
                kind = str if keyword == "pattern" else dict
                self.met_pattern |= isinstance(instance, kind) and bool(instance)
                return
            if self.depth == MAX_KEYWORDS:
                raise RecursionError("a reference leads back")
            self.depth += 1
            try:
                for error in apply(validator, value, instance, schema) or ():
                    # It quotes what does not fit as a whole; those of all alternatives are kept.
                    self.spend(len(error.message) // 256)
                    yield error
            finally:
                self.depth -= 1

        return bounded


def find_problems(schema: Json, value: Json) -> tuple[list[Problem], str]:
    """Validate a value against a schema.

    Returns:
        What is certainly invalid, by its place, and why the rest is unclear; empty if it is not.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, dict):
        return [], "the skill has no schema for it"
    if (fault := find_fault(schema)) is not None:
        return [], f"its schema cannot be used: {fault[1]}"
    objects = [part for level in levels(schema) for part in level if isinstance(part, dict)]
    if costly := _find_costly(schema, objects):
        return [], f"{costly} could take long to try"
    budget, problems = _Budget(), []
    keywords = Draft202012Validator.VALIDATORS.items()
    bounded = {name: budget.bound(name, apply) for name, apply in keywords}
    validator: Any = extend(Draft202012Validator, bounded)  # type: ignore[no-untyped-call]
    # With a registry of its own no reference is ever fetched.
    errors = validator(schema, registry=Registry()).iter_errors(value)
    try:
        for error in islice(errors, MAX_PROBLEMS):
            problems.append((tuple(map(str, error.absolute_path)), error.message))
        problems.sort()  # the library's order changes from one start of Python to the next
    except TimeoutError:
        return [], "checking it against its schema would take too long"
    except RecursionError:
        return [], "its schema cannot be used: it refers to itself without end"
    # A reference may lead to what is no schema, of which the library says nothing of its own.
    except (Unresolvable, ArithmeticError, *_NO_SCHEMA):
        return [], "its schema cannot be used: it refers to what is not a schema in it"
    if not budget.met_pattern:
        return problems, ""
    # A pattern counts as met: so what is wrong all the same is certain, unless that was turned.
    is_certain = not any(name in part for part in objects for name in _TURNING)
    return problems if is_certain else [], "its schema uses `pattern`, which is never run"


def _find_costly(schema: dict[str, Json], objects: list[dict[str, Json]]) -> str:
    """Return the keywords of a schema whose cost cannot be counted; empty if there are none."""
    if any("unevaluatedProperties" in part or "unevaluatedItems" in part for part in objects):
        return "unevaluatedProperties or unevaluatedItems"
    if any(False in elements_of(part.get(name)) for part in objects for name in _ALTERNATIVES):
        return "an alternative that takes nothing"  # the value is quoted for each of them
    # The library looks through the whole schema for each use of such a name.
    if any(("$id" in part and part is not schema) or _NAMES & part.keys() for part in objects):
        return "a schema with an $id or anchor within"
    return ""
