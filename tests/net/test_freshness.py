"""For how long an answer may be used: never longer than HTTP says, and never longer than we say."""

from __future__ import annotations

import pytest

from cardsign.net.fetcher import Freshness, freshness

CEILING = 300


def judged(*lines: str) -> Freshness:
    """What these lines of Cache-Control say."""
    return freshness(tuple(("cache-control", line) for line in lines), CEILING)


USABLE: dict[str, tuple[int, tuple[str, ...]]] = {
    "nothing is said": (300, ()),
    "less than our ceiling": (60, ("max-age=60",)),
    "a year, which is our ceiling": (300, ("max-age=31536000",)),
    "for ever, which is our ceiling": (300, ("max-age=9999999999, immutable",)),
    "in capitals and with spaces": (60, ("Public ,  Max-Age=60",)),
    "in quotes, which a sender must not and we must read": (60, ('max-age="60"',)),
    "in two headers that agree": (60, ("max-age=60", "public, max-age=60")),
    "for shared caches, which we are not": (300, ("s-maxage=5",)),
    "stale answers are offered": (60, ("max-age=60, stale-if-error=99999",)),
    "an argument that looks like a directive": (300, ('a=" no-store "',)),
}


@pytest.mark.parametrize(("expected", "lines"), USABLE.values(), ids=USABLE)
def test_usable(expected: int, lines: tuple[str, ...]) -> None:
    """HTTP shortens what we would do."""
    assert judged(*lines) == Freshness(expected)


OF_NO_USE: dict[str, tuple[str, ...]] = {
    "no-cache": ("no-cache, max-age=60",),
    "no-cache for a field, which we read as for all": ('no-cache="set-cookie, x"',),
    "no-store": ("max-age=60, no-store",),
    "max-age=0": ("max-age=0",),
    "max-age without a number": ("max-age",),
    "max-age of a word": ("max-age=long",),
    "a negative max-age": ("max-age=-1",),
    "a fraction": ("max-age=60.5",),
    "a number that nobody can mean": ("max-age=" + "9" * 11,),
    "digits that are not ASCII": ("max-age=\u0666\u0660",),
    "two max-ages": ("max-age=60, max-age=61",),
    "two max-ages in two headers": ("max-age=60", "max-age=61"),
}


@pytest.mark.parametrize("lines", OF_NO_USE.values(), ids=OF_NO_USE)
def test_of_no_use_without_asking(lines: tuple[str, ...]) -> None:
    """What is forbidden, over, or nonsense is asked for every time."""
    assert judged(*lines).seconds == 0


def test_an_expiry_without_cache_control() -> None:
    """Its date is not reckoned with; beside a max-age it means nothing (RFC 9111 5.3)."""
    expires = ("expires", "Sun, 22 Nov 2026 12:00:00 GMT")
    assert freshness((expires,), CEILING) == Freshness(0)
    assert freshness((expires, ("cache-control", "max-age=60")), CEILING) == Freshness(60)


@pytest.mark.parametrize(
    ("said", "stale"),
    [
        ("max-age=60", True),
        ("no-cache", False),
        ("max-age=60, must-revalidate", False),
        ("no-store", False),
    ],
)
def test_what_may_be_used_stale(said: str, stale: bool) -> None:
    """What must be asked for every time is kept for the question, and never used without."""
    assert judged(said).may_be_stale is stale
