"""Verification: one verdict on (bytes, subject, policy, time), and why.

:func:`examine_card` explains and never raises for what is in the card; :func:`verify_card`
raises unless the card is trusted. Both go through the same checks: what is known of the issuer
is brought together (:mod:`cardsign.trust.establish`), each signature is examined alone
(:mod:`cardsign.verify.signature`), then the best single one decides
(:mod:`cardsign.verify.conclusion`, rule V2).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final, TypedDict, Unpack

from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.errors import InputRefused
from cardsign.trust.establish import establish
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.known import NO_MEMORY, Memo, Memory
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.standing import Standing
from cardsign.trust.subject import (
    AtOrigin,
    CardUrl,
    Expectation,
    Extended,
    Issuer,
    PublicSubject,
    public_subject,
)
from cardsign.verdict import Answers, NotTrusted, Report
from cardsign.verify.beside import beside_its_public_card
from cardsign.verify.cache import Matter, VerdictCache
from cardsign.verify.conclusion import conclude, keyset_used, release_used
from cardsign.verify.signature import Payloads, Question, examine_signature, reason_of

_TOKEN: Final = object()  # what only this module can give to VerifiedCard


class VerifiedCard:
    """A card that was verified; only :func:`verify_card` and `discover` make one.

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

    @property
    def valid_until(self) -> datetime | None:
        """The least of all deadlines (rule V8); None where nothing sets one."""
        return self.report.valid_until

    def __repr__(self) -> str:
        return f"VerifiedCard(subject={self.subject!r}, profile={self.report.profile!r})"


class Circumstances(TypedDict, total=False):
    """What else a verdict may rest on; see :func:`examine_card`."""

    evidence: Evidence
    memory: Memory
    cache: VerdictCache | None
    historic: bool


def verify_card(
    untrusted_bytes: bytes,
    *,
    expect: Expectation | None,
    policy: Policy,
    now: datetime,
    **circumstances: Unpack[Circumstances],
) -> VerifiedCard:
    """Verify a card or raise.

    Args and what is not checked: as for :func:`examine_card`.

    Raises:
        NotTrusted: The verdict is anything but ``trusted``; its `report` says why.
        CardRefused: The expectation's own origin or URL is outside the strict grammar.
        LocalFault: The memory is lost, corrupt or cannot be written: no verdict (rule V7).
        ValueError: `now` is naive.
    """
    return trusted_card(
        examine_card(untrusted_bytes, expect=expect, policy=policy, now=now, **circumstances)
    )


def trusted_card(report: Report) -> VerifiedCard:
    """The card of a report that :func:`examine_card` has made; for those who add to its reasons.

    Raises:
        NotTrusted: The verdict is anything but ``trusted``.
    """
    if report.verdict != "trusted":
        raise NotTrusted(report)
    return VerifiedCard(report, token=_TOKEN)


def examine_card(
    untrusted_bytes: bytes,
    *,
    expect: Expectation | None,
    policy: Policy,
    now: datetime,
    evidence: Evidence = NO_EVIDENCE,
    memory: Memory = NO_MEMORY,
    cache: VerdictCache | None = None,
    historic: bool = False,
) -> Report:
    """Reach a verdict about a card and explain it.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        expect: Whose card it should be, and of which kind; there is no default. None never
            gives ``trusted``. Of an :class:`Extended` one the public card is not looked at; see
            :func:`examine_extended`.
        policy: The verifier's enrolments.
        now: The time of the verdict, aware, fixed at the start (rule V1).
        evidence: Statements that came along; they bring no trust by themselves.
        memory: What is remembered of the issuer; what is new and lawful is kept there. Without
            one a rollback cannot be seen, and `current` is unknown.
        cache: Trusted verdicts of before.
        historic: `now` is a time of the caller's choice: never ``trusted``, nothing is kept.

    Returns:
        The report. Nothing in the card or in the evidence makes this function raise.

    Raises:
        CardRefused: The expectation's own origin or URL is outside the strict grammar.
        LocalFault: The memory is lost, corrupt or cannot be written: no verdict (rule V7).
        ValueError: `now` is naive.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    enrolment = policy.find(expect)
    if enrolment is None:
        report = _examine(untrusted_bytes, expect, policy, None, now)
        return replace(report, historic=historic)
    if enrolment.is_holder:
        memory = NO_MEMORY
    with memory.of(enrolment) as memo:
        standing = establish(enrolment, policy.limits, evidence, memo, now=now, historic=historic)
        standing = replace(standing, reserved=policy.reserved_from(enrolment))
        matter = Matter.of(untrusted_bytes, expect, policy, standing)
        known = cache.get(matter, now) if cache else None
        report = known or _examine(untrusted_bytes, expect, policy, standing, now)
        if cache and not known:
            cache.put(matter, now, report)
        if not historic:
            _remember_signed(memo, report)
    return replace(report, historic=historic)


def examine_extended(
    untrusted_public: bytes,
    untrusted_extended: bytes,
    *,
    of: PublicSubject,
    audience: str,
    policy: Policy,
    now: datetime,
    **circumstances: Unpack[Circumstances],
) -> tuple[Report, Report]:
    """Reach verdicts about a public card and the extended card beside it (threats.md 12).

    The extended card is trusted only if the public one is: of the same subject, by the same
    anchor, at the same time.

    Args:
        untrusted_public: The public card as received.
        untrusted_extended: The extended card as received.
        of: Whose cards they should be.
        audience: The id of the audience, as the issuer gave it to this verifier.
        policy: As for :func:`examine_card`; so are the others.
        now: The time of both verdicts.

    Returns:
        The public card's report and the extended card's.

    Raises:
        Everything that :func:`examine_card` raises.
    """
    public = examine_card(untrusted_public, expect=of, policy=policy, now=now, **circumstances)
    extended = examine_card(
        untrusted_extended,
        expect=Extended(of, audience),
        policy=policy,
        now=now,
        **circumstances,
    )
    return public, beside_its_public_card(extended, public)


def _examine(
    untrusted_bytes: bytes,
    expect: Expectation | None,
    policy: Policy,
    standing: Standing | None,
    now: datetime,
) -> Report:
    subject = _subject(expect, standing.enrolment if standing else None)
    try:
        card = Card.from_bytes(
            untrusted_bytes,
            max_bytes=policy.limits.card_bytes,
            max_signatures=policy.limits.signatures,
        )
    except InputRefused as refusal:
        return Report(
            "invalid",
            subject,
            Answers(integrity="no"),
            (reason_of(refusal), *(standing.notes if standing else ())),
            checked_at=now,
            keyset=keyset_used(standing),
            release=release_used(standing),
        )
    question = Question(Payloads(card), expect, standing, policy)
    signatures = tuple(
        examine_signature(index, entry, question) for index, entry in enumerate(card.signatures)
    )
    return conclude(card, signatures, standing, expect, subject, now)


def _subject(expect: Expectation | None, enrolment: Enrolment | None) -> str | None:
    asked = public_subject(expect)
    match asked:
        case _ if enrolment is not None:
            name: str | None = enrolment.name
        case Issuer(named) | AtOrigin(named) | CardUrl(named):
            name = named
        case _:
            name = None
    if isinstance(expect, Extended):
        return f"{name or 'nobody'}, extended card of audience {expect.audience}"
    return name


def _remember_signed(memo: Memo, report: Report) -> None:
    """From the first good signature on, no card of this issuer may be unsigned."""
    known = memo.known
    good = any(
        one.counts and one.answers.authorised == "yes" and one.answers.current != "no"
        for one in report.signatures
    )
    if known is not None and good and not known.signed_before:
        memo.keep(replace(known, signed_before=True))
