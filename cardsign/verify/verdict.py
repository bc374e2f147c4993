"""The verdict: one answer on (bytes, subject, policy, time), and why.

:func:`reach_verdict` explains and never raises for what is in the card:

(1) the policy says whose card it should be                     ``Policy.find``
(2) who may speak for that issuer now                           :mod:`cardsign.trust.resolve`
(3) the bytes are read strictly, as one card                    ``Card.from_bytes``
(4) each signature is examined by itself                        :mod:`cardsign.verify.signature`
(5) the best single one decides (rule V2)                       :func:`_verdict`

A cache may answer (3) to (5), and `stop_early` ends (4) at the last signature that decides, for
they are examined from the last one back. What only checks asks for that, such as
:func:`cardsign.verify_card` in ``api.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeAlias

from cardsign.card.canonical import FULL_PROFILES, Payloads
from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.card.values import Json
from cardsign.errors import CardRefused, InputRefused
from cardsign.findings import Finding, Place
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.trust.policy import (
    AtOrigin,
    CardUrl,
    Expectation,
    Extended,
    Issuer,
    Policy,
    PublicSubject,
    public_subject,
)
from cardsign.trust.resolve import IssuerTrust, end_of, resolve_issuer
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import interface_url
from cardsign.verify.report import (
    Answers,
    Report,
    SignatureReport,
    StatementUsed,
    Verdict,
)
from cardsign.verify.signature import examine_signature


def reach_verdict(
    untrusted_bytes: bytes,
    *,
    expect: Expectation | None,
    policy: Policy,
    now: datetime,
    supplied: SuppliedStatements = NO_STATEMENTS,
    states: IssuerStates = NO_STATES,
    cache: VerdictCache | None = None,
    historic: bool = False,
    stop_early: bool = False,
) -> Report:
    """Reach a verdict about a card and explain it.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        expect: Whose card it should be, and of which kind; None never gives ``trusted``. Of an
            :class:`Extended` one the public card is not looked at (:func:`examine_extended`).
        policy: The verifier's trusted issuers.
        now: The time of the verdict, aware, fixed at the start (rule V1).
        supplied: Statements that came along; they bring no trust by themselves.
        states: What is remembered of the issuer; what is new and lawful is kept there. Without
            one a rollback cannot be seen, and `current` is unknown.
        cache: Trusted verdicts of before.
        historic: `now` is a time of the caller's choice: never ``trusted``, nothing is kept.
        stop_early: Examine no signature before the last one that makes the card trusted.

    Returns:
        The report. Nothing in the card or in what came along makes this function raise.

    Raises:
        CardRefused: The expectation's own origin or URL is outside the strict grammar.
        LocalFault: Issuer states are lost, corrupt or cannot be written: no verdict (rule V7).
        ValueError: `now` is naive.
    """
    if now.tzinfo is None:
        raise ValueError("now must be an aware datetime")
    # (1) whose card it should be
    issuer = policy.find(expect)
    if issuer is None:
        return _judged(untrusted_bytes, expect, policy, None, now, historic, stop_early)
    states = NO_STATES if issuer.is_holder else states
    keep = partial(states.keep, issuer)
    with states.of(issuer) as state:
        # (2) who may speak for that issuer now
        given = issuer, policy.limits, supplied, state
        reserved = policy.reserved_from(issuer)
        trust = resolve_issuer(*given, now=now, keep=keep, historic=historic, reserved=reserved)
        # (3) to (5) the verdict, or one of before in the same matter
        judge = partial(_judged, untrusted_bytes, expect, policy, trust, now, historic, stop_early)
        if cache is None:
            return judge()
        matter = _matter(untrusted_bytes, expect, policy, trust, stop_early)
        report = cache.get(matter, now)
        if report is None:
            report = judge()
            cache.put(matter, report)
    return report


def _judged(
    untrusted_bytes: bytes,
    expect: Expectation | None,
    policy: Policy,
    trust: IssuerTrust | None,
    now: datetime,
    historic: bool,
    stop_early: bool,
) -> Report:
    # (3) the card, read strictly
    limits = policy.limits
    try:
        card = Card.from_bytes(
            untrusted_bytes, max_bytes=limits.card_bytes, max_signatures=limits.signatures
        )
    except InputRefused as refusal:
        report = replace(Report.unread(refusal, _subject(expect, trust), now), historic=historic)
        if trust is None:
            return report
        keyset, release = _used(trust.keyset), _used(trust.release)
        reasons = (*report.reasons, *trust.notes)
        return replace(report, reasons=reasons, keyset=keyset, release=release)
    payloads = Payloads(card)
    return verdict_on(card, payloads, expect, policy, trust, now, historic, stop_early)


def verdict_on(
    card: Card,
    payloads: Payloads,
    expect: Expectation | None,
    policy: Policy,
    trust: IssuerTrust | None,
    now: datetime,
    historic: bool = False,
    stop_early: bool = False,
) -> Report:
    """What a card, the subject, the policy and the time come to; nothing is remembered."""
    # (4) each signature by itself
    examine = partial(
        examine_signature, payloads=payloads, expect=expect, policy=policy, trust=trust
    )
    signatures, decider = _examined(card.signatures, examine, trust, stop_early)
    # (5) the best single one decides
    best = decider or max(signatures, key=lambda one: one.rank, default=None)
    verdict = "trusted" if decider else _verdict(signatures, best, trust)
    reasons = _reasons(card, payloads, signatures, best, trust, expect)
    issuer = trust.issuer if trust else None
    is_trusted = verdict == "trusted"
    signed = payloads.of(best.profile) if is_trusted and best and best.profile else None
    return Report(
        verdict=verdict,
        subject=_subject(expect, trust),
        answers=best.answers if best else Answers(integrity="no"),
        reasons=tuple(dict.fromkeys(reasons)),  # of one that comes twice, the first place counts
        signatures=signatures,
        profile=best.profile if best else None,
        uncovered=best.uncovered if best else (),
        uncovered_count=best.uncovered_count if best else 0,
        issuer=issuer.name if issuer and not issuer.is_holder else None,
        valid_until=best.ends if best and is_trusted else None,
        historic=historic,
        checked_at=now,
        keyset=_used(trust.keyset) if trust else None,
        release=_used(trust.release) if trust else None,
        card=signed.value if signed else None,
    )


def _used(statement: KeysetStatement | ReleaseStatement | None) -> StatementUsed | None:
    if statement is None:
        return None
    number = statement.label if isinstance(statement, KeysetStatement) else str(statement.seq)
    return StatementUsed(number, statement.digest, statement.exp)


def _subject(expect: Expectation | None, trust: IssuerTrust | None) -> str | None:
    name = trust.issuer.name if trust else None
    if trust is None:
        match public_subject(expect):
            case Issuer(named) | AtOrigin(named) | CardUrl(named):
                name = named
    if isinstance(expect, Extended):
        return f"{name or 'nobody'}, extended card of audience {expect.audience}"
    return name


# ------------------------------------------------------------------ (4) each by itself


#: :func:`examine_signature` with all but the entry and its index.
_Examine: TypeAlias = Callable[..., SignatureReport]


def _examined(
    entries: tuple[Json, ...], examine: _Examine, trust: IssuerTrust | None, stop_early: bool
) -> tuple[tuple[SignatureReport, ...], SignatureReport | None]:
    """The signatures, and the last that decides, mostly the newest key's; or None.

    They are examined from the last one back. Those of compat typ are tried where none counts, to
    explain why (decision E9).
    """
    found: list[SignatureReport] = []
    decider = None
    for index in reversed(range(len(entries))):
        one = examine(index, entries[index], try_compat=False)
        found.insert(0, one)
        if decider is None and _decides(one, trust):
            decider = one
            if stop_early:
                break
    if not any(one.counts for one in found):
        found = [
            examine(one.index, entries[one.index]) if one.verdict == "not-tried" else one
            for one in found
        ]
    if trust is not None and trust.issuer.require:
        found = [_with_required(one, found, trust) for one in found]
    return tuple(found), decider


def _decides(one: SignatureReport, trust: IssuerTrust | None) -> bool:
    """Whether one signature makes the card trusted, as no other can in a better way.

    It holds the whole card and answers as well as any other: by the same release, and by the
    same marker, since an extended card is asked for or it is not. What decides always counts.
    """
    if trust is None or trust.issuer.require or one.profile != "served-as-is":
        return False
    return _verdict((one,), one, trust) == "trusted"


def _with_required(
    one: SignatureReport, signatures: Sequence[SignatureReport], trust: IssuerTrust
) -> SignatureReport:
    """A report whose `complete` says too whether all required holders signed its payload (V6)."""
    if not one.counts:
        return one
    require = trust.issuer.require
    together = [
        other
        for other in signatures
        if _is_good(other) and other.payload == one.payload and other.holder in require
    ]
    missing = [name for name in require if name not in {other.holder for other in together}]
    if not missing:
        ends = [other.ends for other in (one, *together) if other.ends is not None]
        return replace(one, ends=min(ends, default=None))
    unmet = f"the same payload is not signed by {', '.join(missing)}"
    reason = Finding("threshold.unmet", unmet, Place(f"/signatures/{one.index}"))
    return replace(one, answers=replace(one.answers, complete="no"), reasons=(reason, *one.reasons))


def _is_good(one: SignatureReport) -> bool:
    return one.counts and one.answers.authorised == "yes" and one.answers.current != "no"


# ------------------------------------------------------------------ (5) the best one decides


def _verdict(
    signatures: tuple[SignatureReport, ...], best: SignatureReport | None, trust: IssuerTrust | None
) -> Verdict:
    # (a) Nothing is signed.
    if best is None:
        return "untrusted"
    # (b) Nobody is named who may sign.
    if trust is None:
        return "indeterminate"
    # (c) The right keys have signed something else.
    if _only_bad(signatures):
        return "invalid"
    # (d) What could not be had may say more of the keys.
    if not trust.has_source or _is_too_old_to_say(best, trust):
        return "indeterminate"
    # (e) Something speaks against the card.
    answers = best.answers
    if (answers.integrity, answers.authorised, answers.complete) != ("yes", "yes", "yes"):
        return "untrusted"
    if answers.current == "no":
        return "untrusted"
    # (f) Nothing does, but something may be missing.
    if trust.blocks:
        return "indeterminate"
    waived = trust.issuer.freshness == "waived"
    return "trusted" if answers.current == "yes" or waived else "indeterminate"


def _is_too_old_to_say(best: SignatureReport, trust: IssuerTrust) -> bool:
    """Whether an unknown key may be one of a newer statement than could be had (rule V7)."""
    answers = best.answers
    if answers.authorised != "unknown" or "no" in answers.to_json().values():
        return False
    if any(reason.code != "time.historic" for reason in trust.blocks):
        return True
    keyset, now = trust.keyset, trust.now.timestamp()
    return keyset is not None and end_of(keyset, trust.limits.keyset_age) <= now


def _only_bad(signatures: tuple[SignatureReport, ...]) -> bool:
    """Whether the keys that the subject's entry accepts have signed, and nothing of it fits."""
    fits = any(one.profile for one in signatures)
    return not fits and any(one.verdict == "invalid" for one in signatures)


