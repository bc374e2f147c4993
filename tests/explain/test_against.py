"""With a file that holds what was signed, the difference is a true one: the signature proves it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from explaining import explained, only, over

from cardsign.card.canonical import canonicalize
from cardsign.explain.repairs import MAX_CHANGES, differences
from cardsign.explain.report import Edit
from cardsign.jose.keys import PrivateKey
from tests.support import LAX, PORTABLE, by_another_sdk, dump, put, signed, without

EDITED = put(without(LAX, "/x-berth"), "/name", "Other")
EDITED["x-new"] = [1]

CHANGES = (
    Edit("/name", '"Tide tables"', '"Other"'),
    Edit("/x-berth", '{"pier":4}', None),
    Edit("/x-new", None, "[1]"),
)
UNDER_PRUNING = (Edit("/name", '"Tide tables"', '"Other"'),)


def test_the_card_as_signed_gives_the_difference(alice: PrivateKey) -> None:
    """Under the profile that verifies it, by pointer: changed, removed, added."""
    original = signed(LAX, alice)
    received = {**EDITED, "signatures": original["signatures"]}
    explanation = explained(received, alice, against=dump(original))
    found = {one.signed.profile: one.signed.changes for one in explanation.signatures if one.signed}
    assert {one.signed.source for one in explanation.signatures if one.signed} == {"against"}
    assert set(found) == {"served-as-is", "rule-1-as-written", "prune-empty"}
    assert set(found["served-as-is"]) == set(CHANGES)
    assert found["prune-empty"] == UNDER_PRUNING


PROFILES = ["served-as-is", "rule-1-as-written", "prune-empty", "js-instance"]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_payload_itself_will_do(profile: str, alice: PrivateKey) -> None:
    """Held against that payload of the received card which comes nearest."""
    card = put(LAX, "/description", "Ebbe für alle")
    payload = canonicalize(card, profile).data
    received = over(put(card, "/name", "Other"), payload, alice)
    told = only(explained(received, alice, against=payload)).signed
    assert told is not None
    assert (told.source, told.profile) == ("against", None)
    assert told.changes == UNDER_PRUNING


def test_a_payload_that_is_no_json_is_recognised_all_the_same(alice: PrivateKey) -> None:
    """The signature was made over these bytes; there is nothing to compare them with."""
    told = only(explained(over(LAX, b"\x00 no card", alice), alice, against=b"\x00 no card")).signed
    assert told is not None
    assert (told.profile, told.changes) == (None, ())


def test_a_card_that_was_signed_unsorted_is_recognised(alice: PrivateKey) -> None:
    """The spelling is named, and no member is said to have changed."""
    payload = json.dumps(LAX).encode()
    original = json.dumps(LAX, indent=2).encode()
    told = only(explained(over(LAX, payload, alice), alice, against=original)).signed
    assert told is not None
    assert (told.source, told.profile, told.changes) == ("against", "served-as-is", ())
    assert any("not sorted" in one for one in told.spelling)


NOT_SIGNED: dict[str, bytes] = {
    "another card": dump(put(LAX, "/name", "Third")),
    "no JSON": b"\xff",
    "nothing": b"",
    "a list": b"[]",
    "an unreadable number": b'{"name": 1e999}',
}


@pytest.mark.parametrize("against", NOT_SIGNED.values(), ids=NOT_SIGNED)
def test_a_file_that_was_not_signed_proves_nothing(against: bytes, alice: PrivateKey) -> None:
    """No difference is made up, and the search goes on as without the file."""
    payload = canonicalize(LAX, "served-as-is").data
    received = over({**LAX, "x-new": 1}, payload, alice)
    told = only(explained(received, alice, against=against)).signed
    assert told is not None
    assert (told.source, told.changes) == ("search", (Edit("/x-new", None, "1"),))


def test_a_signature_that_fits_is_held_against_nothing(alice: PrivateKey) -> None:
    """The file is asked only about what does not fit."""
    good = by_another_sdk(PORTABLE, alice, "served-as-is")
    assert only(explained(good, alice, against=dump(LAX))).signed is None


def test_a_long_difference_is_cut(alice: PrivateKey) -> None:
    """And the rest is counted."""
    was = {**LAX, "x-numbers": {str(number): number for number in range(MAX_CHANGES + 7)}}
    now = {**LAX, "x-numbers": {str(number): -1 for number in range(MAX_CHANGES + 7)}}
    payload = canonicalize(was, "served-as-is").data
    told = only(explained(over(now, payload, alice), alice, against=dump(was))).signed
    assert told is not None
    assert (len(told.changes), told.changes_left_out) == (MAX_CHANGES, 7)


# ------------------------------------------------------------------ the difference itself

#: Signed, received, and the pointers of what is changed, added and removed.
CASES: dict[str, tuple[Any, Any, list[str], list[str], list[str]]] = {
    "nothing": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, [], [], []),
    "the order of members": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [], [], []),
    "another value": ({"a": {"b": 1}}, {"a": {"b": 2}}, ["/a/b"], [], []),
    "another type": ({"a": 1}, {"a": "1"}, ["/a"], [], []),
    "nothing in a list and in a text": ({"a": []}, {"a": ""}, ["/a"], [], []),
    "1 and true": ({"a": 1}, {"a": True}, ["/a"], [], []),
    "1 and 1.0": ({"a": 1}, {"a": 1.0}, [], [], []),
    "an element in the middle": ([1, 2, 3], [1, 9, 2, 3], [], ["/1"], []),
    "an element gone from the front": ([1, 2, 3], [2, 3], [], [], ["/0"]),
    "an element replaced": ([1, 2, 3], [1, 9, 3], ["/1"], [], []),
    "a member inside an element": ([{"a": 1}, 2], [{"a": 1, "b": 2}, 2], [], ["/0/b"], []),
    "all of a list": ([1], [], [], [], ["/0"]),
    "names that pointers escape": ({"a/b~": 1}, {}, [], [], ["/a~1b~0"]),
}


@pytest.mark.parametrize(
    ("was", "received", "changed", "added", "removed"), CASES.values(), ids=CASES
)
def test_a_difference_names_each_place(
    was: Any, received: Any, changed: list[str], added: list[str], removed: list[str]
) -> None:
    """Each topmost value once, and its mirror image the other way round."""
    for one, other, more, less in (
        (was, received, added, removed),
        (received, was, removed, added),
    ):
        found = list(differences(one, other))
        assert [c.pointer for c in found if c.signed is None] == more
        assert [c.pointer for c in found if c.received is None] == less
        assert [c.pointer for c in found if None not in (c.signed, c.received)] == changed
