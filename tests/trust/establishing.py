"""A verifier of the issuer `tides`, for the tests of trust and of verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from cardsign.card.profiles import canonicalize
from cardsign.findings import Finding
from cardsign.statements.keyset import KeysetId
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Anchor, KeysetAnchor, Policy, TrustedIssuer
from cardsign.trust.session import IssuerTrust, Session
from cardsign.trust.walk import SuppliedStatements
from cardsign.urls import parse_place
from tests.statements.making import NOW, URL, Members
from tests.support import PORTABLE
from tests.trust.histories import digest_of, members_of

ORIGIN = "https://tides.example"


def pin_of(statement: bytes) -> KeysetId:
    """The pin of a keyset statement."""
    said = members_of(statement)
    return KeysetId(said["epoch"], said["version"], digest_of(statement))


def anchored(statement: bytes) -> KeysetAnchor:
    """The anchor that is this statement."""
    return KeysetAnchor(pin_of(statement), "tides.example")


def enrolled(anchor: Anchor, **changes: Any) -> TrustedIssuer:
    """The issuer at his origin."""
    return TrustedIssuer("tides", anchor, **{"places": (parse_place(ORIGIN),), **changes})


def payload_digest(card: Mapping[str, Any] = PORTABLE) -> str:
    """What a release lists of a card."""
    return hashlib.sha256(canonicalize(dict(card), "served-as-is").data).hexdigest()


def listed(card: Mapping[str, Any] = PORTABLE, *, url: str = URL, seq: int = 3) -> Members:
    """The entry of a card in a release."""
    return {"url": url, "kind": "public", "payload_sha256": payload_digest(card), "seq": seq}


def session_of(anchor: Anchor, floor: Floor | None = None) -> Session:
    """What one verifier knows of the issuer: nothing yet."""
    return Session(Policy(), enrolled(anchor), floor)


def stand(
    asked: Anchor | Session,
    keysets: Iterable[bytes] = (),
    releases: Iterable[bytes] = (),
    *,
    now: datetime = NOW,
    historic: bool = False,
    **came_along: Any,
) -> IssuerTrust:
    """What holds for the issuer, by an anchor alone or by what is known already."""
    session = asked if isinstance(asked, Session) else session_of(asked)
    supplied = SuppliedStatements(tuple(keysets), tuple(releases), **came_along)
    return session.resolve(supplied, now, historic=historic)


def number(standing: IssuerTrust) -> tuple[int, int] | None:
    """Epoch and version of the keyset statement that holds."""
    return None if standing.keyset is None else standing.keyset.number


def codes(reasons: Iterable[Finding]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
