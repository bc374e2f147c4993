"""What a reader of a card costs: little above the card itself, and in proportion to it.

Counted are bytes that are allocated, never seconds: a slow machine fails nothing here.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from cardsign.card.document import Card
from cardsign.card.profiles import PROFILES, Payloads
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.main import command_line as cli
from cardsign.errors import CardsignError
from cardsign.inspect import inspect_card
from cardsign.jose.keys import JwkSet
from cardsign.sign import SigningOptions, sign_with_notes
from cardsign.trust.policy import Policy
from tests.hostile import KEY, SHAPES, card, entry
from tests.support import holder_of, reach_verdict
from tests.unportable import unportable

SMALL = 16 * 1024  # from half of it on an encoder reserves memory in steps of the same share
MOST = 80 * 1024 * 1024  # bytes above what is there after import, for any card of 256 KiB
JWKS = JwkSet.of([KEY.public])
NOW = datetime(2026, 7, 1, tzinfo=UTC)
ANY_PROFILE = Policy.from_jwks(JWKS, name="them", accept="sdk", only=tuple(PROFILES)[:4])


def verify(data: bytes) -> object:
    """As a caller who accepts all that may be accepted."""
    return reach_verdict(data, expect=holder_of(ANY_PROFILE), policy=ANY_PROFILE, now=NOW)


def sign(data: bytes) -> object:
    """By force and for every profile: whoever signs what a stranger wrote."""
    try:
        return sign_with_notes(data, [KEY], SigningOptions(force=True, compat="all"))
    except CardsignError as refusal:
        return refusal


def explain(data: bytes) -> object:
    """With the keys, so that signatures that fit nothing are tried on other spellings."""
    return inspect_card(data, jwks=JWKS)


def lint(data: bytes) -> object:
    """For every target that there is."""
    return unportable(Card.from_bytes(data).document)


def canonical(data: bytes) -> object:
    """Every payload that the card has, all of them kept."""
    payloads = Payloads(Card.from_bytes(data).document)
    return [payloads.payload_or_refusal(profile) for profile in PROFILES]


def inspect(data: bytes) -> object:
    """The command, whose output grows with what it lists."""
    return CliRunner().invoke(cli, ["inspect", "-", "--json"], input=data).output


READERS = (verify, sign, explain, lint, canonical, inspect)


def peak(read: Callable[[bytes], object], data: bytes) -> int:
    """The most bytes that were allocated at once while reading, above those before."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = read(data)
        _, most = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return most - before


@pytest.fixture(scope="module", autouse=True)
def imported() -> Iterator[None]:
    """What a reader imports or fills once is no part of what a card costs."""
    for read in READERS:
        read(card("many schemes", 4096))
    gc.freeze()  # else each collection goes through all that other tests have left
    yield
    gc.unfreeze()


TWO = (entry(), entry())
#: The finding itself; the other shapes are measured by their growth, and by CARDSIGN_GROWTH=all.
WORST = ("a long name over an array",)
EVERY = os.environ.get("CARDSIGN_GROWTH") == "all"  # every shape at full size: minutes


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("read", READERS, ids=lambda one: one.__name__)
def test_memory_grows_with_the_card(read: Callable[[bytes], object], shape: str) -> None:
    """Twice the card costs no more than twice as much, but for a small constant."""
    half, whole = (peak(read, card(shape, size, signatures=TWO)) for size in (SMALL // 2, SMALL))
    # Tables and buffers grow in steps, which at an unlucky size makes more than twice of it.
    # What grew with the square of the card would need four times as much.
    assert whole < 3 * half + 128 * 1024


@pytest.mark.parametrize("shape", SHAPES if EVERY else WORST)
@pytest.mark.parametrize("read", READERS, ids=lambda one: one.__name__)
def test_memory_of_the_largest_card(read: Callable[[bytes], object], shape: str) -> None:
    """With as many signatures as are read."""
    assert peak(read, card(shape, MAX_CARD_BYTES)) < MOST
