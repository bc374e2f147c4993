"""Rotations gone wrong, one by one: the simulation has to find each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from cardsign.issuer.release import card_digest
from cardsign.keys import agenda
from cardsign.keys.agenda import TimelineSettings
from cardsign.keys.ledger import PUBLISHED, KeyRecord, StoreState
from tests.simulation.issuer import URL, Issuer

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
    with ExitStack() as stack:
        for room in ("cardsign.keys.agenda", "cardsign.keys.ledger"):
            stack.enter_context(patch(f"{room}.signed_cards", lambda *_: ()))
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
