"""What is to be done next with the keys of a store, and when: one list answers both.

It is computed from the state alone, so any number of hosts may ask for it at any time: who comes
second finds the step done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from cardsign.keys.lifecycle import TimelineSettings, move
from cardsign.keys.log import Event, signed_cards, unsigned_cards
from cardsign.keys.model import KeyRecord, PublishedCard, Role, StoreState
from cardsign.times import second, stamp

Action = Literal["activate", "retire", "generate"]

#: One rotation ends before the next begins.
_URGENCY: Final = ("retire", "activate", "generate")
_SHOWN: Final = 5  # cards that a sentence lists before "and N more"
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


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
        following = f"the next {self.alg} {self.role} key"
        return f"{self.action} {f'{self.role} key {self.key.kid}' if self.key else following}"

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
    """Return the events of a step that changes a key."""
    key = step.key
    if key is None or step.action == "generate":
        return []
    if step.action == "retire":
        return [move(key, "retired")]
    stops = stamp(now + settings.as_published(state).drain)
    predecessors = [
        other for other in state.keys if other.state == "active" and other.succeeds(key)
    ]
    return [*(move(other, "retiring", stops=stops) for other in predecessors), move(key, "active")]


def find_wait(
    state: StoreState, key: KeyRecord, action: Action, settings: TimelineSettings
) -> tuple[str, datetime | None]:
    """Return what a step waits for, in words, and until when; None if nobody can know that yet."""
    times, settled, is_card = key.times, settings.as_published(state), "card" in key.roles
    # A key signs as long as its successor needs, and stays in the JWK Set as long as caches may
    # hold a card that it has signed: some verifiers give up at the first key they cannot find.
    match action:
        case "activate" if is_card and any(
            other.state == "active" and other.succeeds(key) for other in state.keys
        ):  # where none is active, nobody could verify anything
            if times.seen is None:
                return "it is not published yet: cardsign publish SIGNED -o DIR", None
            return "caches may not have it yet", times.seen + settled.propagation
        case "retire" if not is_card:
            return "it still signs", times.stops_signing
        case "retire" if cards := unsigned_cards(state, key):
            return f"its successor has not signed the published cards {_named(cards)}", None
        case "retire" if (cards := signed_cards(state, key)) and times.stops_signing:
            message = (
                f"it signs until {second(times.stops_signing)}; from then on sign the published "
            )
            return f"{message}cards {_named(cards)} again, so that they no longer need it", None
        case "retire" if times.relieved and times.stops_signing:
            until = max(times.stops_signing, times.relieved + settled.turnover)
            return "caches may hold cards that need it", until
        case "retire":
            return "no publication is recorded", None
    return "nothing", _ALWAYS


def _named(cards: tuple[PublishedCard, ...]) -> str:
    names = ", ".join(card.url or card.name for card in cards[:_SHOWN])
    return f"{names} and {len(cards) - _SHOWN} more" if len(cards) > _SHOWN else names


def _steps(state: StoreState, settings: TimelineSettings) -> Iterator[Step]:
    """Yield the next step of each key, and the keys that are to be made."""
    for key in state.keys:
        if key.state == "retiring":
            yield _step(state, "retire", key, settings)
        elif key.state == "active" and key.rotates and not key.is_stolen:
            yield from _succession(state, key, settings)
        if _was_the_last(state, key):
            yield from _replacement(state, key, settings)


def _succession(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    """Yield the activation of the key after an active one, or that it is to be made.

    It is the oldest waiting one of its custody: one of another is kept for the day on which this
    custody is lost.
    """
    beside = [other for other in _find_heirs(state, key) if other.group == key.group]
    successor = min(beside, key=lambda other: other.state == "generated", default=None)
    begun = key.times.activated or key.created
    if successor is None:
        yield _generate(key, f"key {key.kid!r} has no successor", begun)
    elif successor.state == "prepublished":
        due = key.times.replaced or begun + timedelta(seconds=settings.rotate_every)
        step = _step(state, "activate", successor, settings)
        if step.due is not None and step.due < due:
            step = replace(step, why="the active key signs until then", due=due)
        yield step


def _replacement(state: StoreState, key: KeyRecord, settings: TimelineSettings) -> Iterator[Step]:
    """Yield what puts another key in the place of one that was revoked without a successor.

    The one after it is made with it, since the roots would have to list a later one by themselves.
    """
    heirs = _find_heirs(state, key)
    if standbys := [heir for heir in heirs if heir.state == "prepublished"]:
        yield _step(state, "activate", standbys[0], settings)
    elif key.revoked_because != "ceased" and len(heirs) < 2:
        yield _generate(key, f"key {key.kid!r} was revoked", key.times.revoked)


def _find_heirs(state: StoreState, key: KeyRecord) -> list[KeyRecord]:
    """Return the keys that can come to sign in the place of `key`, oldest first."""
    waiting = [other for other in state.keys if other.state in ("generated", "prepublished")]
    return [other for other in waiting if other.succeeds(key) and not other.is_stolen]


def _generate(key: KeyRecord, why: str, due: datetime | None) -> Step:
    return Step("generate", key.rotating_role, key.alg, None, why, due)


def _step(state: StoreState, action: Action, key: KeyRecord, settings: TimelineSettings) -> Step:
    return Step(action, key.rotating_role, key.alg, key, *find_wait(state, key, action, settings))


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
