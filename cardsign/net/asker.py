"""Asking for documents that are asked for often, by many threads: once for all of them.

An :class:`Asker` keeps what it was given for as long as HTTP and its own ceiling allow, asks
afterwards whether it has changed, and asks out of turn only once in a while, so that no stranger
who shows us unknown keys can make us hammer an issuer. What could not be had never takes the
place of what could.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from threading import Lock
from typing import Final, Literal, TypeAlias

from cardsign.errors import FetchFailed
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
    CARD_PATH,
    DEFAULT_WIRE,
    LEGACY_CARD_PATH,
    Absent,
    Fetched,
    Wire,
    fetch_document,
)
from cardsign.net.transport import Clock
from cardsign.trust import refresh
from cardsign.urls import Url

COOLDOWN: Final = 60.0  # seconds between two requests out of turn for one URL
MAX_COOLING: Final = 4096  # URLs of which we know when they were last asked out of turn

Outcome: TypeAlias = Literal["found", "absent", "failed"]
CardPath: TypeAlias = Literal["canonical", "legacy", "given"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking for a URL.

    Attributes:
        url: In its normal form; as given where it is no URL that we ask.
        outcome: ``found``; ``absent``, which 404 and 410 say and nothing else; ``failed``.
        untrusted_body: What was found; of a failure the last that was, if there is one that may
            be used beyond its time.
        failure: Why there is nothing new; None for ``found``.
        max_age: Seconds for which it may be used from now on without asking; None unless found.
        is_stale: Whether `untrusted_body` is from before a failure.
        revalidated: Whether the peer was asked for this answer, rather than the cache.
    """

    url: str
    outcome: Outcome
    untrusted_body: bytes = field(default=b"", repr=False)
    failure: FetchFailed | None = None
    max_age: int | None = None
    is_stale: bool = False
    revalidated: bool = False


@dataclass(frozen=True, slots=True)
class CardAnswer(Answer):
    """What came of asking for a card.

    Attributes:
        path: Whether `url` was given whole, or is the host's canonical or legacy path.
    """

    path: CardPath = "given"


_Flight: TypeAlias = tuple[Url, int, bool]


