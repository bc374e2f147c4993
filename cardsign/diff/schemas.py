"""Two JSON Schemas compared: which values that were valid are not valid now, and the reverse.

Judged are the keywords that say most: `type`, `enum`, `const`, `properties`, `required`,
`additionalProperties` and `items`, also behind a local reference. A change of any other keyword is
called unclear, never safe. A schema is the AND of its keywords, so one none of whose keywords
became narrower refuses nothing that it took before.

Two conventions go beyond that. A member that the old schema does not name and does not speak of
by `additionalProperties` is no part of the contract, so naming it is additive. A member that is
no longer named is a break, even where any member is still taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from cardsign.card.values import Json, append, elements_of, members_of
from cardsign.findings import MAX_MESSAGE, cut

#: What a change means for a caller that knows the old card only. `unclear`: this cannot be told
#: from the two cards, and a person has to decide.
Effect: TypeAlias = Literal["breaking", "additive", "wording", "unclear"]
#: Who makes the values: the caller makes inputs, the agent makes outputs.
Direction: TypeAlias = Literal["input", "output"]
#: What a change means for a caller, where it is (as a JSON pointer: in the new card, or in the old
#: one for what is gone), and what changed.
Change: TypeAlias = tuple[Effect, str, str]
#: `narrower`: something that was valid is not any more. `wider`: the reverse. `removed` and
#: `added` are the two conventions.
_Kind: TypeAlias = Literal["narrower", "wider", "removed", "added", "wording", "unclear"]
#: What changed, where as a JSON pointer, and in words.
_Step: TypeAlias = tuple[_Kind, str, str]
_Schema: TypeAlias = Mapping[str, Json]

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
#: Looks at schemas and values before the rest is called unclear; references lead anywhere, so the
#: size of a schema bounds nothing.
MAX_STEPS: Final = 60_000
#: References that lead to one another and are followed at a time.
MAX_OPEN: Final = 16

_TYPES: Final = ("null", "boolean", "integer", "fraction", "string", "array", "object")
# fmt: off
_JUDGED: Final = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "$ref",
})
_NOTES: Final = frozenset({
    "title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "contentEncoding", "contentMediaType",
})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
#: What they leave of the other keywords cannot be told, so nothing beside a change is judged.
_COMBINED: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
# fmt: on
#: They speak of the members that `properties` does not name.
_BY_NAMES: Final = frozenset({"patternProperties", "unevaluatedProperties"})
_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)": ("[^"]*"?)')


class _TooLarge(Exception):
    """More steps than a comparison may take."""


@dataclass(slots=True)
class Work:
    """How many steps a comparison, of a schema or of all in a card, may still take."""

    left: int = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take these from what is left."""
        self.left -= steps
        if self.left < 0:
            raise _TooLarge


