"""One signature, examined alone: what it fits, whether it may count, its four answers.

(4.1) the entry has the right shape, its header is strict          ``jose.jws.read_entry``
(4.2) its kid names a key of the source that the anchor names      ``IssuerTrust.keys_by_kid``
(4.3) key and header agree on one algorithm, and it fits a payload :func:`matching_payload`

The four answers come from that payload alone (rule V2):

(4.4) integrity: typ and profile are ones that may count; under
      typ JWT the payload is no token (V3)                         :func:`_why_it_may_not_count`
(4.5) authorised: the key may sign cards now (V4),                 :func:`_why_key_may_not_sign_now`
      the card is of the kind that was asked for (threat 12),      :func:`_read_marker`
      it is a card, and its interfaces are the subject's (V4)      :func:`_why_no_card_of`
(4.6) current: the key is not revoked, which :func:`_judge` asks
      with (4.4), since a revoked key's signature never counts;
      the card is listed, and not rolled back (V5)                 :func:`_freshness`
(4.7) complete: what it leaves open is accepted (V6)               ``card.profiles.left_open``

A check that fails is "no"; without evidence from those who may give it, the answer is "unknown".
Rules V and threats are those of ``docs/concepts/threat-model.md``, decisions E those of
``docs/contributing/decisions.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from cardsign.card.document import TOKEN_CLAIMS, check_interfaces, check_is_agent_card
from cardsign.card.extensions import ExtendedMarker, find_marker
from cardsign.card.profiles import (
    DEFAULT_PROFILES,
    FULL_PROFILES,
    PROFILES,
    LeftOpen,
    Payload,
    Payloads,
    left_open,
)
from cardsign.card.security import check_security
from cardsign.card.values import Json
from cardsign.errors import CardRefused, SignatureRefused
from cardsign.findings import Finding, Place, rate_findings
from cardsign.jose.jwk import ALGORITHMS
from cardsign.jose.jws import Entry, check_entry, read_entry
from cardsign.jose.keys import PublicKey, short_kid
from cardsign.statements.keyset import IssuerKey
from cardsign.statements.release import FLOOR_EXTENDED, ListedCard, ReleaseStatement
from cardsign.times import MAX_TIME, minute, utc
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer, parse_known_url
from cardsign.trust.session import IssuerTrust
from cardsign.urls import Url, may_stand_at, parse_origin
from cardsign.verify.report import Answer, Answers, SignatureReport, SignatureVerdict, some_of


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a verdict is about, but for the card (rule V1).

    Attributes:
        subject: Whose card it should be, and of which kind.
        policy: The whole policy; entries for other issuers only explain.
        trust: Who may speak for the subject now; None where the policy names nobody.
        now: The time of the verdict.
    """

    subject: Subject
    policy: Policy
    trust: IssuerTrust | None
    now: datetime


def examine_signature(
    index: int,
    untrusted_entry: Json,
    payloads: Payloads,
    inquiry: Inquiry,
    *,
    try_compat: bool = True,
) -> SignatureReport:
    """Return what one entry of `signatures` is worth to the subject.

    Nothing in the entry makes this function raise.

    Args:
        index: Its place in `signatures`, from 0.
        untrusted_entry: The entry.
        payloads: The card's.
        inquiry: What the verdict is about.
        try_compat: Whether to check an entry of compat typ, which can explain but never count.
    """
    path, trust, entry = f"/signatures/{index}", inquiry.trust, None
    allowed = trust.issuer.algorithms if trust else tuple(ALGORITHMS)
    try:
        # (4.1) its shape and header
        entry = read_entry(untrusted_entry, algorithms=allowed)
        if entry.kind == "compat" and not try_compat:
            # Of one that is tried, `_why_it_may_not_count` says the same in other words.
            untried = "a compat signature is made for other SDKs, so it was not checked"
            reason = Finding("sig.compat", untried, Place(path))
            return _worthless(index, entry, "not-tried", reason, Answers())
        # (4.2) the key that its kid names
        key = trust.keys_by_kid.get(entry.kid) if trust else None
        if trust is None or key is None:
            return _without_key(index, entry, inquiry)
        # (4.3) the payload that it fits
        payload = matching_payload(entry, key.public, payloads, trust.issuer.profiles)
    except SignatureRefused as refusal:
        reason = refusal.finding.at(path + refusal.path)
        return _worthless(index, entry, "refused", reason, Answers("no"))
    if payload is None:
        # Which of the three it is, `inspect` searches for: a verdict does not depend on it.
        unfit = "the card was changed after it was signed, or signed by an unsupported rule "
        unfit += "(a2a-sdk before 1.1.4, crewAI)"
        bad = Finding("sig.bad", unfit, Place(path))
        return _worthless(index, entry, "invalid", bad, Answers("no"))
    # (4.4) to (4.7) its answers
    return _judge(index, entry, key, payload, payloads=payloads, inquiry=inquiry, trust=trust)


