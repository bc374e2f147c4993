"""Verification: one verdict on (bytes, subject, policy, time), and why.

:func:`examine_card` explains and never raises for what is in the card; :func:`verify_card`
raises unless the card is trusted. Both go through the same checks: each signature is examined
alone (:mod:`cardsign.verify.signature`), then the best single one decides
(:mod:`cardsign.verify.conclusion`, rule V2).

What is *not* checked in this version: revocation, rollback and freshness, which need keyset
and release statements; `current` is "unknown", and a card is trusted only where the policy
waives freshness by name.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.errors import InputRefused
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.subject import AtOrigin, CardUrl, Expectation, Issuer
from cardsign.verdict import Answers, NotTrusted, Report
from cardsign.verify.conclusion import conclude
from cardsign.verify.signature import Payloads, examine_signature, reason_of

_TOKEN: Final = object()  # what only this module can give to VerifiedCard


class VerifiedCard:
    """A card that was verified; only :func:`verify_card` makes one.

    The private token keeps honest callers, with the help of a type checker, from passing an
    unverified dict for a verified card. It is no protection against hostile code.

    Attributes:
        document: The object parsed from the payload that the signature covers; never the
            document that carried it.
        report: The whole verdict.
    """

    __slots__ = ("document", "report")

    def __init__(self, report: Report, *, token: object) -> None:
        if token is not _TOKEN or report.card is None:
            raise TypeError("a VerifiedCard is made by verify_card alone")
        self.document: dict[str, Json] = report.card
        self.report = report

    @property
    def subject(self) -> str:
        """Whom the verdict is about, in the policy's words."""
        return self.report.subject or ""

    def __repr__(self) -> str:
        return f"VerifiedCard(subject={self.subject!r}, profile={self.report.profile!r})"


def verify_card(
    untrusted_bytes: bytes, *, expect: Expectation | None, policy: Policy, now: datetime
) -> VerifiedCard:
    """Verify a card or raise.

    Args and what is not checked: as for :func:`examine_card`.

    Raises:
        NotTrusted: The verdict is anything but ``trusted``; its `report` says why.
        CardRefused: The expectation's own origin or URL is outside the strict grammar.
        ValueError: `now` is naive.
    """
    report = examine_card(untrusted_bytes, expect=expect, policy=policy, now=now)
    if report.verdict != "trusted":
        raise NotTrusted(report)
    return VerifiedCard(report, token=_TOKEN)


def examine_card(
    untrusted_bytes: bytes, *, expect: Expectation | None, policy: Policy, now: datetime
) -> Report:
    """Reach a verdict about a card and explain it.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        expect: Whose card it should be; there is no default. None never gives ``trusted``.
        policy: The verifier's enrolments.
        now: The time of the verdict, aware, fixed at the start (rule V1).

    Returns:
        The report. Nothing in the card makes this function raise.

    Raises:
        CardRefused: The expectation's own origin or URL is outside the strict grammar.
        ValueError: `now` is naive.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    enrolment = policy.find(expect)
    subject = _subject(expect, enrolment)
    try:
        card = Card.from_bytes(untrusted_bytes)
    except InputRefused as refusal:
        return Report("invalid", subject, Answers(integrity="no"), (reason_of(refusal),))
    payloads = Payloads(card)
    signatures = tuple(
        examine_signature(index, entry, payloads, enrolment, policy)
        for index, entry in enumerate(card.signatures)
    )
    return conclude(card, signatures, enrolment, expect, subject)


def _subject(expect: Expectation | None, enrolment: Enrolment | None) -> str | None:
    if enrolment is not None:
        return enrolment.name
    match expect:
        case Issuer(name) | AtOrigin(name) | CardUrl(name):
            return name
    return None
