"""What is to be done next with the keys of a store, and when.

A plan is computed from the state alone, so any number of hosts may ask for it at any time:
who comes second finds the step done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from cardsign.errors import StoreFault
from cardsign.keys.lifecycle import (
    TimelineSettings,
    Waiting,
    activate,
    destroy,
    retire,
    standby_of,
    until_activation,
    until_destruction,
    until_retirement,
)
from cardsign.keys.log import Event
from cardsign.keys.model import (
    ENDED,
    ROTATING,
    KeyRecord,
    Role,
    StoreState,
)

Action = Literal["prepublish", "activate", "retire", "destroy", "generate"]

MIN_REFRESH: Final = 60  # seconds; a change of keys is no reason to be asked at every turn
#: One rotation ends before the next begins.
_URGENCY: Final = ("retire", "activate", "prepublish", "generate", "destroy")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a rotation.

    Attributes:
        action: What is to be done; ``generate``: make the next key of the role and algorithm.
        key: The key that it changes; None where there is to be a new one.
        why: What it waits for, or why it is due, in words.
        due: From when on; None while it waits for something that has no date.
    """

    action: Action
    role: Role
    alg: str
    key: KeyRecord | None
    why: str
    due: datetime | None

    @property
    def what(self) -> str:
        """What is to be done, in words: ``retire card key K``."""
        whose = f"the next {self.alg} {self.role} key"
        return f"{self.action} {f'{self.role} key {self.key.kid}' if self.key else whose}"

    def is_due(self, now: datetime) -> bool:
        """Whether it can and should be done at `now`."""
        return self.due is not None and self.due <= now


def steps(state: StoreState, settings: TimelineSettings, now: datetime) -> tuple[Step, ...]:
    """Return every step ahead, the next one first; one for each key at most."""

    def order(step: Step) -> tuple[bool, bool, float, int]:
        ready = step.is_due(now)
        when = step.due.timestamp() if step.due and not ready else 0.0
        return not ready, step.due is None, when, _URGENCY.index(step.action)

    return tuple(sorted(_steps(state, settings), key=order))


def take(state: StoreState, step: Step, settings: TimelineSettings, now: datetime) -> list[Event]:
    """Return the events of a step that changes a key; raises as the function that it names."""
    if step.key is None:
        raise StoreFault("keystore.changed", "the next step makes a new key")
    taken = {"activate": activate, "retire": retire, "destroy": destroy}[step.action]
    return taken(state, step.key.thumbprint, now=now, settings=settings)


def successor_of(state: StoreState, key: KeyRecord) -> KeyRecord | None:
    """Return the key that a rotation activates next: the oldest waiting one of its custody.

    One of another custody is kept for the day on which this custody is lost.
    """
    waiting = [other for other in _waiting(state, key) if other.group == key.group]
    return min(waiting, key=lambda other: other.state == "generated", default=None)


def _waiting(state: StoreState, key: KeyRecord) -> list[KeyRecord]:
    return [
        other
        for other in state.keys
        if other.state in ("prepublished", "generated")
        and other.succeeds(key)
        and not other.is_stolen
    ]


def _steps(state: StoreState, settings: TimelineSettings) -> Iterator[Step]:
    """Yield the next step of each key, and the keys that are to be made."""
    for key in state.keys:
        if key.state == "retiring":
            yield _step("retire", key, until_retirement(state, key, settings))
        elif key.state == "generated" and (keyset := state.keyset):
            # The statement that lists it lets the JWK Set hold it; no step of ours does.
            what = f"keyset {keyset.label} does not list it"
            yield _step("prepublish", key, Waiting("keystore.not_listed", what, None))
        elif key.state == "active" and key.rotates and not key.is_stolen:
            yield from _succession(state, key, settings)
        elif key.state in ENDED and key.private == "held":
            yield _step("destroy", key, until_destruction(state, key, settings))
        if _was_the_last(state, key):
            yield from _replacement(state, key, settings)


def _succession(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    successor = successor_of(state, key)
    wanted = key.times.replaced
    if wanted is None:
        wanted = (key.times.activated or key.created) + timedelta(seconds=settings.rotate_every)
    if successor is None:
        yield _generate(key, f"key {key.kid!r} has no successor", key.times.activated)
    elif successor.state == "prepublished":
        waiting = until_activation(state, successor, settings)
        if waiting.until is not None and waiting.until < wanted:
            waiting = Waiting(waiting.code, "the active key signs until then", wanted)
        yield _step("activate", successor, waiting)


def _replacement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    """Yield what puts another key in the place of one that was revoked without a successor.

    The one after it is made with it, since the roots would have to list a later one by themselves.
    """
    if (standby := standby_of(state, key)) is not None:
        yield _step("activate", standby, until_activation(state, standby, settings))
    elif key.revoked_because != "ceased" and len(_waiting(state, key)) < 2:
        yield _generate(key, f"key {key.kid!r} was revoked", key.times.revoked)


def _generate(key: KeyRecord, why: str, due: datetime | None) -> Step:
    role = next(role for role in key.roles if role in ROTATING)
    return Step("generate", role, key.alg, None, why, due)


def _was_the_last(state: StoreState, key: KeyRecord) -> bool:
    """Whether a key was revoked while it was the active one, and has no successor yet."""
    activated = key.times.activated
    if key.state != "revoked" or activated is None or not key.rotates:
        return False
    others = [other for other in state.keys if other.succeeds(key)]
    return all(
        other.state != "active" and (other.times.activated or activated) <= activated
        for other in others
    )


def _step(action: Action, key: KeyRecord, waiting: Waiting) -> Step:
    role = next((role for role in key.roles if role in ROTATING), key.roles[0])
    return Step(action, role, key.alg, key, waiting.what, waiting.until)


def refresh_hint(state: StoreState, settings: TimelineSettings, now: datetime) -> int:
    """Return for how many seconds a JWK Set may be kept: less shortly before it is needed anew."""
    due = next_change(state, settings, now)
    left = settings.max_age if due is None else int((due - now).total_seconds())
    return min(settings.max_age, max(MIN_REFRESH, left))


def next_change(state: StoreState, settings: TimelineSettings, now: datetime) -> datetime | None:
    """Return when the next card key is due to be activated or retired; None if nobody knows."""
    due = (
        step.due
        for step in steps(state, settings, now)
        if step.due is not None and step.action in ("activate", "retire") and step.role == "card"
    )
    return min(due, default=None)
