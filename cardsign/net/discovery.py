"""Discovering a peer: its card, what the anchor's source says today, and the verdict on both.

(1) the issuer state says where the card was seen                   :meth:`Discoverer.look_up`
(2) the card is asked for, then whatever its anchor needs           ``_look``
(3) the verdict; where copies of two ages may explain it, all is asked once more, fresh
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

from cardsign.errors import CardRefused, CardsignError, FetchFailed
from cardsign.findings import Finding
from cardsign.jose.jwks import MAX_JWKS_BYTES
from cardsign.net.connection import Clock, Deadline, in_thread
from cardsign.net.fetch import PrivateAccess
from cardsign.net.fetcher import DocumentFetcher, SingleFlight, card_url
from cardsign.trust.policy import (
    AtOrigin,
    CardUrl,
    Issuer,
    JwksAnchor,
    KeysetAnchor,
    Limits,
    Policy,
    PublicSubject,
    TrustedIssuer,
)
from cardsign.trust.refresh import (
    REFRESH_INTERVAL,
    Fetcher,
    FetchResult,
    Refreshed,
    no_answer,
    refresh_issuer,
)
from cardsign.trust.state import IssuerState, IssuerStates
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import (
    CARD_PATH,
    LEGACY_CARD_PATH,
    Place,
    parse_origin,
    parse_url,
    without_userinfo,
)
from cardsign.verify.report import Answers, Report, VerifiedCard, ask_again, trusted_card
from cardsign.verify.verdict import VerdictCache, reach_verdict

_LOG: Final = logging.getLogger(__name__)
# Quiet, unless the program that uses the package listens.
_LOG.addHandler(logging.NullHandler())
NOTHING: Final = Refreshed(NO_STATEMENTS, (), REFRESH_INTERVAL)


def gather(
    issuer: TrustedIssuer,
    limits: Limits,
    known: IssuerState | None,
    ask: Fetcher,
    *,
    origin: str,
    now: datetime,
    fresh: bool = False,
) -> Refreshed:
    """Ask for what the anchor needs.

    ========  ================================================================================
    `keyset`  release, recovery and every step from the one held, at the issuer's home
    `jwks`    its URL
    `keys`    nothing
    ========  ================================================================================

    Args:
        issuer: Whose card it is.
        limits: The policy's.
        known: What is remembered of the issuer; None where nothing can be.
        ask: Asks one URL.
        origin: The origin that the card was asked from, over TLS or on this very machine.
        now: Aware.
        fresh: Ask every cache on the way to look again.

    Returns:
        Statements of which nothing was checked, and what could not be had or has vanished.
    """
    anchor = issuer.anchor
    if isinstance(anchor, JwksAnchor):
        return _ask_jwks(anchor.url, known, ask, fresh=fresh)
    if isinstance(anchor, KeysetAnchor):
        home = home_of(issuer.places, origin)
        return refresh_issuer(limits, known, anchor.pin, ask, home=home, now=now, fresh=fresh)
    return NOTHING


def home_of(places: Iterable[Place] | None, origin: str) -> str:
    """The origin at which an issuer's statements lie.

    It is the card's own if the policy gives the issuer that whole origin, else the first whole
    one. An issuer with paths of shared origins only is asked at the card's, or the first of them.
    """
    places = tuple(places or ())
    whole = [str(place.origin) for place in places if place.is_whole_origin]
    homes = whole or [str(place.origin) for place in places]
    return origin if origin in homes or not homes else homes[0]


def _ask_jwks(url: str, known: IssuerState | None, ask: Fetcher, *, fresh: bool) -> Refreshed:
    answer = ask(url, max_bytes=MAX_JWKS_BYTES, fresh=fresh)
    again_after = REFRESH_INTERVAL
    if answer.max_age is not None:
        again_after = min(again_after, max(answer.max_age, 0))
    if answer.outcome == "found":
        keys = SuppliedStatements(untrusted_jwks=answer.untrusted_body, jwks_url=url)
        return Refreshed(keys, (), again_after)
    reason = no_answer(answer)
    if answer.outcome == "absent":
        code = "refresh.no_answer" if known is None or known.jwks is None else "statement.vanished"
        reason = Finding(code, f"there is no key set at {url}")
    return Refreshed(NO_STATEMENTS, (reason,), again_after)


#: Seconds for all requests of one refresh; the rest is left to the next one. A host without any
#: key can show hundreds of unsigned statements, each as slowly as one request may be.
REFRESH_SECONDS: Final = 30.0
#: Seconds after which an issuer that gave no answer is asked again; a failure takes up to ten.
RETRY_INTERVAL: Final = 30
#: Seconds, as two requests for the card take. If the last refresh is later by no more, it overtook
#: this look, whose time was fixed before; no clock has gone back.
OVERTAKEN_SECONDS: Final = 20
#: Refreshes kept, each with the statements it brought.
MAX_REFRESHES: Final = 1024
_OVERTAKEN: Final = timedelta(seconds=OVERTAKEN_SECONDS)


@dataclass(frozen=True, slots=True)
class _LastRefresh:
    """The last refresh of one issuer; `whole` is of the last one without a failure."""

    refreshed: Refreshed
    asked_at: datetime
    held: tuple[int, int]
    whole: SuppliedStatements

    def lasts(self, known: IssuerState | None, now: datetime) -> bool:
        """Whether it is too early to ask again."""
        if _held(known) < self.held:
            return False
        most = RETRY_INTERVAL if self.refreshed.has_failed else REFRESH_INTERVAL
        wait = timedelta(seconds=min(self.refreshed.again_after, most))
        return bool(wait) and -_OVERTAKEN <= now - self.asked_at < wait


def _hurried(ask: Fetcher, end: Deadline) -> Fetcher:
    """Ask until the time for one refresh is over; everything after that has no answer."""

    def asked(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        try:
            end.remaining()
        except TimeoutError:
            why = f"{url} was not asked any more: a refresh ends after {REFRESH_SECONDS:g} s"
            return FetchResult(url, "failed", failure=FetchFailed("fetch.timeout", why))
        return ask(url, max_bytes=max_bytes, fresh=fresh)

    return asked


class Refresher:
    """The refreshes of one process, :data:`MAX_REFRESHES` at most, for any number of threads.

    Args:
        ask_for: What asks one URL on behalf of an issuer.
        clock: Monotonic seconds, by which a refresh ends.
    """

    def __init__(self, ask_for: Callable[[TrustedIssuer], Fetcher], clock: Clock) -> None:
        self._ask_for = ask_for
        self._clock = clock
        self._last: dict[tuple[str, str], _LastRefresh] = {}
        self._flights: SingleFlight[tuple[str, str, tuple[int, int], bool], Refreshed]
        self._flights = SingleFlight()

    def gather(
        self,
        entry: TrustedIssuer,
        limits: Limits,
        known: IssuerState | None,
        *,
        origin: str,
        now: datetime,
        fresh: bool = False,
    ) -> Refreshed:
        """What :func:`gather` returns, or returned a short while ago.

        Threads that come while another one asks share its result.
        """
        issuer = (entry.name, origin)

        def kept() -> Refreshed | None:
            last = self._last.get(issuer)
            return last.refreshed if last and not fresh and last.lasts(known, now) else None

        def refreshed() -> Refreshed:
            ask = _hurried(self._ask_for(entry), Deadline(self._clock, REFRESH_SECONDS))
            found = gather(entry, limits, known, ask, origin=origin, now=now, fresh=fresh)
            before, whole = self._last.get(issuer), found.supplied
            if found.has_failed:  # which does not replace what was had before
                whole = before.whole if before else NO_STATEMENTS
                found = replace(found, supplied=found.supplied.joined(whole))
            if len(self._last) >= MAX_REFRESHES:
                self._last.clear()
            self._last[issuer] = _LastRefresh(found, now, _held(known), whole)
            return found

        flight = (*issuer, _held(known))
        why = f"asking {entry.name} was interrupted"
        return self._flights.do(
            [(*flight, True)] if fresh else [(*flight, True), (*flight, False)],
            refreshed,
            kept=kept,
            lost=Refreshed(NO_STATEMENTS, (Finding("refresh.no_answer", why),), 0),
        )


def _held(known: IssuerState | None) -> tuple[int, int]:
    keyset = known.keyset if known else None
    return (keyset.epoch, keyset.version) if keyset else (0, 0)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What came of asking a peer for a card, the public or the extended one.

    Attributes:
        url: The URL that answered, or the one that did not.
        report: The verdict; what could not be had stands at the end of its reasons. On an
            extended card it is given that on the public one.
        untrusted_card: The card as received; empty where there is none.
        supplied: What was gathered besides it; of this nothing has been checked either.
    """

    url: str
    report: Report
    untrusted_card: bytes = field(default=b"", repr=False)
    supplied: SuppliedStatements = field(default=NO_STATEMENTS, repr=False)


