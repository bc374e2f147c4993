"""Three statements about rotation, over random worlds; and each wrong rotation is found."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest.mock import patch

import pytest

from cardsign.issuer.release import card_digest
from cardsign.keys import agenda
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.ledger import PUBLISHED, KeyRecord, StoreState
from tests.simulation import world
from tests.simulation.clockwork import Broken
from tests.simulation.issuer import URL, Issuer
from tests.simulation.world import simulate

#: Without a fault a world is simulated once, whichever test asks for it.
world_of: Final = functools.cache(simulate)
EXAMPLES: Final = int(os.environ.get("CARDSIGN_EXAMPLES", "400"))
#: In all: 20,000 under `.ci/run`, which sets 2,000 examples, and a million by night.
VERIFICATIONS: Final = 1_000_000 if EXAMPLES >= 40_000 else min(20_000, 10 * EXAMPLES)
PARTS: Final = (1_000, 2_000, 3_000, 4_000)  # first seeds; two processes share them

# Rotations gone wrong, one by one: the simulation has to find each.

Wait = tuple[str, datetime | None]
_ALWAYS: Wait = ("nothing", datetime.min.replace(tzinfo=UTC))


@contextmanager
def no_prepublication() -> Iterator[None]:
    """A key stands in the JWK Set only once it signs, and signs as soon as it is made."""

    def published(state: StoreState) -> tuple[KeyRecord, ...]:
        shown = PUBLISHED - {"prepublished"}
        return tuple(key for key in state.keys if key.state in shown and "card" in key.roles)

    at_once = _waiting(activation=lambda **_: _ALWAYS)
    with at_once, patch.object(StoreState, "published_keys", published):
        yield


@contextmanager
def the_clock_of_the_state() -> Iterator[None]:
    """Waits run from when the store changed a state, whatever is live by then."""

    def activation(state: StoreState, key: KeyRecord, settings: TimelineSettings, **_: Any) -> Wait:
        until = (key.times.prepublished or key.created) + settings.propagation
        return ("caches may not have it yet", until)

    def retirement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Wait:
        stops = key.times.stops_signing
        until = None if stops is None else stops + settings.turnover
        return ("caches may hold cards that need it", until)

    with _waiting(activation=activation, retirement=retirement):
        yield


@contextmanager
def no_overlap() -> Iterator[None]:
    """The old key stops and goes when the new one begins."""
    at_once = _waiting(retirement=lambda **_: _ALWAYS)
    with at_once, patch.object(TimelineSettings, "drain", timedelta()):
        yield


@contextmanager
def dropped_too_early() -> Iterator[None]:
    """The old key goes as soon as the new one has signed, whatever caches still hold."""

    def retirement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Wait:
        return ("it is not relieved", key.times.relieved)

    with _waiting(retirement=retirement):
        yield


@contextmanager
def retired_while_it_stands_on_cards() -> Iterator[None]:
    """The old key goes although cards still bear its signature, if the new one has signed them."""
    with patch("cardsign.keys.ledger.signed_cards", lambda *_: ()):
        yield


@contextmanager
def unrevoked() -> Iterator[None]:
    """A revoked key comes back at the next tick."""
    rotate = Issuer._rotate

    def meddled(issuer: Issuer, now: datetime) -> None:
        rotate(issuer, now)
        state = issuer.store.state
        stops = now + timedelta(days=30)
        back = [
            replace(key.at("retiring", revoked=None, stops_signing=stops), revoked_because=None)
            for key in state.keys
            if key.state == "revoked"
        ]
        issuer.store.state = state.replacing(back)
        for key in back:
            issuer.world.note(f"issuer takes {key.kid} back")

    with patch.object(Issuer, "_rotate", meddled):
        yield


@contextmanager
def floor_too_early() -> Iterator[None]:
    """A card ends for verifiers with the release that lists its successor."""

    renew = Issuer._release

    def meddled(issuer: Issuer, now: datetime, card: bytes) -> None:
        with patch("cardsign.issuer.release.settled_cards", lambda *_: {URL: card_digest(card)}):
            renew(issuer, now, card)

    with patch.object(Issuer, "_release", meddled):
        yield


@contextmanager
def keyset_before_its_release() -> Iterator[None]:
    """A keyset is published by itself; the release that speaks of it comes with the next tick."""

    def ceremony(issuer: Issuer, t: int) -> None:
        issuer.ceremony_planned = False
        issuer._keyset(issuer.clock(t, 0))
        issuer._deploy(t, issuer.statements, None)

    with patch.object(Issuer, "_ceremony", ceremony):
        yield


@contextmanager
def _waiting(
    activation: Callable[..., Wait] | None = None,
    retirement: Callable[..., Wait] | None = None,
) -> Iterator[None]:
    real, others = agenda.find_wait, {"activate": activation, "retire": retirement}

    def find_wait(state: StoreState, key: KeyRecord, action: Any, settings: Any) -> Wait:
        return (others.get(action) or functools.partial(real, action=action))(
            state=state, key=key, settings=settings
        )

    with patch("cardsign.keys.agenda.find_wait", find_wait):
        yield


#: Whatever is wrong, the seeds of the worlds in which it has to be found, and which statement.
FOUND: Final[dict[str, tuple[Callable[[], AbstractContextManager[None]], tuple[int, ...], int]]] = {
    "no pre-publication": (no_prepublication, (1, 2), 1),
    "trusting the state's clock": (the_clock_of_the_state, (1, 2), 1),
    "no overlap": (no_overlap, (1, 2), 1),
    "dropped too early": (dropped_too_early, (13, 14), 1),
    "retired while it stands on cards": (retired_while_it_stands_on_cards, (3, 5), 1),
    "taking a revoked key back": (unrevoked, (3, 4), 2),
    "the floor raised too early": (floor_too_early, (1, 2), 1),
    "a keyset before its release": (keyset_before_its_release, (1, 2), 1),
}


@pytest.mark.parametrize("first", PARTS)
def test_the_three_statements_hold(first: int) -> None:
    """No honest card refused, no revoked key believed, no thief believed beyond the bound.

    A failure names the seed and the history of its world; ``simulate(SEED)`` shows it again.
    """
    total = excluded = 0
    for seed in itertools.count(first):
        figures = simulate(seed).figures if EXAMPLES >= 40_000 else world_of(seed).figures
        total, excluded = total + figures.verifications, excluded + figures.excluded
        if total >= VERIFICATIONS // len(PARTS):
            break
    assert excluded < total / 20, "the assumptions exclude next to nothing"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("what", "likely"), [(world.LONGEST, 3), (world.WITHHELD, 3), (world.WITHHELD_OF_BOTH, 12)]
)
def test_a_thief_is_believed_just_as_long_as_documented(what: str, likely: int) -> None:
    """Measured in the last second of the bound, and in the next."""
    measured = (world_of(seed).figures for seed in (likely, *range(1_000, 1_008)))
    shorts = (figures.short_of_bound for figures in measured)
    assert next(short[what] for short in shorts if what in short) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", FOUND)
def test_a_wrong_rotation_is_found(wrong: str) -> None:
    """Each makes a statement fail in one of a few worlds, which hold without it."""
    mutant, seeds, statement = FOUND[wrong]
    text = ""
    for seed in seeds:
        try:
            with mutant():
                simulate(seed)
        except Broken as broken:
            text = str(broken)
            break
    assert text.startswith(f"statement {statement} does not hold in the world of seed {seed}")
    assert text.count("\n") > 10, "the history is told"
    world_of(seed)


def test_a_world_follows_from_its_seed() -> None:
    """History and figures, to the byte."""
    one, again = world_of(1_000), simulate(1_000)
    assert one.clockwork.history == again.clockwork.history
    assert one.figures == again.figures
    assert one.issuer.signers_of == again.issuer.signers_of
