"""Two JSON Schemas compared: which values that were valid are not valid now, and the reverse.

The drafts from 4 to 2020-12 are understood as far as they agree. What is not decided here is
called unclear, never safe. The comparison is made keyword by keyword: a schema is the AND of its
keywords, so a schema none of whose keywords became narrower refuses nothing that it took before.

Two conventions go beyond that. A member that the old schema does not name and does not speak of
by `additionalProperties` is no part of the contract, so naming it is additive. A member that is
no longer named is a break, even where any member is still taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from cardsign.card.values import Json, append, elements_of, members_of
from cardsign.findings import MAX_MESSAGE, cut

#: What a change means for a caller that knows the old card only. `unclear`: this cannot be told
#: from the two cards, and a person has to decide.
Effect: TypeAlias = Literal["breaking", "additive", "wording", "unclear"]
#: Who makes the values: the caller makes inputs, the agent makes outputs.
Direction: TypeAlias = Literal["input", "output"]
#: `narrower`: something that was valid is not any more. `wider`: the reverse. `removed` and
#: `added` are the two conventions.
_Kind: TypeAlias = Literal["narrower", "wider", "removed", "added", "wording", "unclear"]

_EFFECTS: Final[dict[Direction, dict[_Kind, Effect]]] = {
    "input": {"narrower": "breaking", "wider": "additive"},
    "output": {"narrower": "additive", "wider": "breaking"},
}
_ALWAYS: Final[dict[_Kind, Effect]] = {
    "removed": "breaking",
    "added": "additive",
    "wording": "wording",
    "unclear": "unclear",
}
#: Values that are looked at before the rest is called unclear; each costs some microseconds.
#: Alternatives are held against one another and references lead anywhere, so sizes bound nothing.
MAX_STEPS: Final = 60_000
_STEPS_OF_A_LOOK: Final = 8  # that a pair of schemas costs, however small they are
#: References that lead to one another and are followed at a time.
MAX_OPEN: Final = 16

_TYPES: Final = ("null", "boolean", "integer", "fraction", "string", "array", "object")
#: By the type of the values: the keyword of which a larger value admits less, and that of more.
_LIMITS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
# fmt: off
_NOTES: Final = frozenset({
    "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "$defs", "definitions", "contentEncoding",
    "contentMediaType",
})
_SUBSCHEMAS: Final = frozenset({
    "properties", "additionalProperties", "items", "prefixItems", "additionalItems",
    "allOf", "anyOf", "oneOf", "$defs", "definitions",
})
# fmt: on
#: By the type of the values: each refuses some by itself, so that adding it narrows and removing
#: it widens. The last is of values of any type.
_CONDITIONS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("pattern",),
    "array": ("contains",),
    "object": ("dependentRequired", "dependentSchemas", "dependencies", "propertyNames"),
    "": ("not",),
}
#: What they mean depends on other keywords, so that no change of them is decided here.
# fmt: off
_ENTANGLED: Final = (
    "if", "then", "else", "format", "patternProperties", "unevaluatedProperties",
    "unevaluatedItems", "minContains", "maxContains", "contentSchema", "$dynamicRef",
    "$recursiveRef", "$anchor", "$dynamicAnchor",
)
_DECIDED: Final = frozenset({
    "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "uniqueItems", "required", "properties", "additionalProperties", "items",
    "prefixItems", "additionalItems", "allOf", "anyOf", "oneOf", "$ref",
    *chain.from_iterable((*_LIMITS.values(), *_CONDITIONS.values())), *_ENTANGLED, *_NOTES,
})
# fmt: on
_Schema: TypeAlias = Mapping[str, Json]
#: What changed, where as a JSON pointer, and in words.
_Step: TypeAlias = tuple[_Kind, str, str]


#: What a change means for a caller, where it is (as a JSON pointer: in the new card, or in the old
#: one for what is gone), and what changed.
Change: TypeAlias = tuple[Effect, str, str]


class _TooLarge(Exception):
    """More steps than a comparison may take."""


@dataclass(slots=True)
class Work:
    """What one comparison, of a schema or of all in a card, may still look at, and has seen."""

    left: int = MAX_STEPS
    #: Lists of alternatives by their identity, and whether no value fits two of them.
    disjoint: dict[int, tuple[list[Json], bool]] = field(default_factory=dict)

    def spend(self, steps: int) -> None:
        """Take these from what is left."""
        self.left -= steps
        if self.left < 0:
            raise _TooLarge


def compare_schemas(
    old: Json, new: Json, direction: Direction, path: str = "", work: Work | None = None
) -> list[Change]:
    """What changed from one schema to the other, and what it means for a caller.

    Args:
        old: A schema as parsed JSON: an object or a boolean.
        new: The same.
        direction: Who makes the values that the schema describes.
        path: Where the schema stands, as a JSON pointer.
        work: What may be spent; shared by the schemas of one card.

    Returns:
        The changes in document order; none where both say the same. The last is `unclear` where
        the schemas are too large to be compared whole.
    """
    found: list[_Step] = []
    if _text(old) != _text(new):
        try:
            found += _Comparison(old, new, work or Work()).compare(old, new, path)
        except _TooLarge:
            found.append(("unclear", path, "these schemas are too large to be compared whole"))
    effects = _EFFECTS[direction] | _ALWAYS
    changes = ((effects[kind], where, cut(text, MAX_MESSAGE)) for kind, where, text in found)
    return list(dict.fromkeys(changes))


def _kind(*, wider: bool) -> _Kind:
    return "wider" if wider else "narrower"


def _hurts(step: _Step) -> bool:
    """Whether something that was valid may not be valid any more."""
    return step[0] in ("narrower", "removed", "unclear")


@dataclass(slots=True)
class _Comparison:
    """One comparison of two whole schemas; references are looked up in them."""

    old_root: Json
    new_root: Json
    work: Work
    #: Pairs of references that are being compared: what they lead back to is not compared again.
    open: set[tuple[str, str]] = field(default_factory=set)

    def compare(self, old: Json, new: Json, path: str) -> Iterator[_Step]:
        if isinstance(old, bool) and old is new:
            return
        self.work.spend(_STEPS_OF_A_LOOK + _width(old) + _width(new))
        pair = (_reference(old), _reference(new))
        if any(pair):
            if pair in self.open:
                return
            found = self._looked_up(self.old_root, old), self._looked_up(self.new_root, new)
            if found[0] is None or found[1] is None or len(self.open) >= MAX_OPEN:
                yield "unclear", path, "a reference could not be followed"
                return
            self.open.add(pair)
            try:
                yield from self.compare(*found, path)
            finally:  # who asks may stop at the first step
                self.open.discard(pair)
            return
        choices = self._choices(old), self._choices(new)
        before, after = ({} if one is True else one for one in (old, new))
        if choices != ([old], [new]):
            yield from self._alternatives(*choices, path)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from self._objects(before, after, path)
        elif old is False:
            yield "wider", path, "something is taken here now"
        elif new is False:
            yield "narrower", path, "nothing is taken here any more"
        elif old != new:
            yield "unclear", path, "this is no JSON Schema"

    def _objects(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        before, after = _types(old), _types(new)
        if gone := [one for one in before if one not in after]:
            yield "narrower", path, f"{_listed(gone)} is no longer taken"
        if come := [one for one in after if one not in before]:
            yield "wider", path, f"{_listed(come)} is taken now"
        shared = {one for one in before if one in after}
        yield from _values(old, new, path)
        if shared & {"integer", "fraction"}:
            yield from _numbers(old, new, path)
        for kind, limits in _LIMITS.items():
            for name in limits if kind in shared else ():
                more = name == limits[1]
                yield from _limit(name, old.get(name), new.get(name), path, more=more)
        if "array" in shared:
            yield from self._arrays(old, new, path)
        if "object" in shared:
            yield from self._members(old, new, path)
        for kind, names in _CONDITIONS.items():
            for name in names if kind in shared or not kind else ():
                yield from _condition(name, old, new, path)
        for name in _ENTANGLED:
            if old.get(name) != new.get(name):
                yield "unclear", append(path, name), f"`{name}` changed"
        for name in ("anyOf", "oneOf", "allOf"):
            yield from self._branches(name, old.get(name), new.get(name), append(path, name))
        yield from _notes(old, new, path)

    def _arrays(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
            unique = bool(new.get("uniqueItems"))
            how = "have to differ now" if unique else "may be equal now"
            yield _kind(wider=not unique), path, f"its items {how}"
        (first_old, rest_old), (first_new, rest_new) = _items(old), _items(new)
        for index in range(max(len(first_old), len(first_new))):
            before = first_old[index] if index < len(first_old) else rest_old
            after = first_new[index] if index < len(first_new) else rest_new
            yield from self.compare(before, after, append(append(path, "items"), str(index)))
        yield from self.compare(rest_old, rest_new, append(path, "items"))

    def _members(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        before, after = (members_of(one.get("properties")) for one in (old, new))
        was_needed, is_needed = _strings(old.get("required")), _strings(new.get("required"))
        there = append(path, "properties")
        for name in [*before, *(name for name in after if name not in before)]:
            place = append(there, name)
            if name not in after:
                yield "removed", place, f"{name!r} was removed"
            elif name not in before:
                rest = old.get("additionalProperties")
                if rest is None or rest is False:
                    yield "added" if rest is None else "wider", place, f"{name!r} is new"
                else:
                    yield from self.compare(rest, after[name], place)
            else:
                yield from self.compare(before[name], after[name], place)
        for name in sorted(is_needed - was_needed):
            what = "is required now" if name in before else "is new and required"
            yield "narrower", append(there, name), f"{name!r} {what}"
        removed = before.keys() - after.keys()
        for name in sorted(was_needed - is_needed - removed):
            yield "wider", append(there, name), f"{name!r} is optional now"
        others = (old.get("additionalProperties", True), new.get("additionalProperties", True))
        yield from self.compare(*others, append(path, "additionalProperties"))

    def _branches(self, name: str, old: Json, new: Json, path: str) -> Iterator[_Step]:
        before, after = elements_of(old), elements_of(new)
        if not before and not after:
            return
        if not before or not after:
            yield _kind(wider=bool(before)), path, f"`{name}` is {'gone' if before else 'new'}"
            return
        if name == "anyOf" or (
            name == "oneOf" and self._disjoint(before) and self._disjoint(after)
        ):
            yield from self._alternatives(before, after, path)
        elif (steps := self._in_pairs(before, after, path)) is None:
            yield "unclear", path, f"`{name}` changed"
        else:
            yield from steps

    def _in_pairs(
        self, before: Sequence[Json], after: Sequence[Json], path: str
    ) -> list[_Step] | None:
        """The changed words of two lists of schemas; None if more than words changed."""
        if len(before) != len(after):
            return None
        found: list[_Step] = []
        for index, pair in enumerate(zip(before, after, strict=True)):
            for step in self.compare(*pair, append(path, str(index))):
                if step[0] != "wording":
                    return None
                found.append(step)
        return found

    def _alternatives(
        self, before: Sequence[Json], after: Sequence[Json], path: str
    ) -> Iterator[_Step]:
        if len(before) == len(after) == 1:
            yield from self.compare(before[0], after[0], path)
            return
        if (steps := self._in_pairs(before, after, path)) is not None:
            yield from steps
            return

        def takes_no_more(one: Json, other: Json) -> bool:
            """Whether `other` takes whatever `one` takes."""
            return not any(_hurts(step) for step in self.compare(one, other, path))

        swapped = _Comparison(self.new_root, self.old_root, self.work)
        old_texts, new_texts = self._texts(before), self._texts(after)
        kept = {*old_texts} & {*new_texts}  # most stay as they are
        for index, one in enumerate(before):
            if old_texts[index] not in kept and not any(takes_no_more(one, it) for it in after):
                place = append(path, str(index))
                yield "narrower", place, "an alternative was removed or narrowed"
        for index, one in enumerate(after):
            if new_texts[index] not in kept and all(
                any(_hurts(step) for step in swapped.compare(one, it, path)) for it in before
            ):
                place = append(path, str(index))
                yield "wider", place, "an alternative was added or widened"

    def _texts(self, schemas: Sequence[Json]) -> list[object]:
        """Equal for schemas that mean the same wherever they stand."""
        texts = [_text(one) for one in schemas]
        self.work.spend(sum(map(len, texts)) // 64)
        return [index if "$ref" in one else one for index, one in enumerate(texts)]

    def _looked_up(self, root: Json, schema: Json) -> Json:
        """What a local reference means, followed to its end; None where that is not certain."""
        seen: set[str] = set()
        while reference := _reference(schema):
            self.work.spend(1 + len(reference) // 16)
            beside = set(members_of(schema)) - {"$ref"} - _NOTES
            # Drafts up to 7 ignore what stands beside a reference, and later ones do not.
            if beside or reference in seen or not (reference == "#" or reference.startswith("#/")):
                return None
            seen.add(reference)
            schema = root
            for token in reference.split("/")[1:]:
                name = token.replace("~1", "/").replace("~0", "~")
                if isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
                    schema = schema[int(name)]
                elif isinstance(schema, Mapping) and name in schema:
                    schema = schema[name]
                else:
                    return None
        return schema

    def _choices(self, schema: Json) -> list[Json]:
        """The schemas of which a value has to meet one; the schema itself if it says no more."""
        said = [(name, one) for name, one in members_of(schema).items() if name not in _NOTES]
        if len(said) != 1:
            return [schema]
        ((name, found),) = said
        if name not in ("anyOf", "oneOf", "allOf") or not isinstance(found, list) or not found:
            return [schema]
        if name == "anyOf" or len(found) == 1 or (name == "oneOf" and self._disjoint(found)):
            return found
        return [schema]

    def _disjoint(self, branches: list[Json]) -> bool:
        """Whether no value is valid under two of them, as far as their types and values show."""
        known = self.work.disjoint.get(id(branches))
        if known is None:
            known = self.work.disjoint[id(branches)] = (branches, _are_disjoint(branches))
        return known[1]


# ------------------------------------------------------------------ keywords without subschemas


def _values(old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
    before, after = _finite(old), _finite(new)
    if before is None and after is None:
        return
    if before is None or after is None:
        which = "only listed values are" if before is None else "any value is"
        yield _kind(wider=after is None), path, f"{which} taken now"
        return
    if gone := [value for key, value in before.items() if key not in after]:
        yield "narrower", path, f"no longer taken: {_shown(gone)}"
    if come := [value for key, value in after.items() if key not in before]:
        yield "wider", path, f"taken now: {_shown(come)}"


def _numbers(old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
    for name, more in (("minimum", False), ("maximum", True)):
        before, after = _bound(old, name), _bound(new, name)
        if before == after:
            continue
        sign = 1 if more else -1
        wider = after is None or (
            before is not None
            and (sign * after[0], not after[1]) > (sign * before[0], not before[1])
        )
        said = f"its {name} was {_edge(before)}, and is {_edge(after)}"
        yield _kind(wider=wider), path, said
    before_of, after_of = _number(old.get("multipleOf")), _number(new.get("multipleOf"))
    if before_of != after_of:
        wider = not after_of or (before_of is not None and before_of % after_of == 0)
        how = "fewer" if wider else "more"
        yield _kind(wider=wider), path, f"{how} numbers are refused by `multipleOf`"


def _limit(name: str, old: Json, new: Json, path: str, *, more: bool) -> Iterator[_Step]:
    unset = None if more else Fraction(0)
    before, after = _number(old), _number(new)
    before, after = (unset if before is None else before), (unset if after is None else after)
    if before == after:
        return
    grew = before is not None and (after is None or after > before)
    was, now = ("not set" if one is None else one for one in (old, new))
    yield _kind(wider=grew == more), path, f"`{name}` was {was}, and is {now}"


def _condition(name: str, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
    if (name in old) == (name in new):
        if old.get(name) != new.get(name):
            yield "unclear", append(path, name), f"`{name}` changed"
    else:
        how = "new" if name in new else "gone"
        yield _kind(wider=name in old), append(path, name), f"`{name}` is {how}"


def _notes(old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
    for name in dict.fromkeys((*old, *new)):
        is_note = name in _NOTES or name not in _DECIDED
        if is_note and name not in ("$defs", "definitions") and old.get(name) != new.get(name):
            yield "wording", append(path, name), f"its {name} changed"


# ------------------------------------------------------------------ reading a schema


def _text(schema: Json) -> str:
    return json.dumps(schema, sort_keys=True)


def _width(schema: Json) -> int:
    """The values that a look at a schema touches: not those of its subschemas."""
    if not isinstance(schema, Mapping):
        return 0
    return sum(1 if name in _SUBSCHEMAS else _size(one) for name, one in schema.items())


def _size(value: Json) -> int:
    inner = value.values() if isinstance(value, dict) else elements_of(value)
    return 1 + sum(map(_size, inner))


def _reference(schema: Json) -> str:
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    return reference if isinstance(reference, str) else ""


def _types(schema: _Schema) -> list[str]:
    """The types that are taken, of :data:`_TYPES`."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else None
    if names is None:
        values = _finite(schema)
        return (
            list(_TYPES) if values is None else [t for t in _TYPES if t in {k[0] for k in values}]
        )
    taken = {str(one) for one in names}
    if "number" in taken:
        taken |= {"integer", "fraction"}
    return [one for one in _TYPES if one in taken]


