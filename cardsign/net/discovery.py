"""Looking a peer up: its card, what the anchor's source says today, and the verdict on both.

Nothing is asked but the URL that the caller names and, for statements, the origins that the policy
names: no card and no statement can send a request anywhere. What comes back is as untrusted as
anything supplied.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cardsign.errors import CardRefused, CardsignError, FetchFailed
from cardsign.findings import Finding
from cardsign.jose.jwks import MAX_JWKS_BYTES
from cardsign.net.connection import Deadline
from cardsign.net.fetch import DEFAULT_SETTINGS, FetchSettings, PrivateAccess
from cardsign.net.fetcher import DocumentFetcher, card_url, note_legacy_path
from cardsign.trust.policy import JwksAnchor, KeysetAnchor, Subject, TrustedIssuer
from cardsign.trust.refresh import (
    REFRESH_INTERVAL,
    Fetcher,
    FetchResult,
    Refreshed,
    no_answer,
    refresh_issuer,
)
from cardsign.trust.session import Session
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import (
    Place,
    parse_origin,
    parse_url,
    without_userinfo,
)
from cardsign.verify.report import Answers, Report, ask_again

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

_LOG: Final = logging.getLogger(__name__)
# Quiet, unless the program that uses the package listens.
_LOG.addHandler(logging.NullHandler())
#: Seconds for all requests of one refresh; the rest is left to the next one. A host without any
#: key can show hundreds of unsigned statements, each as slowly as one request may be.
REFRESH_SECONDS: Final = 30.0
#: URLs of one issuer at which a trusted card was seen, and where its absence is told.
MAX_CARDS: Final = 256


@dataclass(frozen=True, slots=True)
class Discovery:
    """What came of asking a peer for a card, the public or the extended one.

    Attributes:
        url: The URL that answered, or the one that did not.
        report: The verdict; what could not be fetched stands at the end of its reasons. On an
            extended card it is given that on the public one.
        untrusted_card: The card as received; empty where there is none.
        supplied: What was gathered besides it; of this nothing has been checked either.
    """

    url: str
    report: Report
    untrusted_card: bytes = field(default=b"", repr=False)
    supplied: SuppliedStatements = field(default=NO_STATEMENTS, repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a peer, and by what it is judged.

    Attributes:
        url: A card's URL, or a host's: its canonical path is asked, then the legacy one if no
            card was ever seen at the canonical one (A2A 1.0 8.2).
        subject: Whose card it must be; an empty one means the issuer that the policy has for
            the URL that answers.
        supplied: What is at hand besides; a key set in it stands for what a `jwks` anchor's URL
            answers, which is then not asked.
        at: A time of the caller's choice, by which nothing is trusted.
    """

    url: str
    subject: Subject = field(default_factory=Subject)
    supplied: SuppliedStatements = NO_STATEMENTS
    at: datetime | None = None


def as_fetcher(net: FetchSettings | DocumentFetcher | None, verifier: Verifier) -> DocumentFetcher:
    """Return the fetcher that a verifier was given, or one with these settings."""
    if isinstance(net, DocumentFetcher):
        return net
    return DocumentFetcher(net or DEFAULT_SETTINGS, now=verifier.clock)


def look_up(verifier: Verifier, question: Question, *, fresh: bool = False) -> Discovery:
    """Return the verdict on the card at a URL, and what was received.

    Where copies of two ages may explain the verdict, all is asked once more. Whatever else goes
    wrong in looking at this peer is a verdict that could not be reached, so that it hides no
    other peer's.

    Args:
        verifier: By whose policy, memory and fetcher.
        question: What is asked.
        fresh: Ask every cache on the way to look again, at most once per cooldown.

    Raises:
        CardRefused: The subject is outside the strict grammar of URLs.
        UsageFault: ``statement.fork``: two lock files disagree about the issuer.
    """
    asked = question.subject
    _owner(verifier, Subject(url=card_url(question.url)) if asked.is_nobody else asked)
    try:
        discovery = _look(verifier, question, question.url, fresh=fresh)
        is_known = discovery.report.issuer is not None
        cooling = verifier.fetcher.is_cooling(discovery.url)
        if is_known and ask_again(discovery.report) and not cooling:
            # Where the card was found: a 404 of the canonical path is not asked for twice.
            discovery = _look(verifier, question, discovery.url, fresh=True)
    except CardsignError:
        raise
    except Exception as crash:  # noqa: BLE001  the boundary: it hides no other peer's verdict
        shown = without_userinfo(question.url)
        what = f"looking at {shown} ended with {type(crash).__name__}"
        _LOG.error(what, exc_info=crash)
        reason = Finding("peer.not_examined", what)
        return _no_verdict(verifier, question, question.url, None, reason)
    return discovery


