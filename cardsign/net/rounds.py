"""Who was asked when, and what he brought: each issuer is asked by one thread at a time.

A refresh costs three requests at least, for absences are not kept by any cache; it is made once
in a while, not for every card. What was brought is believed by nobody here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from cardsign.net.live import gather
from cardsign.net.transport import Clock, Deadline
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.known import Known
from cardsign.trust.policy import Enrolment, Limits
from cardsign.trust.refresh import REFRESH_INTERVAL, Brought, Fetched, Fetcher

#: Seconds for all requests of one refresh. A host without any key can show unsigned statements
#: one after the other, each as slowly as one request may be: hundreds, in most of an hour. Who
#: has more to show than goes into this is followed further by the next refresh.
REFRESH_SECONDS: Final = 30.0
#: Seconds after which somebody who gave no answer is asked again; a failure takes up to ten.
RETRY_INTERVAL: Final = 30
#: Seconds. A verdict's time is fixed before its card is asked for, which takes two requests of ten
#: seconds at most: if the last round is later by no more, its asker overtook this one, and no
#: clock has gone back.
OVERTAKEN_SECONDS: Final = 20
_OVERTAKEN: Final = timedelta(seconds=OVERTAKEN_SECONDS)


@dataclass(slots=True)
class _Round:
    alone: Lock
    ended: int = 0  # rounds so far
    was_fresh: bool = False
    asked_at: datetime | None = None
    brought: Brought | None = None
    held: tuple[int, int] = (0, 0)  # what was remembered when it was asked
    whole: Evidence = NO_EVIDENCE  # what the last round without a failure brought

    def lasts(
        self, known: Known | None, now: datetime, *, fresh: bool, before: int
    ) -> Brought | None:
        """What was brought, if a round has ended since `before`, or it is too early for one."""
        if self.asked_at is None or self.brought is None or _held(known) < self.held:
            return None
        if self.ended != before and self.was_fresh >= fresh:
            return self.brought
        if fresh:
            return None
        most = RETRY_INTERVAL if _failed(self.brought) else REFRESH_INTERVAL
        wait = timedelta(seconds=min(self.brought.again_after, most))
        gone = now - self.asked_at
        return self.brought if wait and -_OVERTAKEN <= gone < wait else None

    def keep(self, brought: Brought, known: Known | None, now: datetime, *, fresh: bool) -> Brought:
        """Note what was brought; a failure takes nothing away."""
        if _failed(brought):
            brought = replace(brought, evidence=brought.evidence.beside(self.whole))
        else:
            self.whole = brought.evidence
        self.asked_at, self.brought, self.held = now, brought, _held(known)
        self.ended, self.was_fresh = self.ended + 1, fresh
        return brought


@dataclass(frozen=True, slots=True)
class _Hurried:
    """Asks until the time for one refresh is over; everything after that has no answer."""

    ask: Fetcher
    end: Deadline

    def __call__(self, url: str, *, max_bytes: int, fresh: bool) -> Fetched:
        try:
            self.end.remaining()
        except TimeoutError:
            why = f"{url} was not asked any more: a refresh ends after {REFRESH_SECONDS:g} s"
            return Fetched("failed", why=why)
        return self.ask(url, max_bytes=max_bytes, fresh=fresh)


class Rounds:
    """The refreshes of one process, for any number of threads.

    Args:
        ask: Asks one URL.
        clock: Monotonic seconds, by which a refresh ends.
    """

    def __init__(self, ask: Fetcher, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._rounds: dict[tuple[str, str], _Round] = {}
        self._lock = Lock()

    def gather(
        self,
        enrolment: Enrolment,
        limits: Limits,
        known: Known | None,
        *,
        contact: str,
        now: datetime,
        fresh: bool = False,
    ) -> Brought:
        """What :func:`cardsign.net.live.gather` brings, or brought a short while ago.

        Whoever had to wait while another thread asked uses what that one brought.
        """
        with self._lock:
            one = self._rounds.setdefault((enrolment.name, contact), _Round(Lock()))
        before = one.ended
        with one.alone:
            if (lasting := one.lasts(known, now, fresh=fresh, before=before)) is not None:
                return lasting
            ask = _Hurried(self._ask, Deadline(self._clock, REFRESH_SECONDS))
            brought = gather(enrolment, limits, known, ask, contact=contact, now=now, fresh=fresh)
            return one.keep(brought, known, now, fresh=fresh)


def _failed(brought: Brought) -> bool:
    return any(reason.code == "refresh.no_answer" for reason in brought.reasons)


def _held(known: Known | None) -> tuple[int, int]:
    keyset = known.keyset if known else None
    return (keyset.epoch, keyset.version) if keyset else (0, 0)
