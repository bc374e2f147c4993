"""The verdict: one answer on (bytes, subject, policy, time), and why.

:func:`judge_card` explains, and never raises for what is in the card: the bytes are read strictly,
as one card; each signature is examined by itself (:mod:`cardsign.verify.signature`); the best
single one decides (rule V2). `stop_early` ends that at the first signature that makes the card
trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from cardsign.card.document import Card, check_no_other_kind, current_interfaces
from cardsign.card.profiles import FULL_PROFILES, Payloads
from cardsign.card.values import Json
from cardsign.errors import CardRefused, InputRefused
from cardsign.findings import Finding, Place
from cardsign.trust.session import IssuerTrust
from cardsign.urls import interface_url
from cardsign.verify.report import Answers, Report, SignatureReport, Verdict, logged
from cardsign.verify.signature import Inquiry, examine_signature


def judge_card(
    untrusted_bytes: bytes, inquiry: Inquiry, *, stop_early: bool = False, historic: bool = False
) -> Report:
    """Return the verdict on a card as it was received.

    Args:
        untrusted_bytes: The card, before any conversion.
        inquiry: What the verdict is about.
        stop_early: Examine no signature after the first one that makes the card trusted.
        historic: The caller chose the time.
    """
    trust = inquiry.trust
    report = partial(
        Report,
        subject=_name_of(inquiry),
        historic=historic,
        checked_at=inquiry.now,
        keyset=trust.keyset if trust else None,
        release=trust.release if trust else None,
    )
    try:
        card = Card.from_bytes(untrusted_bytes)
    except InputRefused as refusal:
        reasons = (refusal.finding, *(trust.notes if trust else ()))
        return report(verdict="invalid", answers=Answers(integrity="no"), reasons=reasons)
    payloads = Payloads(card)
    signatures, decider = _examine_all(card.signatures, payloads, inquiry, stop_early)
    best = decider or max(signatures, key=lambda signature: signature.rank, default=None)
    verdict = "trusted" if decider else _verdict(signatures, best, inquiry)
    shown = best or _NO_SIGNATURE
    payload = payloads.of(shown.profile) if verdict == "trusted" and shown.profile else None
    return report(
        verdict=verdict,
        answers=shown.answers,
        reasons=tuple(dict.fromkeys(_reasons(card, payloads, signatures, best, inquiry))),
        signatures=signatures,
        profile=shown.profile,
        uncovered=shown.uncovered,
        uncovered_count=shown.uncovered_count,
        issuer=trust.issuer.name if trust and not trust.issuer.is_holder else None,
        valid_until=shown.ends if payload else None,
        card=payload.value if payload else None,
    )


#: What an unsigned card has in place of its best signature.
_NO_SIGNATURE: Final = SignatureReport(
    -1, None, None, None, "refused", (), answers=Answers(integrity="no")
)


def _name_of(inquiry: Inquiry) -> str | None:
    subject, trust = inquiry.subject, inquiry.trust
    name = trust.issuer.name if trust else subject.name
    if subject.audience is not None:
        return f"{name or 'nobody'}, extended card of audience {subject.audience}"
    return name


def _examine_all(
    entries: Sequence[Json], payloads: Payloads, inquiry: Inquiry, stop_early: bool
) -> tuple[tuple[SignatureReport, ...], SignatureReport | None]:
    """Return the report on each signature, and the first one that makes the card trusted.

    Those of compat typ are tried only where none counts, to explain why (decision E9).
    """
    reports: list[SignatureReport] = []
    decider = None
    for index, entry in enumerate(entries):
        report = examine_signature(index, entry, payloads, inquiry, try_compat=False)
        reports.append(report)
        if decider is None and _decides(report, inquiry):
            decider = report
            if stop_early:
                break
    if not any(report.counts for report in reports):
        for index, report in enumerate(reports):
            if report.verdict == "not-tried":
                reports[index] = examine_signature(index, entries[index], payloads, inquiry)
    if inquiry.trust is not None and inquiry.trust.issuer.require:
        required = inquiry.trust.issuer.require
        reports = [_with_required(report, reports, required) for report in reports]
    return tuple(reports), decider


def _decides(report: SignatureReport, inquiry: Inquiry) -> bool:
    """Return whether this signature makes the card trusted, so that no other can do better."""
    trust = inquiry.trust
    if trust is None or trust.issuer.require or report.profile != "served-as-is":
        return False
    return _verdict((report,), report, inquiry) == "trusted"


def _with_required(
    report: SignatureReport, reports: Sequence[SignatureReport], required: Sequence[str]
) -> SignatureReport:
    """Return a report whose `complete` says whether all required holders signed its payload."""
    if not report.counts:
        return report
    together = [
        other
        for other in reports
        if _is_good(other) and other.payload == report.payload and other.holder in required
    ]
    missing = [name for name in required if name not in {other.holder for other in together}]
    if not missing:
        ends = [other.ends for other in (report, *together) if other.ends is not None]
        return replace(report, ends=min(ends, default=None))
    message = f"the same payload is not signed by {', '.join(missing)}"
    reason = Finding("threshold.unmet", message, Place(f"/signatures/{report.index}"))
    answers = report.answers._replace(complete="no")
    return replace(report, answers=answers, reasons=(reason, *report.reasons))


def _is_good(report: SignatureReport) -> bool:
    return report.counts and report.answers.authorised == "yes" and report.answers.current != "no"


#: The answers that make a card trusted.
_YES: Final = Answers("yes", "yes", "yes", "yes")


def _verdict(
    signatures: Sequence[SignatureReport], best: SignatureReport | None, inquiry: Inquiry
) -> Verdict:
    trust = inquiry.trust
    if best is None:
        return "untrusted"
    if trust is None:
        return "indeterminate"
    if _only_bad(signatures):
        return "invalid"
    if _may_be_outdated(best, trust):
        return "indeterminate"
    current = best.answers.current
    if best.answers._replace(current="yes") != _YES or current == "no":
        return "untrusted"
    is_current = current == "yes" or trust.issuer.freshness == "waived"
    return "trusted" if is_current and not trust.blocks else "indeterminate"


def _may_be_outdated(best: SignatureReport, trust: IssuerTrust) -> bool:
    """Return whether an unknown key may be listed in statements that could not be fetched."""
    is_unknown = best.answers.authorised == "unknown" and "no" not in best.answers
    return is_unknown and any(reason.code != "time.historic" for reason in trust.blocks)


def _only_bad(signatures: Sequence[SignatureReport]) -> bool:
    """Return whether accepted keys have signed, and none of it fits this card."""
    fits = any(report.profile for report in signatures)
    return not fits and any(report.verdict == "invalid" for report in signatures)


def _reasons(
    card: Card,
    payloads: Payloads,
    signatures: Sequence[SignatureReport],
    best: SignatureReport | None,
    inquiry: Inquiry,
) -> Iterator[Finding]:
    """Yield the reasons, the weightiest first."""
    subject, trust = inquiry.subject, inquiry.trust
    if best is None:
        yield from _unsigned_reasons(card)
    has_policy = bool(inquiry.policy.issuers) or inquiry.policy.path is not None
    if not has_policy:
        yield Finding("trust.no_anchor", "there is no policy, so no issuer is trusted")
    if subject.is_nobody:
        yield Finding("trust.no_expectation", "nothing says whose card this should be")
    elif trust is None and has_policy:
        yield Finding("trust.no_anchor", "the policy has no trusted issuer for this subject")
    if trust is None:
        ordered = (best, *signatures) if best is not None else ()
        reasons = (reason for report in ordered for reason in report.reasons)
        yield from (reason for reason in reasons if reason.code != "key.unknown")  # every key is
        return
    if best is not None:
        yield from _signed_reasons(payloads, signatures, best, trust)
    yield from trust.notes


def _signed_reasons(
    payloads: Payloads,
    signatures: Sequence[SignatureReport],
    best: SignatureReport,
    trust: IssuerTrust,
) -> Iterator[Finding]:
    yield from _bad_reasons(payloads, signatures, best)
    if _may_be_outdated(best, trust):
        yield from (*trust.blocks, *trust.hindrances)
        if not trust.keys:  # then every key is unknown
            return
    if not best.counts or "no" in best.answers:
        yield from best.reasons
    if not best.counts:
        for report in signatures:
            yield from report.reasons[:1]
    freshness = tuple(_freshness_reasons(best, trust)) if best.counts else ()
    yield from (*trust.blocks, *(freshness if trust.issuer.freshness == "required" else ()))
    yield from (*best.reasons, *freshness)


def _bad_reasons(
    payloads: Payloads, signatures: Sequence[SignatureReport], best: SignatureReport
) -> Iterator[Finding]:
    bad = [report for report in signatures if report.verdict == "invalid"]
    for report in bad:
        yield from report.reasons
    whole = payloads.of("served-as-is")
    covers_all = whole is not None and whole.data == best.payload
    if bad and best.profile is not None and not covers_all:
        message = "a signature that covers more is bad, and the good one covers less"
        yield Finding("sig.coverage_reduced", message, Place(f"/signatures/{bad[0].index}"))


def _freshness_reasons(best: SignatureReport, trust: IssuerTrust) -> Iterator[Finding]:
    if best.answers.current == "unknown":
        if trust.issuer.freshness == "waived":
            message = "revocation and rollback were not checked"
            hint = "A key set alone cannot show them." if trust.issuer.is_holder else ""
            yield Finding("trust.freshness_waived", message, fix=hint)
        elif not trust.hindrances:
            hint = "It follows from the other reasons. Do what they say." if trust.blocks else ""
            message = "nothing shows that the card is current"
            yield Finding("trust.freshness_unknown", message, fix=hint)
        yield from trust.hindrances
    if best.profile not in FULL_PROFILES:
        message = f"{best.profile} leaves out empty values, so removing one would not be seen"
        yield Finding("coverage.absence_unprovable", message)


def _unsigned_reasons(card: Card) -> Iterator[Finding]:
    try:
        check_no_other_kind(card.document)
    except CardRefused as refusal:
        yield refusal.finding
    is_empty = "signatures" in card.document
    message = "the card's `signatures` is empty" if is_empty else "the card has no `signatures`"
    yield Finding("sig.none", message)
    if "signature" in card.document:
        message = "the `signature` member is not an A2A signature and was ignored"
        yield Finding("card.single_signature_block", message, Place("/signature"))


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """Return the verdict on an extended card, given that on the public card beside it.

    Credentials are sent, and an extended card is asked for, only on the word of a trusted public
    card; an extended card that comes with any other is none that was asked for. An issuer's other
    agents may have extended cards for the same audience: of this agent it is by an endpoint that
    both cards name.
    """
    if public.card is None:  # it is not trusted
        why = f"the public card beside it is {public.verdict}: {public.reasons[0].message}"
        reason = Finding("extended.public_untrusted", why)
        if extended.card is None:
            return replace(extended, reasons=(*extended.reasons, reason))
    elif extended.card is None:
        return extended
    elif set(_endpoints(public.card)).isdisjoint(_endpoints(extended.card)):
        why = "the extended card shares no endpoint with the public card beside it"
        reason = Finding("extended.other_agent", why)
    else:
        ends = [end for end in (extended.valid_until, public.valid_until) if end is not None]
        return replace(extended, valid_until=min(ends, default=None))
    verdict: Verdict = "indeterminate" if public.verdict == "indeterminate" else "untrusted"
    reasons = (reason, *extended.reasons)
    return logged(replace(extended, verdict=verdict, reasons=reasons, valid_until=None, card=None))


def _endpoints(payload: Mapping[str, Json]) -> Iterator[tuple[object, str]]:
    """Yield where a verified card can be called, and for which tenant, in the terms of 1.0."""
    for interface in current_interfaces(payload):
        if isinstance(interface.url, str):
            tenant = str(interface.tenant or "")
            try:
                yield interface_url(interface.url, str(interface.binding)), tenant
            except CardRefused:  # only where no policy bounds the places was it not held before
                yield interface.url, tenant
