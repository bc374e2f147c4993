"""How far a rotation has come, for the tests of what follows."""

from __future__ import annotations

from cardsign.keys.ledger import StoreState
from tests.keys.states import BLOB, EMPTY, NOON, after, do, enter, public, published, record

ELSEWHERE = {"custody": "file:two", "blob": BLOB}
PROGRAM = "exec:/usr/local/bin/sign"


def first_two() -> StoreState:
    """`one` is active, `two` prepublished; neither was ever published."""
    return enter(enter(EMPTY, public("one"), now=NOON), public("two"), now=NOON)


def seen() -> StoreState:
    """Both are in a publication of 12:00:00, the card of which `one` has signed."""
    return record(first_two(), published(NOON, ["one", "two"], ["one"]))


def activated() -> StoreState:
    """`two` was activated as soon as that was lawful; `one` retires."""
    return do(seen(), "activate", "two", 210)


def resigned() -> StoreState:
    """And ten seconds later both have signed what is published."""
    return record(activated(), published(after(220), ["one", "two"]))


def relieved() -> StoreState:
    """`one` has stopped signing, and what is published is signed by `two` alone."""
    return record(resigned(), published(after(470), ["one", "two"], ["two"]))


def retired() -> StoreState:
    """`one` has left the key set at the first lawful moment."""
    return do(relieved(), "retire", "one", 530)
