"""What an explanation costs, in counted calls: never in seconds, which a slow machine fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from cardsign.inspect import inspect_card
from cardsign.jose.keys import JwkSet
from tests.hostile import KEY, card, entry

JWKS = JwkSet.of([KEY.public])


def calls(work: Callable[[], object]) -> int:
    """How many functions were called, those of the interpreter included."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # what is filled once is no part of it
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", ["many wrong types", "many schemes", "deep nesting"])
def test_the_search_for_a_spelling_is_bounded(shape: str) -> None:
    """A card that is bad under two signatures is written out a few times for each."""
    data = card(shape, 8 * 1024, signatures=[entry(), entry()])
    searched = calls(lambda: inspect_card(data, jwks=JWKS))
    assert searched - calls(lambda: inspect_card(data, jwks=None)) < 600_000
