"""What a key store keeps of a generation: its keys, and whose signatures its cards carry.

And what it tells in return: when the published keys are to change next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

from cardsign.card.canonical import canonicalize
from cardsign.card.document import Card
from cardsign.errors import SignatureRefused
from cardsign.generation import CARD_FILE, Generation, extended_file
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import read_entry
from cardsign.keys.life import record_publication
from cardsign.keys.records import Publication, PublishedCard, StoreState
from cardsign.keys.rotation import next_change
from cardsign.keys.timeline import TimelineSettings
from cardsign.publish import NextChange
from cardsign.verify.signature import Payloads, matching_payloads


def publication_of(generation: Generation) -> Publication:
    """Describe a generation for the key store that its keys are of.

    Raises:
        InputRefused: It is not as :func:`cardsign.publish.publish` makes them.
    """
    jwks = JwkSet.from_bytes(generation.jwks)
    cards = {CARD_FILE: generation.card}
    cards |= {extended_file(audience): card for audience, card in generation.extended.items()}
    return Publication(
        generation.number,
        generation.published_at,
        generation.max_age,
        generation.kids,
        tuple(published_card(name, card, jwks) for name, card in cards.items()),
    )


def next_change_by(state: StoreState, settings: TimelineSettings, now: datetime) -> NextChange:
    """Say when the next card key is due to be activated or dropped, once a generation is recorded.

    Args:
        state: Of the store that the published keys are of.
        settings: What is assumed of caches.
        now: The time, with its zone.
    """

    def by(generation: Generation) -> datetime | None:
        recorded, _ = record_publication(state, publication_of(generation))
        due = next_change(recorded, settings, now)
        return due and max(due, generation.published_at)

    return by


def published_card(name: str, card: bytes, jwks: JwkSet) -> PublishedCard:
    """Describe a card for the record of its publication.

    Args:
        name: Its file in the publication.
        card: The card, as published.
        jwks: The keys that are published beside it.

    Raises:
        JsonRefused, CardRefused: The bytes are no Agent Card that can be read one way only.
        CanonicalizationError: It has no `served-as-is` payload.
    """
    read = Card.from_bytes(card)
    return PublishedCard(
        name=name,
        url=_first_endpoint(read),
        payload_sha256=hashlib.sha256(canonicalize(read.document, "served-as-is").data).hexdigest(),
        kids=tuple(dict.fromkeys(_signers(read, jwks))),
    )


def _first_endpoint(card: Card) -> str | None:
    """The address that the card names first, as A2A 1.0 or as 0.3 says it."""
    interfaces = card.document.get("supportedInterfaces")
    for interface in interfaces if isinstance(interfaces, list) else ():
        if isinstance(interface, dict) and isinstance(url := interface.get("url"), str):
            return url
    url = card.document.get("url")
    return url if isinstance(url, str) else None


def _signers(card: Card, jwks: JwkSet) -> Iterator[str]:
    payloads = Payloads(card)
    for untrusted_entry in card.signatures:
        try:
            entry = read_entry(untrusted_entry)
            key = jwks.find(entry.header.kid)
            if key is not None and matching_payloads(entry, key, payloads):
                yield key.kid
        except SignatureRefused:
            continue
