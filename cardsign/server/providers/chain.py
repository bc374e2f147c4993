"""Several providers as one: any of them will do, and what is said to a caller whom none knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from flask import Request

from cardsign.card.security import Scheme
from cardsign.errors import ServeFault
from cardsign.server.jsonrpc import (
    BAD_CREDENTIALS,
    FORBIDDEN,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Refused,
)
from cardsign.server.providers.base import RETRY_SECONDS, Denied, Provider, Unreachable

#: The realm where the card declares no scheme that a provider takes.
FALLBACK_REALM: Final = "extended-agent-card"


class Callers:
    """Who the callers of one generation are.

    Args:
        providers: The chain, in its order.
        schemes: Those of the public card, after which challenges are named.

    Attributes:
        providers: As given.
    """

    def __init__(self, providers: tuple[Provider, ...], schemes: Mapping[str, Scheme]) -> None:
        self.providers = providers
        self._schemes = schemes
        #: By provider: the schemes of the card that it satisfies, as their names are shown.
        self._realms = [
            [re.sub(r"[^ -~]", "?", each.name) for each in schemes.values() if one.gives(each)]
            for one in providers
        ]

    @property
    def are_told(self) -> bool:
        """Whether the card says how to become one."""
        return any(self._realms)

    def check_schemes(self, requirements: Iterable[Iterable[str]]) -> None:
        """Check that what the card demands is what the providers here demand.

        Schemes that are demanded together are all looked at by one provider, or not at all:
        each provider opens the card by itself.

        Raises:
            ServeFault: ``serve.schemes``.
        """
        for alternative in requirements:
            names = sorted(alternative)
            schemes = [self._schemes.get(name) for name in names]
            if schemes == [None] or any(
                all(scheme and one.gives(scheme) for scheme in schemes) for one in self.providers
            ):
                continue
            what = " and ".join(map(repr, names)) + (" together" if len(names) > 1 else "")
            raise ServeFault(
                "serve.schemes",
                f"the public card demands {what}, and no provider of the server takes it",
            )

    def audience(self, request: Request) -> str:
        """Whose card the caller gets, by the first provider that knows the credential."""
        denied: Denied | None = None
        is_unreachable = False
        for provider in self.providers:
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

    def _challenges(self, error: str, scopes: tuple[str, ...] = ()) -> tuple[str, ...]:
        """One challenge for each scheme that the card declares, named after it (RFC 6750 3)."""
        if not any(self._realms):
            return (self.providers[0].challenge(FALLBACK_REALM, error, scopes),)
        found = [
            provider.challenge(realm, error, scopes)
            for provider, realms in zip(self.providers, self._realms, strict=True)
            for realm in realms
        ]
        return tuple(dict.fromkeys(found))
