"""Looking a peer up: its card, what the anchor's source says today, and the verdict on both.

Nothing is asked but the URL that the caller names and, for statements, the origins that the policy
names: no card and no statement can send a request anywhere. What comes back is as untrusted as
anything supplied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from cardsign.errors import CardRefused, FetchFailed
from cardsign.findings import Finding
from cardsign.jose.keys import MAX_JWKS_BYTES
from cardsign.net import fetch
from cardsign.trust.policy import KeysetAnchor, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS, FetchResult, Refresh, SuppliedStatements, no_answer
from cardsign.urls import Place, Url, card_url, parse_origin, parse_url
from cardsign.verify.report import Answers, Report, ask_again, logged

if TYPE_CHECKING:
    from cardsign.verify.verifier import Verifier

#: Seconds for all requests of one refresh; the rest is left to the next one. A host without any
#: key can show hundreds of unsigned statements, each as slowly as one request may be.
REFRESH_SECONDS: Final = 30.0
#: URLs of one issuer at which a trusted card was seen, and its absence is reported.
MAX_CARDS: Final = 256


@dataclass(frozen=True, slots=True)
class Discovery:
    """The answer of a peer that was asked for a card, the public or the extended one.

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


def look_up(
    verifier: Verifier,
    url: str,
    subject: Subject,
    supplied: SuppliedStatements = NO_STATEMENTS,
    *,
    at: datetime | None = None,
    fresh: bool = False,
) -> Discovery:
    """Return the verdict on the card at a URL, and what was received.

    Where copies of two ages may explain the verdict, all is asked once more.

    Args:
        verifier: By whose policy, memory and fetcher.
        url: A card's URL, or a host's: its canonical path is asked, then the legacy one if no
            card was ever seen at the canonical one (A2A 1.0 8.2).
        subject: Whose card it must be; an empty one means the issuer that the policy has for
            the URL that answers.
        supplied: What is at hand besides.
        at: A time of the caller's choice, by which nothing is trusted.
        fresh: Ask every cache on the way to look again, at most once per cooldown.

    Raises:
        CardRefused: The subject is outside the strict grammar of URLs.
    """
    look = partial(_look_once, verifier, card_url(url), subject, supplied, at)
    discovery = look(url, fresh=fresh)
    if not fresh and discovery.report.issuer is not None and ask_again(discovery.report):
        # Where it was found: a 404 of the canonical path is not asked for twice.
        discovery = look(discovery.url, fresh=True)
    return discovery


def _look_once(
    verifier: Verifier,
    canonical_url: str,
    subject: Subject,
    supplied: SuppliedStatements,
    at: datetime | None,
    url: str,
    *,
    fresh: bool,
) -> Discovery:
    """Fetch the card at a URL and what its issuer publishes, and judge both."""
    find = verifier.policy.find
    try:
        owner = find(_at(subject, card_url(url)))
    except CardRefused:
        if not subject.is_nobody:
            raise
        owner = None  # a URL that may not be asked; the fetcher says why
    seen = verifier.session(owner).cards if owner is not None else set()
    legacy = card_url(url) not in seen
    answer = verifier.fetcher.fetch_card(url, fresh=fresh, legacy=legacy, issuer=owner)
    if answer.outcome != "found" and not answer.untrusted_body:
        report = replace(_report_no_card(answer, owner, seen), historic=at is not None)
        return Discovery(answer.url, logged(replace(report, checked_at=at or verifier.clock())))
    here, origin = Subject(url=answer.url), parse_url(answer.url).origin
    owner = find(_at(subject, answer.url))
    # A caller that names an issuer or an origin as well wants more than the URL says, not less: one
    # agent's card is not to pass for another's of the same issuer (threat 3). Anywhere else than
    # at the issuer's own place it is a copy, which is the card of whoever was named.
    is_elsewhere = subject.origin is not None and parse_origin(subject.origin) != origin
    is_copy = subject.url is not None or is_elsewhere or find(here) is not owner
    asked = subject if is_copy else here
    published, missing = NO_STATEMENTS, tuple[Finding, ...]()
    if owner is not None:
        published, missing = refresh(verifier, owner, str(origin), fresh=fresh)
    supplied = published.joined(supplied)
    report = verifier.judge(answer.untrusted_body, asked, supplied, at=at)
    if report.verdict == "trusted" and owner is not None and asked == here:
        seen = verifier.session(owner).cards
        if len(seen) < MAX_CARDS:
            seen.add(answer.url)
    notes = [fetch.note_legacy_path()] if answer.url != canonical_url else []
    if answer.failure is not None:
        message = f"{answer.failure.message}; what it gave before was judged"
        notes.append(Finding("fetch.stale", message))
    reasons = tuple(dict.fromkeys((*report.reasons, *notes, *missing)))
    return Discovery(answer.url, replace(report, reasons=reasons), answer.untrusted_body, supplied)


