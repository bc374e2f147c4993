"""Wide cards and schemas cost in proportion to their size, by counted calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from cardsign.diff import compare_schemas, diff_cards
from cardsign.lint.cards import lint_card
from cardsign.lint.rules import LintSettings
from tests.lint.examples import example_card
from tests.support import count_calls

Schema: TypeAlias = dict[str, Any]
KINDS = ("string", "integer")


def web(depth: int, kind: str) -> Schema:
    """A schema in which references lead to each leaf in as many ways as two to the depth."""
    links = {
        f"d{at}": {"properties": {side: {"$ref": f"#/$defs/d{at + 1}"} for side in "xy"}}
        for at in range(depth)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{depth}": {"type": kind}}}


def chain(count: int, kind: str) -> Schema:
    """References that lead to one another, and as many that lead to the first."""
    links = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(count)}
    ways = {f"p{at}": {"$ref": "#/$defs/d0"} for at in range(count)}
    return {"properties": ways, "$defs": {**links, f"d{count}": {"type": kind}}}


#: Each with a size, and once with each of two types or values.
WIDE: dict[str, Callable[[int, int], Schema]] = {
    "properties": lambda n, v: {"properties": {f"p{i}": {"type": KINDS[v]} for i in range(n)}},
    "renamed properties": lambda n, v: {"properties": {f"{v}p{i}": {} for i in range(n)}},
    "allOf": lambda n, v: {
        "allOf": [{"properties": {f"a{i}": {"type": KINDS[v]}}} for i in range(n)]
    },
    "anyOf": lambda n, v: {
        "anyOf": [{"type": "object", "required": [f"a{i}{v}"]} for i in range(n)]
    },
    "anyOf constants": lambda n, v: {"anyOf": [{"const": i + v} for i in range(n)]},
    "oneOf constants": lambda n, v: {"oneOf": [{"const": i + v} for i in range(n)]},
    "oneOf enums": lambda n, v: {
        "oneOf": [{"enum": [i * 100 + j * 3 + v for j in range(30)]} for i in range(n // 10)]
    },
    "enum": lambda n, v: {"enum": [2 * i + v for i in range(n)]},
    "a web of references": lambda n, v: web(14, KINDS[v]),
    "a chain of references": lambda n, v: chain(n, KINDS[v]),
}


@pytest.mark.parametrize("make", WIDE.values(), ids=WIDE)
def test_twice_the_schema_costs_twice_the_calls(make: Callable[[int, int], Schema]) -> None:
    """At most; a reference is not followed."""

    def cost(size: int) -> int:
        return count_calls(lambda: compare_schemas(make(size, 0), make(size, 1), "input"))

    compare_schemas(make(10, 0), make(10, 1), "input")  # what is done once is done
    assert cost(600) < 2.5 * cost(300)


def test_a_schema_that_stays_costs_next_to_nothing() -> None:
    """However many ways lead through it."""
    assert (
        count_calls(lambda: compare_schemas(web(14, "string"), web(14, "string"), "input")) < 1000
    )


@pytest.mark.parametrize("make", WIDE.values(), ids=WIDE)
def test_lint_of_a_wide_schema_is_cheap(make: Callable[[int, int], Schema]) -> None:
    """The library that knows the meta-schemas is asked only where a schema may break them."""

    def cost(size: int) -> int:
        card = json.dumps(
            example_card({"/skills/0/input_schema": make(size, 0)}, "contract")
        ).encode()
        settings = LintSettings(groups=("contract",))
        return count_calls(lambda: lint_card(card, settings))

    cost(10)
    assert cost(400) < min(2.5 * cost(200), 400 * 500)


def test_the_modes_of_a_card_are_not_compared_for_each_of_its_skills() -> None:
    """Skills that name none have those of the card: twice of both would be four times the pairs."""

    def cost(size: int) -> int:
        skills = [{"id": f"s{at}"} for at in range(size)]
        modes = ([f"{side}/{at}" for at in range(size)] for side in "ab")
        cards = [json.dumps({"skills": skills, "defaultInputModes": one}).encode() for one in modes]
        return count_calls(lambda: diff_cards(*cards))

    assert cost(400) < 2.5 * cost(200)
