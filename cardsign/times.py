"""Times, all in UTC: as files of ours spell them, and as people read them."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

_STAMP: Final = "%Y-%m-%dT%H:%M:%SZ"
_FORM: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS: Final = {"day": 86400, "hour": 3600, "minute": 60}  # seconds
#: Unix seconds: the end of the year 9999, beyond which calendars of common languages end.
MAX_TIME: Final = 253_402_300_799
#: For pinned keys with freshness waived: they have no deadlines, so no time decides anything.
ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


def utc(time: datetime | float) -> datetime:
    """Return a time in UTC; a number is Unix seconds."""
    if isinstance(time, datetime):
        return time.astimezone(UTC)
    return datetime.fromtimestamp(time, UTC)


def day(time: datetime | float) -> str:
    """Return the day for people: ``2026-11-25``."""
    return f"{utc(time):%Y-%m-%d}"


def minute(time: datetime | float) -> str:
    """Return the minute for people: ``2026-11-25 09:30 UTC``."""
    return f"{utc(time):%Y-%m-%d %H:%M} UTC"


def second(time: datetime | float, now: datetime | None = None) -> str:
    """Return it for people: ``2026-11-25 09:30:00 UTC``; given `now`, ``(in 3 days)`` too."""
    shown = f"{utc(time):%Y-%m-%d %H:%M:%S} UTC"
    return f"{shown} ({away(time, now)})" if now else shown


def away(time: datetime | float, now: datetime) -> str:
    """Return how far away a time is, in its largest unit: ``in 3 days``, ``1 hour ago``."""
    seconds = int(utc(time).timestamp() - now.timestamp())
    span = "less than a minute"
    for unit, length in _UNITS.items():
        if count := abs(seconds) // length:
            span = f"{count:,} {unit}{'s' if count > 1 else ''}"
            break
    return f"in {span}" if seconds > 0 else f"{span} ago"


def stamp(time: datetime) -> str:
    """Return a time as our files spell it: ``2026-11-25T09:30:00Z``."""
    return utc(time).strftime(_STAMP)


def read_stamp(text: str) -> datetime:
    """Read the time of a file of ours.

    Raises:
        ValueError: It is not spelt like that.
    """
    with suppress(ValueError):
        if _FORM.fullmatch(text):
            return datetime.fromisoformat(text)
    raise ValueError("a time is written as 2026-11-25T09:30:00Z; a date alone is not enough")


def read_span(text: str) -> int | None:
    """Return the seconds of a span: ``90s``, ``5m``, ``12h``, ``7d``; None if it is none."""
    match = SPAN.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None
