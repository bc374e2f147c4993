"""RFC 8785 bytes: what rfc8785 defines, and the encoders that are proven to write the same."""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import sys
from collections.abc import Iterator
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoilt_cards import EXAMPLES
from support import DUAL, LAX, OLD, PORTABLE, WITH_DEFAULTS

from cardsign.card import jcs, plain_jcs, serialize
from cardsign.errors import CanonicalizationError


@pytest.fixture(params=["json", "orjson"], autouse=True)
def _encoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test runs without the extra `fast`, and with it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "json":
            patch.setitem(sys.modules, "orjson", None)
        else:
            pytest.importorskip("orjson")
        serialize._encoder.cache_clear()
        yield request.param
    serialize._encoder.cache_clear()


def outcome(write: Any, value: Any) -> bytes | str:
    """The bytes, or why there are none."""
    try:
        return bytes(write(value))
    except CanonicalizationError as refusal:
        return f"{refusal.code}: {refusal}"


def agree(value: Any) -> bool:
    """Whether both ways give the same, refusals included."""
    return outcome(jcs, value) == outcome(plain_jcs, value)


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
    "a UUID, which orjson writes": UUID(int=0),
    "a mapping that is no dict": MappingProxyType({}),
    "an Enum, which orjson writes": Enum("Colour", {"RED": "red"})("red"),
}


@pytest.mark.parametrize("value", NO_JCS.values(), ids=NO_JCS)
def test_what_has_no_canonical_form(value: Any) -> None:
    """One error of ours, whatever the library below raises."""
    with pytest.raises(CanonicalizationError) as caught:
        jcs({"a": [value]})
    assert caught.value.code == "canonical.no_form"
    assert agree({"a": [value]})


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [60, 66, 250, 500])
def test_many_levels(levels: int) -> None:
    """Whatever the definition still writes, deeper than an encoder is tried or than it goes."""
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
    assert agree(value)


def test_an_encoder_writes_what_cards_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rfc8785; and it writes nothing whose bytes are not proven."""
    monkeypatch.setattr(serialize, "plain_jcs", lambda _value: b"by the definition")

    for card in (PORTABLE, DUAL, OLD, LAX, WITH_DEFAULTS):
        assert jcs({**card, "params": [12.5, 100.0, -0.0, 2**53 - 1, "\U0001f600"]})[:1] == b"{"
    for value in (1e16, 5e-5, 2.0**53, 2**53, {"\ue000": 1}, (), nested(66), [[1]] * 2**18):
        assert jcs([value]) == b"by the definition"


# ------------------------------------------------------------------ random values


SCALARS = [chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]


def test_every_character_as_name_and_value() -> None:
    """Alone as a name, which fixes the order, and as a value with others around it."""
    rng = random.Random(8785)
    step = max(1, len(SCALARS) // (EXAMPLES * 20))
    some = [*SCALARS[:256], *SCALARS[rng.randrange(step) :: step], *SCALARS[-16:]]
    for start in range(0, len(some), 64):
        part = some[start : start + 64]
        assert all(agree({one: f"a{one}b"}) for one in part)
        rng.shuffle(part)
        assert agree({one: one * 2 for one in part})
        assert agree({f"a{one}": "".join(part) for one in [*part[:4], rng.choice(SCALARS)]})


def test_doubles() -> None:
    """Of random bits, of few digits, and around each bound of what is proven."""
    rng = random.Random(754)
    bounds = [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1.0, 2.0**52, 2.0**53, 1e15, 1e16, 1e20, 1e21, 1e22]
    edges = [
        sign * near
        for bound in bounds
        for sign in (1.0, -1.0)
        for near in (bound, math.nextafter(bound, 0), math.nextafter(bound, math.inf))
    ]
    for start in range(0, EXAMPLES * 50, 100):
        bits = struct.unpack("<50d", rng.randbytes(400))
        short = [rng.randint(-(10**6), 10**6) / 10 ** rng.randint(0, 9) for _ in range(40)]
        wide = [math.copysign(10 ** rng.uniform(-8, 23), rng.random() - 0.5) for _ in range(10)]
        numbers = [one for one in (*bits, *short, *wide) if math.isfinite(one)]
        if not start:
            numbers += edges
        for one in numbers:
            assert agree(one), one
        assert agree(numbers)


NAMES = st.text() | st.sampled_from(["\ue000", "\U0001f600", "\ufe0f", "a", "A", ""])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Cc", "So"]))
    | st.integers(-(2**53) - 1, 2**53 + 1)
    | st.integers(-3, 3)
    | st.floats()
    | st.integers(-3, 3).map(float),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner) | st.tuples(inner),
)


@given(VALUES)
@example({"\u20ac": 1, "\r": 2, "\u05d0": 3, "1": 4, "\x80": 5, "\x7f": '\x00\x1f\x7f\u2028/\\"'})
def test_any_value(value: Any) -> None:
    """The same bytes, or the same refusal."""
    assert agree(value)


@given(st.data())
def test_random_cards(data: st.DataObject) -> None:
    """Cards with a random value in some place, and params as an extension has them."""
    card = json.loads(json.dumps(data.draw(st.sampled_from([PORTABLE, DUAL, OLD, LAX]))))
    places = [card, *itertools.chain(filter(lambda one: isinstance(one, dict), card.values()))]
    data.draw(st.sampled_from(places))[data.draw(NAMES)] = data.draw(VALUES)

    assert agree(card)
