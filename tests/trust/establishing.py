"""A verifier of the issuer `tides`, for the tests of trust and of verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cardsign.card.canonical import canonicalize
from cardsign.findings import Finding
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import KeysetId, KeysetStatement
from cardsign.statements.release import ReleaseStatement
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Anchor, KeysetAnchor, Limits, TrustedIssuer
from cardsign.trust.session import IssuerTrust, Session
from cardsign.trust.supplied import StatementCache, SuppliedStatements
from cardsign.urls import parse_place
from tests.jose.statement_making import NOW, URL, Members
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


@dataclass
class Notebook:
    """What one verifier knows of the issuer, from one question to the next.

    Attributes:
        keyset: The newest keyset statement at the start.
        release: The newest release statement at the start.
        newest_iat: The highest signed time at the start.
        jwks: The key set at the start.
        floor: What the lock says.
        cache: Statements of before.
    """

    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    newest_iat: int = 0
    jwks: JwkSet | None = None
    floor: Floor = field(default_factory=Floor)
    cache: StatementCache = field(default_factory=StatementCache)
    session: Session | None = None

    def opened(self, issuer: TrustedIssuer, limits: Limits) -> Session:
        """The session, which begins with the first question; the last policy holds."""
        if self.session is None:
            self.session = Session(issuer, limits, (), self.floor, cache=self.cache)
            self.session.keyset, self.session.release = self.keyset, self.release
            self.session.jwks = self.jwks
            self.session.newest_iat = max(self.newest_iat, self.floor.newest_iat)
        elif self.session.limits != limits:
            known, self.session = self.session, None
            self.keyset, self.release, self.jwks = known.keyset, known.release, known.jwks
            self.newest_iat = known.newest_iat
            return self.opened(issuer, limits)
        return self.session


def stand(
    anchor: Anchor,
    keysets: Iterable[bytes] = (),
    releases: Iterable[bytes] = (),
    *,
    memo: Notebook | None = None,
    now: datetime = NOW,
    limits: Limits | None = None,
    historic: bool = False,
    places: str | None = ORIGIN,
    **came_along: Any,
) -> IssuerTrust:
    """What holds for the issuer; nothing is known of him before, if no memo is given."""
    issuer = enrolled(anchor, places=None if places is None else (parse_place(places),))
    session = (memo or Notebook()).opened(issuer, limits or Limits())
    supplied = SuppliedStatements(tuple(keysets), tuple(releases), **came_along)
    return session.resolve(supplied, now, historic=historic)


def number(standing: IssuerTrust) -> tuple[int, int] | None:
    """Epoch and version of the keyset statement that holds."""
    return None if standing.keyset is None else standing.keyset.number


def codes(reasons: Iterable[Finding]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