Target: TypeAlias = str | CardUrl | AtOrigin
"""A card's URL, a host's, or a subject that is one."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, and by what it is judged."""

    url: str
    expect: PublicSubject | None
    supplied: SuppliedStatements
    historic: bool
    now: datetime

    def no_verdict(self, url: str, owner: TrustedIssuer | None, reason: Finding) -> Discovery:
        """What is told where there is no card to judge."""
        name = owner.name if owner is not None else url
        report = Report(
            "indeterminate",
            name,
            Answers(),
            (reason,),
            issuer=name if owner is not None and not owner.is_holder else None,
            checked_at=self.now,
            historic=self.historic,
        )
        return Discovery(url, report)


class Discoverer:
    """Verifies live peers by URL, for any number of threads.

    A peer is asked at most as often as HTTP and :data:`cardsign.trust.refresh.REFRESH_INTERVAL`
    allow. Where it gives no answer, the verdict rests on its last answer and the issuer state,
    until these end. Nothing is asked but the URLs that are handed in and, for statements, those
    that the policy names: no card and no statement can send a request anywhere.

    Args:
        policy: The verifier's trusted issuers.
        states: What is remembered of issuers; a :class:`~cardsign.trust.state.DirectoryStates`
            outlasts the process. It is never held while a peer is asked.
        fetcher: How documents are asked for, and kept.
        now: The time, aware.
        verdicts: Trusted verdicts of before; a new cache if None.
    """

    def __init__(
        self,
        policy: Policy,
        states: IssuerStates,
        *,
        fetcher: DocumentFetcher,
        now: Callable[[], datetime],
        verdicts: VerdictCache | None = None,
    ) -> None:
        self._policy = policy
        self._states = states
        self._fetcher = fetcher
        self._now = now
        self._verdicts = VerdictCache() if verdicts is None else verdicts
        self._refresher = Refresher(
            lambda issuer: partial(fetcher.fetch, access=PrivateAccess.of(issuer)), fetcher.clock
        )

    def examine(self, target: Target, *, expect: PublicSubject | None = None) -> Report:
        """Reach a verdict about the card at a URL and explain it.

        Args:
            target: The card's URL, or an agent's host: its canonical path is asked, then the
                legacy one if no card was ever there (A2A 1.0 8.2).
            expect: Whose card it should be; if None, the issuer that the policy has for the URL
                that answers. At a place of the issuer named here, the card must be listed for that
                URL. Anywhere else it is a copy, and any card of that issuer will do.

        Raises:
            CardRefused: `expect` is outside the strict grammar of URLs.
            LocalFault: Issuer states are lost, corrupt or cannot be written: no verdict (rule V7).
        """
        return self.look_up(target, expect=expect).report

    def discover(self, target: Target, *, expect: PublicSubject | None = None) -> VerifiedCard:
        """Return the card at a URL if it is trusted.

        Raises:
            NotTrusted: Something speaks against the card; its `report` says what.
            NoVerdict: The peer gave no answer, or what would decide it is missing.
            CardRefused, LocalFault: As :meth:`examine`.
        """
        return trusted_card(self.examine(target, expect=expect))

    async def adiscover(
        self, target: Target, *, expect: PublicSubject | None = None
    ) -> VerifiedCard:
        """Do what :meth:`discover` does, in a thread of its own.

        A task that is cancelled returns at once; the work goes on until its deadline.
        """
        return await in_thread(partial(self.discover, target, expect=expect), abandon=True)

    def look_up(
        self,
        target: Target,
        *,
        expect: PublicSubject | None = None,
        supplied: SuppliedStatements = NO_STATEMENTS,
        historic: bool = False,
        fresh: bool = False,
    ) -> Discovery:
        """Do what :meth:`examine` does, and tell what was received.

        Args:
            target: As for :meth:`examine`.
            expect: As for :meth:`examine`.
            supplied: What is at hand besides; a key set in it stands for what a `jwks` anchor's
                URL answers, which is then not asked.
            historic: The time is one of the caller's choice; nothing is kept.
            fresh: Ask every cache on the way to look again, at most once per cooldown.

        Whatever else goes wrong in looking at this peer, a lack of memory included, is a verdict
        that could not be reached, so that it hides no other peer's.

        Raises:
            CardRefused, LocalFault: As :meth:`examine`.
        """
        if isinstance(target, AtOrigin):
            url, expect = target.origin, expect or target
        else:
            url = target.url if isinstance(target, CardUrl) else target
        question = _Question(url, expect, supplied, historic, self._now())
        self._owner(expect or CardUrl(card_url(url)))  # misuse is the caller's to hear of
        try:
            found = self._look(question, question.url, fresh=fresh)
            is_known = found.report.issuer is not None
            if is_known and ask_again(found.report) and not self._fetcher.is_cooling(found.url):
                # Where the card was found: a 404 of the canonical path is not asked for twice.
                found = self._look(question, found.url, fresh=True)
        except CardsignError:
            raise
        except Exception as crash:  # noqa: BLE001  the boundary: it hides no other peer's verdict
            what = f"looking at {without_userinfo(url)} ended with {type(crash).__name__}"
            _LOG.error(what, exc_info=crash)
            return question.no_verdict(url, None, Finding("peer.not_examined", what))
        return found

    # ------------------------------------------------------------------ one look

    def _look(self, question: _Question, url: str, *, fresh: bool) -> Discovery:
        owner = self._owner(question.expect or CardUrl(card_url(url)))
        known, notes = self._recall(owner)
        seen = () if known is None else known.cards
        answer = self._fetcher.fetch_card(
            url,
            fresh=fresh,
            legacy=card_url(url) not in seen,
            access=PrivateAccess.of(owner),
        )
        if answer.outcome != "found" and not answer.is_stale:
            failure = answer.failure or FetchFailed("fetch.failed", f"{answer.url} gave no answer")
            reason = failure.finding
            if answer.outcome == "absent" and answer.url in seen:
                gone = f"a trusted card was seen at {answer.url}, and now there is none"
                reason = Finding("card.vanished", gone)
            return question.no_verdict(answer.url, owner, reason)
        expect = question.expect or CardUrl(answer.url)
        if (found := self._owner(expect)) is not owner:
            owner, (known, notes) = found, self._recall(found)
        expect = self._narrowed(expect, owner, answer.url)
        refreshed, handed = NOTHING, question.supplied.untrusted_jwks is not None
        if owner is not None and not (handed and isinstance(owner.anchor, JwksAnchor)):
            origin, limits = str(parse_url(answer.url).origin), self._policy.limits
            refreshed = self._refresher.gather(
                owner, limits, known, origin=origin, now=question.now, fresh=fresh
            )
        supplied = refreshed.supplied.joined(question.supplied)
        report = reach_verdict(
            answer.untrusted_body,
            expect=expect,
            policy=self._policy,
            now=question.now,
            supplied=supplied,
            states=self._states,
            cache=self._verdicts,
            historic=question.historic,
        )
        if report.verdict == "trusted" and owner is not None and expect == CardUrl(answer.url):
            self._remember(owner, known, answer.url)
        if answer.url != card_url(question.url):
            message = f"there is no card at {CARD_PATH}; this one is at {LEGACY_CARD_PATH}"
            notes += (Finding("card.legacy_path", message),)
        if answer.is_stale and answer.failure is not None:
            before = f"{answer.failure.message}; what it gave before was judged"
            notes += (Finding("fetch.stale", before),)
        reasons = tuple(dict.fromkeys((*report.reasons, *notes, *refreshed.reasons)))
        return Discovery(
            answer.url, replace(report, reasons=reasons), answer.untrusted_body, supplied
        )

    def _owner(self, expect: PublicSubject) -> TrustedIssuer | None:
        try:
            return self._policy.find(expect)
        except CardRefused:
            if isinstance(expect, CardUrl):  # a URL that may not be asked; the fetcher says why
                return None
            raise

    def _narrowed(
        self, expect: PublicSubject, owner: TrustedIssuer | None, url: str
    ) -> PublicSubject:
        """The subject, as narrow as the URL that answered where that is the issuer's own place.

        A caller that names an issuer or an origin as well wants more than the URL says, not less:
        one agent's card is not to pass for another's of the same issuer (threat 3). Anywhere
        else it is a copy, which is the card of the issuer that was named.
        """
        here = CardUrl(url)
        if not isinstance(expect, Issuer | AtOrigin) or self._owner(here) is not owner:
            return expect
        if isinstance(expect, AtOrigin) and parse_origin(expect.origin) != parse_url(url).origin:
            return expect
        return here

    def _recall(
        self, owner: TrustedIssuer | None
    ) -> tuple[IssuerState | None, tuple[Finding, ...]]:
        if owner is None or owner.is_holder:
            return None, ()
        with self._states.of(owner) as state:
            return state, () if state is None else state.notes

    def _remember(self, owner: TrustedIssuer, known: IssuerState | None, url: str) -> None:
        """Note where a trusted card was found; it may not vanish from there (threat 13)."""
        if known is None or url in known.cards:
            return
        with self._states.of(owner) as state:
            if state is None:
                return
            more = state.with_card(url, {card_url(one) for one in owner.cards})
            if more != state:
                self._states.keep(owner, more)