def _worthless(
    index: int, entry: Entry | None, verdict: SignatureVerdict, reason: Finding, answers: Answers
) -> SignatureReport:
    kid, alg, typ = (entry.kid, entry.alg, entry.typ) if entry else (None, None, None)
    return SignatureReport(index, kid, alg, typ, verdict, (reason,), answers=answers)


def _without_key(index: int, entry: Entry, inquiry: Inquiry) -> SignatureReport:
    """Return the report on a signature whose key is not accepted; its kid only explains."""
    kid, trust = entry.kid, inquiry.trust
    verdict: SignatureVerdict = "unknown-key"
    answers, hint = Answers(), ""
    skipped = trust.unsupported if trust is not None else ()
    unsupported = {name: problem for name, _, problem in skipped}
    if trust is not None and kid in trust.revoked:
        verdict, answers = "revoked", Answers(current="no")
        code, message = "key.revoked", f"the key {kid!r} is revoked"
    elif kid in unsupported:
        code, message = "key.unsupported", f"the key {kid!r} cannot be used: {unsupported[kid]}"
    elif trust is not None and trust.offered and trust.offered.find(kid) is not None:
        answers = Answers(authorised="no")
        code = "trust.key_changed"
        message = f"the key {kid!r} is new, and nothing that you trust endorses it"
    elif other := inquiry.policy.pinned_for(kid):
        verdict = "not-enrolled"
        code, message = "key.not_enrolled", f"your policy pins the key {kid!r} for {other!r}"
        hint = f"If it should be a card of {other}: --issuer {other}"
    else:
        code = "key.unknown"
        kids = [short_kid(key.public.kid) for key in trust.keys] if trust is not None else []
        accepted = f"; accepted are {some_of(kids, len(kids))}" if kids else ""
        message = f"no accepted key has the kid {kid!r}{accepted}"
        if trust is not None and not trust.issuer.is_holder:
            name, place = trust.issuer.name, (trust.issuer.places or ("ORIGIN",))[0]
            pinned = _PINNED_KEYS.format(name=name, place=place)
            hint = _OTHER_KEYS.get(type(trust.issuer.anchor), pinned)
    reason = Finding(code, message, Place(f"/signatures/{index}"), fix=hint)
    return _worthless(index, entry, verdict, reason, answers)


#: What to do about an unknown key of a policy's issuer; codes.toml says it of a key set alone.
_PINNED_KEYS: Final = (
    "Ask the issuer for its new keys, and copy the [issuer.anchor] that this writes over the old "
    "one: cardsign trust add {name} --origin {place} --jwks FILE --trust new.toml"
)
_OTHER_KEYS: Final[Mapping[type, str]] = {
    KeysetAnchor: "A newer keyset may list it: verify the URL of the card, or give --statements.",
    Url: "The key set at the issuer's URL lacks it: ask the issuer whether the key is its own.",
}


def matching_payload(
    entry: Entry, key: PublicKey, payloads: Payloads, accepted: Sequence[str] = ()
) -> Payload | None:
    """Return the payload of the card that the signature verifies, or None.

    They are tried in the order of the table: full profiles first, and the one that never counts
    last, so that what the JavaScript SDK has signed is not called changed. Several profiles may
    make the same bytes; of those the first accepted one is returned, or the first one where none
    is accepted.

    Raises:
        SignatureRefused: Header and key do not go together; no payload is looked at then.
    """
    tried: list[bytes] = []
    for profile in PROFILES:
        payload = payloads.of(profile)
        if payload is None or payload.data in tried:
            continue
        tried.append(payload.data)
        try:
            check_entry(entry, payload.data, key)
        except SignatureRefused as refusal:
            if refusal.code != "sig.bad":
                raise
            continue
        if profile in accepted:
            return payload
        same = (payloads.of(name) for name in DEFAULT_PROFILES if name in accepted)
        fitting = (other for other in same if other and other.data == payload.data)
        return next(fitting, payload)
    return None


# What it is worth.