# ------------------------------------------------------------------ why


def _reasons(
    card: Card,
    payloads: Payloads,
    signatures: tuple[SignatureReport, ...],
    best: SignatureReport | None,
    trust: IssuerTrust | None,
    expect: Expectation | None,
) -> Iterator[Finding]:
    """The weightiest first; what a person should do about the card begins there."""
    if best is None:
        yield from _unsigned_reasons(card)
    if expect is None:
        nothing = "nothing says whose card this should be"
        yield Finding("trust.no_expectation", nothing)
    elif trust is None:
        nobody = "the policy has no trusted issuer for this subject"
        yield Finding("trust.no_anchor", nobody)
    if best is not None and trust is None:  # nobody is named who may sign: nothing was checked
        for one in (best, *signatures):
            yield from one.reasons
    elif best is not None and trust is not None:
        yield from _about_signed(payloads, signatures, best, trust)
    if trust is not None:
        yield from trust.notes


def _about_signed(
    payloads: Payloads,
    signatures: tuple[SignatureReport, ...],
    best: SignatureReport,
    trust: IssuerTrust,
) -> Iterator[Finding]:
    # Bad signatures by keys that the policy accepts.
    bad = [one for one in signatures if one.verdict == "invalid"]
    for one in bad:
        yield from one.reasons
    if bad and best.profile is not None and not _is_whole(best, payloads):
        reduced = "a signature that covers more is bad, and the good one covers less"
        yield Finding("sig.coverage_reduced", reduced, Place(f"/signatures/{bad[0].index}"))
    # Without a source of keys nothing else can be said.
    if not trust.has_source:
        yield from trust.blocks
        return
    # An unknown key may be listed in statements that could not be had.
    if _is_too_old_to_say(best, trust):
        yield from (*trust.blocks, *trust.hindrances)
    # What speaks against the best signature, and why none of the others counts.
    if not best.counts or "no" in best.answers.to_json().values():
        yield from best.reasons
    if not best.counts:
        for one in signatures:
            yield from one.reasons[:1]
    # What keeps an otherwise good card from a verdict.
    yield from trust.blocks
    if best.counts and trust.issuer.freshness == "required":
        yield from _about_freshness(best, trust)
    # What is only told.
    yield from best.reasons
    if best.counts:
        yield from _about_freshness(best, trust)