def _finite(schema: _Schema) -> dict[tuple[str, Any], Json] | None:
    """The values that `enum` and `const` leave, by what makes them equal; None for no limit."""
    found: dict[tuple[str, Any], Json] | None = None
    listed = schema.get("enum")
    if isinstance(listed, list):
        found = {_key(value): value for value in listed}
    if "const" in schema:
        constant = {_key(schema["const"]): schema["const"]}
        found = constant if found is None else {k: v for k, v in found.items() if k in constant}
    return found


def _key(value: Json) -> tuple[str, Any]:
    """Equal for values that JSON Schema calls equal; its first part is the type."""
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean", value)
    if isinstance(value, int | float):
        return ("integer", int(value)) if value == int(value) else ("fraction", Fraction(value))
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, list):
        return ("array", tuple(_key(one) for one in value))
    return ("object", frozenset((name, _key(one)) for name, one in value.items()))


def _bound(schema: _Schema, name: str) -> tuple[Fraction, bool] | None:
    """The tighter of a limit and its exclusive form, and whether the limit itself is refused."""
    exclusive = schema.get("exclusive" + name.capitalize())
    plain = _number(schema.get(name))
    found = [] if plain is None else [(plain, exclusive is True)]  # `true` is draft 4
    if not isinstance(exclusive, bool) and (strict := _number(exclusive)) is not None:
        found.append((strict, True))
    if not found:
        return None
    sign = 1 if name == "minimum" else -1
    return max(found, key=lambda one: (sign * one[0], one[1]))


