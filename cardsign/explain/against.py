"""What was signed, told by a file: a true difference, where the signature proves the file."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from cardsign.card.canonical import canonicalize
from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import CanonicalizationError, JsonRefused
from cardsign.explain.differences import differences
from cardsign.explain.repairs import Candidate, Suspect, payloads_of, respelt
from cardsign.explain.report import Change, Signed
from cardsign.explain.spelling import COMMON

MAX_CHANGES: Final = 100  # listed; beyond that the two are different cards


class Against:
    """A file that is said to be what a card's signatures were made over.

    Args:
        untrusted_bytes: The card as its issuer claims to have signed it, or the payload
            itself; nothing in it makes any method raise.
        received: The card that carries the signatures.
    """

    def __init__(self, untrusted_bytes: bytes, received: Mapping[str, Json]) -> None:
        self._bytes = untrusted_bytes
        self._received = {name: one for name, one in received.items() if name != "signatures"}
        try:
            self._document: dict[str, Json] | None = parse_object(untrusted_bytes)
        except JsonRefused:
            self._document = None
        payloads = tuple(payloads_of(self._document)) if self._document is not None else ()
        self._candidates = [Candidate(payload, payload.data) for payload in payloads]
        self._candidates += respelt(payloads, COMMON)

    def explains(self, suspect: Suspect) -> Signed | None:
        """What the signature was made over, if the file holds it, and how that differs."""
        if suspect.fits(self._bytes):
            return self._signed(None, (), self._closest(self._document))
        for one in self._candidates:
            if suspect.fits(one.data):
                profile = one.payload.profile
                changes = self._changes(one.payload.value, profile)
                return self._signed(profile, one.deviations, changes)
        return None

    def _signed(
        self, profile: str | None, spelling: tuple[str, ...], changes: tuple[Change, ...]
    ) -> Signed:
        listed = tuple(islice(changes, MAX_CHANGES))
        return Signed("against", profile, spelling, listed, len(changes) - len(listed))

    def _changes(self, signed: dict[str, Json], profile: str) -> tuple[Change, ...]:
        try:
            received = canonicalize(self._received, profile).value
        except CanonicalizationError:
            received = self._received
        return tuple(differences(signed, received))

    def _closest(self, signed: dict[str, Json] | None) -> tuple[Change, ...]:
        """The difference from that payload of the received card which comes nearest."""
        if signed is None:
            return ()
        every = (tuple(differences(signed, one.value)) for one in payloads_of(self._received))
        return min(every, key=len, default=tuple(differences(signed, self._received)))
