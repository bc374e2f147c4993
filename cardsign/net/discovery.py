"""Meeting a peer: his card, what the anchor's one source says today, and the verdict on both.

(1) what is remembered says where his card was seen                 :meth:`Discoverer.meet`
(2) the card is asked for, then whatever its anchor needs           ``_look``
(3) the verdict; where copies of two ages met, all once more, fresh
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from threading import Lock
from typing import Final, TypeAlias

from cardsign.errors import CardRefused
from cardsign.net.asker import COOLDOWN, Asker
from cardsign.net.asynchronous import in_thread
from cardsign.net.fetch import DEFAULT_WIRE, Wire
from cardsign.net.live import NOTHING
from cardsign.net.meeting import Meeting, about, canonical, without_card
from cardsign.net.rounds import Rounds
from cardsign.reasons import Reason
from cardsign.trust.anchors import JwksAnchor
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.known import Known, Memory
from cardsign.trust.origins import parse_origin, parse_url
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.refresh import Brought
from cardsign.trust.subject import AtOrigin, CardUrl, Issuer, PublicSubject
from cardsign.verdict import Report
from cardsign.verify import VerifiedCard, examine_card, trusted_card
from cardsign.verify.again import ask_again
from cardsign.verify.cache import VerdictCache

MAX_AGAIN: Final = 4096  # URLs of which we know when all was last fetched anew

Target: TypeAlias = str | CardUrl | AtOrigin
"""A card's URL, a host's, or a subject that is one."""


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, and by what it is judged."""

    url: str
    expect: PublicSubject | None
    evidence: Evidence
    historic: bool
    now: datetime


class Discoverer:
    """Verifies live peers by URL, for any number of threads.

    A card and the statements about it are asked for at most as often as HTTP and
    :data:`cardsign.trust.refresh.REFRESH_INTERVAL` allow. An unchanged card costs one conditional
    request once it is stale, and no signature check. Where a peer gives no answer, the verdict
    rests on what he gave before and what is remembered, until that ends.

    Nothing is asked but the URLs that are handed in, and for statements the origins and URLs that
    the policy names: no card and no statement can send a request anywhere.

    Args:
        policy: The verifier's enrolments.
        memory: What is remembered of issuers; a :class:`~cardsign.trust.state.DirectoryMemory`
            outlasts the process. It is never held while a peer is asked.
        asker: How documents are asked for, and kept.
        now: The time, aware.
        verdicts: Trusted verdicts of before; a new cache if None.
    """

    def __init__(
        self,
        policy: Policy,
        memory: Memory,
        *,
        asker: Asker,
        now: Callable[[], datetime],
        verdicts: VerdictCache | None = None,
    ) -> None:
        self._policy = policy
        self._memory = memory
        self._asker = asker
        self._now = now
        self._verdicts = VerdictCache() if verdicts is None else verdicts
        self._rounds = Rounds(asker, asker.clock)
        self._again: OrderedDict[str, datetime] = OrderedDict()
        self._lock = Lock()

    def examine(self, target: Target, *, expect: PublicSubject | None = None) -> Report:
        """Reach a verdict about the card at a URL and explain it.

        Args:
            target: The card's URL, or a host's, whose canonical path is asked and, where there
                never was a card there, the legacy one (A2A 1.0 8.2).
            expect: Whose card it should be; None: whoever the policy enrols for the URL that
                answers. Where that URL is a place of an issuer or origin that is named here, the
                card has to be listed for it all the same; anywhere else it is a copy, and any
                card of the one who was named will do.

        Returns:
            The report. What peers answer makes this method raise nothing.

        Raises:
            CardRefused: `expect` is outside the strict grammar of URLs.
            LocalFault: The memory is lost, corrupt or cannot be written: no verdict (rule V7).
        """
        return self.meet(target, expect=expect).report

    def discover(self, target: Target, *, expect: PublicSubject | None = None) -> VerifiedCard:
        """Return the card at a URL if it is trusted.

        Raises:
            NotTrusted: The verdict is anything but ``trusted``; its `report` says why.
            CardRefused, LocalFault: As :meth:`examine`.
        """
        return trusted_card(self.examine(target, expect=expect))

    async def adiscover(
        self, target: Target, *, expect: PublicSubject | None = None
    ) -> VerifiedCard:
        """Do what :meth:`discover` does, in a thread of its own.

        However many peers are silent, nobody waits for them but those who asked. Whoever is
        cancelled leaves at once; the work goes on to its own end, which the wire's deadlines set.
        """
        return await in_thread(partial(self.discover, target, expect=expect), abandon=True)

    def meet(
        self,
        target: Target,
        *,
        expect: PublicSubject | None = None,
        evidence: Evidence = NO_EVIDENCE,
        historic: bool = False,
        fresh: bool = False,
    ) -> Meeting:
        """Do what :meth:`examine` does, and tell what was received.

        Args:
            target: As for :meth:`examine`.
            expect: As for :meth:`examine`.
            evidence: What is at hand besides; a key set in it stands for what a `jwks` anchor's
                URL answers, which is then not asked.
            historic: The time is one of the caller's choice; nothing is kept.
            fresh: Ask every cache on the way to look again, at most once per cooldown.

        Raises:
            CardRefused, LocalFault: As :meth:`examine`.
        """
        url = target if isinstance(target, str) else _url_of(target)
        if expect is None and isinstance(target, AtOrigin):
            expect = target
        question = _Question(url, expect, evidence, historic, self._now())
        meeting = self._look(question, fresh=fresh and self._may_ask_again(canonical(url)))
        about_somebody = meeting.report.issuer is not None
        if about_somebody and ask_again(meeting.report) and self._may_ask_again(meeting.url):
            meeting = self._look(question, fresh=True)
        return meeting

    # ------------------------------------------------------------------ one look

    def _look(self, question: _Question, *, fresh: bool) -> Meeting:
        owner = self._owner(question.expect or CardUrl(canonical(question.url)))
        known, notes = self._recall(owner)
        seen = () if known is None else known.cards
        legacy = canonical(question.url) not in seen
        answer = self._asker.ask_card(question.url, fresh=fresh, legacy=legacy)
        if answer.outcome != "found" and not answer.is_stale:
            was = answer.url in seen
            return without_card(
                answer, owner, seen=was, now=question.now, historic=question.historic
            )
        expect = question.expect or CardUrl(answer.url)
        if (found := self._owner(expect)) is not owner:
            owner, (known, notes) = found, self._recall(found)
        expect = self._narrowed(expect, owner, answer.url)
        brought = self._gather(owner, known, answer.url, question, fresh=fresh)
        evidence = brought.evidence.beside(question.evidence)
        report = examine_card(
            answer.untrusted_body,
            expect=expect,
            policy=self._policy,
            now=question.now,
            evidence=evidence,
            memory=self._memory,
            cache=self._verdicts,
            historic=question.historic,
        )
        if report.verdict == "trusted" and owner is not None and expect == CardUrl(answer.url):
            self._remember(owner, known, answer.url)
        notes = (*notes, *about(answer), *brought.reasons)
        reasons = tuple(dict.fromkeys((*report.reasons, *notes)))
        return Meeting(
            answer.url, replace(report, reasons=reasons), answer.untrusted_body, evidence
        )

    def _owner(self, expect: PublicSubject) -> Enrolment | None:
        try:
            return self._policy.find(expect)
        except CardRefused:
            if isinstance(expect, CardUrl):  # a URL that nobody asks; the asker says why
                return None
            raise

    def _narrowed(self, expect: PublicSubject, owner: Enrolment | None, url: str) -> PublicSubject:
        """The subject, as narrow as the URL that answered where that is the issuer's own place.

        Whoever names an issuer or an origin as well wants more than the URL says and never less:
        one agent's card is not to pass for another's of the same issuer (threats.md 3). Anywhere
        else it is a copy, which is the card of whoever was named.
        """
        here = CardUrl(url)
        if not isinstance(expect, Issuer | AtOrigin) or self._owner(here) is not owner:
            return expect
        if isinstance(expect, AtOrigin) and parse_origin(expect.origin) != parse_url(url).origin:
            return expect
        return here

    def _recall(self, owner: Enrolment | None) -> tuple[Known | None, tuple[Reason, ...]]:
        if owner is None or owner.is_holder:
            return None, ()
        with self._memory.of(owner) as memo:
            return memo.known, memo.notes

    def _remember(self, owner: Enrolment, known: Known | None, url: str) -> None:
        """Note where a trusted card was found; it may not vanish from there (threats.md 13)."""
        if known is None or url in known.cards:
            return
        with self._memory.of(owner) as memo:
            if memo.known is None:
                return
            more = memo.known.with_card(url, {canonical(one) for one in owner.cards})
            if more != memo.known:
                memo.keep(more)

    def _gather(
        self,
        owner: Enrolment | None,
        known: Known | None,
        url: str,
        question: _Question,
        *,
        fresh: bool,
    ) -> Brought:
        handed = question.evidence.untrusted_jwks is not None
        if owner is None or (handed and isinstance(owner.anchor, JwksAnchor)):
            return NOTHING
        return self._rounds.gather(
            owner,
            self._policy.limits,
            known,
            contact=str(parse_url(url).origin),
            now=question.now,
            fresh=fresh,
        )

    def _may_ask_again(self, url: str) -> bool:
        """Whether this is the one; it is from now on that the next has to wait."""
        now = self._now()
        with self._lock:
            last = self._again.get(url)
            if last is not None and timedelta(0) <= now - last < timedelta(seconds=COOLDOWN):
                return False
            self._again[url] = now
            self._again.move_to_end(url)
            if len(self._again) > MAX_AGAIN:
                self._again.popitem(last=False)
        return True


