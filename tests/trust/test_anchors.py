"""Anchors: what each one says has a digest, by which memories are kept apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import KeysetId, RootAnchor
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, TrustedIssuer
from cardsign.trust.state import IssuerState
from tests.jose.statement_making import key

DIGEST = "0" * 64


def digest_of(anchor: Anchor) -> str:
    """By what state is bound to an anchor."""
    return IssuerState.begin(TrustedIssuer("tides", anchor, None)).anchor


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


def test_what_differs_has_different_digests() -> None:
    """No anchor can stand in for another."""
    digests = {name: digest_of(anchor()) for name, anchor in DIFFERENT.items()}

    for one, other in itertools.combinations(digests, 2):
        assert digests[one] != digests[other], f"{one} and {other}"


SAME: dict[str, tuple[Callable[[], Anchor], Callable[[], Anchor]]] = {
    "keys in another order": (lambda: keys("a", "b"), lambda: keys("b", "a")),
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
def test_what_means_the_same_has_one_digest(
    one: Callable[[], Anchor], other: Callable[[], Anchor]
) -> None:
    """A policy that is only written differently keeps its memories."""
    assert digest_of(one()) == digest_of(other())
