"""Two JSON Schemas compared: which values that were valid are not valid now, and the reverse.

Judged are `type`, `enum`, `properties`, `required`, `additionalProperties` and `items`. A change of
any other keyword is called unclear, never safe. A schema is the AND of its keywords, so one none of
whose keywords became narrower refuses nothing that it took before.

Two conventions go beyond that. A member that the old schema does not name and does not speak of
by `additionalProperties` is no part of the contract, so naming it is additive. A member that is
no longer named is a break, even where any member is still taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from cardsign.card.values import Json, append, elements_of, jcs, members_of

#: What a change means for a caller that knows the old card only. `unclear`: this cannot be told
#: from the two cards, and a person has to decide.
Effect: TypeAlias = Literal["breaking", "additive", "wording", "unclear"]
#: What a change means for a caller, where it is (as a JSON pointer: in the new card, or in the old
#: one for what is gone), and what changed.
Change: TypeAlias = tuple[Effect, str, str]
#: What changed, where as a JSON pointer, and in words. `narrower`: something that was valid is not
#: any more. `wider`: the reverse. An effect means the same whoever makes the values.
_Step: TypeAlias = tuple[str, str, str]

#: By who makes the values: the caller makes inputs, the agent makes outputs.
_EFFECTS: Final[dict[str, dict[str, Any]]] = {
    "input": {"narrower": "breaking", "wider": "additive"},
    "output": {"narrower": "additive", "wider": "breaking"},
}
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_JUDGED: Final = ("type", "enum", "properties", "required", "additionalProperties", "items")
# fmt: off
_NOTES: Final = frozenset({
    "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "contentEncoding", "contentMediaType",
})
# fmt: on
#: What they leave of the other keywords cannot be told, so nothing beside a change is judged.
_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"})


def compare_schemas(old: Json, new: Json, direction: str, path: str = "") -> list[Change]:
    """List what changed from one schema to the other, and what it means for a caller.

    Args:
        old: A schema as parsed JSON: an object or a boolean.
        new: The same.
        direction: What the schema describes: ``input`` or ``output``.
        path: Where the schema stands, as a JSON pointer.
    """
    effects = _EFFECTS[direction]
    return [(effects.get(kind, kind), at, text) for kind, at, text in _compare(old, new, path)]


def is_same(value: Json, other: Json) -> bool:
    """Return whether two values are the same JSON, in which true is not 1."""
    # To write them in their own order is far cheaper than JCS.
    return value == other and (json.dumps(value) == json.dumps(other) or jcs(value) == jcs(other))


def _compare(old: Json, new: Json, path: str) -> Iterator[_Step]:
    was, now = ({} if schema is True else schema for schema in (old, new))
    if is_same(was, now):
        return
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _compare_objects(was, now, path)
    elif was is False:
        yield "wider", path, "something is taken here now"
    elif now is False:
        yield "narrower", path, "nothing is taken here any more"
    else:
        yield "unclear", path, "this is no JSON Schema"


def _compare_objects(
    old: Mapping[str, Json], new: Mapping[str, Json], path: str
) -> Iterator[_Step]:
    changed = [n for n in dict.fromkeys((*old, *new)) if not is_same(old.get(n), new.get(n))]
    for name in changed:
        if name in _NOTES or name.startswith("x-"):
            yield "wording", append(path, name), f"its {name} changed"
        elif name not in _JUDGED:
            yield "unclear", append(path, name), f"`{name}` changed"
    if not _COMBINED.isdisjoint(changed):
        return
    was, now = _list_types(old), _list_types(new)
    yield from _compare_values(was, now, path)
    if "enum" in changed:
        yield from _compare_values(old.get("enum"), new.get("enum"), path)
    if "array" in was and "array" in now:
        yield from _compare(old.get("items", True), new.get("items", True), append(path, "items"))
    if "object" in was and "object" in now:
        yield from _compare_members(old, new, path)


def _list_types(schema: Mapping[str, Json]) -> list[Json]:
    """Return the types of the values that a schema takes; an integer is a number, too."""
    named = schema.get("type")
    taken = [named] if isinstance(named, str) else elements_of(named)
    if "number" in taken:
        taken = [*taken, "integer"]
    return [name for name in _TYPES if named is None or name in taken]


def _compare_values(old: Json, new: Json, path: str) -> Iterator[_Step]:
    """Compare lists of the values that are taken; what is no list takes any value."""
    if not (isinstance(old, list) and isinstance(new, list)):
        if old is None:
            yield "narrower", path, "only listed values are taken now"
        else:
            yield "wider", path, "any value is taken now"
        return
    was, now = ({jcs(value): value for value in listed} for listed in (old, new))
    if gone := [repr(value)[:40] for key, value in was.items() if key not in now]:
        yield "narrower", path, f"no longer taken: {', '.join(gone)}"
    if come := [repr(value)[:40] for key, value in now.items() if key not in was]:
        yield "wider", path, f"taken now: {', '.join(come)}"


def _compare_members(
    old: Mapping[str, Json], new: Mapping[str, Json], path: str
) -> Iterator[_Step]:
    was, now = (members_of(schema.get("properties")) for schema in (old, new))
    was_needed, is_needed = (
        {name for name in elements_of(schema.get("required")) if isinstance(name, str)}
        for schema in (old, new)
    )
    there = append(path, "properties")
    if was.keys() != now.keys() and "patternProperties" in {**old, **new}:
        yield "unclear", there, "which members `patternProperties` speaks of changed"
    rest = old.get("additionalProperties")
    for name in dict.fromkeys((*was, *now)):
        place = append(there, name)
        if name not in now:
            yield "breaking", place, f"{name!r} was removed"
        elif name in was or not (rest is None or rest is False):
            yield from _compare(was.get(name, rest), now[name], place)
        else:
            yield "additive" if rest is None else "wider", place, f"{name!r} is new"
    for name in sorted(was_needed ^ is_needed):
        if name in is_needed:
            yield "narrower", append(there, name), f"{name!r} is required now"
        elif name in now or name not in was:
            yield "wider", append(there, name), f"{name!r} is optional now"
    was_open, is_open = (schema.get("additionalProperties", True) for schema in (old, new))
    yield from _compare(was_open, is_open, append(path, "additionalProperties"))
