"""Verification: one verdict on (bytes, subject, policy, time), and why.

:func:`examine_card` explains and never raises for what is in the card; :func:`verify_card`
raises unless the card is trusted. Both go through the same checks, for each signature alone:

(1) the entry has the right shape and its protected header is strict    ``jose.jws.read_entry``
(2) its kid names a key that the policy pins for the subject            :func:`_find_key`
(3) key and header agree on one algorithm, the signature fits a payload :func:`_match`
(4) typ and profile are ones that may count (rule V3)                   :func:`_judge_match`
(5) the four answers, from this signature's payload alone (rule V2)     :func:`_answers`

Then the best single signature decides. What is *not* checked in this version: revocation,
rollback and freshness, which need keyset and release statements; `current` is "unknown", and
a card is trusted only where the policy waives freshness by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cardsign.card.canonical import FULL_PROFILES, PROFILES, Payload, canonicalize
from cardsign.card.coverage import Excuse, Uncovered, uncovered_parts
from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.errors import (
    CanonicalizationError,
    CardRefused,
    InputRefused,
    SignatureRefused,
)
from cardsign.jose.jws import Entry, check_entry, read_entry
from cardsign.jose.keys import PublicKey
from cardsign.reasons import Reason
from cardsign.trust.interfaces import check_interfaces
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.subject import AtOrigin, CardUrl, Expectation, Issuer
from cardsign.verdict import (
    Answer,
    Answers,
    NotTrusted,
    Report,
    SignatureReport,
    SignatureVerdict,
    Verdict,
)

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
        return Report("invalid", subject, Answers(integrity="no"), (_reason(refusal),))
    payloads = _Payloads(card)
    signatures = tuple(
        _examine_signature(index, entry, payloads, enrolment, policy)
        for index, entry in enumerate(card.signatures)
    )
    return _conclude(card, signatures, enrolment, expect, subject)


def _subject(expect: Expectation | None, enrolment: Enrolment | None) -> str | None:
    if enrolment is not None:
        return enrolment.name
    match expect:
        case Issuer(name) | AtOrigin(name) | CardUrl(name):
            return name
    return None


def _reason(refusal: InputRefused, path: str | None = None) -> Reason:
    position = f" (line {refusal.line}, column {refusal.column})" if refusal.line else ""
    where = refusal.path if path is None else path
    return Reason.of(refusal.code, refusal.message + position, where, refusal.hint)


# ------------------------------------------------------------------ one signature


@dataclass(slots=True)
class _Payloads:
    """The card's payload under each profile, made when first asked for."""

    card: Card
    _made: dict[str, Payload | CanonicalizationError] | None = None

    def of(self, profile: str) -> Payload | None:
        self._made = {} if self._made is None else self._made
        if profile not in self._made:
            try:
                self._made[profile] = canonicalize(self.card.document, profile)
            except CanonicalizationError as refusal:
                self._made[profile] = refusal
        made = self._made[profile]
        return made if isinstance(made, Payload) else None


def _examine_signature(
    index: int,
    untrusted_entry: Json,
    payloads: _Payloads,
    enrolment: Enrolment | None,
    policy: Policy,
) -> SignatureReport:
    path = f"/signatures/{index}"

    def report(
        verdict: SignatureVerdict, reason: Reason, header: Entry | None, **found: Any
    ) -> SignatureReport:
        members = header.header if header else None
        return SignatureReport(
            index=index,
            kid=members.kid if members else None,
            alg=members.alg if members else None,
            typ=members.typ if members else None,
            verdict=verdict,
            reasons=(reason,),
            **{"profiles": (), "counts": False, "uncovered": (), **found},
        )

    try:
        entry = read_entry(untrusted_entry)  # (1)
    except SignatureRefused as refusal:
        return report("refused", _reason(refusal, path), None, answers=Answers("no"))
    key, missing = _find_key(entry, enrolment, policy, path)  # (2)
    if key is None:
        verdict: SignatureVerdict = (
            "not-enrolled" if missing.code == "key.not_enrolled" else "unknown-key"
        )
        return report(verdict, missing, entry)
    try:
        matched = _match(entry, key, payloads)  # (3)
    except SignatureRefused as refusal:
        return report("refused", _reason(refusal, path), entry, answers=Answers("no"))
    if not matched:
        bad = Reason.of("sig.bad", "the signature fits no payload of this card", path)
        return report("invalid", bad, entry, answers=Answers("no"))
    assert enrolment is not None  # noqa: S101 - a key was found in it
    return _judge_match(index, entry, matched, payloads.card, enrolment)