def _url_of(target: CardUrl | AtOrigin) -> str:
    return target.url if isinstance(target, CardUrl) else target.origin


def discover(
    url: str,
    *,
    policy: Policy,
    memory: Memory,
    now: datetime,
    expect: PublicSubject | None = None,
    wire: Wire = DEFAULT_WIRE,
) -> VerifiedCard:
    """Fetch the card at a URL, and what shows that it is current; return it if it is trusted.

    For one card. Who asks again and again keeps a :class:`Discoverer`, which asks less.

    Args:
        url: The card's URL, or a host's.
        policy: The verifier's enrolments.
        memory: What is remembered of issuers; what is new and lawful is kept there.
        now: The time of the verdict, aware.
        expect: Whose card it should be; None: whoever the policy enrols for the URL.
        wire: How peers are reached.

    Raises:
        NotTrusted: The verdict is anything but ``trusted``; its `report` says why, also where
            nobody could be reached.
        CardRefused: `expect` is outside the strict grammar of URLs.
        LocalFault: The memory is lost, corrupt or cannot be written: no verdict (rule V7).
    """
    asker = Asker(wire, now=lambda: now)
    return Discoverer(policy, memory, asker=asker, now=lambda: now).discover(url, expect=expect)


async def adiscover(
    url: str,
    *,
    policy: Policy,
    memory: Memory,
    now: datetime,
    expect: PublicSubject | None = None,
    wire: Wire = DEFAULT_WIRE,
) -> VerifiedCard:
    """Do what :func:`discover` does, in a thread of its own; see :meth:`Discoverer.adiscover`."""
    work = partial(discover, url, policy=policy, memory=memory, now=now, expect=expect, wire=wire)
    return await in_thread(work, abandon=True)
