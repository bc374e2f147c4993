"""States, publications and times in few words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cardsign.jose.jwk import SigningAlg
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import agenda
from cardsign.keys.agenda import Step, TimelineSettings, steps, take
from cardsign.keys.ledger import (
    Event,
    Publication,
    PublishedCard,
    RevocationReason,
    StoreState,
    fold_all,
)
from cardsign.keys.store import KeyStore, digest_of

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EMPTY = StoreState()
#: Two private keys.
FIRST, SECOND = (PrivateKey.generate("ES256") for _ in range(2))
BLOB = "0" * 64
#: Caches hold key sets for 200 s at worst, cards for 50 s; clocks differ by 10 s.
QUICK = TimelineSettings(max_age=100, worst_cache=200, card_max_age=50, skew=10, rotate_every=1000)
SERIES = "https://tides.example/a2a"


@functools.cache
def public(name: str, alg: SigningAlg = "ES256") -> PublicKey:
    """The public key of a key that is called `name`, the same one each time."""
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
    card = PublishedCard("agent-card.json", digest_of(series.encode()), signers, series)
    return Publication(generation, at, max_age, kids, (card,))


def change(
    state: StoreState,
    decide: Callable[..., list[Event]],
    *arguments: Any,
    now: datetime,
    **how: Any,
) -> StoreState:
    """What a decision of the lifecycle makes of a state."""
    now = now.replace(microsecond=0)
    return fold_all(state, decide(state, *arguments, **how), now)


def enter(
    state: StoreState, *names: str, at: float = 0, alg: SigningAlg = "ES256", **how: Any
) -> StoreState:
    """Take keys in, so long after noon; they are in a file unless another custody is named."""
    if how.get("custody") is None:
        how = {**how, "custody": "file:one", "blob": BLOB}
    for name in names:
        state = change(state, agenda.enter, public(name, alg), now=after(at), **how)
    return state


def record(state: StoreState, publication: Publication) -> StoreState:
    """Note a publication at its own time."""
    return change(state, agenda.record_publication, publication, now=publication.at)


def revoke(state: StoreState, name: str, reason: RevocationReason, at: float = 1) -> StoreState:
    """Revoke a key, that many seconds after noon."""
    return change(state, agenda.revoke, name, reason=reason, now=after(at))


def list_keys(state: StoreState, version: int, *names: str, at: float = 0) -> StoreState:
    """A keyset statement of this version lists these keys."""
    keyset = {"epoch": 1, "version": version, "digest": f"{version:064}", "blob": BLOB}
    waiting = [key for key in state.keys if key.state == "generated" and key.kid in names]
    events = [{"event": "keyset", **keyset}]
    events += [agenda.move(key, "prepublished") for key in waiting]
    return fold_all(state, events, after(at))


def take_due_step(store: KeyStore, *, now: datetime, settings: TimelineSettings) -> Step | None:
    """Take the next due step that changes a key, and return it, unless another one was faster."""
    taken: Step | None = None

    def decide(state: StoreState) -> list[Event]:
        nonlocal taken
        ahead = [step for step in steps(state, settings, now) if step.action != "generate"]
        taken = next((step for step in ahead if step.is_due(now)), None)
        return take(state, taken, settings, now) if taken else []

    store.commit(decide, now=now)
    return taken


def due(state: StoreState, action: str, name: str, at: float) -> Step | None:
    """The step of that key, if it is due where keys are to change as soon as they may."""
    for step in steps(state, replace(QUICK, rotate_every=0), after(at)):
        if (step.action, step.key.kid) == (action, name) and step.is_due(after(at)):
            return step
    return None


def do(state: StoreState, action: str, name: str, at: float) -> StoreState:
    """Take that step, which is due."""
    step = due(state, action, name, at)
    assert step, f"{action} {name} is not due"
    return fold_all(state, take(state, step, QUICK, after(at)), after(at))
