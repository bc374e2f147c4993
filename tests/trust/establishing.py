"""A verifier of the issuer `tides`, for the tests of trust and of verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from cardsign.card import canonicalize
from cardsign.errors import FileFault
from cardsign.reasons import Reason
from cardsign.statements import KeysetId
from cardsign.trust import (
    Anchor,
    Enrolment,
    Evidence,
    Floor,
    KeysetAnchor,
    Known,
    Limits,
    Standing,
    anchor_digest,
    establish,
)
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


def enrolled(anchor: Anchor, **changes: Any) -> Enrolment:
    """The issuer at his origin."""
    return Enrolment("tides", anchor, **{"places": (parse_place(ORIGIN),), **changes})


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
    """

    def __init__(self, known: Known | None, *, pages: int | None = None) -> None:
        self.known = known
        self.notes: tuple[Reason, ...] = ()
        self.kept: list[Known] = []
        self._pages = pages

    def keep(self, known: Known) -> None:
        """See :class:`cardsign.trust.known.Memo`."""
        if self._pages is not None and len(self.kept) >= self._pages:
            raise FileFault("file.unwritable", "no page is left")
        if self.known is not None:
            self.kept.append(known)
            self.known = known

    @contextmanager
    def of(self, enrolment: Enrolment) -> Iterator[Notebook]:
        """See :class:`cardsign.trust.known.Memory`."""
        yield self


def blank(anchor: Anchor, floor: Floor | None = None, **members: Any) -> Known:
    """What is remembered at the start."""
    return Known(anchor_digest(anchor), floor=floor or Floor(), **members)


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
) -> Standing:
    """What holds for the issuer; with a blank memory if none is given."""
    memo = memo or Notebook(blank(anchor))
    found = None if places is None else (parse_place(places),)
    evidence = Evidence(tuple(keysets), tuple(releases), **came_along)
    return establish(
        enrolled(anchor, places=found),
        limits or Limits(),
        evidence,
        memo,
        now=now,
        historic=historic,
    )


def number(standing: Standing) -> tuple[int, int] | None:
    """Epoch and version of the keyset statement that holds."""
    return None if standing.keyset is None else standing.keyset.number


def codes(reasons: Iterable[Reason]) -> list[str]:
    """Their codes."""
    return [reason.code for reason in reasons]
