"""What will go wrong with keys and statements if nobody acts, and from when on. Pure.

Reckoned from what a store says of itself; its files are :mod:`cardsign.keys.doctor`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement
from cardsign.keys.custody import same_custody, suspects
from cardsign.keys.findings import Finding, Level
from cardsign.keys.records import KeyRecord, KeyTimes, StoreState
from cardsign.keys.releases import past_half_life
from cardsign.keys.renewal import renewal, says_more, waiting_draft
from cardsign.keys.rotation import steps
from cardsign.keys.statements import holders_left, signings
from cardsign.keys.timeline import (
    DEFAULT_SETTINGS,
    SHOWN_TIME,
    TimelineSettings,
    cards_to_sign,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What the outlook is reckoned from.

    Attributes:
        state: The key store's.
        keyset: The newest keyset statement, or None.
        release: The newest release, or None.
        untrusted_draft: What waits for the roots to sign it, as bytes, or None.
        draft_file: Where that lies.
    """

    state: StoreState
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    untrusted_draft: bytes | None = None
    draft_file: str = ""


def outlook(
    known: Known, settings: TimelineSettings, now: datetime, within: timedelta
) -> tuple[Finding, ...]:
    """Say what is due, what will end, and what would be missing on the day of a theft.

    Args:
        known: The store, and the statements beside it.
        settings: What is assumed of caches.
        now: The time, with its zone.
        within: What becomes real by then is an alarm today.
    """
    return (
        *_clock(known, now, settings),
        *_settings(settings),
        *_keys(known.state, settings, now, within),
        *_standbys(known.state),
        *_cards(known.state, now),
        *(_keyset(known, known.keyset, now, within) if known.keyset else ()),
        *(_release(known.release, known.keyset, now, within) if _releases(known) else ()),
    )


def _releases(known: Known) -> bool:
    """Whether releases are signed here: a holder of nothing but a root key has none to renew."""
    return known.keyset is not None and any("release" in key.roles for key in known.state.keys)


def _clock(known: Known, now: datetime, settings: TimelineSettings) -> Iterator[Finding]:
    times = [
        time
        for key in known.state.keys
        for name in (field.name for field in fields(KeyTimes))
        if name != "stops_signing" and (time := getattr(key.times, name)) is not None
    ]
    times += [publication.at for publication in known.state.publications]
    times += [datetime.fromtimestamp(one.iat, UTC) for one in (known.keyset, known.release) if one]
    newest = max(times, default=now)
    if newest > now + timedelta(seconds=settings.skew):
        message = f"the store knows of {newest:{SHOWN_TIME}}, and this clock says it is not yet"
        yield Finding("doctor.clock", "alarm", message)


def _settings(settings: TimelineSettings) -> Iterator[Finding]:
    for name in ("max_age", "worst_cache", "card_max_age", "skew"):
        value, usual = getattr(settings, name), getattr(DEFAULT_SETTINGS, name)
        if value < usual:
            message = f"timeline.{name} is {value} seconds, less than the usual {usual}"
            yield Finding("doctor.timeline", "note", message, "cardsign.toml")
    if settings.rotate_every < max(settings.drain, DEFAULT_SETTINGS.drain).total_seconds():
        every = settings.rotate_every
        message = f"timeline.rotate_every is {every} seconds, less than a rotation takes"
        yield Finding("doctor.timeline", "note", message, "cardsign.toml")


def _keys(
    state: StoreState, settings: TimelineSettings, now: datetime, within: timedelta
) -> Iterator[Finding]:
    """What is due or waits for a person."""
    if state.keys and not state.active_keys() and any("card" in key.roles for key in state.keys):
        yield Finding("doctor.no_active_key", "alarm", "no key signs cards")
    for step in steps(state, settings, now):
        if step.due is not None and step.due <= now + within:
            when = "is due" if step.is_due(now) else f"will be due at {step.due:{SHOWN_TIME}}"
            level: Level = "alarm" if within else "note"
            yield Finding("doctor.due", level, f"{step.what}: {when}", real=step.due)


