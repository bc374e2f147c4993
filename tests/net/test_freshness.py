"""For how long an answer may be used: never longer than HTTP says, and never longer than we say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.net.fetcher import MAX_SAID, Freshness, freshened, freshness, http_date
from cardsign.urls import Headers

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CEILING = 300


def date(seconds: float = 0) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


def judged(headers: Headers, *, delay: float = 0) -> Freshness:
    return freshness(
        headers, asked_at=NOW - timedelta(seconds=delay), answered_at=NOW, ceiling=CEILING
    )


def seconds(*headers: tuple[str, str], delay: float = 0) -> int:
    return judged(headers, delay=delay).seconds


CC = "cache-control"

USABLE: dict[str, tuple[int, Headers]] = {
    "nothing is said": (300, ()),
    "less than our ceiling": (60, ((CC, "max-age=60"),)),
    "a year, which is our ceiling": (300, ((CC, "max-age=31536000"),)),
    "for ever, which is our ceiling": (300, ((CC, "max-age=9999999999, immutable"),)),
    "in capitals and with spaces": (60, ((CC, "Public ,  Max-Age=60"),)),
    "in quotes, which a sender must not and we must read": (60, ((CC, 'max-age="60"'),)),
    "in two headers that agree": (60, ((CC, "max-age=60"), (CC, "public, max-age=60"))),
    "for shared caches, which we are not": (300, ((CC, "s-maxage=5"),)),
    "older by its age": (50, ((CC, "max-age=60"), ("age", "10"))),
    "older by its date": (50, ((CC, "max-age=60"), ("date", date(-10)))),
    "from a clock ahead of ours": (60, ((CC, "max-age=60"), ("date", date(+900)))),
    "until a time": (80, (("expires", date(+80)), ("date", date()))),
    "until a time, and older by its date": (80, (("expires", date(+80)), ("date", date(-10)))),
    "until a time, max-age wins": (60, ((CC, "max-age=60"), ("expires", date(-9)))),
    "stale answers are offered": (60, ((CC, "max-age=60, stale-if-error=99999"),)),
    "it varies with what we always send": (60, ((CC, "max-age=60"), ("vary", "Accept"))),
}


@pytest.mark.parametrize(("expected", "headers"), USABLE.values(), ids=USABLE)
def test_usable(expected: int, headers: Headers) -> None:
    """HTTP shortens what we would do."""
    assert judged(headers) == Freshness(expected)


OF_NO_USE: dict[str, Headers] = {
    "no-cache": ((CC, "no-cache, max-age=60"),),
    "no-cache for a field, which we read as for all": ((CC, 'no-cache="set-cookie, x"'),),
    "no-store": ((CC, "max-age=60, no-store"),),
    "max-age=0": ((CC, "max-age=0"),),
    "older than it lasts": ((CC, "max-age=60"), ("age", "60")),
    "expired": (("expires", date(-1)), ("date", date(-2))),
    "Expires: 0": (("expires", "0"), ("date", date())),
    "Expires: -1, another custom": (("expires", "-1"), ("date", date())),
    "Expires twice": (("expires", date(9)), ("expires", date(9)), ("date", date())),
    "Expires without a Date": (("expires", date(+60)),),
    "Expires against a Date that is none": (("expires", date(+60)), ("date", "today")),
    "max-age without a number": ((CC, "max-age"),),
    "max-age of a word": ((CC, "max-age=long"),),
    "a negative max-age": ((CC, "max-age=-1"),),
    "a fraction": ((CC, "max-age=60.5"),),
    "a number that nobody can mean": ((CC, "max-age=" + "9" * 11),),
    "digits that are not ASCII": ((CC, "max-age=\u0666\u0660"),),
    "two max-ages": ((CC, "max-age=60, max-age=61"),),
    "two max-ages in two headers": ((CC, "max-age=60"), (CC, "max-age=61")),
    "an age that is none": ((CC, "max-age=60"), ("age", "young")),
    "a negative age": ((CC, "max-age=60"), ("age", "-1")),
    "two ages": ((CC, "max-age=60"), ("age", "1"), ("age", "1")),
    "a date that is none": ((CC, "max-age=60"), ("date", "yesterday")),
    "the 31st of February": ((CC, "max-age=60"), ("date", "Sat, 31 Feb 2026 12:00:00 GMT")),
    "two dates": ((CC, "max-age=60"), ("date", date()), ("date", date())),
    "it varies with anything": ((CC, "max-age=60"), ("vary", "Accept, *")),
    "so does a second header": ((CC, "max-age=60"), ("vary", "Accept"), ("vary", "*")),
}


@pytest.mark.parametrize("headers", OF_NO_USE.values(), ids=OF_NO_USE)
def test_of_no_use_without_asking(headers: Headers) -> None:
    """What is forbidden, over, or nonsense is asked for every time."""
    assert judged(headers).seconds == 0


@pytest.mark.parametrize("name", [CC, "expires", "vary"])
def test_more_than_anybody_has_to_say(name: str) -> None:
    """It is not read, so that nobody can make reading dear, and what is not read is not kept."""
    for spread in (1, 2):
        values = "a" * (MAX_SAID // spread)
        just = ((name, values),) * spread
        assert judged(just) != Freshness(0, may_be_stored=False, may_be_stale=False)
        assert judged((*just, (name, "a"))) == Freshness(0, False, False)


LONG = 98_000
DEAR: dict[str, str] = {
    "spaces in quotes": 'a"' + " " * LONG + '"',
    "spaces": " " * LONG + "x",
    "one long name": "a" * LONG,
    "commas": "," * LONG,
    "quotes": '"' * LONG,
    "quotes that never end": 'a="' * LONG,
    "escapes": 'a="' + '\\"' * LONG,
}


@pytest.mark.parametrize("said", DEAR.values(), ids=DEAR)
def test_what_takes_long_to_read(said: str) -> None:
    """Nothing does: the first of these once took a minute, in which no deadline could fall."""
    assert judged(((CC, said),)).seconds == 0
    assert judged(((CC, said[: MAX_SAID - 20] + '",max-age=7'),)).seconds <= CEILING


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('x" \t "max-age=60', 60),
        (" \t max-age \t=60", 0),
        ('a=" no-store "', 300),
        ('a" no-store "', 0),
        (" , max-age=60 , ", 60),
    ],
    ids=["after", "before the equals sign", "in quotes", "in quotes of nothing", "on both sides"],
)
def test_space_around_directives(said: str, expected: int) -> None:
    """It separates, and means nothing."""
    assert judged(((CC, said),)).seconds == expected


def test_the_way_counts() -> None:
    """The answer may have aged since the request left, in part or in whole."""
    assert seconds((CC, "max-age=60"), ("age", "5"), delay=2.5) == 52
    assert seconds((CC, "max-age=60"), ("date", date(-30)), delay=2.5) == 30


@pytest.mark.parametrize(
    ("said", "stored", "stale"),
    [
        ("no-store", False, False),
        ("no-cache", True, False),
        ("max-age=60, must-revalidate", True, False),
        ("max-age=60, proxy-revalidate", True, True),
        ("max-age=60", True, True),
    ],
)
def test_what_may_be_kept_beyond(said: str, stored: bool, stale: bool) -> None:
    """Who forbids to store, or to use beyond its time, is obeyed."""
    result = judged(((CC, said),))
    assert (result.may_be_stored, result.may_be_stale) == (stored, stale)


def test_dates() -> None:
    """Only the form that everybody has to send is read."""
    assert http_date("Sun, 06 Nov 1994 08:49:37 GMT") == datetime(
        1994, 11, 6, 8, 49, 37, tzinfo=UTC
    )
    for odd in (
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 +0100",
        "Sun, 06 Nov 1994 25:00:00 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "",
    ):
        assert http_date(odd) is None


# ------------------------------------------------------------ whatever is said

LASTING = ["0", "10", "59", "299", "300", "301", "31536000", "x", ""]
OTHERS = ["max-age", "no-cache", "no-store", "public", "must-revalidate", "s-maxage=3"]
SAID = st.lists(st.sampled_from([*(f"max-age={n}" for n in LASTING), *OTHERS]), max_size=3)
AGES = st.sampled_from([None, "0", "9", "299", "4000000000", "x", "-1", "1.5"])
DATES = st.sampled_from([None, "never", *(date(n) for n in (-400, -299, -10, 0, 10, 999))])


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        CC: SAID.map(", ".join),
        "expires": DATES.map(str),
        "vary": st.sampled_from(["*", "Accept"]),
        "age": AGES.map(str),
        "date": DATES.map(str),
    },
)


@given(FIELDS, FIELDS)
def test_not_modified(kept: dict[str, str], said: dict[str, str]) -> None:
    """As an answer with the fields of before, but those that a 304 has anew (RFC 9111 4.3.4).

    `Age` and `Date` are of the message that was received, not of what is stored.
    """
    before = {name: value for name, value in kept.items() if name not in ("age", "date")}
    expected = judged(tuple((before | said).items()))
    assert judged(freshened(tuple(kept.items()), tuple(said.items()))) == expected


def test_a_field_in_two_lines() -> None:
    """All its lines stay, or all go."""
    two = ((CC, "no-cache"), (CC, "must-revalidate"), ("etag", '"1"'), ("expires", "0"))
    assert freshened(two, (("etag", '"1"'),)) == (("etag", '"1"'), *two[:2], two[3])
    assert freshened(two, ((CC, "max-age=9"),)) == ((CC, "max-age=9"), two[3])


NAMES = st.sampled_from([CC, "age", "date", "expires", "vary", "warning"])


@given(st.lists(st.tuples(NAMES, st.text(max_size=30))), st.integers(0, 10**6))
def test_never_longer(headers: list[tuple[str, str]], microseconds: int) -> None:
    """Whatever is said, the ceiling holds, and it only gets less with time on the way."""
    at_once = judged(tuple(headers))
    later = judged(tuple(headers), delay=microseconds / 1000)
    assert 0 <= later.seconds <= at_once.seconds <= CEILING
