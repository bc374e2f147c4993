"""A bounded cache of answers, in memory only, each for exactly the URL that was asked.

A cached answer is as untrusted as it was on arrival. How long it may be used is decided once,
when it arrives (RFC 9111).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias

from cardsign.lru import Lru
from cardsign.records import dataclass

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, values without the space around them, in the order received."""

# Headers of the stored answer; Age and Date are only of the message that carried it.
_STORED: Final = frozenset({"cache-control", "expires", "vary"})
MAX_SAID: Final = 4096  # characters of all that says how to keep an answer; servers send some 100

# Linear in the text: no two parts of it can match the same characters. Nothing ends a regular
# expression, no deadline either, and it holds all threads up.
_DIRECTIVE: Final = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)(?:=("(?:[^"\\]|\\.)*"|[^",]*))?')
_SECONDS: Final = re.compile(r"[0-9]{1,10}")  # 2**31 is what RFC 9111 1.2.2 wants us to hold
_HTTP_DATE: Final = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} "
    r"[0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """What an answer's headers say about using it again.

    Attributes:
        seconds: From the moment the answer came, for which it may be used without asking; 0 to
            the ceiling.
        may_be_stored: False for ``no-store``, and for more words than :data:`MAX_SAID`.
        may_be_stale: Whether it may be used beyond that where nobody answers; False for
            ``must-revalidate``, ``no-cache``, and what may not be stored.
    """

    seconds: int
    may_be_stored: bool = True
    may_be_stale: bool = True


def freshness(
    headers: Headers, *, asked_at: datetime, answered_at: datetime, ceiling: int
) -> Freshness:
    """Judge an answer with a status that may be kept at all, 200 or 304.

    Args:
        headers: Of the answer; untrusted.
        asked_at: When the request left; aware.
        answered_at: When the answer came; aware.
        ceiling: Seconds, at most; also where HTTP says nothing.
    """
    if sum(len(value) for name, value in headers if name in _STORED) > MAX_SAID:
        return Freshness(0, may_be_stored=False, may_be_stale=False)
    directives = _directives(values(headers, "cache-control"))
    keep = "no-store" not in directives
    stale = directives.keys().isdisjoint({"no-store", "no-cache", "must-revalidate"})
    lifetime = _lifetime(headers, directives, ceiling)
    age = _age(headers, asked_at, answered_at)
    if not keep or "no-cache" in directives or "*" in _tokens(headers, "vary") or age is None:
        return Freshness(0, keep, stale)
    return Freshness(max(0, min(lifetime - age, ceiling)), keep, stale)


def stored(headers: Headers) -> Headers:
    """What was said about keeping an answer, to be kept with it."""
    return tuple(field for field in headers if field[0] in _STORED)


def freshened(kept: Headers, said: Headers) -> Headers:
    """What holds after a 304: its own headers, and of those kept what it does not repeat.

    RFC 9111 4.3.4 and 3.2: else a 304 that is silent would lift a ``no-cache``.
    """
    repeated = {name for name, _ in said}
    return (*said, *(field for field in stored(kept) if field[0] not in repeated))


def http_date(untrusted_text: str) -> datetime | None:
    """An IMF-fixdate (RFC 9110 5.6.7), the only form that anybody may send today."""
    if not _HTTP_DATE.fullmatch(untrusted_text):
        return None
    try:
        return parsedate_to_datetime(untrusted_text).astimezone(UTC)
    except ValueError:  # the 31st of February
        return None


def _lifetime(headers: Headers, directives: dict[str, set[str]], ceiling: int) -> int:
    """RFC 9111 4.2.1, in seconds; 0 for what contradicts itself or is no number."""
    if (said := directives.get("max-age")) is not None:
        only = next(iter(said)) if len(said) == 1 else ""
        return int(only) if _SECONDS.fullmatch(only) else 0
    expires = values(headers, "expires")
    if not expires:
        return ceiling
    dates = [http_date(value) for value in (*expires, *values(headers, "date"))]
    if len(dates) != 2 or dates[0] is None or dates[1] is None:
        return 0
    return int((dates[0] - dates[1]).total_seconds())


def _age(headers: Headers, asked_at: datetime, answered_at: datetime) -> int | None:
    """RFC 9111 4.2.3 at the moment the answer came, rounded up; None for nonsense."""
    ages, dates = values(headers, "age"), values(headers, "date")
    if len(ages) > 1 or len(dates) > 1 or not all(map(_SECONDS.fullmatch, ages)):
        return None
    apparent = 0.0
    if dates:
        if (date := http_date(dates[0])) is None:
            return None
        apparent = (answered_at - date).total_seconds()
    delay = (answered_at - asked_at).total_seconds()
    corrected = int(ages[0] if ages else 0) + delay
    return max(0, -int(-max(apparent, corrected) // 1))


def _directives(values: Iterable[str]) -> dict[str, set[str]]:
    """Each directive with all its arguments (RFC 9111 5.2), without quotes."""
    found: dict[str, set[str]] = {}
    for name, argument in _DIRECTIVE.findall(",".join(values)):
        found.setdefault(name.lower(), set()).add(argument.strip().strip('"'))
    return found


def _tokens(headers: Headers, name: str) -> set[str]:
    return {token.strip() for value in values(headers, name) for token in value.split(",")}


def values(headers: Headers, name: str) -> list[str]:
    """Each value of a header."""
    return [value for header, value in headers if header == name]


MAX_ENTRIES: Final = 4096  # a thousand peers with card, release, keyset and JWK Set each
MAX_BYTES: Final = 64 * 1024 * 1024  # of bodies: a thousand peers with 64 KiB each
ENTRY_COST: Final = 1024  # bytes counted for a URL and its validators, beside the body

# RFC 9110 8.8.3, bounded: what we store of a peer's choice we also send back to it.
_ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"')


@dataclass(frozen=True, slots=True)
class Entry:
    """A good answer of before.

    Attributes:
        untrusted_body: As received.
        stored_at: When it came, or was last said to be unchanged.
        freshness: What was said about using it again.
        validators: Headers that ask whether it has changed; may be empty.
        said: What `freshness` was reckoned from, for a 304 that says nothing about it.
    """

    untrusted_body: bytes = field(repr=False)
    stored_at: datetime
    freshness: Freshness
    validators: Headers
    said: Headers = ()

    def seconds_left(self, now: datetime) -> int:
        """For which it may still be used without asking; 0 where the clock has gone back."""
        gone = now - self.stored_at
        if gone < timedelta(0):
            return 0
        return max(0, int(self.freshness.seconds - gone.total_seconds()))


def validators(headers: Headers) -> Headers:
    """What to send along so that a peer can say that an answer has not changed (RFC 9111 4.3.1).

    A validator that is malformed, or given twice, is none.
    """
    found: list[tuple[str, str]] = []
    for name, condition in (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")):
        said = values(headers, name)
        if len(said) == 1 and (_ETAG.fullmatch(said[0]) if name == "etag" else http_date(said[0])):
            found.append((condition, said[0]))
    return tuple(found)


def same_version(said: Headers, asked: Headers) -> bool:
    """Whether the validators of a 304 are, as far as it has any, those asked about (4.3.4)."""
    before = dict(asked)
    return all(
        value.removeprefix("W/") == before.get(name, value).removeprefix("W/")
        for name, value in said
    )


class AnswerCache(Lru[Hashable, Entry]):
    """Good answers of before, fresh or not.

    Args:
        max_entries: Answers kept at most.
        max_bytes: Of bodies and of what was said about keeping them, with :data:`ENTRY_COST` for
            each.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        if max_entries < 1 or max_bytes < 1:
            raise ValueError("a cache holds at least one entry and one byte")
        super().__init__(max_entries, room=max_bytes, cost=_cost)


def _cost(entry: Entry) -> int:
    said = sum(len(name) + len(value) for name, value in entry.said)
    return ENTRY_COST + len(entry.untrusted_body) + said
