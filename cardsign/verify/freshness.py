"""Whether a card is current, and whether it is of the kind that was asked for (rule V5).

Both are asked of the payload that a signature covers and of nothing else. What speaks against a
card is "no"; where nobody who may speak has spoken, it is "unknown".
"""

from __future__ import annotations

import hashlib

from cardsign.card.canonical import Payload
from cardsign.card.extensions import ExtendedMarker, cannot_name_us, find_marker
from cardsign.errors import CardRefused
from cardsign.reasons import Reason
from cardsign.statements.keyset import IssuerKey
from cardsign.statements.release import FLOOR_EXTENDED, ListedCard, ReleaseStatement
from cardsign.times import minute
from cardsign.trust.policy import AtOrigin, CardUrl, Expectation, Extended
from cardsign.trust.resolve import IssuerTrust
from cardsign.urls import parse_origin, parse_url
from cardsign.verify.report import Answer


def read_marker(
    payload: Payload, expect: Expectation | None
) -> tuple[ExtendedMarker | None, Reason | None]:
    """Hold what a payload says of itself against what was asked for (threat 12).

    Returns:
        The extended card's marker, or None for a public card; and why the card is not of the kind
        that was asked for, or None if it is.
    """
    try:
        marker = None if cannot_name_us(payload.data) else find_marker(payload.value)
    except CardRefused as refusal:
        return None, Reason.of(refusal.code, refusal.message, refusal.path)
    if not isinstance(expect, Extended):
        if marker is None:
            return None, None
        public = f"this is the extended card of audience {marker.audience!r}, not a public one"
        return marker, Reason.of("extended.served_as_public", public)
    if marker is None:
        return None, Reason.of("extended.not_marked", "the card has no extended-card marker")
    if marker.audience != expect.audience:
        other = f"this is the card of audience {marker.audience!r}, not of {expect.audience!r}"
        return marker, Reason.of("extended.audience_mismatch", other)
    return marker, None


def may_sign_now(key: IssuerKey, trust: IssuerTrust) -> Reason | None:
    """Why a key may not sign cards now (rule V4), or None if it may."""
    kid, seconds = key.public.kid, trust.now.timestamp()
    if not key.signs_cards:
        return Reason.of("key.role", f"the key {kid!r} may not sign cards: it lacks the role card")
    early = seconds < key.nbf - trust.skew.total_seconds()
    if early and not trust.clock_is_behind:  # else nothing is trusted in any case
        return Reason.of("key.not_yet_valid", f"the key {kid!r} is valid from {minute(key.nbf)} on")
    if seconds >= key.exp:
        return Reason.of("key.expired", f"the key {kid!r} expired at {minute(key.exp)}")
    return None


def currency(
    served_as_is: bytes | None,
    marker: ExtendedMarker | None,
    trust: IssuerTrust,
    expect: Expectation | None,
) -> tuple[Answer, Reason | None]:
    """Whether a card is known to be current, and if not, why.

    Args:
        served_as_is: The received document's payload under that profile, if it has one.
        marker: That of an extended card.
        trust: Who may speak, and what has been said.
        expect: What was asked for.
    """
    if marker is not None and trust.now.timestamp() >= marker.exp:
        expired = f"the extended card expired at {minute(marker.exp)}"
        return "no", Reason.of("extended.expired", expired)
    release = trust.release
    if release is None:
        return "unknown", None
    if marker is None:
        against = _public(served_as_is, release, trust, expect)
    else:
        against = _extended(marker, release)
    if against is not None:
        return "no", against
    return ("unknown", None) if trust.hindrances else ("yes", None)


def _public(
    served_as_is: bytes | None,
    release: ReleaseStatement,
    trust: IssuerTrust,
    expect: Expectation | None,
) -> Reason | None:
    digest = hashlib.sha256(served_as_is or b"").hexdigest()
    listed = [card for card in release.cards if card.payload_sha256 == digest]
    if not listed:
        missing = f"release {release.seq} does not list this card (payload {digest})"
        return Reason.of("card.digest_unlisted", missing)
    here = [card for card in listed if _is_at(card, trust, expect)]
    if not here:
        elsewhere = (
            f"release {release.seq} lists this card for {', '.join(card.url for card in listed)}"
        )
        return Reason.of("card.listed_elsewhere", elsewhere)
    if all(card.seq < release.floor.get(card.url, 0) for card in here):
        newest = max(here, key=lambda card: card.seq)
        floor = release.floor[newest.url]
        old = f"the card is of release {newest.seq}, and the oldest still accepted is {floor}"
        return Reason.of("card.rollback", old)
    return None


def _is_at(card: ListedCard, trust: IssuerTrust, expect: Expectation | None) -> bool:
    """Whether a card is listed for where it was asked from, or at least for where it may stand."""
    try:
        url = parse_url(card.url)
    except CardRefused:  # nobody can have asked there
        return False
    match expect:
        case CardUrl(asked):
            return url == parse_url(asked)
        case AtOrigin(origin) if url.origin != parse_origin(origin):
            return False
    return trust.may_stand_at(url)


def _extended(marker: ExtendedMarker, release: ReleaseStatement) -> Reason | None:
    least = release.floor.get(FLOOR_EXTENDED, 0)
    if marker.seq < least:
        old = f"the card is of release {marker.seq}, and the oldest still accepted is {least}"
        return Reason.of("extended.rollback", old)
    if marker.seq > release.seq:
        ahead = f"the card is of release {marker.seq}, and the newest is {release.seq}"
        return Reason.of("extended.ahead", ahead)
    return None
