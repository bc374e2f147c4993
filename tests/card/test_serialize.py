"""RFC 8785 bytes, and what has none."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from cardsign.card.values import jcs
from cardsign.errors import CanonicalizationError

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
