"""The extended cards of one generation: who may have one, and which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extended import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.errors import InputRefused
from cardsign.publish.generation import Generation
from cardsign.server.documents import Document
from cardsign.server.jsonrpc import (
    NOT_CONFIGURED,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Refused,
)
from cardsign.server.providers.base import Asked, Provider
from cardsign.server.providers.chain import Callers

# A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = frozenset({"", "0.3", "1.0"})


def check_version(request: Asked) -> None:
    """Check that the protocol version of a request can be served.

    Raises:
        Refused: It cannot.
    """
    version = request.headers.get("A2A-Version") or request.args.get("A2A-Version", "")
    if version.strip() not in _VERSIONS:
        raise Refused(VERSION_NOT_SUPPORTED, "A2A-Version is not one of 1.0, 0.3")


class ExtendedCards:
    """The extended cards of one generation, by audience.

    A card that cannot be served is one line for the operator. It harms no other card.

    Args:
        generation: Where they stand.
        providers: Who may have one; any of them will do.
        now: Unix seconds.

    Raises:
        ServeFault: ``serve.schemes``: the public card demands a scheme that none of them takes,
            so callers who do as it says would be turned away (threat 26).
    """

    def __init__(
        self, generation: Generation, providers: tuple[Provider, ...], now: Callable[[], float]
    ) -> None:
        #: Whether there is any, also one that cannot be served.
        self.are_there = bool(generation.extended)
        card = parse_object(generation.card)
        self._is_declared = declares_extended_card(card)
        self._callers = Callers(providers, schemes_of(card), requirements_of(card))
        self._now = now
        if self.are_there and providers:
            self._callers.check_schemes()
        self._cards: dict[str, tuple[Document, int]] = {}
        self._broken: dict[str, str] = {}
        for audience, body in generation.extended.items():
            try:
                marker = find_marker(Card.from_bytes(body).document)
            except InputRefused as refusal:
                self._broken[audience] = f"it cannot be read: {refusal.message}"
                continue
            if marker is None:
                self._broken[audience] = "it does not say for whom it is, and until when"
                continue
            document = Document.of_extended(body, generation.published_at)
            self._cards[audience] = document, marker.exp

    def card_for(self, request: Asked) -> Document:
        """The extended card that a request's credentials open.

        What the public card says already comes before authentication, everything else after it.

        Raises:
            Refused: There is none for this request.
        """
        if not self._is_declared:
            raise Refused(UNSUPPORTED_OPERATION, "this agent has no extended card")
        if not self._callers.providers:
            raise Refused(NOT_CONFIGURED, "no extended card is configured")
        audience = self._callers.audience(request)
        if audience not in self._cards:
            what = "there is no extended card for the audience of this caller"
            raise Refused(NOT_CONFIGURED, what)
        document, expires = self._cards[audience]
        if expires <= self._now():
            what = "the extended card of this audience has expired, and no newer one is published"
            raise Refused(NOT_CONFIGURED, what)
        return document

    def problems(self, *, are_all: bool = True) -> Iterator[str]:
        """What of the cards and their callers does not fit together, a line each.

        Args:
            are_all: No other agent of the host has extended cards for the same callers.
        """
        if not self._is_declared:
            if self._callers.providers:
                yield "the public card declares no extended card, so no credential opens anything"
            return
        for audience, why in self._broken.items():
            yield f"the extended card of audience {audience} is not served: {why}"
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self.are_there:
            yield "the public card declares an extended card, but none was published"
        yield from self._callers.problems(sorted([*self._cards, *self._broken]), are_all=are_all)
