"""What a change of a JSON Schema means for a caller."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cardsign.diff import compare_schemas
from tests.diff.cases import Case, read_changes
from tests.support import put

TEXT: dict[str, Any] = {"type": "string"}
TASK: dict[str, Any] = {
    "type": "object",
    "properties": {"target": TEXT, "depth": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["target"],
}


#: By who makes the values, the caller or the agent: what a change means to the other.
MEANINGS = {
    "narrower": ("breaking", "additive"),
    "wider": ("additive", "breaking"),
    **{same: (same, same) for same in ("breaking", "additive", "wording", "unclear")},
}


@pytest.mark.parametrize("case", read_changes("schema-changes.txt", TASK))
def test_a_change_of_a_schema(case: Case) -> None:
    """What it means depends on who makes the values."""
    inputs, outputs = (
        [effect for effect, *_ in compare_schemas(case.old, case.new, direction)]
        for direction in ("input", "output")
    )
    meanings = [MEANINGS[kind] for kind in case.expected]
    assert [*zip(inputs, outputs, strict=True)] == meanings


def test_a_change_says_where_and_what() -> None:
    """The path leads to the member, in words of the schema."""
    path = "/skills/0/input_schema"
    less = put(TASK, "/properties/depth/type", "string")
    other = put(TASK, "/properties/depth/maximum", 5)
    narrowed, _ = compare_schemas(TASK, less, "input", path)
    assert narrowed[1:] == (f"{path}/properties/depth", "no longer taken: 'integer'")
    assert compare_schemas(TASK, other, "input", path) == [
        ("unclear", f"{path}/properties/depth/maximum", "`maximum` changed")
    ]


def test_listed_values_are_told_from_any_value() -> None:
    """Each way has its own sentence."""
    listed = {"type": "string", "enum": ["fast", "slow"]}
    (less,), (more,) = (
        compare_schemas(TEXT, listed, "input"),
        compare_schemas(listed, TEXT, "input"),
    )
    assert less[2] == "only listed values are taken now"
    assert more[2] == "any value is taken now"


# The oracle: values, and the validator of another.

NAMES = ("a", "b")
KINDS = ["string", "integer", "number", "null", ["string", "null"], "boolean"]
BOUNDS = ["exclusiveMinimum", "exclusiveMaximum"]
BOUNDS += [
    f"{end}{of}" for end in ("min", "max") for of in ("imum", "Length", "Items", "Properties")
]
ENUMS = st.lists(st.sampled_from([0, 1, 1.5, True, "", "xx", None]), min_size=1, max_size=3)
LENGTHS = {"minLength": st.integers(0, 2), "type": st.sampled_from(["string", "array"])}
LEAVES = st.one_of(
    st.sampled_from([{}, True, False]),
    st.fixed_dictionaries({"type": st.sampled_from(KINDS)}),
    st.fixed_dictionaries({"enum": ENUMS}),
    st.builds(lambda name, n: {name: n}, st.sampled_from(BOUNDS), st.integers(0, 2)),
    st.fixed_dictionaries({"multipleOf": st.sampled_from([1, 2, 0.5])}),
    st.fixed_dictionaries(LENGTHS),
)


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that hold schemas."""
    named = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    objects = st.fixed_dictionaries(
        {"properties": named},
        optional={
            "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
            "additionalProperties": inner,
            "type": st.sampled_from(["object", ["object", "null"]]),
        },
    )
    several = st.lists(inner, min_size=1, max_size=2)
    arrays = st.fixed_dictionaries(
        {"items": inner}, optional={"prefixItems": several, "uniqueItems": st.booleans()}
    )
    joined = st.builds(
        lambda name, schemas: {name: schemas}, st.sampled_from(["anyOf", "oneOf", "allOf"]), several
    )
    return st.one_of(objects, arrays, joined)


SCHEMAS = st.recursive(LEAVES, grown, max_leaves=5)
PLAIN: list[Any] = [None, True, False, 0, 1, 2, 0.5, 1.5, -1, "", "x", "xx", "xxx", [], {}]
VALUES = [
    *PLAIN,
    *([one] for one in PLAIN),
    *([one, other] for one in PLAIN[:9] for other in PLAIN[:9]),
    *({name: one} for name in NAMES for one in PLAIN),
    *({"a": one, "b": other} for one in PLAIN[:11] for other in PLAIN[:11]),
]


def within(schema: Any, value: Any) -> bool:
    """Whether each object of the value holds only members that the schema speaks of."""
    if isinstance(value, dict):
        schema = schema if isinstance(schema, Mapping) else {}
        named = schema.get("properties", {})
        return "additionalProperties" in schema or all(
            name in named and within(named[name], one) for name, one in value.items()
        )
    if isinstance(value, list) and isinstance(schema, Mapping):
        return all(not isinstance(one, dict | list) or not one for one in value)
    return True


def values_for(*schemas: Any) -> list[Any]:
    """Values whose members the schemas speak of; no objects where alternatives hide that."""
    joined = any(word in json.dumps(schemas) for word in ("anyOf", "oneOf", "allOf"))
    return [
        value
        for value in VALUES
        if not (joined and isinstance(value, dict) and value)
        and all(within(schema, value) for schema in schemas)
    ]


@given(SCHEMAS, SCHEMAS)
def test_what_is_called_safe_refuses_nothing_that_was_valid(old: Any, new: Any) -> None:
    """The claim that matters: without `breaking` and `unclear` no caller's value is refused."""
    effects = {effect for effect, *_ in compare_schemas(old, new, "input")}
    if effects & {"breaking", "unclear"}:
        return
    before, after = Draft202012Validator(old), Draft202012Validator(new)
    for value in values_for(old):
        if before.is_valid(value):
            assert after.is_valid(value), value


@given(SCHEMAS, SCHEMAS)
def test_an_output_that_is_called_safe_is_valid_for_who_knows_the_old_schema(
    old: Any, new: Any
) -> None:
    """The same, where the agent makes the values."""
    effects = {effect for effect, *_ in compare_schemas(old, new, "output")}
    if effects & {"breaking", "unclear"}:
        return
    before, after = Draft202012Validator(old), Draft202012Validator(new)
    for value in values_for(old, new):
        if after.is_valid(value):
            assert before.is_valid(value), value


@given(SCHEMAS)
def test_a_schema_does_not_differ_from_itself(schema: Any) -> None:
    """Whatever it holds."""
    assert compare_schemas(schema, json.loads(json.dumps(schema)), "input") == []