def _look(verifier: Verifier, question: Question, url: str, *, fresh: bool) -> Discovery:
    here = Subject(url=card_url(url))
    asked = here if question.subject.is_nobody else question.subject
    owner = _owner(verifier, asked)
    seen = verifier.session(owner).cards if owner is not None else set()
    answer = verifier.fetcher.fetch_card(
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
        return _no_verdict(verifier, question, answer.url, owner, reason)
    here = Subject(url=answer.url)
    asked = here if question.subject.is_nobody else question.subject
    owner = _owner(verifier, asked)
    asked = _narrowed(verifier, asked, owner, answer.url)
    refreshed = Refreshed()
    if owner is not None and not _is_handed_over(owner, question.supplied):
        refreshed = refresh(verifier, owner, str(parse_url(answer.url).origin), fresh=fresh)
    supplied = refreshed.supplied.joined(question.supplied)
    report = verifier.judge(answer.untrusted_body, asked, supplied, at=question.at)
    if report.verdict == "trusted" and owner is not None and asked == here:
        seen = verifier.session(owner).cards
        if len(seen) < MAX_CARDS:
            seen.add(answer.url)
    notes = []
    if answer.url != card_url(question.url):
        notes.append(note_legacy_path())
    if answer.is_stale and answer.failure is not None:
        before = f"{answer.failure.message}; what it gave before was judged"
        notes.append(Finding("fetch.stale", before))
    reasons = tuple(dict.fromkeys((*report.reasons, *notes, *refreshed.reasons)))
    report = replace(report, reasons=reasons)
    return Discovery(answer.url, report, answer.untrusted_body, supplied)


def _is_handed_over(issuer: TrustedIssuer, supplied: SuppliedStatements) -> bool:
    return isinstance(issuer.anchor, JwksAnchor) and supplied.untrusted_jwks is not None


def _no_verdict(
    verifier: Verifier,
    question: Question,
    url: str,
    owner: TrustedIssuer | None,
    reason: Finding,
) -> Discovery:
    """Return what is said where there is no card to judge."""
    name = owner.name if owner is not None else url
    report = Report(
        "indeterminate",
        name,
        Answers(),
        (reason,),
        issuer=name if owner is not None and not owner.is_holder else None,
        checked_at=question.at or verifier.clock(),
        historic=question.at is not None,
    )
    return Discovery(url, report)


def _owner(verifier: Verifier, subject: Subject) -> TrustedIssuer | None:
    try:
        return verifier.policy.find(subject)
    except CardRefused:
        if subject.url is None:
            raise
        return None  # a URL that may not be asked; the fetcher says why


def _narrowed(
    verifier: Verifier, subject: Subject, owner: TrustedIssuer | None, url: str
) -> Subject:
    """Return the subject, as narrow as the URL that answered where that is the issuer's own place.

    A caller that names an issuer or an origin as well wants more than the URL says, not less:
    one agent's card is not to pass for another's of the same issuer (threat 3). Anywhere else it
    is a copy, which is the card of the issuer that was named.
    """
    here = Subject(url=url)
    if subject.issuer is None and subject.origin is None:
        return subject
    if _owner(verifier, here) is not owner:
        return subject
    if subject.origin is not None and parse_origin(subject.origin) != parse_url(url).origin:
        return subject
    return here


# What an issuer's anchor needs.


@dataclass(frozen=True, slots=True)
class Round:
    """The last refresh of an issuer from one origin.

    Attributes:
        refreshed: What came of it.
        whole: The statements of the last one without a failure.
        ended: When it ended, by the clock that nobody sets.
        is_fresh: Every cache on the way was asked to look again.
    """

    refreshed: Refreshed = field(default_factory=Refreshed)
    whole: SuppliedStatements = NO_STATEMENTS
    ended: float = float("-inf")
    is_fresh: bool = False


def refresh(
    verifier: Verifier, issuer: TrustedIssuer, origin: str, *, fresh: bool = False
) -> Refreshed:
    """Return the statements of an issuer: as they came a short while ago, or asked for now.

    Threads that come while another one asks share its result. An issuer that gave no answer does
    not replace what came before.

    Args:
        verifier: By whose policy, memory and fetcher.
        issuer: Whose they are.
        origin: The origin that the card was asked from.
        fresh: Ask every cache on the way to look again.
    """
    session, now = verifier.session(issuer), verifier.clock()
    clock = verifier.fetcher.settings.clock
    came = clock()
    with session.guard:
        last: Round = session.rounds.get(origin, Round())
        is_shared = last.ended > came and last.is_fresh >= fresh  # it was asked while we waited
        if is_shared or (last.refreshed.lasts(now) and not fresh):
            return last.refreshed
        refreshed, whole = _ask(verifier, session, origin, now, fresh=fresh), last.whole
        if refreshed.has_failed:
            refreshed = replace(refreshed, supplied=refreshed.supplied.joined(whole))
        else:
            whole = refreshed.supplied
        if refreshed.supplied == last.refreshed.supplied:  # keeps what was resolved by it
            refreshed = replace(refreshed, supplied=last.refreshed.supplied)
        refreshed = replace(refreshed, asked_at=now)
        session.rounds[origin] = Round(refreshed, whole, clock(), fresh)
        return refreshed


def _ask(
    verifier: Verifier, session: Session, origin: str, now: datetime, *, fresh: bool
) -> Refreshed:
    """Ask for what the anchor needs: statements at the issuer's home, a key set, or nothing."""
    issuer, anchor = session.issuer, session.issuer.anchor
    ask = _hurried(verifier.fetcher, issuer)
    if isinstance(anchor, JwksAnchor):
        return _ask_for_keys(session, anchor.url, ask, fresh=fresh)
    if not isinstance(anchor, KeysetAnchor):
        return Refreshed()
    if session.keyset is None:
        session.resolve(NO_STATEMENTS, now)  # goes as far as the cache leads
    return refresh_issuer(
        anchor.pin,
        ask,
        home=home_of(issuer.places, origin),
        now=now,
        skew=session.limits.skew,
        keyset=session.keyset,
        release=session.release,
        fresh=fresh,
    )


def _hurried(fetcher: DocumentFetcher, issuer: TrustedIssuer) -> Fetcher:
    """Ask until the time for one refresh is over; everything after that has no answer."""
    end, access = Deadline(fetcher.settings.clock, REFRESH_SECONDS), PrivateAccess.of(issuer)

    def ask(url: str, *, max_bytes: int, fresh: bool) -> FetchResult:
        try:
            end.remaining()
        except TimeoutError:
            why = f"{url} was not asked any more: a refresh ends after {REFRESH_SECONDS:g} s"
            return FetchResult(url, "failed", failure=FetchFailed("fetch.timeout", why))
        return fetcher.fetch(url, max_bytes=max_bytes, fresh=fresh, access=access)

    return ask


def _ask_for_keys(session: Session, url: str, ask: Fetcher, *, fresh: bool) -> Refreshed:
    answer = ask(url, max_bytes=MAX_JWKS_BYTES, fresh=fresh)
    again_after = REFRESH_INTERVAL
    if answer.max_age is not None:
        again_after = min(again_after, max(answer.max_age, 0))
    if answer.outcome == "found":
        keys = SuppliedStatements(untrusted_jwks=answer.untrusted_body, jwks_url=url)
        return Refreshed(keys, (), again_after)
    reason = no_answer(answer)
    if answer.outcome == "absent":
        code = "refresh.no_answer" if session.jwks is None else "statement.vanished"
        reason = Finding(code, f"there is no key set at {url}")
    return Refreshed(NO_STATEMENTS, (reason,), again_after)


def home_of(places: Iterable[Place] | None, origin: str) -> str:
    """Return the origin at which an issuer's statements lie.

    It is the card's own if the policy gives the issuer that whole origin, else the first whole
    one. An issuer with paths of shared origins only is asked at the card's, or the first of them.
    """
    places = tuple(places or ())
    whole = [str(place.origin) for place in places if place.is_whole_origin]
    homes = whole or [str(place.origin) for place in places]
    return origin if origin in homes or not homes else homes[0]
