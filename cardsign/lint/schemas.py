"""Validate untrusted JSON Schemas, and values against them, in bounded time.

A schema can refer to itself, and values can be large, so the steps are counted as well as the
sizes. A `pattern` comes from a stranger and is never compiled or run, so a result that depends on
one is unclear. References outside the schema are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from cardsign.card.values import Json, levels

#: Steps of one comparison: about one for each keyword of a schema that is applied to a value.
MAX_STEPS: Final = 30_000
#: Problems of one value that are listed.
MAX_PROBLEMS: Final = 50
#: Keywords that need a pattern, and those that turn a value that fits into one that does not.
_PATTERNS: Final = ("pattern", "patternProperties")
_TURNING: Final = ("not", "oneOf", "if", "maxContains")
_SCHEMAS_BY_NAME: Final = ("properties", "$defs", "definitions")
_SCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS: Final = ("items", "additionalProperties")
_TEXTS: Final = ("title", "description", "$comment", "format", "pattern", "$ref")
# fmt: off
_LIMITS: Final = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
})
_ALL_TYPES: Final = frozenset({
    "null", "boolean", "integer", "number", "string", "array", "object"
})
# fmt: on
#: What gives a part of a schema a name of its own, or looks for one.
_NAMES: Final = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor"})
#: Where in a value, and what is wrong there.
Problem: TypeAlias = tuple[tuple[str, ...], str]


class TooMuchWork(Exception):
    """Validation takes too many steps."""


@dataclass(slots=True)
class Steps:
    """The steps that are left, and whether a pattern was skipped."""

    left: int = MAX_STEPS
    met_pattern: bool = False
    #: By identity, how many characters the containers of the value have, about.
    sizes: dict[int, int] = field(default_factory=dict)

    def counted(self, keyword: str, apply: Any, *, tries_patterns: bool) -> Any:
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
                raise TooMuchWork
            needs_pattern = keyword in _PATTERNS or (
                keyword == "additionalProperties" and "patternProperties" in schema
            )
            if needs_pattern and not tries_patterns:
                kind = str if keyword == "pattern" else dict
                self.met_pattern |= isinstance(instance, kind) and bool(instance)
                return ()
            return apply(validator, value, instance, schema)

        return counting

    def _weight(self, value: Json) -> int:
        return len(value) if isinstance(value, str) else self.sizes.get(id(value), 0)

    def weigh(self, value: Json) -> None:
        """Record the size of each object and list of a value."""
        for level in reversed([*levels(value)]):
            for container in level:
                if isinstance(container, dict | list):
                    inner = (
                        [*container, *container.values()]
                        if isinstance(container, dict)
                        else container
                    )
                    self.sizes[id(container)] = 2 + sum(
                        len(element) if isinstance(element, str) else self.sizes.get(id(element), 8)
                        for element in inner
                    )


def find_problems(schema: dict[str, Json], value: Json) -> tuple[list[Problem], str]:
    """Validate a value against a schema.

    Returns:
        What is certainly invalid, and why the rest is unclear; empty if it is not.
    """
    from jsonschema import Draft202012Validator
    from referencing.exceptions import Unresolvable

    objects = [part for level in levels(schema) for part in level if isinstance(part, dict)]
    if costly := _find_costly(schema, objects):
        return [], f"{costly} could take long to try"
    steps, problems = Steps(), []
    steps.weigh(value)
    steps.weigh(schema)
    try:
        if (fault := find_fault(schema, Draft202012Validator, steps)) is not None:
            return [], f"its schema cannot be used: {fault[1]}"
        errors = _errors(Draft202012Validator, schema, value, steps)
        for error in islice(errors, MAX_PROBLEMS):
            problems.append((tuple(map(str, error.absolute_path)), error.message))
    except TooMuchWork:
        return [], "checking it against its schema would take too long"
    # A reference may lead to what is no schema, of which the library says nothing of its own.
    except (Unresolvable, RecursionError, ArithmeticError, *_NO_SCHEMA) as fault:
        problem = "it refers to itself without end"
        if not isinstance(fault, RecursionError):
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


_NO_SCHEMA: Final = (AttributeError, LookupError, TypeError, ValueError)


def find_fault(schema: dict[str, Json], draft: Any, steps: Steps) -> Problem | None:
    """Return the first place at which a schema is invalid, and why; None if it is valid.

    Raises:
        TooMuchWork: That cannot be told in the steps that are left.
    """
    # The library walks sets: which of its errors comes first changes from start to start.
    shortened = _without_sound_parts(schema)
    errors = _errors(draft, draft.META_SCHEMA, shortened, steps, tries_patterns=True)
    places = ((tuple(map(str, error.absolute_path)), error.validator) for error in errors)
    first = min(places, default=None)
    return first and (first[0], f"{first[1]} of the meta-schema is not met")


def _errors(
    draft: Any, schema: Any, value: Json, steps: Steps, *, tries_patterns: bool = False
) -> Iterator[Any]:
    from jsonschema.validators import extend
    from referencing import Registry

    keywords = {
        name: steps.counted(name, apply, tries_patterns=tries_patterns)
        for name, apply in draft.VALIDATORS.items()
    }
    bounded: Any = extend(draft, keywords)  # type: ignore[no-untyped-call]
    # With a registry of its own no reference is ever fetched.
    yield from bounded(schema, registry=Registry()).iter_errors(value)


def _without_sound_parts(schema: Json) -> Json:
    """Return a schema without the parts that every draft accepts; True if nothing is left.

    The library takes a millisecond for each subschema, and cards have thousands.
    """
    if not isinstance(schema, dict):
        return schema
    parts = {name: _without_sound_schemas(name, value) for name, value in schema.items()}
    return {name: value for name, value in parts.items() if not _is_sound(name, value)} or True


def _without_sound_schemas(name: str, value: Json) -> Json:
    """Return the value of a keyword, its subschemas without what is sound in them."""
    if name in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {key: _without_sound_parts(part) for key, part in value.items()}
    if name in _SCHEMA_LISTS and isinstance(value, list):
        return [_without_sound_parts(part) for part in value]
    return _without_sound_parts(value) if name in _SCHEMAS else value


def _is_sound(name: str, value: Json) -> bool:
    """Say whether a keyword, of whose subschemas only the doubtful are left, is sound."""
    if name in _SCHEMAS_BY_NAME:
        return isinstance(value, dict) and all(isinstance(part, bool) for part in value.values())
    if name in _SCHEMA_LISTS:
        parts = value if isinstance(value, list) else []
        return parts != [] and all(isinstance(part, bool) for part in parts)
    if name in _SCHEMAS:
        return isinstance(value, bool)
    if name in _TEXTS:
        return isinstance(value, str)
    if name == "type":
        return isinstance(value, str) and value in _ALL_TYPES
    if name in _LIMITS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name == "required" and isinstance(value, list):
        return len({part for part in value if isinstance(part, str)}) == len(value)
    return name in ("default", "const") or (name == "enum" and isinstance(value, list))
