"""JSON Pointers, RFC 8785 bytes, and what has none."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.values import append, jcs, pointer, split, value_at
from cardsign.errors import CanonicalizationError
from tests.support import each_case


@each_case(__file__, "pointer", "tokens", "text")
def test_example(tokens: list[str], text: str) -> None:
    """Tokens and text belong together in both directions (RFC 6901 section 5)."""
    assert pointer(*tokens) == text
    assert split(text) == tuple(tokens)


@pytest.mark.parametrize("text", ["/b", "/a/b", "/a/1", "/a/-1", "/a/0/c"])
def test_a_place_that_a_document_has_not(text: str) -> None:
    """It is told as such, whatever stands in its way."""
    assert value_at({"a": [7]}, ("a", "0")) == 7
    with pytest.raises(KeyError):
        value_at({"a": [7]}, split(text))


@given(st.lists(st.text(max_size=64), max_size=3))
def test_split_undoes_pointer(tokens: list[str]) -> None:
    """Any names survive the way there and back, unless they are long."""
    assert split(pointer(*tokens)) == tuple(tokens)


def test_a_long_name_is_cut() -> None:
    """It may be as long as the card, and stand over thousands of values; a short one is whole."""
    assert pointer("n" * 64, "x") == f"/{'n' * 64}/x"
    assert pointer("n" * 65, "x") == f"/{'n' * 61}.../x"
    assert split(pointer("~" * 65)) == ("~" * 61 + "...",)


def test_a_long_pointer_is_cut_behind_a_token() -> None:
    """However deep a value stands, its place is a pointer of bounded length."""
    found = pointer(*("n" * 60 for _ in range(32)))
    assert found == f"/{'n' * 60}" * 4 + "/..."
    assert append(found, "x") == found


NO_JCS: dict[str, Any] = {
    "infinity": float("inf"),
    "less than minus infinity": float("-inf"),
    "not a number": float("nan"),
    "an integer beyond the doubles": 2**53,
    "an integer below them": -(2**53),
    "a lone surrogate": "\ud800",
    "a lone surrogate in a name": {"\udc00": 1},
    "a name that is a number": {1: "a"},
    "a name that is true": {"a": {True: "a"}},
    "a set": {"a"},
    "bytes": b"a",
    "a mapping that is no dict": MappingProxyType({}),
}


@pytest.mark.parametrize("value", NO_JCS.values(), ids=NO_JCS)
def test_what_has_no_canonical_form(value: Any) -> None:
    """One error of ours, whatever the library below raises."""
    with pytest.raises(CanonicalizationError) as caught:
        jcs({"a": [value]})
    assert caught.value.code == "canonical.no_form"


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_without_end_has_no_canonical_form() -> None:
    """The recursion ends in the same error."""
    value = nested(20_000)

    with pytest.raises(CanonicalizationError):
        jcs({"a": value})
    while value:  # let go of it level by level: the interpreter's own recursion is limited too
        value = value.pop()


@pytest.mark.parametrize("times", [1, 2, 1000])
def test_a_circle_has_no_canonical_form(times: int) -> None:
    """However often each level doubles the one before."""
    value: list[Any] = []
    value.extend([value] * times)

    with pytest.raises(CanonicalizationError):
        jcs(value)
    value.clear()
