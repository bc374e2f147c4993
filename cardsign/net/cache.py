"""Answers of before, in memory only: bounded, and each for exactly the URL that was asked.

What is kept is as untrusted as it was on arrival. Nothing here decides how long it is good for:
:mod:`cardsign.net.freshness` does, once, when it comes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from cardsign.net.freshness import Freshness, Headers, http_date
from cardsign.trust.origins import Url

MAX_ENTRIES: Final = 4096  # a thousand peers with card, release, keyset and JWK Set each
MAX_BYTES: Final = 64 * 1024 * 1024  # of bodies: a thousand peers with 64 KiB each
ENTRY_COST: Final = 1024  # bytes counted for a URL and its validators, beside the body

# RFC 9110 8.8.3, bounded: what we store of a peer's choice we also send back to him.
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
        values = [value for header, value in headers if header == name]
        if len(values) == 1 and (
            _ETAG.fullmatch(values[0]) if name == "etag" else http_date(values[0])
        ):
            found.append((condition, values[0]))
    return tuple(found)


def same_version(said: Headers, asked: Headers) -> bool:
    """Whether the validators of a 304 are, as far as it has any, those asked about (4.3.4)."""
    before = dict(asked)
    return all(
        value.removeprefix("W/") == before.get(name, value).removeprefix("W/")
        for name, value in said
    )


class AnswerCache:
    """A bounded cache for any number of threads; what was used longest ago goes first.

    Args:
        max_entries: Answers kept at most.
        max_bytes: Of bodies and of what was said about keeping them, with :data:`ENTRY_COST` for
            each; one that is larger than all of it is not kept.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        if max_entries < 1 or max_bytes < 1:
            raise ValueError("a cache holds at least one entry and one byte")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Url, Entry] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __bool__(self) -> bool:
        return True  # an empty cache is one

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, url: Url) -> Entry | None:
        """What is kept for exactly this URL, fresh or not."""
        with self._lock:
            if (entry := self._entries.get(url)) is not None:
                self._entries.move_to_end(url)
            return entry

    def put(self, url: Url, entry: Entry) -> None:
        """Keep a good answer in place of the one before."""
        with self._lock:
            self._drop(url)
            if _cost(entry) > self._max_bytes:
                return
            self._entries[url] = entry
            self._bytes += _cost(entry)
            while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
                self._drop(next(iter(self._entries)))

    def drop(self, url: Url) -> None:
        """Forget what is kept for a URL."""
        with self._lock:
            self._drop(url)

    def _drop(self, url: Url) -> None:
        if (entry := self._entries.pop(url, None)) is not None:
            self._bytes -= _cost(entry)


def _cost(entry: Entry) -> int:
    said = sum(len(name) + len(value) for name, value in entry.said)
    return ENTRY_COST + len(entry.untrusted_body) + said