def _find_key(
    entry: Entry, enrolment: Enrolment | None, policy: Policy, path: str
) -> tuple[PublicKey | None, Reason]:
    kid = entry.header.kid
    key = enrolment.keys.find(kid) if enrolment else None
    if enrolment and kid in enrolment.keys.unsupported:
        unsupported = f"the key {kid!r} is of a type that is not supported"
        return None, Reason.of("key.unsupported", unsupported, path)
    if key is None and policy.enrolled_elsewhere(kid, enrolment) is not None:
        elsewhere = f"the key {kid!r} is enrolled, but not for this subject"
        return None, Reason.of("key.not_enrolled", elsewhere, path)
    return key, Reason.of("key.unknown", f"no accepted key has the kid {kid!r}", path)


def _match(entry: Entry, key: PublicKey, payloads: _Payloads) -> list[Payload]:
    """The payloads that the signature verifies; full profiles first.

    Raises:
        SignatureRefused: Header and key do not go together; no payload is looked at then.
    """
    matched: list[Payload] = []
    for profile in PROFILES:
        payload = payloads.of(profile)
        if payload is None:
            continue
        if any(payload.data == other.data for other in matched):
            matched.append(payload)
            continue
        try:
            check_entry(entry, payload.data, key)
        except SignatureRefused as refusal:
            if refusal.code != "sig.bad":
                raise
        else:
            matched.append(payload)
    return matched


def _judge_match(
    index: int, entry: Entry, matched: list[Payload], card: Card, enrolment: Enrolment
) -> SignatureReport:
    path = f"/signatures/{index}"
    allowed = [p for p in matched if _may_count(entry, p.profile, enrolment)]  # (4)
    payload = (allowed or matched)[0]
    accept_lossy = bool(allowed)
    parts = uncovered_parts(card.document, payload, accept_lossy=accept_lossy)
    reasons = _coverage_reasons(parts, payload)
    verdict: SignatureVerdict = "valid"
    answers = _answers(payload, parts, enrolment, reasons)  # (5)
    if not allowed:
        verdict, why = _why_not(entry, matched, path)
        reasons.insert(0, why)
        answers = Answers("no", answers.authorised, answers.current, answers.complete)
    return SignatureReport(
        index=index,
        kid=entry.header.kid,
        alg=entry.header.alg,
        typ=entry.header.typ,
        profiles=tuple(p.profile for p in matched),
        verdict=verdict,
        counts=bool(allowed),
        uncovered=tuple(part.pointer for part in parts if _is_open(part)),
        reasons=tuple(reasons),
        answers=answers,
        document=payload.value if allowed else None,
    )


def _may_count(entry: Entry, profile: str, enrolment: Enrolment) -> bool:
    """Rule V3: a compat typ never counts, JWT only for what prunes (no claims survive there)."""
    if profile not in enrolment.profiles or entry.header.kind == "compat":
        return False
    return entry.header.kind == "full" or profile not in FULL_PROFILES


def _why_not(entry: Entry, matched: list[Payload], path: str) -> tuple[SignatureVerdict, Reason]:
    names = ", ".join(payload.profile for payload in matched)
    if entry.header.kind == "compat":
        return "valid", Reason.of("sig.compat", f"a compat signature ({names}) never counts", path)
    if entry.header.kind == "jwt" and all(p.profile in FULL_PROFILES for p in matched):
        jwt = "typ JWT does not go with a full profile: the payload could be a token's claims"
        return "refused", Reason.of("sig.typ_forbidden", jwt, path)
    explained = f"the signature fits {names}, which is not accepted for this subject"
    return "other-profile", Reason.of("sig.other_profile", explained, path)


def _is_open(part: Uncovered) -> bool:
    return part.excuse in (None, Excuse.DROPPED_BY_VALUE)


def _coverage_reasons(parts: tuple[Uncovered, ...], payload: Payload) -> list[Reason]:
    reasons = []
    for part in parts:
        if not _is_open(part):
            continue
        if part.security:
            code = "coverage.requirement_unsigned"
            message = f"{part.pointer} says who may call, and {payload.profile} does not cover it"
        else:
            code = "coverage.uncovered"
            message = f"{part.pointer} is not covered under {payload.profile}"
        reasons.append(Reason.of(code, message, part.pointer))
    return reasons


