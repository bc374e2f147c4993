"""Keys and statements as spans of time, past and to come: what a timeline draws."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.model import KeyRecord, Role, StoreState
from cardsign.keys.rotation import Step, steps
from cardsign.records import dataclass
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.times import utc

Phase = Literal[
    "unlisted",
    "waits",
    "signs",
    "signs_on",
    "verifies",
    "stands",
    "trusts",
    "refuses",
    "fooled",
    "lost",
]

_ORDER: Final[tuple[Role, ...]] = ("root", "recovery", "card", "release")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a row.

    Attributes:
        phase: ``unlisted``: no keyset statement lists the key yet; ``waits``: it is published,
            and signs nothing; ``signs``: it is active; ``signs_on``: beside its successor;
            ``verifies``: still in the JWK Set, for cards in caches; ``stands``: a statement is
            believed. Of a peer: ``trusts`` or ``refuses`` the honest card; ``fooled``: trusts
            it and a thief's; ``lost``: a thief's alone.
        end: None where nobody can know.
        ahead: Whether it has not begun yet: a forecast, by the timeline.
    """

    phase: Phase
    start: datetime
    end: datetime | None
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A row of the picture: a key, a statement by its number, or a peer.

    Attributes:
        what: ``ES256 card``, ``keyset``.
        spans: In order; the last one without an end may go on for ever.
        due: When something is to be done with it, or None.
        ended: When it was retired or revoked, until when a peer was asked, or None.
    """

    name: str
    what: str
    spans: tuple[Span, ...]
    due: datetime | None = None
    ended: datetime | None = None
    key: KeyRecord | None = None


def key_rows(
    state: StoreState, settings: TimelineSettings, now: datetime
) -> tuple[TimelineRow, ...]:
    """Return a row for each key: roots first, then by role, the oldest first."""
    ahead = steps(state, settings, now)
    keys = sorted(state.keys, key=lambda key: min(map(_ORDER.index, key.roles)))
    return tuple(_row(state, key, ahead) for key in keys)


def statement_rows(
    keyset: KeysetStatement | None, release: ReleaseStatement | None
) -> tuple[TimelineRow, ...]:
    """Return a row for each newest statement: how long it is believed, when it is to be renewed.

    A keyset is due earlier if keys change.
    """

    def row(name: str, what: str, one: KeysetStatement | ReleaseStatement) -> TimelineRow:
        start, end = (utc(at) for at in (one.iat, one.exp))
        return TimelineRow(name, what, (Span("stands", start, end),), one.renew_at)

    found = [row(keyset.label, "keyset", keyset)] if keyset is not None else []
    found += [row(str(release.seq), "release", release)] if release is not None else []
    return tuple(found)


MIN_SPAN: Final = timedelta(days=7)


def extent(drawn: Sequence[TimelineRow], now: datetime) -> tuple[datetime, datetime]:
    """Return the times between which there is something to draw; never the same one twice."""
    times = [now]
    for row in drawn:
        ends = [time for span in row.spans for time in (span.start, span.end)]
        times += [time for time in (*ends, row.due) if time is not None]
    start, end = min(times), max(times)
    # At least some days: a picture of a new store would begin and end on one date.
    return start, max(end + (end - start) / 20, start + MIN_SPAN)


def _row(state: StoreState, key: KeyRecord, steps_ahead: tuple[Step, ...]) -> TimelineRow:
    step = next((one for one in steps_ahead if one.key == key), None)
    ahead = [one for one in steps_ahead if one.action != "destroy"]
    over = key.times.revoked or key.times.retired
    begun = [(phase, start) for phase, start in _begun(state, key) if not (over and start >= over)]
    last = None if step is None or step.action == "destroy" else step
    ends = [start for _, start in begun[1:]] + [over or _forecast(key, last, ahead)]
    spans = [
        Span(phase, start, end)
        for (phase, start), end in zip(begun, ends, strict=True)
        if end is None or end > start
    ]
    if last is not None and last.action == "activate" and last.due is not None:
        spans.append(Span("signs", last.due, None, ahead=True))
    what = f"{key.alg} {' and '.join(key.roles)}"
    due = step.due if step is not None else None
    return TimelineRow(key.kid, what, tuple(spans), due, over, key)


def _begun(state: StoreState, key: KeyRecord) -> list[tuple[Phase, datetime]]:
    """The phases of a key, and when each has begun."""
    times = key.times
    waited = times.prepublished != key.created
    phases: list[tuple[Phase, datetime | None]] = [
        ("unlisted", key.created if key.rotates and waited else None),
        ("waits", times.prepublished),
        ("signs", times.activated),
        ("signs_on", _superseded(state, key) if key.rotates else None),
        ("verifies", times.stops_signing if key.rotates else None),
    ]
    return [(phase, start) for phase, start in phases if start is not None]


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
