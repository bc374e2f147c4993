"""Several providers as one: how they are made, what a card demands, what is said to others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from cardsign.card.providers import ProviderType
from cardsign.card.security import Scheme
from cardsign.errors import ServeFault
from cardsign.server.events import to_stderr
from cardsign.server.jsonrpc import (
    BAD_CREDENTIALS,
    FORBIDDEN,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Refused,
)
from cardsign.server.providers.base import (
    RETRY_SECONDS,
    Asked,
    Denied,
    Log,
    Now,
    Provider,
    ProviderSettings,
    Unreachable,
)
from cardsign.server.providers.local import ApiKey, Basic, MutualTls, StaticToken
from cardsign.server.providers.remote import AwsSts, Introspection, Jwt
from cardsign.server.tokens import TokenTable

#: The realm where the card declares no scheme that a provider takes.
FALLBACK_REALM: Final = "extended-agent-card"
#: By type: the settings that it cannot do without, and who knows its callers. What its scheme is
#: stands in :data:`cardsign.card.providers.PROVIDERS`.
KNOWERS: Final[Mapping[ProviderType, tuple[tuple[str, ...], type[Provider]]]] = {
    "static_token": (("tokens",), StaticToken),
    "http_verifier": (("url",), Introspection),
    "oidc": (("issuer", "aud"), Jwt),
    "azure_ad": (("tenant", "aud"), Jwt),
    "gcp_iap": (("aud",), Jwt),
    "aws_sigv4": ((), AwsSts),
    "api_key": (("tokens", "key"), ApiKey),
    "basic": (("tokens",), Basic),
    "mtls": ((), MutualTls),
}


def make_providers(
    settings: Sequence[ProviderSettings],
    tokens: TokenTable | None,
    now: Now,
    log: Log = to_stderr,
) -> tuple[Provider, ...]:
    """The providers of a server; a token table is a ``static_token`` before all others."""
    tables = () if tokens is None else (ProviderSettings("static_token", tokens=tokens),)
    return tuple(KNOWERS[one.type][1](one, now, log) for one in (*tables, *settings))


class Callers:
    """Who the callers of one generation are.

    Args:
        providers: The chain, in its order.
        schemes: Those of the public card, after which challenges are named.
        requirements: Its alternatives, each the names of schemes that are demanded together.

    Attributes:
        providers: As given.
    """

    def __init__(
        self,
        providers: tuple[Provider, ...],
        schemes: Mapping[str, Scheme],
        requirements: Iterable[Iterable[str]] = (),
    ) -> None:
        self.providers = providers
        self._schemes = schemes
        self._alternatives = [frozenset(one) for one in requirements]
        #: By provider: the names of the schemes of the card that it takes, and as they are shown.
        self._taken = [
            frozenset(name for name, each in schemes.items() if one.gives(each))
            for one in providers
        ]
        self._realms = [
            [re.sub(r"[^ -~]", "?", name) for name in schemes if name in names]
            for names in self._taken
        ]

    def problems(self, audiences: Sequence[str], *, are_all: bool) -> Iterator[str]:
        """What does not fit the published audiences, a line each.

        Args:
            audiences: Those that have an extended card.
            are_all: Whether no other agent may have the audience that a provider opens.
        """
        tables = [one.settings.tokens for one in self.providers]
        if all(table is not None and not table.entries for table in tables):
            yield "there is no token, so the extended card cannot be asked for"
        for table in tables:
            if table is not None and (problem := table.without_card(audiences)):
                yield problem
        if self.providers and not any(self._realms):
            yield (
                "the public card declares no security scheme that the server takes, "
                "so clients cannot know how to ask for the extended card"
            )
        for one in self.providers if audiences and are_all else ():
            for audience in sorted(one.settings.audiences.difference(audiences)):
                yield (
                    f"provider {one.settings.type} opens the card of {audience!r}, which is "
                    f"not published; the audiences are {', '.join(audiences)}"
                )

    def check_schemes(self) -> None:
        """Check that some provider takes each scheme that the card demands.

        Raises:
            ServeFault: ``serve.schemes``.
        """
        taken = frozenset[str]().union(*self._taken)
        for alternative in self._alternatives:
            if len(alternative) == 1 and not alternative & self._schemes.keys():
                continue  # lint says that there is no such scheme
            for name in sorted(alternative - taken):
                raise ServeFault(
                    "serve.schemes",
                    f"the public card demands {name!r}, and no provider of the server takes it",
                )

    def _opens_alone(self, names: frozenset[str]) -> bool:
        """Whether a provider that takes these schemes does all that some alternative demands.

        One whose schemes no alternative names is the operator's own, and opens the card too.
        """
        demanded = [one for one in self._alternatives if one & names]
        return not demanded or any(one <= names for one in demanded)

    def audience(self, request: Asked) -> str:
        """Whose card the caller gets.

        By the first provider that knows the credential, if it is all that the card demands; by
        several that agree where the card demands schemes together.
        """
        denied: Denied | None = None
        is_unreachable = False
        found: dict[str, set[str]] = {}
        for provider, names in zip(self.providers, self._taken, strict=True):
            try:
                if (audience := provider.audience(request)) is None:
                    continue
            except Denied as exc:
                denied = exc if denied is None or denied.scopes is None else denied
                continue
            except Unreachable:
                is_unreachable = True
                continue
            known = found.setdefault(audience, set())
            known |= names
            if self._opens_alone(names) or any(one <= known for one in self._alternatives if one):
                self._check_one_place(request)
                return audience
        if is_unreachable:
            what = f"your token cannot be checked now; try again in {RETRY_SECONDS} s"
            raise Refused(UNAVAILABLE, what, retry_after=RETRY_SECONDS)
        if denied is None:
            what = "send all credentials that the card demands together" if found else ""
            raise Refused(UNAUTHENTICATED, what or "send a credential", self._challenges(""))
        self._check_one_place(request)
        if denied.scopes is None:
            challenges = self._challenges("invalid_token")
            raise Refused(UNAUTHENTICATED, "the credential is not valid", challenges)
        wanted = f"; it lacks {' or '.join(denied.scopes)}" if denied.scopes else ""
        challenges = self._challenges("insufficient_scope", denied.scopes)
        raise Refused(FORBIDDEN, f"the credential opens no extended card{wanted}", challenges)

    def _check_one_place(self, request: Asked) -> None:
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
