"""First contact: what is kept of an issuer of whom nothing was known (threats.md 20)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cardsign.errors import CardRefused
from cardsign.jose.jwks import JwkSet
from cardsign.jose.statements import StatementRefused
from cardsign.jose.succession import RootPin, StatementPin, check_first
from cardsign.reasons import Reason
from cardsign.trust.evidence import Evidence
from cardsign.trust.origins import Url, parse_origin
from cardsign.trust.places import Place
from cardsign.trust.receiving import check_past, number_of, receive


@dataclass(frozen=True, slots=True)
class Contact:
    """What a first contact came to.

    Attributes:
        pin: The first keyset statement that the issuer himself has signed, or None.
        jwks: His bare keys, where he has no keyset at all; or None.
        reasons: What is to be reported.
    """

    pin: StatementPin | None = None
    jwks: JwkSet | None = None
    reasons: tuple[Reason, ...] = ()


def make_contact(
    evidence: Evidence,
    offered: JwkSet | None,
    places: tuple[Place, ...],
    *,
    now: datetime,
    skew: timedelta,
) -> Contact:
    """Learn from the card's own origin over TLS, and from nobody else.

    Args:
        evidence: What came along, and from where.
        offered: The key set in it, if it holds one that can be read.
        places: Where the policy says that the issuer is at home.
        now: Aware.
        skew: How far the issuer's clock may be ahead of ours.
    """
    home = evidence.contact
    if home is None or not _is_at_home(home, places):
        return Contact()
    received = receive(evidence.untrusted_keysets, ())
    reasons = []
    firsts = []
    for statement in sorted(received.keysets, key=number_of):
        try:
            check_first(statement, RootPin.of(statement.root))
            check_past(statement, now, skew)
        except StatementRefused as refusal:
            reasons.append(Reason.of(refusal.code, refusal.message))
        else:
            firsts.append(statement)
    if firsts:
        first = firsts[0]
        if any(number_of(one) == number_of(first) and one.digest != first.digest for one in firsts):
            both = f"{home} gives two keyset statements {first.epoch}.{first.version}"
            reasons.append(Reason.of("statement.fork", f"{both}; neither is believed"))
            return Contact(reasons=tuple(reasons))
        pin = StatementPin(first.epoch, first.version, first.digest)
        met = f"first contact with {home}, keyset {pin.epoch}.{pin.version}: {pin.digest}"
        return Contact(pin, None, (*reasons, Reason.of("trust.tofu_first", met)))
    if offered is None or not offered.keys or evidence.untrusted_keysets:
        return Contact(reasons=tuple(reasons))
    bare = f"first contact with {home}: it has no keyset, so its bare keys are kept; "
    bare += "a rotation will need a person"
    return Contact(None, offered, (Reason.of("trust.tofu_first", bare),))


def _is_at_home(contact: str, places: tuple[Place, ...]) -> bool:
    try:
        origin = parse_origin(contact)
    except CardRefused:
        return False
    secure = origin.scheme == "https" or _is_this_machine(origin.host)
    return secure and any(
        place.origin == origin and place.holds(Url(origin, place.prefix, "")) for place in places
    )


def _is_this_machine(host: str) -> bool:
    """Plain HTTP to oneself can be overheard by nobody; only explicit leave ever asks it."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