def _is_whole(best: SignatureReport, payloads: Payloads) -> bool:
    """Whether a signature holds the card as served."""
    whole = payloads.of("served-as-is")
    return whole is not None and whole.data == best.payload


def _about_freshness(best: SignatureReport, trust: IssuerTrust) -> Iterator[Finding]:
    if best.answers.current == "unknown" and trust.issuer.freshness == "waived":
        unseen = "revocation and rollback were not checked"
        hint = "A key set alone cannot show them." if trust.issuer.is_holder else ""
        yield Finding("trust.freshness_waived", unseen, fix=hint)
        yield from trust.hindrances
    elif best.answers.current == "unknown":
        nothing = "nothing shows that the card is current"
        # What blocks everything, such as a wrong clock, is no reason to waive freshness.
        hint = "It follows from the other reasons. Do what they say." if trust.blocks else ""
        missing = Finding("trust.freshness_unknown", nothing, fix=hint)
        yield from trust.hindrances or [missing]
    if best.profile not in FULL_PROFILES:
        pruned = f"{best.profile} leaves out empty values, so removing one would not be seen"
        yield Finding("coverage.absence_unprovable", pruned)


def _unsigned_reasons(card: Card) -> Iterator[Finding]:
    if isinstance(card.document.get("keys"), list):
        hint = "Name the card, and the key set as its keys: cardsign verify CARD --jwks FILE"
        yield Finding("sig.none", "this is a key set (a JWK Set) and no card", fix=hint)
        return
    yield Finding("sig.none", "the card has no `signatures`")
    if "signature" in card.document:
        block = "the `signature` member is not an A2A signature and was ignored"
        yield Finding("card.single_signature_block", block, Place("/signature"))


