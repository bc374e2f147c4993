"""RFC 8785 bytes, and what has none."""

from __future__ import annotations

from enum import IntEnum, StrEnum
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


@pytest.mark.parametrize("levels", [60, 66, 250, 500])
def test_many_levels(levels: int) -> None:
    """A card has at most 32 levels, a value of Python's may have more."""
    assert jcs(nested(levels)) == b"[" * (levels + 1) + b"]" * (levels + 1)


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


class Letter(StrEnum):
    """A text that is of another type."""

    A = "a"


CANONICAL: dict[str, tuple[Any, bytes]] = {
    "no white space": ({"a": [1, {"b": None}]}, b'{"a":[1,{"b":null}]}'),
    "names by UTF-16": (
        {"\uff01": 1, "\U0001f600": 2, "z": 3},
        '{"z":3,"\U0001f600":2,"\uff01":1}'.encode(),
    ),
    "names by UTF-16, each in an object of its own": (
        [{"\uff01": 1}, {"\U0001f600": 2}],
        '[{"\uff01":1},{"\U0001f600":2}]'.encode(),
    ),
    "numbers as ECMAScript": (
        [1.0, 1e21, 1e-7, 0.000001, -0.0, 1e2, 2**53 - 1],
        b"[1,1e+21,1e-7,0.000001,0,100,9007199254740991]",
    ),
    "whole numbers beside fractions": (
        {"b": [100.0, -0.0, 0.5, True], "a": {"c": -3.0, "d": 2}},
        b'{"a":{"c":-3,"d":2},"b":[100,0,0.5,true]}',
    ),
    "true and false as names of numbers": ({"1": True, "0": False}, b'{"0":false,"1":true}'),
    "the short escapes": ('\x07\n\u2028"\\/', b'"\\u0007\\n\xe2\x80\xa8\\"\\\\/"'),
    "no normalisation": ("e\u0301", b'"e\xcc\x81"'),
    "tuples and texts of other types": ((Letter.A, {Letter.A: ()}), b'["a",{"a":[]}]'),
    "numbers of other types": ([IntEnum("Number", {"ONE": 1})(1)], b"[1]"),
    "emoji and what stands before them in UTF-16": ("\u2600\ufe0f\U0001f600", None),
}


@pytest.mark.parametrize(("value", "data"), CANONICAL.values(), ids=CANONICAL)
def test_canonical_bytes(value: Any, data: bytes | None) -> None:
    """RFC 8785 3.2: order, numbers, strings."""
    assert jcs(value) == (data if data is not None else b'"%s"' % value.encode())
