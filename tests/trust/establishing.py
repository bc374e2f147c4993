"""A verifier of the issuer `tides`, for the tests of trust and of verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from cardsign.card.canonical import canonicalize
from cardsign.errors import FileFault
from cardsign.findings import Finding
from cardsign.statements.keyset import KeysetId
from cardsign.trust.policy import Anchor, KeysetAnchor, Limits, RollbackFloor, TrustedIssuer
from cardsign.trust.resolve import IssuerTrust, resolve_issuer
from cardsign.trust.state import IssuerState
from cardsign.trust.supplied import SuppliedStatements
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


class Notebook:
    """A memory of one issuer that writes down each step, and whose paper may run out.

    Args:
        known: What is remembered; None for no memory at all.
        pages: How many steps can be kept; None for any number.
        floor: What the lock says.
    """

    def __init__(
        self,
        known: IssuerState | None,
        *,
        pages: int | None = None,
        floor: RollbackFloor | None = None,
    ) -> None:
        self.known = known
        self.floor = floor
        self.kept: list[IssuerState] = []
        self._pages = pages

    def keep(self, known: IssuerState) -> None:
        """As a store does, for the one issuer."""
        if self._pages is not None and len(self.kept) >= self._pages:
            raise FileFault("file.unwritable", "no page is left")
        if self.known is not None:
            self.kept.append(known)
            self.known = known


def blank(anchor: Anchor, **members: Any) -> IssuerState:
    """What is remembered at the start."""
    return replace(IssuerState.begin(enrolled(anchor)), **members)


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
    """What holds for the issuer; with a blank memory if none is given."""
    memo = memo or Notebook(blank(anchor))
    found = None if places is None else (parse_place(places),)
    issuer = enrolled(anchor, places=found, floor=memo.floor)
    state = memo.known
    if state is not None and places != ORIGIN:
        state = replace(state, origins=IssuerState.begin(issuer).origins)
    supplied = SuppliedStatements(tuple(keysets), tuple(releases), **came_along)
    return resolve_issuer(
        issuer,
        limits or Limits(),
        supplied,
        state,
        now=now,
        keep=memo.keep,
        historic=historic,
    )


def number(standing: IssuerTrust) -> tuple[int, int] | None:
    """Epoch and version of the keyset statement that holds."""
    return None if standing.keyset is None else standing.keyset.number


def codes(reasons: Iterable[Finding]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