class Asker:
    """Asks strangers for documents, for any number of threads. Raises nothing of its own.

    Args:
        wire: How they are reached; `policy.max_bytes` is the limit for cards.
        cache: Where good answers are kept; a new one if None.
        now: The time, aware; for caching only, deadlines run on the wire's own clock.
        ceiling: Seconds for which an answer is used without asking, whatever HTTP says.
        cooldown: Seconds between two requests out of turn for one URL.
    """

    def __init__(
        self,
        wire: Wire = DEFAULT_WIRE,
        *,
        cache: AnswerCache | None = None,
        now: Callable[[], datetime],
        ceiling: int = refresh.REFRESH_INTERVAL,
        cooldown: float = COOLDOWN,
    ) -> None:
        self._given_wire = wire
        self._cache = AnswerCache() if cache is None else cache
        self._now = now
        self._ceiling = ceiling
        self._cooldown = timedelta(seconds=cooldown)
        self._flights: dict[_Flight, Future[Answer]] = {}
        self._out_of_turn: OrderedDict[Url, datetime] = OrderedDict()
        self._lock = Lock()

    @property
    def clock(self) -> Clock:
        """The monotonic clock of the wire."""
        return self._given_wire.clock

    def __call__(self, url: str, *, max_bytes: int, fresh: bool) -> refresh.Fetched:
        """Answer as a :class:`cardsign.trust.refresh.Fetcher`."""
        answer = self.ask(url, max_bytes=max_bytes, fresh=fresh)
        body = answer.untrusted_body if answer.outcome == "found" else b""
        why = answer.failure.message if answer.failure else ""
        return refresh.Fetched(answer.outcome, body, answer.max_age, why)

    def ask(self, url: str, *, max_bytes: int, fresh: bool = False) -> Answer:
        """Ask for exactly this URL, or use what is known of it.

        Args:
            url: As for :func:`cardsign.net.fetch.fetch`.
            max_bytes: Of the body.
            fresh: Ask out of turn, every cache on the way too, unless that was done within the
                cooldown.
        """
        try:
            asked = self._given_wire.target(url)
        except FetchFailed as failure:
            return Answer(url, "failed", failure=failure)
        return self._ask(asked, max_bytes, fresh)

    def ask_card(self, url: str, *, fresh: bool = False, legacy: bool = True) -> CardAnswer:
        """Ask for the card at a URL, or for the card of a host (A2A 1.0 8.2).

        A URL with a path or query is asked as it is. One without is asked for the canonical path,
        and only if nothing is there for the legacy one.

        Args:
            url: As for :meth:`ask`.
            fresh: As for :meth:`ask`.
            legacy: Whether the legacy path may be asked at all.
        """
        try:
            asked = self._given_wire.target(url)
        except FetchFailed as failure:
            return CardAnswer(url, "failed", failure=failure)
        limit = self._given_wire.policy.max_bytes
        if asked.path != "/" or asked.query:
            return _card(self.ask(url, max_bytes=limit, fresh=fresh), "given")
        canonical = str(replace(asked, path=CARD_PATH))
        answer = self.ask(canonical, max_bytes=limit, fresh=fresh)
        if answer.outcome != "absent" or not legacy:
            return _card(answer, "canonical")
        elsewhere = str(replace(asked, path=LEGACY_CARD_PATH))
        return _card(self.ask(elsewhere, max_bytes=limit, fresh=fresh), "legacy")

    @cached_property
    def _wire(self) -> Wire:
        return replace(self._given_wire, ssl_context=self._given_wire.trust())

    def _ask(self, url: Url, max_bytes: int, urgent: bool) -> Answer:
        """Use what is kept, or wait for who is asking already, or ask."""
        with self._lock:
            if not urgent and (kept := self._cached(url, max_bytes)) is not None:
                return kept
            out_of_turn = urgent and self._takes_the_turn(url)
            flight = self._flights.get((url, max_bytes, True))
            if flight is None and not out_of_turn:
                if (kept := self._cached(url, max_bytes)) is not None:
                    return kept
                flight = self._flights.get((url, max_bytes, False))
            if flight is None:
                ours = self._flights[url, max_bytes, out_of_turn] = Future()
        if flight is not None:
            return flight.result()
        return self._fly(url, max_bytes, out_of_turn, ours)

    def _takes_the_turn(self, url: Url) -> bool:
        """Whether this is who may ask out of turn; it is from now on that the next has to wait."""
        now = self._now()
        last = self._out_of_turn.get(url)
        if last is not None and timedelta(0) <= now - last < self._cooldown:
            return False
        self._out_of_turn[url] = now
        self._out_of_turn.move_to_end(url)
        if len(self._out_of_turn) > MAX_COOLING:
            self._out_of_turn.popitem(last=False)
        return True

    def _fly(self, url: Url, max_bytes: int, fresh: bool, flight: Future[Answer]) -> Answer:
        interrupted = FetchFailed("fetch.failed", f"asking for {url} was interrupted")
        answer = Answer(str(url), "failed", failure=interrupted)
        try:
            answer = self._request(url, max_bytes, fresh)
        finally:  # whatever ends this one, the others do not wait for ever
            with self._lock:
                del self._flights[url, max_bytes, fresh]
            flight.set_result(answer)
        return answer

    def _cached(self, url: Url, max_bytes: int) -> Answer | None:
        entry = self._cache.get(url)
        if entry is None or len(entry.untrusted_body) > max_bytes:
            return None
        left = entry.seconds_left(self._now())
        return Answer(str(url), "found", entry.untrusted_body, max_age=left) if left else None

    def _request(self, url: Url, max_bytes: int, fresh: bool) -> Answer:
        entry = self._cache.get(url)
        if entry is not None and len(entry.untrusted_body) > max_bytes:
            entry = None
        asked_at = self._now()
        try:
            fetched = fetch_document(
                str(url),
                self._wire.limited(max_bytes),
                validators=entry.validators if entry else (),
                reload=fresh,
            )
        except FetchFailed as failure:
            return _without_news(url, entry, failure)
        return self._kept(url, entry, fetched, asked_at)

    def _kept(self, url: Url, entry: Entry | None, fetched: Fetched, asked_at: datetime) -> Answer:
        """Keep what came, and answer with it; a 304 is never without an entry."""
        now = self._now()
        body, said, checks = fetched.body, fetched.headers, validators(fetched.headers)
        if fetched.status == 304 and entry is not None:
            if not same_version(checks, entry.validators):
                self._cache.put(url, replace(entry, validators=()))  # else it would go on so
                message = f"{url} answered 304 for another version than it was asked about"
                return _without_news(url, entry, FetchFailed("fetch.status", message))
            body, said = entry.untrusted_body, freshened(entry.said, said)
            checks = checks or entry.validators
        lasting = freshness(said, asked_at=asked_at, answered_at=now, ceiling=self._ceiling)
        if lasting.may_be_stored:
            self._cache.put(url, Entry(body, now, lasting, checks, stored(said)))
        else:
            self._cache.drop(url)
        return Answer(str(url), "found", body, max_age=lasting.seconds, revalidated=True)


def _without_news(url: Url, entry: Entry | None, failure: FetchFailed) -> Answer:
    if isinstance(failure, Absent):
        return Answer(str(url), "absent", failure=failure, revalidated=True)
    body = entry.untrusted_body if entry and entry.freshness.may_be_stale else None
    return Answer(str(url), "failed", body or b"", failure, is_stale=body is not None)


def _card(answer: Answer, path: CardPath) -> CardAnswer:
    values = {each.name: getattr(answer, each.name) for each in fields(Answer)}
    return CardAnswer(**values, path=path)
