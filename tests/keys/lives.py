"""States, publications and times in few words, for the tests of a key's life."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cardsign.jose import PrivateKey, PublicKey
from cardsign.jose.keys import Alg
from cardsign.keys import Change, Publication, PublishedCard, StoreState, TimelineSettings

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EMPTY = StoreState(0, ())
#: Caches hold key sets for 200 s at worst, cards for 50 s; clocks differ by 10 s.
QUICK = TimelineSettings(max_age=100, worst_cache=200, card_max_age=50, skew=10, rotate_every=1000)
SERIES = "https://tides.example/a2a"


@functools.cache
def public(name: str, alg: Alg = "ES256") -> PublicKey:
    """The public half of a key that is called `name`, the same one each time."""
    return PrivateKey.generate(alg, kid=name).public


def after(seconds: float) -> datetime:
    """A time that long after `NOON`."""
    return NOON + timedelta(seconds=seconds)


def published(
    at: datetime,
    kids: Iterable[str],
    signed_by: Iterable[str] | None = None,
    *,
    series: str = SERIES,
    generation: int = 1,
    max_age: int = 50,
) -> Publication:
    """A publication of one card, signed by all the keys that are published beside it."""
    kids = tuple(kids)
    signers = kids if signed_by is None else tuple(signed_by)
    card = PublishedCard("agent-card.json", series, "0" * 64, signers)
    return Publication(generation, at, max_age, kids, (card,))


def of(change: Change) -> StoreState:
    """The state of a change."""
    return change[0]