def _judge(
    index: int,
    entry: Entry,
    key: IssuerKey,
    payload: Payload,
    *,
    payloads: Payloads,
    inquiry: Inquiry,
    trust: IssuerTrust,
) -> SignatureReport:
    """Return what a signature that fits a payload is worth, by that payload alone."""
    path = f"/signatures/{index}"
    # (4.4) integrity; a revoked key's signature never counts
    verdict, first = _why_it_may_not_count(entry, payload, trust.issuer, path)
    may_count = first is None
    is_revoked = key.public.thumbprint in trust.revoked
    if is_revoked:
        verdict = "revoked"
        first = Finding("key.revoked", f"the key {entry.kid!r} is revoked", Place(path))
    counts = may_count and not is_revoked
    # (4.5) authorised
    marker, other_kind = _read_marker(payload, inquiry.subject)
    not_now = _why_key_may_not_sign_now(key, trust, inquiry.now)
    against = [*filter(None, (not_now, other_kind)), *_why_no_card_of(payload, payloads, trust)]
    # (4.6) current
    current, not_current = _freshness(payloads, marker, trust, inquiry)
    # (4.7) complete
    opened = left_open(payload, accept_lossy=may_count)
    reasons = [*filter(None, (first, *against, not_current))]
    if opened.first:
        open_parts = tuple(_coverage_reasons(opened, payload.profile))
        # What the policy accepts unsigned does no harm to an answer.
        is_accepted = counts and not opened.fails
        reasons.extend(rate_findings(open_parts, trusted=True) if is_accepted else open_parts)
    return SignatureReport(
        index=index,
        kid=entry.kid,
        alg=entry.alg,
        typ=entry.typ,
        verdict=verdict,
        reasons=tuple(reasons),
        profile=payload.profile,
        counts=counts,
        uncovered=opened.pointers,
        uncovered_count=opened.count,
        holder=key.holder or None,
        payload=payload.data,
        answers=Answers(
            integrity="yes" if may_count else "no",
            authorised="no" if against else "yes",
            current="no" if is_revoked else current,
            complete="no" if opened.fails else "yes",
        ),
        ends=_ends(key, marker, trust, inquiry.now),
    )


def _why_it_may_not_count(
    entry: Entry, payload: Payload, issuer: TrustedIssuer, path: str
) -> tuple[SignatureVerdict, Finding | None]:
    """Return the first rule that refuses a signature that fits (V3); None where it may count.

    A compat typ never counts, and JWT only for a payload without a token's claims.
    """
    profile = payload.profile
    if entry.kind == "compat":
        never = f"a compat signature ({profile}) never counts"
        return "valid", Finding("sig.compat", never, Place(path))
    if entry.kind == "jwt" and not TOKEN_CLAIMS.isdisjoint(payload.value):
        claims = (name for name in payload.value if name in TOKEN_CLAIMS)
        jwt = f"typ JWT with {', '.join(claims)} in the payload: that is a token, not a card"
        return "refused", Finding("sig.typ_forbidden", jwt, Place(path))
    if profile in issuer.profiles:
        return "valid", None
    leaves = left_open(payload)
    message = f"the signature is good, but made by the rule {profile}, which does not count here"
    if leaves.count:
        message += f" and leaves {some_of(leaves.pointers, leaves.count)} unsigned"
    is_curable = profile in DEFAULT_PROFILES and issuer.profiles == FULL_PROFILES
    is_curable = is_curable and not left_open(payload, accept_lossy=True).fails
    fix = "" if is_curable else "Ask the issuer to sign for served-as-is as well."
    return "other-profile", Finding("sig.other_profile", message, Place(path), fix)


def _why_key_may_not_sign_now(key: IssuerKey, trust: IssuerTrust, now: datetime) -> Finding | None:
    """Return why a key may not sign cards now (rule V4), or None if it may."""
    kid, seconds = key.public.kid, now.timestamp()
    if "card" not in key.roles:
        return Finding("key.role", f"the key {kid!r} may not sign cards: it lacks the role card")
    early = seconds < key.nbf - trust.policy.skew
    # With a clock that is known to be wrong nothing is trusted in any case.
    if early and all(reason.code != "time.clock_behind" for reason in trust.blocks):
        return Finding("key.not_yet_valid", f"the key {kid!r} is valid from {minute(key.nbf)} on")
    if seconds >= key.exp:
        return Finding("key.expired", f"the key {kid!r} expired at {minute(key.exp)}")
    return None


def _read_marker(
    payload: Payload, subject: Subject
) -> tuple[ExtendedMarker | None, Finding | None]:
    """Return the extended card's marker, and why the card is not of the kind asked for (threat 12).

    There is no marker in a public card, and no reason where it is of that kind.
    """
    try:
        marker = find_marker(payload.value, payload.data)
    except CardRefused as refusal:
        return None, Finding(refusal.code, refusal.message, Place(refusal.path))
    audience = None if marker is None else marker.audience
    if audience == subject.audience:
        return marker, None
    if marker is None:
        return None, Finding("extended.not_marked", "the card has no extended-card marker")
    if subject.audience is None:
        public = f"this is the extended card of audience {audience!r}, not a public one"
        return marker, Finding("extended.served_as_public", public)
    other = f"this is the card of audience {audience!r}, not of {subject.audience!r}"
    return marker, Finding("extended.audience_mismatch", other)