def compare_schemas(
    old: Json, new: Json, direction: Direction, path: str = "", work: Work | None = None
) -> list[Change]:
    """List what changed from one schema to the other, and what it means for a caller.

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
    steps: list[_Step] = []
    if _text(old) != _text(new):
        try:
            steps += _Comparison(old, new, work or Work()).compare(old, new, path)
        except _TooLarge:
            steps.append(("unclear", path, "these schemas are too large to be compared whole"))
    effects = _EFFECTS[direction] | _ALWAYS
    changes = ((effects[kind], where, cut(text, MAX_MESSAGE)) for kind, where, text in steps)
    return list(dict.fromkeys(changes))


@dataclass
class _Comparison:
    """One comparison of two whole schemas; references are looked up in them."""

    old_root: Json
    new_root: Json
    work: Work
    #: Pairs of references that are being compared: what they lead back to is not compared again.
    open: set[tuple[str, str]] = field(default_factory=set)

    def compare(self, old: Json, new: Json, path: str) -> Iterator[_Step]:
        """Yield the differences of two schemas at a place."""
        self.work.spend(8)
        pair = (_reference(old), _reference(new))
        if any(pair):
            yield from self._behind_references(old, new, pair, path)
            return
        before, after = ({} if one is True else one for one in (old, new))
        if self._is_same(before, after):
            return
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from self._objects(before, after, path)
        elif before is False:
            yield "wider", path, "something is taken here now"
        elif after is False:
            yield "narrower", path, "nothing is taken here any more"
        else:
            yield "unclear", path, "this is no JSON Schema"

    def _behind_references(
        self, old: Json, new: Json, pair: tuple[str, str], path: str
    ) -> Iterator[_Step]:
        if pair in self.open:
            return
        schemas = self._look_up(self.old_root, old), self._look_up(self.new_root, new)
        if schemas[0] is None or schemas[1] is None or len(self.open) >= MAX_OPEN:
            yield "unclear", path, "a reference could not be followed"
            return
        self.open.add(pair)
        yield from self.compare(*schemas, path)
        self.open.discard(pair)

    def _look_up(self, root: Json, schema: Json) -> Json:
        """What a local reference means, followed to its end; None where that is not certain."""
        seen: set[str] = set()
        while reference := _reference(schema):
            self.work.spend(1 + len(reference) // 16)
            beside = set(members_of(schema)) - {"$ref"} - _NOTES - _DEFINITIONS
            # Drafts up to 7 ignore what stands beside a reference, and later ones do not.
            if beside or reference in seen or not (reference == "#" or reference.startswith("#/")):
                return None
            seen.add(reference)
            schema = root
            for token in reference.split("/")[1:]:
                name = token.replace("~1", "/").replace("~0", "~")
                if not isinstance(schema, Mapping) or name not in schema:
                    return None
                schema = schema[name]
        return schema

    def _objects(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        unclear = [*self._changed(old, new)]
        yield from (("unclear", append(path, name), f"`{name}` changed") for name in unclear)
        if _COMBINED.isdisjoint(unclear):
            yield from self._judged(old, new, path)
        for name in dict.fromkeys((*old, *new)):
            if _is_note(name) and _text(old.get(name)) != _text(new.get(name)):
                yield "wording", append(path, name), f"its {name} changed"

    def _changed(self, old: _Schema, new: _Schema) -> Iterator[str]:
        """Yield the keywords that changed, and that are not judged."""
        for name in dict.fromkeys((*old, *new)):
            if name in _JUDGED or name in _DEFINITIONS or _is_note(name):
                continue
            if (name in old) != (name in new) or not self._is_same(old[name], new[name]):
                yield name

    def _is_same(self, old: Json, new: Json) -> bool:
        """Whether two values say the same, also by what references in them lead to."""
        texts = _text(old), _text(new)
        self.work.spend(1 + sum(map(len, texts)) // 64)
        return texts[0] == texts[1] and not (_REFERENCE.search(texts[0]) and self._leads_elsewhere)

    @cached_property
    def _leads_elsewhere(self) -> bool:
        """Whether a reference that is not followed may lead to something that changed."""
        roots = [members_of(one) for one in (self.old_root, self.new_root)]
        shared = [_text([one.get(name) for name in sorted(_DEFINITIONS)]) for one in roots]
        references = [target for root in roots for target in _REFERENCE.findall(_text(root))]
        return shared[0] != shared[1] or not all(map(_is_definition, references))

    def _judged(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        before, after = _types(old), _types(new)
        if gone := [one for one in before if one not in after]:
            yield "narrower", path, f"{_list_types(gone)} is no longer taken"
        if come := [one for one in after if one not in before]:
            yield "wider", path, f"{_list_types(come)} is taken now"
        yield from self._values(old, new, path)
        shared = set(before) & set(after)
        if "array" in shared:
            items = old.get("items", True), new.get("items", True)
            yield from self.compare(*items, append(path, "items"))
        if "object" in shared:
            yield from self._members(old, new, path)

    def _values(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        before, after = _finite(old), _finite(new)
        self.work.spend(sum(len(_text(list(one.values()))) // 64 for one in (before, after) if one))
        if before is None and after is None:
            return
        if before is None:
            yield "narrower", path, "only listed values are taken now"
        elif after is None:
            yield "wider", path, "any value is taken now"
        else:
            if gone := [value for key, value in before.items() if key not in after]:
                yield "narrower", path, f"no longer taken: {_show_values(gone)}"
            if come := [value for key, value in after.items() if key not in before]:
                yield "wider", path, f"taken now: {_show_values(come)}"

    def _members(self, old: _Schema, new: _Schema, path: str) -> Iterator[_Step]:
        before, after = (members_of(one.get("properties")) for one in (old, new))
        was_needed, is_needed = _strings(old.get("required")), _strings(new.get("required"))
        there = append(path, "properties")
        if before.keys() != after.keys() and _BY_NAMES & (old.keys() | new.keys()):
            yield "unclear", there, "which members other keywords speak of changed"
        for name in [*before, *(name for name in after if name not in before)]:
            place = append(there, name)
            if name not in after:
                yield "removed", place, f"{name!r} was removed"
            elif name in before:
                yield from self.compare(before[name], after[name], place)
            elif (rest := old.get("additionalProperties")) is None or rest is False:
                yield "added" if rest is None else "wider", place, f"{name!r} is new"
            else:
                yield from self.compare(rest, after[name], place)
        for name in sorted(is_needed - was_needed):
            message = "is required now" if name in before else "is new and required"
            yield "narrower", append(there, name), f"{name!r} {message}"
        removed = before.keys() - after.keys()
        for name in sorted(was_needed - is_needed - removed):
            yield "wider", append(there, name), f"{name!r} is optional now"
        others = old.get("additionalProperties", True), new.get("additionalProperties", True)
        yield from self.compare(*others, append(path, "additionalProperties"))


# ------------------------------------------------------------------ reading a schema


def _text(schema: Json) -> str:
    return json.dumps(schema, sort_keys=True)


def _is_note(name: str) -> bool:
    """Whether a keyword only describes: one of the notes, or a vendor's own."""
    return name in _NOTES or name.startswith("x-")


