"""Verification: one verdict on (bytes, subject, policy, time), and why.

:func:`examine_card` explains and never raises for what is in the card; :func:`verify_card`
raises unless the card is trusted. Both go through the same checks: what is known of the issuer
is brought together (:mod:`cardsign.trust.resolve`), each signature is examined alone
(:mod:`cardsign.verify.signature`), then the best single one decides
(:mod:`cardsign.verify.verdict`, rule V2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, TypedDict, Unpack

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused, InputRefused
from cardsign.reasons import Reason
from cardsign.trust.known import NO_MEMORY, Memo, Memory
from cardsign.trust.policy import (
    AtOrigin,
    CardUrl,
    Enrolment,
    Expectation,
    Extended,
    Issuer,
    Policy,
    PublicSubject,
    public_subject,
)
from cardsign.trust.resolve import Standing, establish
from cardsign.trust.statements import NO_EVIDENCE, Evidence
from cardsign.urls import interface_url
from cardsign.verify.cache import Matter, VerdictCache
from cardsign.verify.report import Answers, NotTrusted, Report
from cardsign.verify.signature import Payloads, Question, examine_signature, reason_of
from cardsign.verify.verdict import conclude, keyset_used, release_used

# An extended card beside its public one: the one is worth nothing without the other.


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """The verdict on an extended card, given that on the public card beside it.

    Credentials are sent, and an extended card is asked for, only on the word of a trusted public
    card; an extended card that comes with any other is none that was asked for. An issuer's other
    agents may have extended cards for the same audience: of this agent it is by an endpoint that
    both cards name.
    """
    both_are_trusted = public.card is not None and extended.card is not None
    own = set(_endpoints(public.card or {}))
    if both_are_trusted and own.isdisjoint(_endpoints(extended.card or {})):
        why = "it shares no endpoint with the public card beside it"
        return _refused(extended, Reason.of("extended.other_agent", why))
    if public.verdict == "trusted":
        ends = [one for one in (extended.valid_until, public.valid_until) if one is not None]
        least = min(ends, default=None)
        return replace(extended, valid_until=least) if extended.verdict == "trusted" else extended
    why = f"the public card beside it is {public.verdict}: {public.reasons[0].message}"
    reason = Reason.of("extended.public_untrusted", why)
    if extended.verdict != "trusted":
        return replace(extended, reasons=(*extended.reasons, reason))
    refused = _refused(extended, reason)
    is_open = public.verdict == "indeterminate"
    return replace(refused, verdict="indeterminate") if is_open else refused


def _refused(extended: Report, reason: Reason) -> Report:
    return replace(
        extended,
        verdict="untrusted",
        reasons=(reason, *extended.reasons),
        valid_until=None,
        card=None,
    )


def _endpoints(payload: Mapping[str, Json]) -> Iterator[tuple[object, str]]:
    """Where a verified card can be called, and for which tenant, in the terms of 1.0."""
    for one in current_interfaces(payload):
        if isinstance(one.url, str):
            tenant = str(one.tenant or "")
            try:
                yield interface_url(one.url, str(one.binding)), tenant
            except CardRefused:  # only where no policy bounds the places was it not held before
                yield one.url, tenant


# When a verdict is worth asking for once more: copies of different ages met (threats.md 15).


# What a copy that is older than another explains.
_OF_TWO_AGES: Final = frozenset(
    {
        "card.digest_unlisted",
        "card.rollback",
        "extended.ahead",
        "extended.rollback",
        "key.expired",
        "key.revoked",
        "key.unknown",
        "statement.expired",
        "statement.gap",
        "statement.keyset",
        "statement.rollback",
    }
)


def ask_again(report: Report) -> bool:
    """Whether copies of different ages may explain a verdict, so that all are fetched anew, once.

    Card, release and keyset lie in caches of their own, and are replaced at different times.
    """
    codes = {reason.code for reason in report.reasons}
    return report.verdict != "trusted" and not codes.isdisjoint(_OF_TWO_AGES)


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