def _why_no_card_of(payload: Payload, payloads: Payloads, trust: IssuerTrust) -> list[Finding]:
    """Return why the payload is no card of the subject.

    Its interfaces are elsewhere (rule V4), it is no Agent Card (decision E1, whatever the typ), or
    it cannot be read who may call.
    """
    value, places = payload.value, (trust.issuer.places, trust.origins, trust.reserved)
    reasons = []
    for check in (
        partial(check_interfaces, value, *places),
        partial(check_is_agent_card, value),
        partial(check_security, value, payloads.members),
    ):
        try:
            check()
        except CardRefused as refusal:
            # A lossy payload has its places elsewhere than the card has them.
            reasons.append(refusal.finding.at(refusal.path if payload.rewritten is None else ""))
    return reasons


def _ends(
    key: IssuerKey, marker: ExtendedMarker | None, trust: IssuerTrust, now: datetime
) -> datetime | None:
    """Return the earliest deadline (rule V8)."""
    ends = [end for end in trust.deadlines if end > now.timestamp()]
    ends += [key.exp] if key.exp < MAX_TIME else []
    if marker is not None:
        ends.append(marker.exp)
    return utc(min(ends)) if ends else None


def _coverage_reasons(opened: LeftOpen, profile: str) -> Iterator[Finding]:
    """Yield what is left open: first what fails the card, then what the policy puts up with."""
    for part in opened.first:
        where = part.pointer
        code, message = "coverage.uncovered", "is not signed"
        if part.security:
            code, message = "coverage.requirement_unsigned", f"says who may call, and it {message}"
        yield Finding(code, f"{where} {message} ({profile} leaves it out)", Place(where))
    if opened.count > len(opened.first):
        more = f"{opened.count - len(opened.first)} more places are not signed"
        yield Finding("coverage.uncovered", more)


# Is it current?


def _freshness(
    payloads: Payloads, marker: ExtendedMarker | None, trust: IssuerTrust, inquiry: Inquiry
) -> tuple[Answer, Finding | None]:
    """Return whether a card is known to be current, and if not, why; `marker` is its own."""
    if marker is not None and inquiry.now.timestamp() >= marker.exp:
        expired = f"the extended card expired at {minute(marker.exp)}"
        return "no", Finding("extended.expired", expired)
    release = trust.release
    if release is None:
        return "unknown", None
    if marker is None:
        against = _against_public(payloads.of("served-as-is"), release, trust, inquiry.subject)
    else:
        against = _against_extended(marker, release)
    if against is not None:
        return "no", against
    return ("unknown", None) if trust.hindrances else ("yes", None)


def _against_public(
    whole: Payload | None, release: ReleaseStatement, trust: IssuerTrust, subject: Subject
) -> Finding | None:
    digest = whole.sha256 if whole is not None else ""
    listed = [card for card in release.cards if card.payload_sha256 == digest]
    if not listed:
        missing = f"release {release.seq} (the newest known here) does not list this card"
        return Finding("card.digest_unlisted", missing)
    here = [card for card in listed if _is_at(card, trust, subject)]
    if not here:
        elsewhere = ", ".join(card.url for card in listed)
        message = f"release {release.seq} lists this card for {elsewhere}"
        return Finding("card.listed_elsewhere", message)
    if all(card.seq < release.floor.get(card.url, 0) for card in here):
        newest = max(here, key=lambda card: card.seq)
        return Finding("card.rollback", _too_old(newest.seq, release.floor[newest.url]))
    return None


def _too_old(seq: int, least: int) -> str:
    return f"the card is of release {seq}, and the oldest still accepted is {least}"


def _is_at(card: ListedCard, trust: IssuerTrust, subject: Subject) -> bool:
    """Return whether a card is listed for where it was asked from, or at least may stand."""
    try:
        url = parse_known_url(card.url)
    except CardRefused:  # nobody can have asked there
        return False
    if subject.url is not None:
        return url == parse_known_url(subject.url)
    if subject.origin is not None and url.origin != parse_origin(subject.origin):
        return False
    return may_stand_at(url, trust.issuer.places, trust.reserved)


def _against_extended(marker: ExtendedMarker, release: ReleaseStatement) -> Finding | None:
    least = release.floor.get(FLOOR_EXTENDED, 0)
    if marker.seq < least:
        return Finding("extended.rollback", _too_old(marker.seq, least))
    if marker.seq > release.seq:
        ahead = f"the card is of release {marker.seq}, and the newest is {release.seq}"
        return Finding("extended.ahead", ahead)
    return None
