"""What came of meeting a peer, and what is to be said of how his card was had. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from cardsign.errors import CardRefused, FetchFailed
from cardsign.net.asker import CardAnswer
from cardsign.net.fetch import CARD_PATH, LEGACY_CARD_PATH
from cardsign.reasons import Reason
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.origins import parse_url
from cardsign.trust.policy import Enrolment
from cardsign.verdict import Answers, Report


@dataclass(frozen=True, slots=True)
class Meeting:
    """What came of meeting a peer.

    Attributes:
        url: The URL that answered, or the one that did not.
        report: The verdict; what could not be had stands at the end of its reasons.
        untrusted_card: The card as received; empty where there is none.
        evidence: What was gathered besides it; of this nothing has been checked either.
    """

    url: str
    report: Report
    untrusted_card: bytes = field(default=b"", repr=False)
    evidence: Evidence = field(default=NO_EVIDENCE, repr=False)


def canonical(url: str) -> str:
    """Where the card of a host is looked for first; of any other URL the URL itself."""
    try:
        parsed = parse_url(url)
    except CardRefused:
        return url
    bare = parsed.path == "/" and not parsed.query
    return str(replace(parsed, path=CARD_PATH) if bare else parsed)


def without_card(
    answer: CardAnswer, owner: Enrolment | None, *, seen: bool, now: datetime, historic: bool
) -> Meeting:
    """The verdict where there is no card to look at.

    Args:
        answer: What came instead.
        owner: Whose card it would be.
        seen: A trusted card was found at that URL before.
        now: The time of the verdict.
        historic: It is one of the caller's choice.
    """
    failure = answer.failure or FetchFailed("fetch.failed", f"{answer.url} gave no answer")
    reason = Reason.of(failure.code, failure.message, failure.path, failure.hint)
    if answer.outcome == "absent" and seen:
        gone = f"a trusted card was seen at {answer.url}, and now there is none"
        reason = Reason.of("card.vanished", gone)
    report = Report(
        "indeterminate",
        owner.name if owner is not None else answer.url,
        Answers(),
        (reason,),
        issuer=owner.name if owner is not None and not owner.is_holder else None,
        checked_at=now,
        historic=historic,
    )
    return Meeting(answer.url, report)


def about(answer: CardAnswer) -> tuple[Reason, ...]:
    """What is to be said of how a card was had."""
    found: list[Reason] = []
    if answer.path == "legacy":
        message = f"there is no card at {CARD_PATH}; this one is at {LEGACY_CARD_PATH}"
        found.append(Reason.of("card.legacy_path", message))
    if answer.is_stale and answer.failure is not None:
        before = f"{answer.failure.message}; what it gave before was judged"
        found.append(Reason.of("fetch.stale", before))
    return tuple(found)
