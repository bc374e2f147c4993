"""One signature, examined alone: what it fits, whether it may count, its four answers.

(1) the entry has the right shape, its protected header is strict    ``jose.jws.read_entry``
(2) its kid names a key of the source that the anchor names          :func:`examine_signature`
(3) key and header agree on one algorithm, and it fits a payload     :func:`matching_payload`
(4) typ and profile are ones that may count (rule V3)                :func:`_may_count`
(5) the four answers, from this signature's payload alone (rule V2)  :func:`_judge`
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from cardsign.card.canonical import (
    DEFAULT_PROFILES,
    OPT_IN_PROFILES,
    Payload,
    Payloads,
    ProfileName,
)
from cardsign.card.coverage import LeftOpen, left_open
from cardsign.card.document import check_is_agent_card, token_claims
from cardsign.card.extensions import ExtendedMarker
from cardsign.card.interfaces import check_interfaces
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused, SignatureRefused
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jws import Entry, ProtectedHeader, check_entry, read_entry
from cardsign.jose.keys import PublicKey, short_kid
from cardsign.reasons import Reason, weighed
from cardsign.statements.keyset import IssuerKey
from cardsign.statements.members import MAX_TIME
from cardsign.times import utc
from cardsign.trust.policy import ACCEPTED, Expectation, Policy, TrustedIssuer
from cardsign.trust.resolve import IssuerTrust
from cardsign.verify.freshness import currency, may_sign_now, read_marker
from cardsign.verify.report import Answers, SignatureReport, SignatureVerdict, some_of

#: Kids that a message names; a policy may hold hundreds.
MAX_KIDS: Final = 3
_ASK_FOR_A_FULL_ONE: Final = "Ask the issuer to sign for served-as-is as well."


def examine_signature(
    index: int,
    untrusted_entry: Json,
    payloads: Payloads,
    *,
    expect: Expectation | None,
    policy: Policy,
    trust: IssuerTrust | None,
    try_compat: bool = True,
) -> SignatureReport:
    """Say what one entry of `signatures` is worth to the subject (rule V1).

    Nothing in the entry makes this function raise.

    Args:
        index: Its place in `signatures`, from 0.
        untrusted_entry: The entry.
        payloads: The card's.
        expect: Whose card it should be, and of which kind.
        policy: The whole policy; entries for other issuers only explain.
        trust: Who may speak for the subject now; None where the policy names nobody.
        try_compat: Whether to check an entry of compat typ, which can explain but never count.
    """
    path = f"/signatures/{index}"
    # (1) its shape and header
    allowed = trust.issuer.algorithms if trust else tuple(ALGORITHMS)
    try:
        entry = read_entry(untrusted_entry, algorithms=allowed)
    except SignatureRefused as refusal:
        reason = Reason.from_error(refusal, path + refusal.path)
        return _worthless(index, None, "refused", reason, Answers("no"))
    if entry.header.kind == "compat" and not try_compat:
        untried = "a compat signature is made for other SDKs, so it was not checked"
        reason = Reason.of("sig.compat", untried, path)
        return _worthless(index, entry.header, "not-tried", reason, Answers())
    # (2) the key that its kid names
    key = trust.find(entry.header.kid) if trust else None
    if trust is None or key is None:
        return _without_key(index, entry, policy, trust)
    # (3) the payload that it fits
    try:
        payload = matching_payload(entry, key.public, payloads, trust.issuer.profiles)
    except SignatureRefused as refusal:
        reason = Reason.from_error(refusal, path + refusal.path)
        return _worthless(index, entry.header, "refused", reason, Answers("no"))
    if payload is None:
        # Which of the three it is, `explain` searches for: a verdict does not depend on it.
        unfit = (
            "the signature does not fit this card: the card was changed after signing, or is "
            "another one, or the signed JSON was not canonical"
        )
        bad = Reason.of("sig.bad", unfit, path)
        return _worthless(index, entry.header, "invalid", bad, Answers("no"))
    # (4), (5) whether it may count, and its answers
    return _judge(index, entry.header, key, payload, payloads, expect, trust)


def _worthless(
    index: int,
    header: ProtectedHeader | None,
    verdict: SignatureVerdict,
    reason: Reason,
    answers: Answers,
) -> SignatureReport:
    return SignatureReport(
        index=index,
        kid=header.kid if header else None,
        alg=header.alg if header else None,
        typ=header.typ if header else None,
        verdict=verdict,
        reasons=(reason,),
        answers=answers,
    )


def _without_key(
    index: int, entry: Entry, policy: Policy, trust: IssuerTrust | None
) -> SignatureReport:
    """A signature of which nothing can be checked; its kid is a claim, and explains only."""
    kid = entry.header.kid
    verdict: SignatureVerdict = "unknown-key"
    answers = Answers()
    known, hint = _known_kids(trust)
    code, message = "key.unknown", f"no accepted key has the kid {kid!r}{known}"
    if trust is not None and kid in trust.revoked:
        verdict, answers = "revoked", Answers(current="no")
        code, message = "key.revoked", f"the key {kid!r} is revoked"
    elif trust is not None and kid in trust.unsupported:
        unsupported = "has a type, curve or use that is not supported"
        code, message = "key.unsupported", f"the key {kid!r} {unsupported}"
    elif trust is not None and trust.offered and trust.offered.find(kid) is not None:
        answers = Answers(authorised="no")
        code = "trust.key_changed"
        message = f"the key {kid!r} is new, and nothing that you trust endorses it"
    elif other := policy.pinned_elsewhere(kid, trust.issuer if trust else None):
        verdict = "not-enrolled"
        code, message = "key.not_enrolled", f"your policy pins the key {kid!r} for {other!r}"
        hint = f"If this should be its card, say so: --issuer {other}"
    hint = hint if code in ("key.unknown", "key.not_enrolled") else ""
    reason = Reason.of(code, message, f"/signatures/{index}", hint=hint)
    return _worthless(index, entry.header, verdict, reason, answers)


def _known_kids(trust: IssuerTrust | None) -> tuple[str, str]:
    """Which keys are accepted instead, and what to do if their set may have named none of them."""
    kids = [key.public.kid for key in trust.keys] if trust is not None else []
    if not kids or trust is None:
        return "", ""
    unnamed = hint = ""
    if all(key.public.kid == key.public.thumbprint for key in trust.keys):
        unnamed = ", named by thumbprint"
        hint = "Get the issuer's current key set. If its keys have no kid, ask for kids."
    named = ", ".join(short_kid(kid) for kid in kids[:MAX_KIDS])
    more = len(kids) - MAX_KIDS
    return f"; accepted are {named}{f' and {more} more' if more > 0 else ''}{unnamed}", hint


def matching_payload(
    entry: Entry, key: PublicKey, payloads: Payloads, accepted: Sequence[str] = ()
) -> Payload | None:
    """The payload of the card that the signature verifies, or None.

    Full profiles are tried first. Several profiles may make the same bytes; of those the first
    accepted one is returned, or the first one where none is accepted.

    An opt-in profile never counts. It is tried where no other fits, so that what an old SDK has
    signed is not called changed.

    Raises:
        SignatureRefused: Header and key do not go together; no payload is looked at then.
    """
    found = _fitting(entry, key, payloads, DEFAULT_PROFILES)
    if found is None:
        return _fitting(entry, key, payloads, OPT_IN_PROFILES)
    if found.profile in accepted:
        return found
    same = (payloads.of(profile) for profile in DEFAULT_PROFILES if profile in accepted)
    return next((one for one in same if one is not None and one.data == found.data), found)


def _fitting(
    entry: Entry, key: PublicKey, payloads: Payloads, profiles: tuple[ProfileName, ...]
) -> Payload | None:
    tried: set[bytes] = set()
    for profile in profiles:
        payload = payloads.of(profile)
        if payload is None or payload.data in tried:
            continue
        tried.add(payload.data)
        try:
            check_entry(entry, payload.data, key, encoded=payload.encoded)
        except SignatureRefused as refusal:
            if refusal.code != "sig.bad":
                raise
        else:
            return payload
    return None


# ------------------------------------------------------------------ what it is worth


def _judge(
    index: int,
    header: ProtectedHeader,
    key: IssuerKey,
    payload: Payload,
    payloads: Payloads,
    expect: Expectation | None,
    trust: IssuerTrust,
) -> SignatureReport:
    path = f"/signatures/{index}"
    issuer = trust.issuer
    allowed = _may_count(header, payload, issuer)  # (4)
    opened = left_open(payload, accept_lossy=allowed)
    marker, other_kind = read_marker(payload, expect)  # (5)
    refusals = [may_sign_now(key, trust), other_kind, *_no_card_of(payload, trust)]
    against = [reason for reason in refusals if reason is not None]
    whole = payloads.of("served-as-is")
    current, why = currency(whole.data if whole else None, marker, trust, expect)
    verdict: SignatureVerdict = "valid"
    reasons = [*against, *([why] if why else [])]
    if key.public.thumbprint in trust.revoked:
        verdict, current = "revoked", "no"
        reasons.insert(0, Reason.of("key.revoked", f"the key {header.kid!r} is revoked", path))
    elif not allowed:
        verdict, why_not = _why_not(header, payload, issuer, path)
        reasons.insert(0, why_not)
    counts = allowed and verdict == "valid"
    open_parts = tuple(_coverage_reasons(opened, payload.profile))
    # What the policy accepts unsigned speaks against nothing (R12).
    is_accepted = counts and not opened.fails
    reasons.extend(weighed(open_parts, trusted=True) if is_accepted else open_parts)
    return SignatureReport(
        index=index,
        kid=header.kid,
        alg=header.alg,
        typ=header.typ,
        verdict=verdict,
        reasons=tuple(reasons),
        profile=payload.profile,
        counts=counts,
        uncovered=opened.listed.pointers,
        uncovered_count=opened.listed.count,
        holder=key.holder or None,
        payload_sha256=hashlib.sha256(payload.data).hexdigest(),
        answers=Answers(
            integrity="yes" if allowed else "no",
            authorised="no" if against else "yes",
            current=current,
            complete="no" if opened.fails else "yes",
        ),
        ends=_ends(key, marker, trust),
    )


def _ends(key: IssuerKey, marker: ExtendedMarker | None, trust: IssuerTrust) -> datetime | None:
    """The earliest deadline (rule V8)."""
    ends = [*trust.deadlines, *([key.exp] if key.exp < MAX_TIME else [])]
    if marker is not None:
        ends.append(marker.exp)
    return utc(min(ends)) if ends else None


def _may_count(header: ProtectedHeader, payload: Payload, issuer: TrustedIssuer) -> bool:
    """Rule V3: a compat typ never counts, and JWT only for a payload without a token's claims."""
    if payload.profile not in issuer.profiles or header.kind == "compat":
        return False
    return header.kind == "full" or not token_claims(payload.value)


