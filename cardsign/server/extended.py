"""The extended cards of one generation: who may have one, and which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from flask import Request

from cardsign.card.document import Card
from cardsign.card.extended import declares_extended_card, find_marker
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.errors import InputRefused
from cardsign.publish.generation import Generation
from cardsign.server.documents import Document
from cardsign.server.jsonrpc import (
    BAD_CREDENTIALS,
    NOT_CONFIGURED,
    UNAUTHENTICATED,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Refused,
)
from cardsign.server.tokens import TokenTable

#: The realm where the card declares no scheme that a bearer token satisfies.
FALLBACK_REALM: Final = "extended-agent-card"

# A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = frozenset({"", "0.3", "1.0"})
_BEARER: Final = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE)


def check_version(request: Request) -> None:
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
        tokens: What opens them; None if nothing does.
        now: Unix seconds.
    """

    def __init__(
        self, generation: Generation, tokens: TokenTable | None, now: Callable[[], float]
    ) -> None:
        #: Whether there is any, also one that cannot be served.
        self.are_there = bool(generation.extended)
        card = parse_object(generation.card)
        self._is_declared = declares_extended_card(card)
        self._tokens = tokens
        self._now = now
        self._schemes = [
            re.sub(r"[^ -~]", "?", each.name)
            for each in schemes_of(card).values()
            if each.carrier == "bearer"
        ]
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

    def open(self, request: Request) -> Document:
        """The extended card that a request's credentials open.

        What the public card says already comes before authentication, everything else after it.

        Raises:
            Refused: There is none for this request.
        """
        if not self._is_declared:
            raise Refused(UNSUPPORTED_OPERATION, "this agent has no extended card")
        if self._tokens is None:
            raise Refused(NOT_CONFIGURED, "no extended card is configured")
        bearer = _BEARER.fullmatch(request.headers.get("Authorization", "").strip())
        if bearer is None:
            raise Refused(UNAUTHENTICATED, "send a bearer token", self._challenges(""))
        if "access_token" in request.args:  # a place that is never read: queries end up in logs
            challenges = self._challenges("invalid_request")
            raise Refused(BAD_CREDENTIALS, "send one token, in the header", challenges)
        entry = self._tokens.find(bearer[1] or "")
        if entry is None:
            challenges = self._challenges("invalid_token")
            raise Refused(UNAUTHENTICATED, "the bearer token is not valid", challenges)
        if entry.audience not in self._cards:
            what = "there is no extended card for the audience of this token"
            raise Refused(NOT_CONFIGURED, what)
        document, expires = self._cards[entry.audience]
        if expires <= self._now():
            what = "the extended card of this audience has expired, and no newer one is published"
            raise Refused(NOT_CONFIGURED, what)
        return document

    def problems(self) -> Iterator[str]:
        """What of the cards and tokens does not fit together, a line each."""
        tokens, entries = self._tokens, self._tokens.entries if self._tokens else ()
        if not self._is_declared:
            if tokens is not None:
                yield "the public card declares no extended card, so no token opens anything"
            return
        for audience, why in self._broken.items():
            yield f"the extended card of audience {audience} is not served: {why}"
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self._cards and not self._broken:
            yield "the public card declares an extended card, but none was published"
        if tokens is None or not entries:
            yield "there is no token, so the extended card cannot be asked for"
        elif problem := tokens.without_card([*self._cards, *self._broken]):
            yield problem
        if not self._schemes:
            yield (
                "the public card declares no security scheme that a bearer token satisfies, "
                "so clients cannot know how to ask for the extended card"
            )

    def _challenges(self, error: str) -> tuple[str, ...]:
        """One challenge for each scheme that the card declares, named after it (RFC 6750 3)."""
        suffix = f', error="{error}"' if error else ""
        realms = self._schemes or [FALLBACK_REALM]
        return tuple(f"Bearer realm={_quoted(realm)}{suffix}" for realm in realms)


def _quoted(text: str) -> str:
    """A quoted-string (RFC 9110 5.6.4)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