def _at(subject: Subject, url: str) -> Subject:
    """Return the subject; where it names nobody, whoever is at home at the URL."""
    return Subject(url=url) if subject.is_nobody else subject


def _report_no_card(answer: FetchResult, owner: TrustedIssuer | None, seen: set[str]) -> Report:
    """Return the verdict where there is no card to judge."""
    name = answer.url if owner is None else owner.name
    reason = (answer.failure or FetchFailed("fetch.failed", f"{answer.url} gave no answer")).finding
    if answer.outcome == "absent" and answer.url in seen:
        message = f"a trusted card was seen at {answer.url}, and now there is none"
        reason = Finding("card.vanished", message)
    issuer = None if owner is None or owner.is_holder else name
    return Report("indeterminate", name, Answers(), (reason,), issuer=issuer)


# What an issuer's anchor needs.


def refresh(
    verifier: Verifier, issuer: TrustedIssuer, origin: str, *, fresh: bool = False
) -> tuple[SuppliedStatements, tuple[Finding, ...]]:
    """Return the statements of an issuer, and what could not be fetched.

    What came a short while ago is not asked for again, and threads share what they ask for.

    Args:
        verifier: By whose policy, memory and fetcher.
        issuer: Whose they are.
        origin: The origin that the card was asked from.
        fresh: Ask every cache on the way to look again.
    """
    session, anchor = verifier.session(issuer), issuer.anchor
    fetcher, clock = verifier.fetcher, verifier.fetcher.settings.clock
    end = clock() + REFRESH_SECONDS

    def ask(url: str, max_bytes: int) -> FetchResult:
        if clock() >= end:
            why = f"{url} was not asked any more: a refresh ends after {REFRESH_SECONDS:g} s"
            return FetchResult(url, "failed", failure=FetchFailed("fetch.timeout", why))
        return fetcher.fetch(url, max_bytes=max_bytes, fresh=fresh, issuer=issuer)

    if isinstance(anchor, Url):
        answer = ask(str(anchor), MAX_JWKS_BYTES)
        if answer.outcome == "found":
            return SuppliedStatements((), (), answer.untrusted_body, str(anchor)), ()
        reason = no_answer(answer)
        if answer.outcome == "absent":
            code = "refresh.no_answer" if session.jwks is None else "statement.vanished"
            reason = Finding(code, f"there is no key set at {anchor}")
        return NO_STATEMENTS, (reason,)
    if not isinstance(anchor, KeysetAnchor):
        return NO_STATEMENTS, ()
    with session.guard:
        if session.keyset is None:
            # goes as far as the cache leads
            session.resolve(NO_STATEMENTS, verifier.clock())
        keyset, release = session.keyset, session.release
    return Refresh(home_of(issuer.places, origin), ask).run(anchor.pin, keyset, release)


def home_of(places: Iterable[Place] | None, origin: str) -> str:
    """Return the origin at which an issuer's statements lie.

    It is the card's own if the policy gives the issuer that whole origin, else the first whole
    one. An issuer with paths of shared origins only is asked at the card's, or the first of them.
    """
    places = tuple(places or ())
    whole = [str(place.origin) for place in places if place.prefix == "/"]
    homes = whole or [str(place.origin) for place in places]
    return origin if origin in homes or not homes else homes[0]
