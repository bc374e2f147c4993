"""Validate untrusted JSON Schemas, and values against them, in bounded time.

A schema can refer to itself, and values can be large, so the steps are counted as well as the
sizes. A `pattern` comes from a stranger and is never compiled or run, so a result that depends on
one is unclear. References outside the schema are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from cardsign.card.values import Json, children_of, elements_of, levels, members_of

#: Steps of one comparison: about one for each keyword of a schema that is applied to a value.
MAX_STEPS: Final = 30_000
#: Problems of one value that are listed.
MAX_PROBLEMS: Final = 50
#: Keywords that need a pattern, and those that turn a value that fits into one that does not.
_PATTERNS: Final = ("pattern", "patternProperties")
_TURNING: Final = ("not", "oneOf", "if", "maxContains")
#: What gives a part of a schema a name of its own, or looks for one.
_NAMES: Final = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor"})
_NO_SCHEMA: Final = (AttributeError, LookupError, TypeError, ValueError)
#: Where in a value, and what is wrong there.
Problem: TypeAlias = tuple[tuple[str, ...], str]


# What the meta-schemas ask of the keywords. The library takes a millisecond for each subschema, and
# cards have thousands.

# fmt: off
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_SCHEMAS: Final = frozenset({
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})
_SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS_BY_NAME: Final = (
    "$defs", "definitions", "dependentSchemas", "patternProperties", "properties",
)
_TEXTS: Final = (
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema",
    "contentEncoding", "contentMediaType", "description", "format", "pattern", "title",
)
_NUMBERS: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum")
_COUNTS: Final = (
    "maxContains", "maxItems", "maxLength", "maxProperties",
    "minContains", "minItems", "minLength", "minProperties",
)
# fmt: on


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of_names(value: Json) -> bool:
    """Return whether no name in a list is there twice; what is none is found by itself."""
    names = [name for name in elements_of(value) if isinstance(name, str)]
    return isinstance(value, list) and len(set(names)) == len(names)


def _is_type(value: Json) -> bool:
    names: list[Json] = value if isinstance(value, list) else [value]
    return names != [] and all(name in _TYPES for name in names) and _is_list_of_names(names)


_ALLOWED: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys((*_SCHEMA_LISTS, "items"), lambda value: elements_of(value) != []),
    **dict.fromkeys(
        (*_SCHEMAS_BY_NAME, "$vocabulary", "dependencies"), lambda value: isinstance(value, dict)
    ),
    **dict.fromkeys(_TEXTS, lambda value: isinstance(value, str)),
    **dict.fromkeys(_NUMBERS, _is_number),
    **dict.fromkeys(
        _COUNTS, lambda value: _is_number(value) and value >= 0 and float(value).is_integer()
    ),
    **dict.fromkeys(
        ("deprecated", "readOnly", "uniqueItems", "writeOnly"),
        lambda value: isinstance(value, bool),
    ),
    **dict.fromkeys(("enum", "examples"), lambda value: isinstance(value, list)),
    "dependentRequired": lambda value: (
        isinstance(value, dict) and all(map(_is_list_of_names, value.values()))
    ),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "required": _is_list_of_names,
    "type": _is_type,
}


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
        at = (*place, name)
        if name in _SCHEMAS and not (name == "items" and lists_items and isinstance(value, list)):
            yield from _list_faults(value, at, lists_items)
        elif name in _ALLOWED and not _ALLOWED[name](value):
            yield at, f"`{name}` cannot have this value"
        elif name in (*_SCHEMA_LISTS, *_SCHEMAS_BY_NAME, "items"):
            for token, part in children_of(value):
                yield from _list_faults(part, (*at, str(token)), lists_items)
        elif name == "required":
            for index, part in enumerate(elements_of(value)):
                if not isinstance(part, str):
                    yield (*at, str(index)), "expected a name"


# Values.


@dataclass(slots=True)
class _Steps:
    """The steps that are left, and whether a pattern was skipped."""

    left: int = MAX_STEPS
    met_pattern: bool = False
    #: By identity, how many characters the containers of the value have, about.
    sizes: dict[int, int] = field(default_factory=dict)

    def counted(self, keyword: str, apply: Any) -> Any:
        """Return the function of a keyword, wrapped to count its steps first."""

        def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            size = len(instance) if isinstance(instance, dict | list) else 0
            if keyword == "uniqueItems":
                self.left -= size * size // 10  # values of several kinds are compared in pairs
            # What does not fit is written into a message as a whole, and so is what it should
            # be; the messages of all alternatives are kept.
            self.left -= 1 + (self._weight(instance) + self._weight(value)) // 256
            self.left -= len(value) // 10 if isinstance(value, dict | list) else 0
            if self.left < 0:
                raise TimeoutError("too many steps")
            if keyword in _PATTERNS or (
                keyword == "additionalProperties" and "patternProperties" in schema
            ):
                kind = str if keyword == "pattern" else dict
                self.met_pattern |= isinstance(instance, kind) and bool(instance)
                return ()
            return apply(validator, value, instance, schema)

        return counting

    def _weight(self, value: Json) -> int:
        return len(value) if isinstance(value, str) else self.sizes.get(id(value), 0)

    def weigh(self, value: Json) -> int:
        """Return about how many characters a value has, and record it for what it holds."""
        if not isinstance(value, dict | list):
            return len(value) if isinstance(value, str) else 8
        size = 2 + sum(self.weigh(child) for _, child in children_of(value))
        self.sizes[id(value)] = size + sum(map(len, members_of(value)))
        return self.sizes[id(value)]


def find_problems(schema: Json, value: Json) -> tuple[list[Problem], str]:
    """Validate a value against a schema.

    Returns:
        What is certainly invalid, and why the rest is unclear; empty if it is not.
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
    steps, problems = _Steps(), []
    steps.weigh(value)
    steps.weigh(schema)
    keywords = Draft202012Validator.VALIDATORS.items()
    counted = {name: steps.counted(name, apply) for name, apply in keywords}
    bounded: Any = extend(Draft202012Validator, counted)  # type: ignore[no-untyped-call]
    # With a registry of its own no reference is ever fetched.
    errors = bounded(schema, registry=Registry()).iter_errors(value)
    try:
        for error in islice(errors, MAX_PROBLEMS):
            problems.append((tuple(map(str, error.absolute_path)), error.message))
    except TimeoutError:
        return [], "checking it against its schema would take too long"
    # A reference may lead to what is no schema, of which the library says nothing of its own.
    except (Unresolvable, RecursionError, ArithmeticError, *_NO_SCHEMA) as exc:
        problem = "it refers to itself without end"
        if not isinstance(exc, RecursionError):
            problem = "it refers to what is no schema in it"
        return [], f"its schema cannot be used: {problem}"
    if not steps.met_pattern:
        return problems, ""
    # A pattern counts as met: so what is wrong all the same is certain, unless that was turned.
    is_certain = not any(name in part for part in objects for name in _TURNING)
    return problems if is_certain else [], "its schema uses `pattern`, which is never run"


def _find_costly(schema: dict[str, Json], objects: list[dict[str, Json]]) -> str:
    """Return the keywords of a schema whose cost cannot be counted; empty if there are none."""
    if any("unevaluatedProperties" in part or "unevaluatedItems" in part for part in objects):
        return "unevaluatedProperties or unevaluatedItems"
    # The library looks through the whole schema for each use of such a name.
    if any(("$id" in part and part is not schema) or _NAMES & part.keys() for part in objects):
        return "a schema with an $id or anchor within"
    return ""