def _answers(
    payload: Payload, parts: tuple[Uncovered, ...], enrolment: Enrolment, reasons: list[Reason]
) -> Answers:
    complete: Answer = "yes" if all(part.excuse for part in parts) else "no"
    authorised: Answer = "yes"
    try:
        check_interfaces(payload.value, enrolment.origins)
    except CardRefused as refusal:
        authorised = "no"
        reasons.append(_reason(refusal))
    return Answers("yes", authorised, "unknown", complete)


# ------------------------------------------------------------------ the whole card


def _conclude(
    card: Card,
    signatures: tuple[SignatureReport, ...],
    enrolment: Enrolment | None,
    expect: Expectation | None,
    subject: str | None,
) -> Report:
    best = max(
        signatures,
        key=lambda one: (*one.answers.score, len(one.profiles), -len(one.uncovered)),
        default=None,
    )
    answers = best.answers if best else Answers(integrity="no")
    waived = enrolment is not None and enrolment.freshness == "waived"
    established = (answers.integrity, answers.authorised, answers.complete)
    proven = best is not None and best.counts and established == ("yes", "yes", "yes")
    verdict: Verdict
    if not signatures:
        verdict = "untrusted"
    elif enrolment is None:
        verdict = "indeterminate"
    elif proven:
        verdict = "trusted" if waived else "indeterminate"
    else:
        verdict = "invalid" if _only_bad(signatures) else "untrusted"
    reasons = _card_reasons(card, signatures, best, enrolment, expect)
    trusted = verdict == "trusted"
    return Report(
        verdict=verdict,
        subject=subject,
        answers=answers,
        reasons=reasons,
        signatures=signatures,
        profile=best.profiles[0] if best and best.profiles else None,
        uncovered=best.uncovered if best else (),
        issuer=enrolment.name if enrolment and not enrolment.is_holder else None,
        card=best.document if best and trusted else None,
    )


def _only_bad(signatures: tuple[SignatureReport, ...]) -> bool:
    """Whether every signature by a key that the subject's entry pins is a bad one."""
    enrolled = [one for one in signatures if one.verdict not in ("unknown-key", "not-enrolled")]
    return any(one.verdict == "invalid" for one in enrolled) and not any(
        one.profiles for one in enrolled
    )


def _card_reasons(
    card: Card,
    signatures: tuple[SignatureReport, ...],
    best: SignatureReport | None,
    enrolment: Enrolment | None,
    expect: Expectation | None,
) -> tuple[Reason, ...]:
    reasons: list[Reason] = []
    if best is None:
        reasons.extend(_unsigned_reasons(card))
    if enrolment is None:
        code = "trust.no_expectation" if expect is None else "trust.no_anchor"
        reasons.append(
            Reason.of(code, "nobody was named whose card this should be")
            if expect is None
            else Reason.of(code, "the policy names no keys for this subject")
        )
    if best is not None:
        reasons.extend(best.reasons)
        bad = [one for one in signatures if one.verdict == "invalid" and one is not best]
        reasons.extend(one.reasons[0] for one in bad)
        if bad and best.profiles:
            reduced = "a signature that covers more no longer fits; the one left covers less"
            reasons.append(Reason.of("sig.coverage_reduced", reduced, f"/signatures/{bad[0].index}"))
        others = [one for one in signatures if one is not best and one not in bad]
        if not best.counts:
            reasons.extend(one.reasons[0] for one in others if one.reasons)
    if enrolment is not None and best is not None and best.counts:
        waived = enrolment.freshness == "waived"
        code = "trust.freshness_waived" if waived else "trust.freshness_unknown"
        reasons.append(Reason.of(code, "there is no evidence that the card is current"))
        if best.profiles and not set(best.profiles) & set(FULL_PROFILES):
            pruned = f"{best.profiles[0]} drops empty values, so it cannot prove an absence"
            reasons.append(Reason.of("coverage.absence_unprovable", pruned))
    return tuple(dict.fromkeys(reasons))


def _unsigned_reasons(card: Card) -> list[Reason]:
    if "signature" in card.document:
        block = "the `signature` member is no A2A signature and was not looked at"
        return [
            Reason.of("sig.none", "the card has no `signatures`"),
            Reason.of("card.single_signature_block", block, "/signature"),
        ]
    return [Reason.of("sig.none", "the card has no `signatures`")]
