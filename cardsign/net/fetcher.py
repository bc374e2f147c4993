"""Fetching documents that many threads want again and again.

A :class:`DocumentFetcher` keeps an answer for as long as HTTP and its own ceiling allow, and then
asks whether it has changed. It asks out of turn only once in a while, so that nobody who shows us
unknown keys can make us flood an issuer. A failure never replaces a good answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

from cardsign.errors import CardRefused, FetchFailed
from cardsign.lru import Lru
from cardsign.net.cache import (
    AnswerCache,
    Entry,
    freshened,
    freshness,
    same_version,
    stored,
    validators,
)
from cardsign.net.fetch import (
    DEFAULT_SETTINGS,
    Absent,
    FetchSettings,
    PrivateAccess,
    fetch_document,
)
from cardsign.net.transport import Clock
from cardsign.trust.refresh import REFRESH_INTERVAL, FetchResult
from cardsign.urls import CARD_PATH, LEGACY_CARD_PATH, Url, parse_url, without_userinfo

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
        self._hurried: Lru[Url, datetime] = Lru(MAX_COOLING)  # when asked out of turn
        self._lock = Lock()

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

    def _may_hurry(self, url: Url) -> bool:
        """Whether a URL may be asked out of turn; from now on the next one has to wait."""
        with self._lock:
            if self._is_cooling(url):
                return False
            self._hurried.put(url, self._now())
            return True

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
        hurries = fresh and self._may_hurry(asked)
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
        return self._keep(key, entry, fetched, asked_at)

    def _keep(
        self, key: CacheKey, entry: Entry | None, fetched: FetchResult, asked_at: datetime
    ) -> FetchResult:
        """Keep what came, and answer with it; nothing is unchanged without an entry."""
        url, now = key[0], self._now()
        body, said = fetched.untrusted_body, fetched.headers
        checks = validators(said)
        if fetched.outcome == "unchanged" and entry is not None:
            if not same_version(checks, entry.validators):
                self._cache.put(key, replace(entry, validators=()))  # else it would go on so
                message = f"{url} answered 304 for another version than it was asked about"
                return _failed(url, FetchFailed("fetch.status", message), entry)
            body, said = entry.untrusted_body, freshened(entry.said, said)
            checks = checks or entry.validators
        lasting = freshness(said, asked_at=asked_at, answered_at=now, ceiling=self._ceiling)
        if lasting.may_be_stored:
            self._cache.put(key, Entry(body, now, lasting, checks, stored(said)))
        else:
            self._cache.drop(key)
        return FetchResult(str(url), "found", body, lasting.seconds)


def card_url(url: str) -> str:
    """Where the card of a host is looked for first; of any other URL the URL itself."""
    try:
        parsed = parse_url(url)
    except CardRefused:
        return url
    bare = parsed.path == "/" and not parsed.query
    return str(replace(parsed, path=CARD_PATH) if bare else parsed)


def _failed(url: Url, failure: FetchFailed, entry: Entry | None = None) -> FetchResult:
    """Nothing new; with what was kept, where that may be used beyond its time."""
    if isinstance(failure, Absent):
        return FetchResult(str(url), "absent", failure=failure)
    stale = entry is not None and entry.freshness.may_be_stale
    body = entry.untrusted_body if entry is not None and stale else b""
    return FetchResult(str(url), "failed", body, failure=failure, is_stale=stale)
