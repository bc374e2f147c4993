"""JSON Pointers: escaping, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.card.values import append, pointer, split, value_at

EXAMPLES = {
    "the root is empty": ((), ""),
    "a member": (("foo",), "/foo"),
    "an array index": (("foo", "0"), "/foo/0"),
    "the empty name is a token": (("",), "/"),
    "a slash in a name": (("a/b",), "/a~1b"),
    "a tilde in a name": (("m~n",), "/m~0n"),
    "a name that looks escaped": (("~1",), "/~01"),
    "other signs stand for themselves": (("c%d", "g|h", 'k"l', " "), '/c%d/g|h/k"l/ '),
}


@pytest.mark.parametrize(("tokens", "text"), EXAMPLES.values(), ids=EXAMPLES)
def test_example(tokens: tuple[str, ...], text: str) -> None:
    """Tokens and text belong together in both directions (RFC 6901 section 5)."""
    assert pointer(*tokens) == text
    assert split(text) == tokens


def test_index_may_be_a_number() -> None:
    """An array index is given as it is counted."""
    assert pointer("skills", 0, "id") == append(append("/skills", 0), "id") == "/skills/0/id"


@pytest.mark.parametrize("text", ["foo", "#/foo", "/a~", "/a~2", "/~~0"])
def test_no_pointer(text: str) -> None:
    """What is no pointer is refused instead of being read as some other place."""
    with pytest.raises(ValueError, match="not a JSON Pointer"):
        split(text)


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
