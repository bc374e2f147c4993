"""Anchors: which of them are equal, so that none stands in for another."""

from __future__ import annotations

import itertools
from dataclasses import replace

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.trust.policy import Anchor, KeysAnchor, KeysetAnchor
from cardsign.trust.session import cache_name
from cardsign.urls import parse_url
from tests.statements.making import key

PIN = KeysetId(1, 1, "0" * 64)


def keys(*names: str, **holders: str) -> KeysAnchor:
    """Pinned keys."""
    return KeysAnchor(JwkSet.of(key(name).public for name in names), holders)


def root(threshold: int, *holders: str) -> KeysetAnchor:
    """A pinned root set, whose keys are x, y and so on."""
    pairs = frozenset(zip("xy", holders, strict=False))
    return KeysetAnchor(RootAnchor(threshold, pairs), "tides.example")


def anchors() -> list[Anchor]:
    """Anchors that differ in one thing each."""
    pins = [PIN, replace(PIN, epoch=2), replace(PIN, version=2), replace(PIN, digest="1" * 64)]
    roots = [root(1, "ann", "bob"), root(2, "ann", "bob"), root(1, "ann", "eve"), root(1, "ann")]
    held = [keys("a", a="ann"), keys("a", a="bob")]
    urls = [parse_url(f"https://tides.example/{name}") for name in ("jwks.json", "jwks")]
    named = [KeysetAnchor(PIN, name) for name in ("tides.example", "lamp.example")]
    statements = [*map(KeysetAnchor, pins), *named]
    return [keys(), keys("a"), keys("b"), keys("a", "b"), *held, *urls, *statements, *roots]


def test_no_two_anchors_that_differ_are_equal() -> None:
    """No anchor can stand in for another where a policy is edited or compared."""
    for (at, first), (beside, second) in itertools.product(enumerate(anchors()), repeat=2):
        assert (first == anchors()[beside]) is (at == beside), (first, second)


def test_no_two_pins_share_a_place_in_the_cache() -> None:
    """What was kept for one is never taken for another."""
    followed = {anchor for anchor in anchors() if isinstance(anchor, KeysetAnchor)}
    followed |= {replace(anchor, issuer="lamp.example") for anchor in followed}
    by_digest = {
        anchor.pin.digest if isinstance(anchor.pin, KeysetId) else anchor for anchor in followed
    }
    assert len({cache_name(anchor) for anchor in followed}) == len(by_digest) > 8


def test_what_means_the_same_is_equal() -> None:
    """A policy that is only written differently says the same."""
    assert keys("a", "b", a="ann", b="bob") == keys("a", "b", b="bob", a="ann")
    pairs = [("x", "ann"), ("y", "bob")]
    pin, turned = (RootAnchor(1, frozenset(order)) for order in (pairs, pairs[::-1]))
    assert pin == turned
    assert cache_name(KeysetAnchor(pin)) == cache_name(KeysetAnchor(turned))