def _why_not(
    header: ProtectedHeader, payload: Payload, issuer: TrustedIssuer, path: str
) -> tuple[SignatureVerdict, Reason]:
    profile = payload.profile
    if header.kind == "compat":
        never = f"a compat signature ({profile}) never counts"
        return "valid", Reason.of("sig.compat", never, path)
    if header.kind == "jwt" and (claims := token_claims(payload.value)):
        jwt = f"typ JWT with {', '.join(claims)} in the payload: that is a token, not a card"
        return "refused", Reason.of("sig.typ_forbidden", jwt, path)
    if profile in OPT_IN_PROFILES:
        never = f"the signature is good, but made by the rule {profile}, which never counts"
        return "other-profile", Reason.of("sig.other_profile", never, path, _ASK_FOR_A_FULL_ONE)
    return "other-profile", _not_accepted(payload, issuer, path)


def _not_accepted(payload: Payload, issuer: TrustedIssuer, path: str) -> Reason:
    """What a good signature leaves unsigned, and what the verifier or the issuer can do."""
    if payload.profile in ACCEPTED[issuer.accept]:
        profile = payload.profile
        narrowed = f"the signature is good, but made by the rule {profile}, which is left out here"
        return Reason.of("sig.other_profile", narrowed, path, f"Add --profile {profile}.")
    leaves = left_open(payload).listed
    if_accepted = left_open(payload, accept_lossy=True)
    unsigned = some_of(leaves.pointers, leaves.count)
    message = f"the signature is good, but made by the SDKs' rule {payload.profile}"
    message += f", which leaves {unsigned} unsigned" if unsigned else ""
    hint = ""
    if if_accepted.fails:
        part = if_accepted.first[0].source.shown
        hint = f"--accept sdk does not admit that {part} is unsigned. {_ASK_FOR_A_FULL_ONE}"
    return Reason.of("sig.other_profile", message, path, hint)


def _no_card_of(payload: Payload, trust: IssuerTrust) -> Iterator[Reason]:
    """Why the payload's interfaces are not the subject's (rule V4), and why it is no Agent Card
    (decision E1: whatever the typ)."""
    try:
        check_interfaces(payload.value, trust.issuer.places, trust.origins, trust.reserved)
    except CardRefused as refusal:
        yield Reason.from_error(refusal, payload.received_at(refusal.path))
    try:
        check_is_agent_card(payload.value)
    except CardRefused as refusal:
        yield Reason.from_error(refusal)


def _coverage_reasons(opened: LeftOpen, profile: str) -> Iterator[Reason]:
    """What is left open: first what fails the card, then what the policy puts up with."""
    for part in opened.first:
        where = part.source.shown
        code, what = "coverage.uncovered", "is not signed"
        if part.security:
            code, what = "coverage.requirement_unsigned", "says who may call, and it is not signed"
        yield Reason.of(code, f"{where} {what} ({profile} leaves it out)", where)
    if opened.listed.left_out:
        more = f"{opened.listed.left_out} more places are not signed"
        yield Reason.of("coverage.uncovered", more)
