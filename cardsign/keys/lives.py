"""The lives of a store's keys as spans of time, past and to come: what a timeline draws."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cardsign.keys.records import KeyRecord, StoreState
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import TimelineSettings

Phase = Literal["waits", "signs", "signs_on", "verifies"]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a key's life.

    Attributes:
        phase: ``waits``: published, and signs nothing; ``signs``: active; ``signs_on``: beside
            its successor; ``verifies``: still in the JWK Set, for cards in caches.
        start: When it began, or will begin.
        end: When it ended or will end; None where nobody can know.
        ahead: Whether it has not begun yet: a forecast, by the timeline.
    """

    phase: Phase
    start: datetime
    end: datetime | None
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Life:
    """A key's life.

    Attributes:
        key: The key.
        spans: In order; the last one without an end may go on for ever.
        ended: When it was retired or revoked, or None.
        next: What happens to it next, or None.
    """

    key: KeyRecord
    spans: tuple[Span, ...]
    ended: datetime | None
    next: Step | None


def lives(state: StoreState, settings: TimelineSettings, now: datetime) -> tuple[Life, ...]:
    """Return the lives of the online keys, oldest first."""
    ahead = [step for step in steps(state, settings, now) if step.action != "destroy"]
    return tuple(_life(state, key, ahead) for key in state.keys if key.rotates)


def extent(drawn: tuple[Life, ...], now: datetime) -> tuple[datetime, datetime]:
    """Return the times between which there is something to draw; never the same one twice."""
    times = [now]
    for life in drawn:
        times += [time for span in life.spans for time in (span.start, span.end) if time]
    start, end = min(times), max(times)
    margin = max((end - start) / 20, timedelta(minutes=1))
    return start, end + margin


def _life(state: StoreState, key: KeyRecord, ahead: list[Step]) -> Life:
    step = next((one for one in ahead if one.key == key), None)
    over = key.times.revoked or key.times.retired
    begun: list[tuple[Phase, datetime | None]] = [
        ("waits", key.times.prepublished or key.created),
        ("signs", key.times.activated),
        ("signs_on", _superseded(state, key)),
        ("verifies", key.times.stops_signing),
    ]
    phases = [(phase, start) for phase, start in begun if start and not (over and start >= over)]
    ends = [start for _, start in phases[1:]] + [over or _forecast(key, step, ahead)]
    spans = [
        Span(phase, start, end)
        for (phase, start), end in zip(phases, ends, strict=True)
        if end is None or end > start
    ]
    if step is not None and step.action == "activate" and step.due is not None:
        spans.append(Span("signs", step.due, None, ahead=True))
    return Life(key, tuple(spans), over, step)


def _superseded(state: StoreState, key: KeyRecord) -> datetime | None:
    """When the successor of a key was activated in good order."""
    if key.times.activated is None or key.times.stops_signing is None:
        return None
    later = [
        other.times.activated
        for other in state.keys
        if other.succeeds(key)
        and other.times.activated is not None
        and other.times.activated >= key.times.activated
    ]
    return min(later, default=None)


def _forecast(key: KeyRecord, step: Step | None, ahead: list[Step]) -> datetime | None:
    """When the phase in which a key is will end: by its own next step, or its successor's."""
    if step is not None:
        return step.due
    successions = [
        one.due
        for one in ahead
        if key.state == "active"
        and one.action == "activate"
        and one.key is not None
        and one.key.succeeds(key)
        and one.due is not None
    ]
    return min(successions, default=None)
