"""Fetching documents that many threads want again and again, and keeping them in memory.

A :class:`DocumentFetcher` keeps an answer for exactly the URL that was asked, for as long as HTTP
(RFC 9111) and its own ceiling allow, and then asks whether it has changed. It asks out of turn
only once in a while, so that nobody who shows us unknown keys can make us flood an issuer. A
failure never replaces a good answer. A kept answer is as untrusted as it was on arrival.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

from cardsign.errors import CardRefused, FetchFailed
from cardsign.findings import Finding
from cardsign.net.connection import Clock
from cardsign.net.fetch import (
    DEFAULT_SETTINGS,
    FetchSettings,
    OtherStatus,
    PrivateAccess,
    fetch_document,
    values,
)
from cardsign.trust.refresh import REFRESH_INTERVAL, FetchResult
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH, Headers, Url, parse_url, without_userinfo

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
    directives: dict[str, set[str]] = {}  # with all arguments of each (RFC 9111 5.2)
    for name, argument in _DIRECTIVE.findall(",".join(values(headers, "cache-control"))):
        directives.setdefault(name.lower(), set()).add(argument.strip().strip('"'))
    keep = "no-store" not in directives
    stale = directives.keys().isdisjoint({"no-store", "no-cache", "must-revalidate"})
    varies = "*" in map(str.strip, ",".join(values(headers, "vary")).split(","))
    lifetime = _lifetime(headers, directives, ceiling)
    age = _age(headers, asked_at, answered_at)
    if not keep or "no-cache" in directives or varies or age is None:
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


MAX_ENTRIES: Final = 4096  # a thousand peers with card, release, keyset and JWK Set each
MAX_BYTES: Final = 64 * 1024 * 1024  # of bodies: a thousand peers with 64 KiB each
ENTRY_COST: Final = 1024  # bytes counted for a URL and its validators, in addition to the body

# RFC 9110 8.8.3, bounded: what we store of a peer's choice we also send back to it.
_ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"')


@dataclass(frozen=True, slots=True)
class CachedAnswer:
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

    def cost(self) -> int:
        """Bytes, of the body and of what was said about keeping it."""
        said = sum(len(name) + len(value) for name, value in self.said)
        return ENTRY_COST + len(self.untrusted_body) + said


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


class AnswerCache:
    """Good answers of before, fresh or not, for any number of threads; the oldest go first.

    Args:
        max_entries: Answers kept at most.
        max_bytes: Of bodies and of what was said about keeping them, with :data:`ENTRY_COST` for
            each.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._answers: dict[Hashable, CachedAnswer] = {}
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> CachedAnswer | None:
        """Return the answer that is kept."""
        return self._answers.get(key)

    def put(self, key: Hashable, answer: CachedAnswer) -> None:
        """Keep an answer in place of the one before; not one that is larger than the cache."""
        with self._lock:
            self._drop(key)
            if answer.cost() > self._max_bytes:
                return
            self._answers[key] = answer
            self._bytes += answer.cost()
            while len(self._answers) > self._max_entries or self._bytes > self._max_bytes:
                self._drop(next(iter(self._answers)))

    def drop(self, key: Hashable) -> None:
        """Forget an answer."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Hashable) -> None:
        if (answer := self._answers.pop(key, None)) is not None:
            self._bytes -= answer.cost()


COOLDOWN: Final = 60.0  # seconds between two requests out of turn for one URL
MAX_COOLING: Final = 4096  # URLs of which we know when they were last asked out of turn

CacheKey: TypeAlias = tuple[Url, PrivateAccess | None]

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class SingleFlight(Generic[_Key, _Value]):
    """Work that any number of threads want at once is done by one of them, for all."""

    def __init__(self) -> None:
        self._flights: dict[_Key, Future[_Value]] = {}
        self._lock = Lock()

    def do(
        self,
        keys: Sequence[_Key],
        work: Callable[[], _Value],
        *,
        kept: Callable[[], _Value | None],
        lost: _Value,
    ) -> _Value:
        """Wait for a thread that is doing it, or use what is kept, or do it.

        Args:
            keys: Of the flights that will do, best first; a flight of one's own has the last.
            work: Keeps what it finds before it returns, so that no thread misses both.
            kept: What is kept, if it will do.
            lost: What those who wait get if `work` raises.
        """
        with self._lock:
            flight = next((self._flights[key] for key in keys if key in self._flights), None)
            if flight is None:
                if (found := kept()) is not None:
                    return found
                ours = self._flights[keys[-1]] = Future()
        if flight is not None:
            return flight.result()
        result = lost
        try:
            result = work()
        finally:  # whatever ends this one, the others do not wait for ever
            with self._lock:
                del self._flights[keys[-1]]
            ours.set_result(result)
        return result


class DocumentFetcher:
    """Fetches documents for any number of threads. Its methods raise nothing of their own.

    Args:
        settings: How they are reached; `max_bytes` is the limit for cards.
        cache: Where good answers are kept; a new one if None.
        now: The time, aware; for caching only, deadlines run on the settings's own clock.
        ceiling: Seconds for which an answer is used without asking, whatever HTTP says.
        cooldown: Seconds between two requests out of turn for one URL.
    """

    def __init__(
        self,
        settings: FetchSettings = DEFAULT_SETTINGS,
        *,
        cache: AnswerCache | None = None,
        now: Callable[[], datetime],
        ceiling: int = REFRESH_INTERVAL,
        cooldown: float = COOLDOWN,
    ) -> None:
        self._given = settings
        self._cache = AnswerCache() if cache is None else cache
        self._now = now
        self._ceiling = ceiling
        self._flights: SingleFlight[tuple[CacheKey, int, bool], FetchResult] = SingleFlight()
        self._cooldown = timedelta(seconds=cooldown)
        self._hurried: dict[Url, datetime] = {}  # when asked out of turn
        self._lock = Lock()

    @property
    def settings(self) -> FetchSettings:
        """How documents are reached."""
        return self._given

    @property
    def clock(self) -> Clock:
        """The monotonic clock of the settings."""
        return self._given.clock

    def is_cooling(self, url: str) -> bool:
        """Whether this URL was asked out of turn a short while ago; True for no URL at all."""
        try:
            return self._is_cooling(self._given.target(url))
        except FetchFailed:
            return True

    def _is_cooling(self, url: Url) -> bool:
        """A clock that went back is no reason to wait."""
        last = self._hurried.get(url)
        return last is not None and timedelta(0) <= self._now() - last < self._cooldown

    def fetch(
        self,
        url: str,
        *,
        max_bytes: int,
        fresh: bool = False,
        access: PrivateAccess | None = None,
    ) -> FetchResult:
        """Ask for exactly this URL, or use what is known of it.

        Args:
            url: As for :func:`cardsign.net.fetch.fetch_document`.
            max_bytes: Of the body.
            fresh: Ask out of turn, every cache on the way too, unless that was done within the
                cooldown.
            access: What the operator allows for the issuer that is asked.
        """
        try:
            asked = self._given.target(url)
        except FetchFailed as failure:
            return FetchResult(without_userinfo(url), "failed", failure=failure)
        key = (asked, access)  # what one issuer may reach is not shown to another
        kept = partial(self._kept, key, max_bytes)
        if not fresh and (found := kept()) is not None:
            return found
        in_turn, out_of_turn = (key, max_bytes, False), (key, max_bytes, True)
        with self._lock:
            hurries = fresh and not self._is_cooling(asked)
            if hurries:  # the next one has to wait
                if len(self._hurried) >= MAX_COOLING:
                    self._hurried.clear()
                self._hurried[asked] = self._now()
        return self._flights.do(
            (out_of_turn,) if hurries else (out_of_turn, in_turn),
            partial(self._request, key, max_bytes, hurries),
            kept=(lambda: None) if hurries else kept,
            lost=_failed(asked, FetchFailed("fetch.failed", f"asking for {url} was interrupted")),
        )

    def kept(
        self, url: str, *, max_bytes: int, access: PrivateAccess | None = None
    ) -> bytes | None:
        """What may be used of this URL without asking; the arguments are those of :meth:`fetch`."""
        try:
            found = self._kept((self._given.target(url), access), max_bytes)
        except FetchFailed:
            return None
        return found.untrusted_body if found else None

    def fetch_card(
        self,
        url: str,
        *,
        fresh: bool = False,
        legacy: bool = True,
        access: PrivateAccess | None = None,
    ) -> FetchResult:
        """Ask for the card at a URL, or for the card of a host (A2A 1.0 8.2).

        A URL with a path or query is asked as it is. One without is asked for the canonical path,
        and only if nothing is there for the legacy one.

        Args:
            url: As for :meth:`fetch`.
            fresh: As for :meth:`fetch`.
            legacy: Whether the legacy path may be asked at all.
            access: As for :meth:`fetch`.
        """
        ask = partial(self.fetch, max_bytes=self._given.max_bytes, fresh=fresh, access=access)
        try:
            host = self._given.target(url)
        except FetchFailed as failure:
            return FetchResult(without_userinfo(url), "failed", failure=failure)
        if host.path != "/" or host.query:
            return ask(url)
        result = ask(str(replace(host, path=CARD_PATH)))
        if result.outcome != "absent" or not legacy:
            return result
        before = ask(str(replace(host, path=LEGACY_CARD_PATH)))
        return result if before.outcome == "absent" else before

    @cached_property
    def _settings(self) -> FetchSettings:
        return replace(self._given, ssl_context=self._given.trust())

    def _kept(self, key: CacheKey, max_bytes: int) -> FetchResult | None:
        """What may be used without asking."""
        entry = self._cache.get(key)
        if entry is None or len(entry.untrusted_body) > max_bytes:
            return None
        left = entry.seconds_left(self._now())
        return FetchResult(str(key[0]), "found", entry.untrusted_body, left) if left else None

    def _request(self, key: CacheKey, max_bytes: int, fresh: bool) -> FetchResult:
        url, access = key
        entry = self._cache.get(key)
        if entry is not None and len(entry.untrusted_body) > max_bytes:
            entry = None
        asked_at = self._now()
        try:
            fetched = fetch_document(
                str(url),
                replace(self._settings, max_bytes=max_bytes, access=access),
                validators=entry.validators if entry else (),
                reload=fresh,
            )
        except FetchFailed as failure:
            return _failed(url, failure, entry)
        now = self._now()
        body, said = fetched.untrusted_body, fetched.headers
        checks = validators(said)
        if fetched.outcome == "unchanged" and entry is not None:  # else nothing was asked about
            if not same_version(checks, entry.validators):
                self._cache.put(key, replace(entry, validators=()))  # else it would go on so
                message = f"{url} answered 304 for another version than it was asked about"
                return _failed(url, FetchFailed("fetch.status", message), entry)
            body, said = entry.untrusted_body, freshened(entry.said, said)
            checks = checks or entry.validators
        lasting = freshness(said, asked_at=asked_at, answered_at=now, ceiling=self._ceiling)
        if lasting.may_be_stored:
            self._cache.put(key, CachedAnswer(body, now, lasting, checks, stored(said)))
        else:
            self._cache.drop(key)
        return FetchResult(str(url), "found", body, lasting.seconds)


def note_legacy_path() -> Finding:
    """Return the note on a card that was found at the path of A2A up to 0.2."""
    message = f"there is no card at {CARD_PATH}; this one is at {LEGACY_CARD_PATH}"
    return Finding("card.legacy_path", message)


def card_url(url: str) -> str:
    """Where the card of a host is looked for first; of any other URL the URL itself."""
    try:
        parsed = parse_url(url)
    except CardRefused:
        return url
    bare = parsed.path == "/" and not parsed.query
    return str(replace(parsed, path=CARD_PATH) if bare else parsed)


def _failed(url: Url, failure: FetchFailed, entry: CachedAnswer | None = None) -> FetchResult:
    """Nothing new; with what was kept, where that may be used beyond its time."""
    # 404 and 410 say that there is nothing, which no other answer does.
    if isinstance(failure, OtherStatus) and failure.status in (404, 410):
        return FetchResult(str(url), "absent", failure=failure)
    stale = entry is not None and entry.freshness.may_be_stale
    body = entry.untrusted_body if entry is not None and stale else b""
    return FetchResult(str(url), "failed", body, failure=failure, is_stale=stale)
