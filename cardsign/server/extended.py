"""The extended cards of one generation: who may have one, and which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from flask import Request

from cardsign.card.document import Card
from cardsign.card.extended import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.errors import InputRefused, ServeFault
from cardsign.publish.generation import Generation
from cardsign.server.documents import Document
from cardsign.server.jsonrpc import (
    BAD_CREDENTIALS,
    FORBIDDEN,
    NOT_CONFIGURED,
    UNAUTHENTICATED,
    UNAVAILABLE,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Refused,
)
from cardsign.server.providers.base import RETRY_SECONDS, Denied, Provider, Unreachable

#: The realm where the card declares no scheme that a bearer token satisfies.
FALLBACK_REALM: Final = "extended-agent-card"

# A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = frozenset({"", "0.3", "1.0"})


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
        self._providers = providers
        self._now = now
        schemes = schemes_of(card)
        if self.are_there and providers:
            demanded = {name: schemes.get(name) for one in requirements_of(card) for name in one}
            for name, scheme in demanded.items():
                if scheme and not any(one.gives(scheme) for one in providers):
                    raise ServeFault(
                        "serve.schemes",
                        f"the public card demands {name!r}, and no provider of the server takes it",
                    )
        #: By provider: the schemes of the card that it satisfies, as their names are shown.
        self._realms = [
            [re.sub(r"[^ -~]", "?", each.name) for each in schemes.values() if one.gives(each)]
            for one in providers
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
        if not self._providers:
            raise Refused(NOT_CONFIGURED, "no extended card is configured")
        audience = self._audience(request)
        if audience not in self._cards:
            what = "there is no extended card for the audience of this caller"
            raise Refused(NOT_CONFIGURED, what)
        document, expires = self._cards[audience]
        if expires <= self._now():
            what = "the extended card of this audience has expired, and no newer one is published"
            raise Refused(NOT_CONFIGURED, what)
        return document

    def _audience(self, request: Request) -> str:
        """Whose card the caller gets, by the first provider that knows the credential."""
        denied: Denied | None = None
        is_unreachable = False
        for provider in self._providers:
            try:
                if (audience := provider.audience(request)) is None:
                    continue
            except Denied as exc:
                denied = exc if denied is None or denied.scopes is None else denied
                continue
            except Unreachable:
                is_unreachable = True
                continue
            self._check_one_place(request)
            return audience
        if is_unreachable:
            what = "who you are cannot be found out at the moment"
            raise Refused(UNAVAILABLE, what, retry_after=RETRY_SECONDS)
        if denied is None:
            raise Refused(UNAUTHENTICATED, "send a credential", self._challenges(""))
        self._check_one_place(request)
        if denied.scopes is None:
            challenges = self._challenges("invalid_token")
            raise Refused(UNAUTHENTICATED, "the credential is not valid", challenges)
        wanted = f"; it lacks {' or '.join(denied.scopes)}" if denied.scopes else ""
        challenges = self._challenges("insufficient_scope", denied.scopes)
        raise Refused(FORBIDDEN, f"the credential opens no extended card{wanted}", challenges)

    def _check_one_place(self, request: Request) -> None:
        """Refuse a token in the query: queries end up in logs (RFC 6750 2)."""
        if "access_token" in request.args:
            challenges = self._challenges("invalid_request")
            raise Refused(BAD_CREDENTIALS, "send one token, in the header", challenges)

    def problems(self) -> Iterator[str]:
        """What of the cards and tokens does not fit together, a line each."""
        tables = [one.settings.tokens for one in self._providers if one.settings.tokens]
        if not self._is_declared:
            if self._providers:
                yield "the public card declares no extended card, so no credential opens anything"
            return
        for audience, why in self._broken.items():
            yield f"the extended card of audience {audience} is not served: {why}"
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self._cards and not self._broken:
            yield "the public card declares an extended card, but none was published"
        if not self._providers or all(
            table is not None and not table.entries
            for table in (one.settings.tokens for one in self._providers)
        ):
            yield "there is no token, so the extended card cannot be asked for"
        for table in tables:
            if problem := table.without_card([*self._cards, *self._broken]):
                yield problem
        if not any(self._realms):
            yield (
                "the public card declares no security scheme that the server takes, "
                "so clients cannot know how to ask for the extended card"
            )

    def _challenges(self, error: str, scopes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """One challenge for each scheme that the card declares, named after it (RFC 6750 3)."""
        if not any(self._realms):
            return (self._providers[0].challenge(FALLBACK_REALM, error, scopes),)
        found = [
            provider.challenge(realm, error, scopes)
            for provider, realms in zip(self._providers, self._realms, strict=True)
            for realm in realms
        ]
        return tuple(dict.fromkeys(found))
