"""From what each signature is worth to the verdict: the best single one decides (rule V2)."""

from __future__ import annotations

from collections.abc import Iterator

from cardsign.card.canonical import FULL_PROFILES
from cardsign.card.document import Card
from cardsign.reasons import Reason
from cardsign.trust.policy import Enrolment
from cardsign.trust.subject import Expectation
from cardsign.verdict import Answers, Report, SignatureReport, Verdict


def conclude(
    card: Card,
    signatures: tuple[SignatureReport, ...],
    enrolment: Enrolment | None,
    expect: Expectation | None,
    subject: str | None,
) -> Report:
    """The verdict on a card whose signatures have been examined one by one."""
    best = max(signatures, key=lambda one: one.rank, default=None)
    verdict = _verdict(signatures, best, enrolment)
    return Report(
        verdict=verdict,
        subject=subject,
        answers=best.answers if best else Answers(integrity="no"),
        reasons=tuple(dict.fromkeys(_reasons(card, signatures, best, enrolment, expect))),
        signatures=signatures,
        profile=best.profile if best else None,
        uncovered=best.uncovered if best else (),
        issuer=enrolment.name if enrolment and not enrolment.is_holder else None,
        card=best.document if best and verdict == "trusted" else None,
    )


def _verdict(
    signatures: tuple[SignatureReport, ...],
    best: SignatureReport | None,
    enrolment: Enrolment | None,
) -> Verdict:
    if best is None:
        return "untrusted"
    if enrolment is None:
        return "indeterminate"
    answers = best.answers
    if (answers.integrity, answers.authorised, answers.complete) == ("yes", "yes", "yes"):
        return "trusted" if enrolment.freshness == "waived" else "indeterminate"
    return "invalid" if _only_bad(signatures) else "untrusted"


def _only_bad(signatures: tuple[SignatureReport, ...]) -> bool:
    """Whether the keys that the subject's entry pins have signed, and nothing of it fits."""
    return any(one.verdict == "invalid" for one in signatures) and not any(
        one.profiles for one in signatures
    )


def _reasons(
    card: Card,
    signatures: tuple[SignatureReport, ...],
    best: SignatureReport | None,
    enrolment: Enrolment | None,
    expect: Expectation | None,
) -> Iterator[Reason]:
    """The weightiest first; what a person should do about the card begins there."""
    if best is None:
        yield from _unsigned_reasons(card)
    if expect is None:
        yield Reason.of("trust.no_expectation", "nobody was named whose card this should be")
    elif enrolment is None:
        yield Reason.of("trust.no_anchor", "the policy names no keys for this subject")
    if best is None:
        return
    bad = [one for one in signatures if one.verdict == "invalid"]
    for one in bad:
        yield from one.reasons
    if bad and best.profiles and "served-as-is" not in best.profiles:
        reduced = "a signature that covers more no longer fits; the one left covers less"
        yield Reason.of("sig.coverage_reduced", reduced, f"/signatures/{bad[0].index}")
    yield from best.reasons
    if not best.counts:
        for one in signatures:
            yield from one.reasons[:1]
    elif enrolment is not None:
        yield from _warnings(best, enrolment)


def _warnings(best: SignatureReport, enrolment: Enrolment) -> Iterator[Reason]:
    waived = enrolment.freshness == "waived"
    code = "trust.freshness_waived" if waived else "trust.freshness_unknown"
    yield Reason.of(code, "there is no evidence that the card is current")
    if best.profile not in FULL_PROFILES:
        pruned = f"{best.profile} drops empty values, so it cannot prove an absence"
        yield Reason.of("coverage.absence_unprovable", pruned)


def _unsigned_reasons(card: Card) -> Iterator[Reason]:
    yield Reason.of("sig.none", "the card has no `signatures`")
    if "signature" in card.document:
        block = "the `signature` member is no A2A signature and was not looked at"
        yield Reason.of("card.single_signature_block", block, "/signature")
