"""The bounded search for what a signature was made over, where it fits nothing that is there.

A signature does not reveal the signer's payload. But the usual mistakes are few: one member
more or less than was signed, a default that one side writes out and the other leaves away, and
JSON that is not canonical. Each is undone in turn and the signature checked against what comes
out; one that fits is a proof, and nothing short of it is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cardsign.card.canonical import PROFILES, Payload, canonicalize
from cardsign.card.strictjson import Json
from cardsign.errors import CanonicalizationError, SignatureRefused
from cardsign.explain.edits import single_edits
from cardsign.explain.report import Change, Signed
from cardsign.explain.spelling import COMMON, SPELLINGS, Spelling
from cardsign.jose.jws import Entry, check_entry
from cardsign.jose.keys import PublicKey

#: Signature checks for one card, shared by its signatures; one takes 0.1 ms. One signature on a
#: card of 3 KiB needs some 700 to go through everything.
MAX_TRIES: Final = 4_000
#: Bytes read to make payloads for one card, which costs more than checking them; each JSON value
#: counts for :data:`VALUE_BYTES` more, since a card of many small values costs the most. Beyond
#: cards of some 7 KiB this limit ends the search, by the number of payloads made.
MAX_READ_BYTES: Final = 32 * 1024 * 1024
VALUE_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class Suspect:
    """A well-formed signature by a known key that fits no payload of the card."""

    entry: Entry
    key: PublicKey

    def fits(self, payload: bytes) -> bool:
        """Whether the signature was made over these bytes."""
        try:
            check_entry(self.entry, payload, self.key)
        except SignatureRefused:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bytes that a signer may have signed, and what tells them from the card's payloads.

    Attributes:
        payload: Made by a profile, from the card or from an edit of it.
        data: Its bytes, as the profile or as a spelling writes them.
        spelling: The spelling; None for the profile's own bytes.
        change: The edit, if there is one.
    """

    payload: Payload
    data: bytes
    spelling: Spelling | None = None
    change: Change | None = None

    @property
    def deviations(self) -> tuple[str, ...]:
        """In what the bytes are written otherwise than the profile writes them."""
        return () if self.spelling is None else self.spelling.deviations_in(self.payload.value)

    @property
    def signed(self) -> Signed:
        """The candidate as a finding, once a signature fits it."""
        changes = () if self.change is None else (self.change,)
        return Signed("search", self.payload.profile, self.deviations, changes)


@dataclass(slots=True)
class Search:
    """What the search found for one signature.

    Attributes:
        signed: What it was made over, or None.
        tried: How many payloads it was checked against.
        exhausted: All that the search knows was tried.
    """

    signed: Signed | None = None
    tried: int = 0
    exhausted: bool = False


def search(
    document: Mapping[str, Json], suspects: Sequence[Suspect], *, is_0_3: bool
) -> list[Search]:
    """Look for what each signature was made over; stops when all are found, or at the limits.

    Args:
        document: The card as received, read strictly.
        suspects: The signatures; of the card's own payloads they are known to fit none.
        is_0_3: Whether to try defaults of A2A 0.3 rather than of 1.0.
    """
    found = [Search() for _ in suspects]
    left = list(zip(suspects, found, strict=True))
    as_received = tuple(payloads_of(document))
    seen = {payload.data for payload in as_received}
    values = max(len(payload.destinations) for payload in as_received)
    size = max(map(len, seen)) + VALUE_BYTES * values
    tries = 0
    for made, candidate in enumerate(_candidates(document, as_received, is_0_3=is_0_3), 1):
        if not left or made * size > MAX_READ_BYTES or tries + len(left) > MAX_TRIES:
            break
        if candidate.data in seen:
            continue
        seen.add(candidate.data)
        for suspect, one in left:
            one.tried += 1
            one.signed = candidate.signed if suspect.fits(candidate.data) else None
        tries += len(left)
        left = [(suspect, one) for suspect, one in left if one.signed is None]
    else:
        for _, one in left:
            one.exhausted = True
    return found


def payloads_of(document: Mapping[str, Json]) -> Iterator[Payload]:
    """The card's payload under each profile that has one."""
    for profile in PROFILES:
        try:
            yield canonicalize(document, profile)
        except CanonicalizationError:
            continue


def respelt(payloads: Iterable[Payload], spellings: Iterable[Spelling]) -> Iterator[Candidate]:
    """Payloads written otherwise than their profiles do, the likeliest spellings first."""
    distinct: dict[str, Payload] = {}
    for payload in payloads:
        distinct.setdefault(json.dumps(payload.value), payload)
    for spelling in spellings:
        for payload in distinct.values():
            yield Candidate(payload, spelling.write(payload.value), spelling)


def _candidates(
    document: Mapping[str, Json], as_received: Sequence[Payload], *, is_0_3: bool
) -> Iterator[Candidate]:
    """All that the search knows, cheapest first; the same bytes may come again."""
    yield from respelt(as_received, COMMON)
    for change, card in single_edits(document, is_0_3=is_0_3):
        for payload in payloads_of(card):
            yield Candidate(payload, payload.data, None, change)
    yield from respelt(as_received, SPELLINGS)
    # Who does not write canonical JSON prunes nothing either, but for the SDKs whose writing is
    # part of their profile.
    for change, card in single_edits(document, is_0_3=is_0_3):
        for one in respelt([canonicalize(card, "served-as-is")], COMMON):
            yield Candidate(one.payload, one.data, one.spelling, change)
