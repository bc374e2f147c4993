"""Times for people, and the one spelling of our files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cardsign.times import away, day, minute, read_span, read_stamp, second, stamp, utc

NOW = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)
EAST = NOW.astimezone(timezone(timedelta(hours=2)))

SHOWN = {day: "2026-11-25", minute: "2026-11-25 09:30 UTC", second: "2026-11-25 09:30:00 UTC"}


@pytest.mark.parametrize(("show", "text"), SHOWN.items())
@pytest.mark.parametrize("time", [NOW, EAST, NOW.timestamp()], ids=["UTC", "UTC+2", "seconds"])
def test_a_time_is_shown_in_utc(show, text: str, time: datetime | float) -> None:
    """Whatever zone it came in, and of Unix seconds as well."""
    assert show(time) == text
    assert utc(time) == NOW


AWAY = {
    "now": (0, "less than a minute ago"),
    "a second from now": (1, "in less than a minute"),
    "two minutes and a half": (-150, "2 minutes ago"),
    "an hour": (3600, "in 1 hour"),
    "not yet an hour": (-3599, "59 minutes ago"),
    "days": (3 * 86400 + 5, "in 3 days"),
    "some years": (-1000 * 86400, "1,000 days ago"),
}


@pytest.mark.parametrize(("seconds", "words"), AWAY.values(), ids=AWAY)
def test_a_distance_is_said_in_its_largest_unit(seconds: int, words: str) -> None:
    """Rounded down, and beside the time where both are shown."""
    time = NOW + timedelta(seconds=seconds)
    assert away(time, NOW) == words
    assert second(time, NOW) == f"{second(time)} ({words})"


def test_files_spell_a_time_in_one_way() -> None:
    """What is written is read again, and nothing else is."""
    assert stamp(EAST) == "2026-11-25T09:30:00Z"
    assert read_stamp(stamp(NOW)) == NOW
    for text in ("2026-11-25T9:30:00Z", "2026-11-25 09:30:00Z", "2026-11-25T09:30:00", ""):
        with pytest.raises(ValueError, match="a time is written as"):
            read_stamp(text)


SPANS = {"90s": 90, "5m": 300, "12h": 43_200, "7d": 604_800, "0d": None, "7": None, "7w": None}


@pytest.mark.parametrize(("text", "seconds"), SPANS.items())
def test_a_span_is_read(text: str, seconds: int | None) -> None:
    """A number and a unit; a span of nothing is none."""
    assert read_span(text) == seconds
