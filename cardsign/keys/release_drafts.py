"""Release statements as their issuer drafts them: which cards are current from now on.

Pure. A release lists a new card before it is served and the old one for as long as caches may
hold it, so that none of the orders in which copies expire refuses an honest card
(threat 15).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from cardsign.card.canonical import canonicalize
from cardsign.card.document import Card
from cardsign.card.strictjson import Json
from cardsign.keys.lifecycle import TimelineSettings
from cardsign.keys.model import StoreState
from cardsign.records import dataclass
from cardsign.statements.envelope import TYP_RELEASE, Envelope
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import (
    FLOOR_EXTENDED,
    KIND_PUBLIC,
    RELEASE_FORMAT,
    ListedCard,
    ReleaseStatement,
    release_of,
    release_payload,
)

#: How long a release is believed. It is renewed at half of it, so a dead cron is seen in time.
RELEASE_LIFETIME: Final = timedelta(days=7)
#: The clocks of the issuer's own hosts may differ by so much.
SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What the next release is to say besides what the one before said.

    Attributes:
        cards: (url, payload digest) of the cards to list; the listed ones stay.
        settled: By url, the digest of the only card that caches can still hold: what was listed
            before it no longer is, and the floor rises to it.
        withdrawn: Urls of which nothing is current any more.
        extended_floor: The least seq of an extended card that is still current, if it rises.
        revoked: Thumbprints; those that are no keys of the keyset are left out.
    """

    cards: tuple[tuple[str, str], ...] = ()
    settled: Mapping[str, str] = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    extended_floor: int | None = None
    revoked: frozenset[str] = frozenset()
    audit_head: str | None = None


def settled_cards(
    listed: Iterable[ListedCard], state: StoreState, settings: TimelineSettings, now: datetime
) -> dict[str, str]:
    """By url, the digest of the only card that caches can still hold, where there is just one.

    It is the one that the newest records show, of publications or of looks at what is live, and the
    first of these is as old as caches may keep a card. What nobody has recorded does not settle: it
    may never have been live.
    """
    by_url: dict[str, set[str]] = {}
    for card in listed:
        by_url.setdefault(card.url, set()).add(card.payload_sha256)
    turnover = settings.as_published(state).turnover
    newest = {url: _newest_shown(digests, state) for url, digests in by_url.items()}
    return {url: shown[0] for url, shown in newest.items() if shown and shown[1] + turnover <= now}


def _newest_shown(digests: Collection[str], state: StoreState) -> tuple[str, datetime] | None:
    """Which of some cards was recorded last, and since when no other one was."""
    shown: tuple[str, datetime] | None = None
    for publication in state.publications:
        for card in publication.cards:
            digest = card.payload_sha256
            if digest in digests and (shown is None or shown[0] != digest):
                shown = digest, publication.at
    return shown


def card_digest(card: bytes) -> str:
    """SHA-256 of a card's ``served-as-is`` payload in lower-case hex, as releases list it.

    Raises:
        JsonRefused, CardRefused: It cannot be read in one way only.
        CanonicalizationError: It has no such payload.
    """
    return hashlib.sha256(
        canonicalize(Card.from_bytes(card).document, "served-as-is").data
    ).hexdigest()


def draft_following(
    plan: ReleasePlan,
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    *,
    seq: int,
    now: datetime,
    lifetime: timedelta = RELEASE_LIFETIME,
) -> ReleaseStatement:
    """Draft the next release, unsigned; `seq` is higher than any number that was used.

    Raises:
        StatementRefused: What a verifier would refuse however it is signed.
    """
    floor = dict(previous.floor) if previous else {}
    if plan.extended_floor is not None:
        floor[FLOOR_EXTENDED] = max(plan.extended_floor, floor.get(FLOOR_EXTENDED, 0))
    cards = _settled(_listed(plan, previous, floor, seq), plan, floor)
    # The floor outlives the card: so every later release knows that it was withdrawn.
    for url in plan.withdrawn:
        floor.setdefault(url, seq)
    revoked = plan.revoked
    if previous is not None and previous.keyset == keyset.id:
        revoked = revoked | previous.revoked
    iat = int(now.timestamp())
    payload = release_payload(
        {
            "format": RELEASE_FORMAT,
            "issuer": keyset.issuer,
            "keyset": keyset.id.to_json(),
            "seq": seq,
            "iat": iat,
            "exp": iat + int(lifetime.total_seconds()),
            "cards": [
                {
                    "url": card.url,
                    "kind": card.kind,
                    "payload_sha256": card.payload_sha256,
                    "seq": card.seq,
                }
                for card in cards
            ],
            "floor": dict(floor),
            "revoked": list[Json](sorted(revoked & {key.public.thumbprint for key in keyset.keys})),
            "audit_head": plan.audit_head,
        }
    )
    return release_of(Envelope(TYP_RELEASE, payload, ()))


def says_something_new(
    draft: ReleaseStatement, previous: ReleaseStatement | None, *, now: datetime
) -> bool:
    """Whether a release says anything new, or the one before is half over, or not begun.

    A longer audit log alone is nothing new: each release makes it longer itself.
    """
    if previous is None or now >= previous.renew_at or is_early(previous, now=now):
        return True
    return _content(draft) != _content(previous)


def is_early(release: ReleaseStatement, *, now: datetime) -> bool:
    """Whether nobody believes a release yet: the signer's clock was ahead."""
    return now.timestamp() < release.iat - SKEW.total_seconds()


def _content(release: ReleaseStatement) -> tuple[object, ...]:
    return (
        release.issuer,
        release.keyset,
        frozenset(release.cards),
        dict(release.floor),
        release.revoked,
    )


def _listed(
    plan: ReleasePlan, previous: ReleaseStatement | None, floor: Mapping[str, int], seq: int
) -> list[ListedCard]:
    """Cards that are current and those to come; who was listed first when stays so."""
    listed = {
        (card.url, card.payload_sha256): card
        for card in (previous.cards if previous else ())
        if card.seq >= floor.get(card.url, 0)
    }
    newest = {card.url: card for card in sorted(listed.values(), key=lambda card: card.seq)}
    # To return to a card before the newest is to list it anew: else its floor would let the newer
    # one pass for ever.
    for url, digest in plan.cards:
        if url not in newest or newest[url].payload_sha256 != digest:
            listed[url, digest] = ListedCard(url, KIND_PUBLIC, digest, seq)
    return sorted(listed.values(), key=lambda card: (card.url, card.seq, card.payload_sha256))


def _settled(cards: list[ListedCard], plan: ReleasePlan, floor: dict[str, int]) -> list[ListedCard]:
    """Leave out what no cache holds any more, and raise the floors to what is left."""
    for card in cards:
        if plan.settled.get(card.url) == card.payload_sha256:
            floor[card.url] = max(floor.get(card.url, 0), card.seq)
    return [
        card
        for card in cards
        if card.url not in plan.withdrawn and card.seq >= floor.get(card.url, 0)
    ]