def _standbys(state: StoreState) -> Iterator[Finding]:
    """Active keys that nothing can take the place of on the day of their theft."""
    endangered = suspects(state)
    for key in state.keys:
        if key.state != "active" or not key.rotates:
            continue
        standbys = [
            other
            for other in state.keys
            if other.state == "prepublished"
            and other.succeeds(key)
            and other.thumbprint not in endangered
        ]
        if all(same_custody(other, key) for other in standbys):
            why = "each lies in the same custody" if standbys else "there is none"
            what = f"no standby could take over from {_roles(key)} key {key.kid} after a theft"
            yield Finding("doctor.no_standby", "note", f"{what}: {why}")


def _cards(state: StoreState, now: datetime) -> Iterator[Finding]:
    """Published cards that hold up a rotation, or bear what a revoked key has signed."""
    stops = [key.times.stops_signing for key in state.keys if key.state == "retiring"]
    late = any(time is not None and time <= now for time in stops)
    revoked = {key.kid for key in state.keys if key.state == "revoked"}
    for card in cards_to_sign(state, now):
        level: Level = "alarm" if late or not revoked.isdisjoint(card.kids) else "note"
        message = "this published card has to be signed again"
        yield Finding("doctor.cards_unsigned", level, message, card.url or card.name)


def _keyset(
    known: Known, keyset: KeysetStatement, now: datetime, within: timedelta
) -> Iterator[Finding]:
    left, needed = len(holders_left(keyset.root, known.state)), keyset.root.threshold
    if left < needed:
        message = f"{left} holder(s) of root keys are left, and keyset statements need {needed}"
        yield Finding("doctor.roots_ended", "alarm", message)
    told = renewal(known.state, keyset, now=now)
    if told.due > now + within:
        return
    ends = f"without it no card is trusted from {told.ends:{SHOWN_TIME}} on"
    draft = waiting_draft(known.state, keyset, known.untrusted_draft, now=now)
    if draft is not None:
        missing = max(one.missing for one in signings(draft, keyset))
        need = f"{missing} more holder(s) have to sign it" if missing else "publish it"
        message = f"keyset {told.number} waits here: {need}; {ends}"
        yield Finding("doctor.draft_waits", "alarm", message, known.draft_file, real=told.ends)
        if more := says_more(known.state, keyset, draft, now=now):
            message = f"{len(more)} line(s) of it nobody here has drafted: cardsign keys rotate"
            yield Finding("rotate.draft_says_more", "alarm", message, known.draft_file)
    else:
        when = "now" if told.is_due(now) else f"from {told.due:{SHOWN_TIME}} on"
        message = f"the roots have to sign keyset {told.number} {when}: {told.why}; {ends}"
        yield Finding("doctor.keyset_due", "alarm", message, real=told.ends)


def _release(
    release: ReleaseStatement | None,
    keyset: KeysetStatement | None,
    now: datetime,
    within: timedelta,
) -> Iterator[Finding]:
    if release is None or keyset is None:
        yield Finding("doctor.release_due", "alarm", "there is no release; no card is current")
        return
    ends = datetime.fromtimestamp(release.exp, UTC)
    what = f"release {release.seq} ends at {ends:{SHOWN_TIME}}, and with it every card"
    if release.keyset.digest != keyset.digest:
        older = f"{release.keyset.epoch}.{release.keyset.version}"
        newest = f"{keyset.epoch}.{keyset.version}"
        message = f"release {release.seq} speaks of keyset {older}, and {newest} is the newest"
        yield Finding("doctor.release_due", "alarm", message, real=ends)
    elif release.iat <= now.timestamp() and past_half_life(release, now=now):
        message = f"{what}; half of its life is over, so cron has not renewed it"
        yield Finding("doctor.release_due", "alarm", message, real=ends)
    elif within and ends <= now + within:
        yield Finding("doctor.release_due", "note", f"{what}; cron will renew it", real=ends)


def _roles(key: KeyRecord) -> str:
    return " and ".join(key.roles)
