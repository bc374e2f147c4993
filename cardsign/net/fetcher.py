"""Fetching documents that many threads want again and again, and keeping them in memory.

A :class:`DocumentFetcher` keeps an answer for exactly the URL that was asked, for as long as
``max-age`` and its own ceiling allow, and then asks whether it has changed. It asks out of turn
only once in a while, so that nobody who shows us unknown keys can make us flood an issuer. A
failure never replaces a good answer. A kept answer is as untrusted as it was on arrival.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from threading import Lock
from typing import Final, TypeAlias

from cardsign.errors import FetchFailed
from cardsign.findings import Finding
from cardsign.net.fetch import (
    DEFAULT_SETTINGS,
    FetchSettings,
    OtherStatus,
    PrivateAccess,
    fetch_document,
    values,
)
from cardsign.trust.walk import FetchResult
from cardsign.urls import (
    CARD_PATH,
    LEGACY_CARD_PATH,
    Headers,
    card_url,
    parse_url,
    without_userinfo,
)

#: Seconds after which a URL is asked again; HTTP may shorten it and never lengthen it.
REFRESH_INTERVAL: Final = 300
#: Seconds after which one that gave no answer is asked again; a failure takes up to ten.
RETRY_INTERVAL: Final = 30
COOLDOWN: Final = 60.0  # seconds between two requests out of turn for one URL
MAX_BYTES: Final = 64 * 1024 * 1024  # of answers: a thousand peers with 64 KiB each
PAGE_COST: Final = 1024  # bytes that are counted for a URL, in addition to its answer

_SECONDS: Final = re.compile(r"[0-9]{1,10}")  # 2**31 is what RFC 9111 1.2.2 wants us to hold
# RFC 9110 8.8.3, bounded: what we store of a peer's choice we also send back to it.
_ETAG: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]{0,256}"')


@dataclass(frozen=True, slots=True)
class Freshness:
    """What an answer's headers say about using it again.

    Attributes:
        seconds: For which it may be used without asking, not counting its age.
        may_be_stale: Whether it may be used beyond that where nobody answers; False for
            ``must-revalidate``, ``no-cache`` and ``no-store``.
    """

    seconds: int
    may_be_stale: bool = True


def freshness(headers: Headers, ceiling: int) -> Freshness:
    """Return what ``Cache-Control`` says; `ceiling` where it says nothing, and at most.

    With ``Expires`` alone an answer is asked for every time: dates are not reckoned with.
    """
    directives: dict[str, set[str]] = {}
    for directive in ",".join(values(headers, "cache-control")).lower().split(","):
        name, _, argument = directive.partition("=")
        directives.setdefault(name.strip(), set()).add(argument.strip().strip('"'))
    unstated = 0 if values(headers, "expires") else ceiling
    ages = directives.get("max-age", {str(unstated)})
    stated = next(iter(ages)) if len(ages) == 1 else ""
    seconds = min(int(stated), ceiling) if _SECONDS.fullmatch(stated) else 0
    may_be_used = directives.keys().isdisjoint({"no-cache", "no-store"})
    may_be_stale = may_be_used and "must-revalidate" not in directives
    return Freshness(seconds if may_be_used else 0, may_be_stale)


def _age(headers: Headers) -> int:
    """Return the seconds that an answer has lain in caches; more than any lifetime for nonsense."""
    ages = values(headers, "age")
    if not ages:
        return 0
    return int(ages[0]) if len(ages) == 1 and _SECONDS.fullmatch(ages[0]) else 10**10


def _etag(headers: Headers) -> str:
    """Return the validator of an answer; empty where there is none, or more than one."""
    tags = values(headers, "etag")
    return tags[0] if len(tags) == 1 and _ETAG.fullmatch(tags[0]) else ""


def _is_within(begin: datetime | None, seconds: float, now: datetime) -> bool:
    """Return whether so many seconds are not over; a clock that went back is no reason to wait."""
    return begin is not None and 0 <= (now - begin).total_seconds() < seconds


PageKey: TypeAlias = tuple[str, PrivateAccess | None, int]


@dataclass(slots=True, eq=False)
class _Page:
    """What is remembered of one URL.

    Attributes:
        guard: Held by the thread that asks; the others wait for its answer.
        body: Of the last good answer; None where there is none.
        etag: Its validator.
        freshness: What was said about using it again.
        last: What the last request resulted in.
        asked_at: When that was.
        lasts: Seconds for which that is the answer.
        ended: When that ended, by the clock that nobody sets.
        hurried_at: When it was last asked out of turn.
        cost: Bytes that it counts for.
    """

    guard: Lock = field(default_factory=Lock)
    body: bytes | None = None
    etag: str = ""
    freshness: Freshness = field(default_factory=partial(Freshness, 0))
    last: FetchResult | None = None
    asked_at: datetime | None = None
    lasts: int = 0
    ended: float = float("-inf")
    hurried_at: datetime | None = None
    cost: int = 0

    def is_current(self, now: datetime) -> bool:
        """Return whether it is too early to ask again."""
        return _is_within(self.asked_at, self.lasts, now)

    def is_cooling(self, now: datetime) -> bool:
        """Return whether it was asked out of turn a short while ago."""
        return _is_within(self.hurried_at, COOLDOWN, now)

    def keep(self, answer: FetchResult) -> FetchResult:
        """Keep a good answer, and return what it comes to."""
        if answer.outcome == "found":
            self.body, self.etag = answer.untrusted_body, _etag(answer.headers)
        if answer.outcome == "found" or values(answer.headers, "cache-control"):
            self.freshness = freshness(answer.headers, REFRESH_INTERVAL)
        self.lasts = self.freshness.seconds - _age(answer.headers)
        return FetchResult(answer.url, "found", self.body or b"", headers=answer.headers)


class DocumentFetcher:
    """Fetches documents for any number of threads. Its methods raise nothing of their own.

    Args:
        settings: How they are reached; `max_bytes` is the limit for cards.
        now: The time, aware; for caching only, deadlines run on the settings's own clock.
    """

    def __init__(
        self, settings: FetchSettings = DEFAULT_SETTINGS, *, now: Callable[[], datetime]
    ) -> None:
        self.settings = settings
        self._now = now
        self._pages: dict[PageKey, _Page] = {}
        self._bytes = 0
        self._lock = Lock()

    def is_cooling(self, url: str, access: PrivateAccess | None) -> bool:
        """Return whether a card was asked out of turn a short while ago.

        Args:
            url: Of the card, in its normal form.
            access: As for :meth:`fetch`.
        """
        page = self._pages.get((url, access, self.settings.max_bytes))
        return page is not None and page.is_cooling(self._now())

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
        came = self.settings.clock()
        try:
            asked = self.settings.target(url)
        except FetchFailed as failure:
            return FetchResult(without_userinfo(url), "failed", failure=failure)
        # What one issuer may reach is not shown to another.
        key = (str(asked), access, max_bytes)
        with self._lock:
            page = self._pages.setdefault(key, _Page())
        with page.guard:
            now = self._now()
            fresh = fresh and not page.is_cooling(now)
            was_asked_while_waiting = page.ended > came
            if page.last and not fresh and (was_asked_while_waiting or page.is_current(now)):
                return page.last
            page.hurried_at = now if fresh else page.hurried_at
            page.last, page.asked_at = self._request(key, page, fresh=fresh), now
            page.ended = self.settings.clock()
            self._make_room(key, page)
            return page.last

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
        ask = partial(self.fetch, max_bytes=self.settings.max_bytes, fresh=fresh, access=access)
        canonical = card_url(url)
        result = ask(canonical)
        if result.outcome != "absent" or not legacy or canonical == str(parse_url(url)):
            return result
        legacy_result = ask(canonical.removesuffix(CARD_PATH) + LEGACY_CARD_PATH)
        return result if legacy_result.outcome == "absent" else legacy_result

    @cached_property
    def _settings(self) -> FetchSettings:
        return replace(self.settings, ssl_context=self.settings.trust())

    def _request(self, key: PageKey, page: _Page, *, fresh: bool) -> FetchResult:
        url, access, max_bytes = key
        headers = (("If-None-Match", page.etag),) if page.etag else ()
        try:
            answer = fetch_document(
                url,
                replace(self._settings, max_bytes=max_bytes, access=access),
                headers=(*headers, ("Cache-Control", "no-cache")) if fresh else headers,
            )
        except FetchFailed as failure:
            # 404 and 410 say that there is nothing, which no other answer does.
            if isinstance(failure, OtherStatus) and failure.status in (404, 410):
                page.lasts = REFRESH_INTERVAL
                return FetchResult(url, "absent", failure=failure)
            page.lasts = RETRY_INTERVAL
            stale = page.body if page.freshness.may_be_stale else None
            is_stale = stale is not None
            return FetchResult(url, "failed", stale or b"", failure=failure, is_stale=is_stale)
        return page.keep(answer)

    def _make_room(self, key: PageKey, page: _Page) -> None:
        """Count the bytes of a page that is the newest now, and forget the oldest ones."""
        with self._lock:
            if self._pages.get(key) is page:
                self._pages[key] = self._pages.pop(key)
                cost = PAGE_COST + len(page.body or b"")
                self._bytes += cost - page.cost
                page.cost = cost
            while self._bytes > MAX_BYTES:
                self._bytes -= self._pages.pop(next(iter(self._pages))).cost


def note_legacy_path() -> Finding:
    """Return the note on a card that was found at the path of A2A up to 0.2."""
    message = f"there is no card at {CARD_PATH}; this one is at {LEGACY_CARD_PATH}"
    return Finding("card.legacy_path", message)