# ------------------------------------------------------------------ verdicts of before


#: Verdicts; one holds a card as ASCII JSON and its payload: some 10 KiB each, seldom more.
MAX_VERDICTS: Final = 1024
#: All that a verdict is about, but for the time; two that are equal get one verdict.
Matter: TypeAlias = tuple[object, ...]


def _matter(
    untrusted_bytes: bytes,
    expect: Expectation | None,
    policy: Policy,
    trust: IssuerTrust,
    stop_early: bool,
) -> Matter:
    digest = sha256(untrusted_bytes).digest()
    return expect, digest, policy.digest, trust.fingerprint, stop_early


class VerdictCache:
    """The last trusted verdict on each subject, such as a URL, for any number of threads.

    Verdicts other than ``trusted`` are not kept: what was missing may have come meanwhile.
    """

    def __init__(self) -> None:
        # The card apart, as JSON text: no caller who changes his card can change the kept one.
        self._verdicts: dict[object, tuple[Matter, dict[str, Any], str]] = {}

    def get(self, matter: Matter, now: datetime) -> Report | None:
        """Return the verdict reached before in the same matter, if it still holds; as of now."""
        last, members, card = self._verdicts.get(matter[0]) or ((), {}, "")
        if last != matter or not _holds(members["checked_at"], now, members["valid_until"]):
            return None
        return Report(**{**members, "checked_at": now, "card": json.loads(card)})

    def put(self, matter: Matter, report: Report) -> None:
        """Keep a verdict if it is ``trusted``."""
        if report.verdict == "trusted":
            members = {field.name: getattr(report, field.name) for field in fields(report)}
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[matter[0]] = (matter, members, json.dumps(members.pop("card")))


def _holds(since: datetime | None, now: datetime, until: datetime | None) -> bool:
    """Not before it was reached, for a key may not have counted then; not after it ends."""
    return (since is None or since <= now) and (until is None or now < until)


# ------------------------------------------------------------------ extended cards


def examine_extended(
    untrusted_public: bytes,
    untrusted_extended: bytes,
    *,
    of: PublicSubject,
    audience: str,
    policy: Policy,
    now: datetime,
    supplied: SuppliedStatements = NO_STATEMENTS,
    states: IssuerStates = NO_STATES,
    cache: VerdictCache | None = None,
    historic: bool = False,
) -> tuple[Report, Report]:
    """Reach verdicts about a public card and the extended card beside it (threat 12).

    The extended card is trusted only if the public one is: of the same subject, by the same
    anchor, at the same time.

    Args:
        untrusted_public: The public card as received.
        untrusted_extended: The extended card as received.
        of: Whose cards they should be.
        audience: The id of the audience, as the issuer gave it to this verifier.
        policy, now, supplied, states, cache, historic: As for :func:`reach_verdict`, of both.

    Returns:
        The public card's report and the extended card's.

    Raises:
        Everything that :func:`reach_verdict` raises.
    """
    examine = partial(reach_verdict, policy=policy, now=now, supplied=supplied)
    examine = partial(examine, states=states, cache=cache, historic=historic)
    public = examine(untrusted_public, expect=of)
    extended = examine(untrusted_extended, expect=Extended(of, audience))
    return public, beside_its_public_card(extended, public)


def beside_its_public_card(extended: Report, public: Report) -> Report:
    """The verdict on an extended card, given that on the public card beside it.

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
        ends = [one for one in (extended.valid_until, public.valid_until) if one is not None]
        return replace(extended, valid_until=min(ends, default=None))
    return replace(
        extended,
        verdict="indeterminate" if public.verdict == "indeterminate" else "untrusted",
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