def _edge(bound: tuple[Fraction, bool] | None) -> str:
    if bound is None:
        return "not set"
    number = int(bound[0]) if bound[0].denominator == 1 else float(bound[0])
    return f"{number} (not itself)" if bound[1] else f"{number}"


def _number(value: Json) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def _items(schema: _Schema) -> tuple[list[Json], Json]:
    """The schemas of the first items, and that of the rest."""
    items, prefix = schema.get("items", True), schema.get("prefixItems")
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return elements_of(prefix), items


def _strings(value: Json) -> set[str]:
    return {one for one in elements_of(value) if isinstance(one, str)}


def _are_disjoint(branches: Sequence[Json]) -> bool:
    whole: set[str] = set()  # types of which all values are taken, as far as is known
    listed: dict[tuple[str, Any], Json] = {}
    listed_types: set[str] = set()
    for one in branches:
        if not isinstance(one, Mapping) or "$ref" in one:
            return False
        types, values = set(_types(one)), _finite(one)
        if types & whole or (
            types & listed_types if values is None else not listed.keys().isdisjoint(values)
        ):
            return False
        if values is None:
            whole |= types
        else:
            listed |= values
            listed_types |= types
    return True


def _listed(types: Sequence[str]) -> str:
    names = [one for one in types if one != "fraction"]
    if "fraction" in types:
        names = [one for one in names if one != "integer"]
        names.append("number" if "integer" in types else "a number with a fraction")
    return " or ".join(names)


def _shown(values: Sequence[Json]) -> str:
    shown = ", ".join(repr(value)[:40] for value in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")
