"""The extended cards of one generation, and which caller gets which."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from flask import Request

from cardsign.card.document import Card
from cardsign.card.extensions import declares_extended_card, find_marker
from cardsign.card.security import requirements_of, schemes_of, security_problems
from cardsign.card.values import Json
from cardsign.errors import ServeFault
from cardsign.publish.generation import Generation
from cardsign.server import a2a
from cardsign.server.a2a import RETRY_SECONDS, Busy
from cardsign.server.documents import Document, extended_document
from cardsign.server.providers import Denied, Provider, Unreachable

log = logging.getLogger(__name__)

#: The realm where the card declares no scheme that a provider takes.
FALLBACK_REALM: Final = "extended-agent-card"
#: A client that sends no version means 0.3 (A2A 1.0 3.6.2); both get the same signed bytes.
_VERSIONS: Final = ("", "0.3", "1.0")


class ExtendedCards:
    """The extended cards of one generation, by audience.

    Args:
        generation: Where they stand.
        card: Its public card, parsed.
        providers: Who may have one; any of them will do.
        now: Unix seconds.

    Raises:
        InputRefused: One of them is no card.
        ServeFault: ``serve.corrupt_generation``: it is no extended card; ``serve.schemes``: the
            public card demands a scheme that none of them takes,
            so callers who do as it says would be turned away (threat 26).
    """

    def __init__(
        self,
        generation: Generation,
        card: Mapping[str, Json],
        providers: tuple[Provider, ...],
        now: Callable[[], float],
    ) -> None:
        self._providers, self._now = providers, now
        self._is_declared = declares_extended_card(card)
        self._cards: dict[str, tuple[Document, int]] = {}
        for audience, body in generation.extended.items():
            marker = find_marker(Card.from_bytes(body).document)
            if marker is None:
                message = f"the extended card of audience {audience} does not say until when it is"
                raise ServeFault("serve.corrupt_generation", message)
            self._cards[audience] = extended_document(body), marker.exp
        schemes = schemes_of(card)
        #: What the card demands: alternatives, each the names of schemes that go together.
        self._alternatives = [
            frozenset(requirement.schemes) for requirement in requirements_of(card, schemes)
        ]
        #: By provider: the names of the schemes of the card that it takes.
        self._taken = {
            provider: [name for name, scheme in schemes.items() if provider.gives(scheme)]
            for provider in providers
        }
        if self.are_published and providers:
            self._check_schemes(card)

    def _check_schemes(self, card: Mapping[str, Json]) -> None:
        for problem in security_problems(card):
            message = f"it cannot be read what the public card demands: {problem.message}"
            raise ServeFault("serve.schemes", message)
        taken = {name for names in self._taken.values() for name in names}
        for name in sorted(frozenset[str]().union(*self._alternatives) - taken):
            message = f"the public card demands {name!r}, and no provider of the server takes it"
            raise ServeFault("serve.schemes", message)

    @property
    def are_published(self) -> bool:
        """Whether there is any, also one that has expired."""
        return bool(self._cards)

    def check_offer(self, request: Request) -> None:
        """Check what the public card says already, and may be said before authentication.

        Raises:
            A2AError: There is no extended card, or none in this version.
        """
        version = request.headers.get("A2A-Version") or request.args.get("A2A-Version", "")
        if version.strip() not in _VERSIONS:
            raise a2a.A2AError(a2a.BAD_VERSION, "A2A-Version is not one of 1.0, 0.3")
        if not self._is_declared:
            raise a2a.A2AError(a2a.UNSUPPORTED, "this agent has no extended card")

    def find_card(self, audience: str) -> Document:
        """Return the extended card of an audience.

        Raises:
            A2AError: There is none, or it has expired.
        """
        document, expires = self._cards.get(audience, (None, math.inf))
        if document is not None and self._now() < expires:
            return document
        message = "there is no extended card for the audience of this caller"
        if document is not None:
            message = "the extended card of this audience has expired, and none is newer"
        log.warning("a caller of audience %s: %s", audience, message)
        raise a2a.A2AError(a2a.NOT_CONFIGURED, message)

    def authenticate(self, request: Request) -> str:
        """Return the audience of a caller, by the head of the request alone.

        By the first provider that knows the credential, if it is all that the card demands; by
        several that agree where the card demands schemes together.

        Raises:
            A2AError: The caller is not known, or nobody could be.
        """
        if not self._providers:
            raise a2a.A2AError(a2a.NOT_CONFIGURED, "no extended card is configured")
        denied: list[Denied] = []
        is_unreachable = False
        satisfied: dict[str, set[str]] = {}
        for provider, names in self._taken.items():
            try:
                audience = provider.find_audience(request)
            except Denied as exc:
                log.info("refused a credential (%s): %s", provider.name, exc)
                denied.append(exc)
                continue
            except (Unreachable, Busy) as exc:
                log.warning("could not check a credential (%s): %s", provider.name, exc)
                is_unreachable = True
                continue
            if audience and self._are_enough(names, satisfied.setdefault(audience, set())):
                self._refuse_query_token(request)
                return audience
        if is_unreachable:
            message = f"your token cannot be checked now; try again in {RETRY_SECONDS} s"
            raise a2a.A2AError(a2a.UNAVAILABLE, message, retry_after=RETRY_SECONDS)
        if not denied:
            message = "send all credentials that the card demands together" if satisfied else ""
            challenges = self._challenges("")
            raise a2a.A2AError(a2a.UNAUTHENTICATED, message or "send a credential", challenges)
        self._refuse_query_token(request)
        raise self._refusal(denied)

    def _are_enough(self, names: list[str], shown: set[str]) -> bool:
        """Return whether a credential for some schemes opens a card, beside those shown before."""
        shown.update(names)
        # One whose schemes no alternative names is the operator's own, and opens the card too.
        is_own = not any(alternative.intersection(names) for alternative in self._alternatives)
        return is_own or any(need and need <= shown for need in self._alternatives)

    def _refusal(self, denied: list[Denied]) -> a2a.A2AError:
        """Return the answer to credentials that are not valid, or that open nothing."""
        scopes = next((exc.scopes for exc in denied if exc.scopes is not None), None)
        if scopes is None:
            challenges = self._challenges("invalid_token")
            return a2a.A2AError(a2a.UNAUTHENTICATED, "the credential is not valid", challenges)
        lacking = f"; it lacks {' or '.join(scopes)}" if scopes else ""
        message = f"the credential opens no extended card{lacking}"
        challenges = self._challenges("insufficient_scope", scopes)
        return a2a.A2AError(a2a.FORBIDDEN, message, challenges)

    def _refuse_query_token(self, request: Request) -> None:
        """Refuse a second token in the query: queries end up in logs (RFC 6750 2)."""
        if "access_token" in request.args:
            challenges = self._challenges("invalid_request")
            raise a2a.A2AError(a2a.BAD_CREDENTIALS, "send one token, in the header", challenges)

    def _challenges(self, error: str, scopes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return one challenge for each scheme that the card declares, named after it."""
        challenges = {
            provider.challenge(re.sub(r"[^ -~]", "?", name), error, scopes): None
            for provider, names in self._taken.items()
            for name in names
        }
        fallback = self._providers[0].challenge(FALLBACK_REALM, error, scopes)
        return tuple(challenges) or (fallback,)

    def find_problems(self) -> Iterator[str]:
        """Yield what of the cards and their providers does not fit together, a line each."""
        if not self._is_declared:
            if self._providers:
                yield "the public card declares no extended card, so no credential opens anything"
            return
        for audience, (_, expires) in self._cards.items():
            if expires <= self._now():
                yield f"the extended card of audience {audience} has expired and is not served"
        if not self.are_published:
            yield "the public card declares an extended card, but none was published"
        if not self._providers:
            yield "there is no token, so the extended card cannot be asked for"
        elif not any(self._taken.values()):
            yield (
                "the public card declares no security scheme that the server takes, "
                "so clients cannot know how to ask for the extended card"
            )
