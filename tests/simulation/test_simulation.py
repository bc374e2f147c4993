"""Three statements about rotation, over random worlds; and each wrong rotation is found."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest.mock import patch

import pytest

from cardsign.issuer.release import card_digest
from cardsign.keys import agenda
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.ledger import PUBLISHED, KeyRecord, StoreState
from tests.simulation.clockwork import Broken
from tests.simulation.issuer import URL, Issuer
from tests.simulation.world import simulate
from tests.spoilt_cards import EXAMPLES

#: Without a fault a world is simulated once, whichever test asks for it.
world_of: Final = functools.cache(simulate)
#: In all: 100,000 under `.ci/run`, which sets 2,000 examples, and a million by night.
VERIFICATIONS: Final = {2_000: 100_000, 50_000: 1_000_000}.get(EXAMPLES, 10 * EXAMPLES)
PARTS: Final = (1_000, 2_000, 3_000, 4_000)  # first seeds; two processes share them

# Rotations gone wrong, one by one: the simulation has to find each.

Wait = tuple[str, datetime | None]
_FIND_WAIT: Final = agenda.find_wait
_RENEW: Final = Issuer._release
_ROTATE: Final = Issuer._rotate


def waiting(**others: Callable[..., Wait]) -> Any:
    """Other waits for steps of these names."""

    def find_wait(state: StoreState, key: KeyRecord, action: Any, settings: Any) -> Wait:
        if action in others:
            return others[action](key, settings)
        return _FIND_WAIT(state, key, action, settings)

    return patch("cardsign.keys.agenda.find_wait", find_wait)


def always(*_: Any) -> Wait:
    return "nothing", datetime.min.replace(tzinfo=UTC)


def publish_what_signs(state: StoreState) -> tuple[KeyRecord, ...]:
    shown = PUBLISHED - {"prepublished"}
    return tuple(key for key in state.keys if key.state in shown and key.role == "card")


def activate_by_state(key: KeyRecord, settings: TimelineSettings) -> Wait:
    return "by state", (key.times.prepublished or key.created) + settings.propagation


def retire_by_state(key: KeyRecord, settings: TimelineSettings) -> Wait:
    stops = key.times.stops_signing
    return "by state", None if stops is None else stops + settings.turnover


def retire_when_relieved(key: KeyRecord, _: Any) -> Wait:
    return "it is not relieved", key.times.relieved


def rotate_and_unrevoke(issuer: Issuer, now: datetime) -> None:
    _ROTATE(issuer, now)
    state, stops = issuer.store.state, now + timedelta(days=30)
    back = [
        replace(key.at("retiring", revoked=None, stops_signing=stops), revoked_because=None)
        for key in state.keys
        if key.state == "revoked"
    ]
    issuer.store.state = state.replacing(back)


def release_and_raise_the_floor(issuer: Issuer, now: datetime, card: bytes) -> None:
    with patch("cardsign.issuer.release.settled_cards", lambda *_: {URL: card_digest(card)}):
        _RENEW(issuer, now, card)


def publish_keyset_alone(issuer: Issuer, t: int) -> None:
    issuer.ceremony_planned = False
    issuer._keyset(issuer.clock(t, 0))
    issuer._deploy(t, issuer.statements, None)


HASTY = (waiting(activate=always), patch.object(StoreState, "published_keys", publish_what_signs))
BY_STATE = (waiting(activate=activate_by_state, retire=retire_by_state),)
NO_OVERLAP = (waiting(retire=always), patch.object(TimelineSettings, "drain", timedelta()))
BEFORE_CACHES = (waiting(retire=retire_when_relieved),)
STANDING = (patch("cardsign.keys.ledger.signed_cards", lambda *_: ()),)
UNREVOKED = (patch.object(Issuer, "_rotate", rotate_and_unrevoke),)
EARLY_FLOOR = (patch.object(Issuer, "_release", release_and_raise_the_floor),)
ALONE = (patch.object(Issuer, "_ceremony", publish_keyset_alone),)

#: Whatever is wrong, the seeds of the worlds in which it has to be found, and which statement.
FOUND: Final[dict[str, tuple[tuple[Any, ...], tuple[int, ...], int]]] = {
    "no pre-publication: a key is published once it signs": (HASTY, (1, 2), 1),
    "trusting the state's clock, whatever is live by then": (BY_STATE, (1, 2), 1),
    "no overlap: the old key goes when the new one begins": (NO_OVERLAP, (1, 2), 1),
    "dropped too early, whatever caches still hold": (BEFORE_CACHES, (13, 14), 1),
    "retired while it stands on cards": (STANDING, (3, 5), 1),
    "taking a revoked key back at the next tick": (UNREVOKED, (3, 4), 2),
    "the floor raised with the release that lists the next card": (EARLY_FLOOR, (1, 2), 1),
    "a keyset before the release that speaks of it": (ALONE, (1, 2), 1),
}


@pytest.mark.parametrize("first", PARTS)
def test_the_three_statements_hold(first: int) -> None:
    """No honest card refused, no revoked key believed, no thief believed beyond the bound.

    A failure names the seed and the history of its world; ``simulate(SEED)`` shows it again.
    """
    total = excluded = 0
    for seed in itertools.count(first):
        done = simulate(seed) if EXAMPLES >= 40_000 else world_of(seed)
        total, excluded = total + done.verifications, excluded + done.excluded
        if total >= VERIFICATIONS // len(PARTS):
            break
    assert excluded < total / 20, "the assumptions exclude next to nothing"


@pytest.mark.thorough
def test_a_thief_is_believed_just_as_long_as_documented() -> None:
    """In the last second of the bound, and not in the next.

    Of withheld statements, each world looks at both seconds itself.
    """
    worlds = [world_of(seed) for seed in (3, 12, *range(1_000, 1_008))]
    assert {one.setting.theft for one in worlds if one.withheld} == {"card", "card and release"}
    shorts = (one.short_of_bound for one in worlds)
    assert next(short for short in shorts if short is not None) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", FOUND)
def test_a_wrong_rotation_is_found(wrong: str) -> None:
    """Each makes a statement fail in one of a few worlds, which hold without it."""
    patches, seeds, statement = FOUND[wrong]
    text = ""
    for seed in seeds:
        try:
            with contextlib.ExitStack() as stack:
                for mutation in patches:
                    stack.enter_context(mutation)
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
    assert one.short_of_bound == again.short_of_bound
    assert one.issuer.signers_of == again.issuer.signers_of
