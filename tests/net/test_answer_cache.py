"""The store of answers: bounded, the least used goes first, and each URL has its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.net.fetcher import (
    ENTRY_COST,
    AnswerCache,
    CachedAnswer,
    Freshness,
    same_version,
    validators,
)
from cardsign.urls import Url, parse_url

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SUNDAY = "Sun, 22 Nov 2026 12:00:00 GMT"


def entry(body: bytes = b"{}", seconds: int = 60) -> CachedAnswer:
    return CachedAnswer(body, NOW, Freshness(seconds), ())


def url(text: str) -> Url:
    return parse_url(f"https://agent.example/{text}")


VALIDATORS = {
    "strong": ([("etag", '"a"')], (("If-None-Match", '"a"'),)),
    "weak": ([("etag", 'W/"a"')], (("If-None-Match", 'W/"a"'),)),
    "empty": ([("etag", '""')], (("If-None-Match", '""'),)),
    "by date": ([("last-modified", SUNDAY)], (("If-Modified-Since", SUNDAY),)),
    "both": (
        [("etag", '"a"'), ("last-modified", SUNDAY)],
        (("If-None-Match", '"a"'), ("If-Modified-Since", SUNDAY)),
    ),
    "none": ([("content-type", "application/json")], ()),
    "without quotes": ([("etag", "a")], ()),
    "any": ([("etag", "*")], ()),
    "two in one": ([("etag", '"a", "b"')], ()),
    "two": ([("etag", '"a"'), ("etag", '"a"')], ()),
    "a quote inside": ([("etag", '"a"b"')], ()),
    "not ASCII": ([("etag", '"\xe9"')], ()),
    "longer than we send back": ([("etag", f'"{"a" * 257}"')], ()),
    "the longest": ([("etag", f'"{"a" * 256}"')], (("If-None-Match", f'"{"a" * 256}"'),)),
    "a date that is none": ([("last-modified", "yesterday")], ()),
}


@pytest.mark.parametrize(("headers", "expected"), VALIDATORS.values(), ids=VALIDATORS)
def test_validators(headers: list[tuple[str, str]], expected: tuple[tuple[str, str], ...]) -> None:
    """Only what is a validator is sent back."""
    assert validators(tuple(headers)) == expected


SAME = {
    "the same": (("If-None-Match", '"a"'), True),
    "the same, weak": (("If-None-Match", 'W/"a"'), True),
    "another": (("If-None-Match", '"b"'), False),
    "of another kind": (("If-Modified-Since", SUNDAY), True),
}


@pytest.mark.parametrize(("said", "same"), SAME.values(), ids=SAME)
def test_same_version(said: tuple[str, str], same: bool) -> None:
    """A 304 that names another version than we asked about is about another."""
    assert same_version((said,), (("If-None-Match", '"a"'),)) is same
    assert same_version((), (("If-None-Match", '"a"'),))


def test_time_left() -> None:
    """It runs out, and a clock that goes back does not make it longer."""
    kept = entry(seconds=60)
    left = [kept.seconds_left(NOW + timedelta(seconds=s)) for s in (0, 59, 60, 3600, -0.001)]
    assert left == [60, 1, 0, 0, 0]


def test_what_is_too_large_for_all_of_it() -> None:
    """It is not kept, and what was there before it neither."""
    cache = AnswerCache(max_bytes=ENTRY_COST + 2)
    cache.put(url("a"), entry(b"{}"))
    assert cache.get(url("a")) == entry(b"{}")
    cache.put(url("a"), entry(b"{ }"))
    assert cache.get(url("a")) is None


def test_what_was_said_takes_room() -> None:
    """What is kept of the headers counts as the body does."""
    said = (("cache-control", "max-age=60"),)
    kept = CachedAnswer(b"{}", NOW, Freshness(60), (), said)
    room = ENTRY_COST + len(b"{}") + len("cache-control") + len("max-age=60")
    for spare, is_kept in ((0, True), (-1, False)):
        cache = AnswerCache(max_bytes=room + spare)
        cache.put(url("a"), kept)
        assert (cache.get(url("a")) == kept) is is_kept


def test_dropping() -> None:
    """What is dropped is gone, and its room free; what is not there may be dropped."""
    cache = AnswerCache(max_bytes=2 * (ENTRY_COST + 2))
    for name in "ab":
        cache.put(url(name), entry())
    cache.drop(url("a"))
    cache.drop(url("never"))
    cache.put(url("c"), entry())
    assert [cache.get(url(name)) is None for name in "abc"] == [True, False, False]


def test_what_was_written_last_stays() -> None:
    """Reading does not count: an answer that is read again and again is asked again at its end."""
    cache = AnswerCache(max_entries=2)
    for name in "ab":
        cache.put(url(name), entry())
    cache.put(url("a"), entry())
    cache.put(url("c"), entry())
    assert [cache.get(url(name)) is None for name in "abc"] == [False, True, False]


STEPS = st.lists(st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(0, 40))))


def cost(pair: tuple[str, CachedAnswer]) -> int:
    return ENTRY_COST + len(pair[1].untrusted_body)


@given(STEPS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 90))
def test_the_oldest_go_first(
    steps: list[tuple[str, int | None]], most: int, empty_ones: int, more_bytes: int
) -> None:
    """As a list that is cut at its old end, whatever is put and got."""
    limit = empty_ones * ENTRY_COST + more_bytes
    cache, plain = AnswerCache(most, limit), []
    for name, size in steps:
        kept = next((pair for pair in plain if pair[0] == name), None)
        if size is None:
            assert cache.get(url(name)) == (kept and kept[1])
            continue
        if kept is not None:
            plain.remove(kept)
        cache.put(url(name), entry(b" " * size))
        if ENTRY_COST + size <= limit:
            plain.append((name, entry(b" " * size)))
        while len(plain) > most or sum(map(cost, plain)) > limit:
            plain.pop(0)
        assert len(cache._answers) == len(plain) <= most
    assert all(cache.get(url(name)) == answer for name, answer in plain)
