"""Anchors: which of them are equal, so that none stands in for another."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor
from cardsign.trust.session import cache_name
from tests.statements.making import key

DIGEST = "0" * 64


PIN = KeysetId(1, 1, DIGEST)


def keys(*names: str, **holders: str) -> KeysAnchor:
    """Pinned keys."""
    return KeysAnchor(JwkSet.of(key(name).public for name in names), holders)


def root(threshold: int, *holders: tuple[str, str]) -> KeysetAnchor:
    """A pinned root set."""
    return KeysetAnchor(RootAnchor(threshold, frozenset(holders)), "tides.example")


DIFFERENT: dict[str, Callable[[], Anchor]] = {
    "no key": lambda: keys(),
    "a key": lambda: keys("a"),
    "another key": lambda: keys("b"),
    "two keys": lambda: keys("a", "b"),
    "a key with its holder": lambda: keys("a", a="ann"),
    "a key with another holder": lambda: keys("a", a="bob"),
    "a url": lambda: JwksAnchor("https://tides.example/jwks.json"),
    "another url": lambda: JwksAnchor("https://tides.example/jwks"),
    "a statement": lambda: KeysetAnchor(PIN, "tides.example"),
    "a statement of any issuer": lambda: KeysetAnchor(PIN),
    "a statement of another issuer": lambda: KeysetAnchor(PIN, "lamp.example"),
    "a statement of another epoch": lambda: KeysetAnchor(KeysetId(2, 1, DIGEST)),
    "a statement of another version": lambda: KeysetAnchor(KeysetId(1, 2, DIGEST)),
    "a statement of another digest": lambda: KeysetAnchor(KeysetId(1, 1, "1" * 64)),
    "a root set": lambda: root(1, ("x", "ann"), ("y", "bob")),
    "a root set with another threshold": lambda: root(2, ("x", "ann"), ("y", "bob")),
    "a root set with another holder": lambda: root(1, ("x", "ann"), ("y", "eve")),
    "a root set with one key less": lambda: root(1, ("x", "ann")),
}


def test_no_two_anchors_that_differ_are_equal() -> None:
    """No anchor can stand in for another where a policy is edited or compared."""
    for (one, made), (other, also) in itertools.combinations(DIFFERENT.items(), 2):
        assert made() != also(), f"{one} and {other}"


def test_no_two_pins_share_a_place_in_the_cache() -> None:
    """What was kept for one is never taken for another."""
    anchors = [made() for made in DIFFERENT.values()]
    pins = {anchor.pin for anchor in anchors if isinstance(anchor, KeysetAnchor)}
    by_digest = {pin.digest if isinstance(pin, KeysetId) else pin for pin in pins}
    assert len({cache_name(pin) for pin in pins}) == len(by_digest) > 4


SAME: dict[str, tuple[Callable[[], Anchor], Callable[[], Anchor]]] = {
    "holders in another order": (
        lambda: keys("a", "b", a="ann", b="bob"),
        lambda: keys("a", "b", b="bob", a="ann"),
    ),
    "roots in another order": (
        lambda: root(1, ("x", "ann"), ("y", "bob")),
        lambda: root(1, ("y", "bob"), ("x", "ann")),
    ),
    "one URL": (
        lambda: JwksAnchor("https://a.example/k"),
        lambda: JwksAnchor("https://a.example/k"),
    ),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_means_the_same_is_equal(
    one: Callable[[], Anchor], other: Callable[[], Anchor]
) -> None:
    """A policy that is only written differently says the same."""
    assert one() == other()
    if isinstance(first := one(), KeysetAnchor) and isinstance(second := other(), KeysetAnchor):
        assert cache_name(first.pin) == cache_name(second.pin)
