"""What an explanation costs, in counted calls: never in seconds, which a slow machine fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from cardsign.card.profiles import canonicalize
from cardsign.inspect.card import inspect_card
from cardsign.jose.keys import JwkSet
from tests.hostile import KEY, card, entry
from tests.support import PORTABLE

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


@pytest.mark.parametrize("element", [{}, {"x": 0}], ids=str)
def test_js_instance_reads_what_is_there(element: object) -> None:
    """An element that names no field costs little, however many fields its schema has."""
    few, many = (
        calls(lambda n=n: canonicalize({**PORTABLE, "skills": [element] * n}, "js-instance"))
        for n in (100, 1100)
    )
    assert many - few < 60 * 1000


@pytest.mark.parametrize("shape", ["many wrong types", "many schemes", "deep nesting"])
def test_the_search_for_a_spelling_is_bounded(shape: str) -> None:
    """A card that is bad under two signatures is written out a few times for each."""
    data = card(shape, 8 * 1024, signatures=[entry(), entry()])
    searched = calls(lambda: inspect_card(data, jwks=JWKS))
    assert searched - calls(lambda: inspect_card(data, jwks=None)) < 600_000