def _is_definition(target: str) -> bool:
    return target.startswith(('"#/$defs/', '"#/definitions/'))


def _reference(schema: Json) -> str:
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    return reference if isinstance(reference, str) else ""


def _types(schema: _Schema) -> list[str]:
    """The types that are taken, of :data:`_TYPES`."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else None
    if names is None:
        values = _finite(schema)
        return [name for name in _TYPES if values is None or name in {key[0] for key in values}]
    taken = {str(name) for name in names}
    if "number" in taken:
        taken |= {"integer", "fraction"}
    return [name for name in _TYPES if name in taken]


def _finite(schema: _Schema) -> dict[tuple[str, Any], Json] | None:
    """The values that `enum` and `const` leave, by what makes them equal; None for no limit."""
    values: dict[tuple[str, Any], Json] | None = None
    listed = schema.get("enum")
    if isinstance(listed, list):
        values = {_key(value): value for value in listed}
    if "const" in schema:
        constant = {_key(schema["const"]): schema["const"]}
        values = constant if values is None else {k: v for k, v in values.items() if k in constant}
    return values


def _key(value: Json) -> tuple[str, Any]:
    """Equal for values that JSON Schema calls equal; its first part is the type."""
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean", value)
    if isinstance(value, int | float):
        return ("integer", int(value)) if value == int(value) else ("fraction", Fraction(value))
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, list):
        return ("array", tuple(_key(element) for element in value))
    return ("object", frozenset((name, _key(element)) for name, element in value.items()))


def _strings(value: Json) -> set[str]:
    return {element for element in elements_of(value) if isinstance(element, str)}


def _list_types(types: Sequence[str]) -> str:
    names = [name for name in types if name != "fraction"]
    if "fraction" in types:
        names = [name for name in names if name != "integer"]
        names.append("number" if "integer" in types else "a number with a fraction")
    return " or ".join(names)


def _show_values(values: Sequence[Json]) -> str:
    shown = ", ".join(repr(value)[:40] for value in values[:5])
    return shown + (f" and {len(values) - 5} more" if len(values) > 5 else "")
