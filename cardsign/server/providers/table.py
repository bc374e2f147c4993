"""All types of providers: what each one needs, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cardsign.server.events import to_stderr
from cardsign.server.providers.base import Log, Now, Provider, ProviderSettings, ProviderType
from cardsign.server.providers.local import ApiKey, Basic, MutualTls, StaticToken
from cardsign.server.providers.remote import AwsSts, Introspection, Jwt
from cardsign.server.tokens import TokenTable

_Maker = Callable[[ProviderSettings, Now, Log], Provider]

#: By type: the settings that it cannot do without, and how it is made.
PROVIDERS: Final[dict[ProviderType, tuple[tuple[str, ...], _Maker]]] = {
    "static_token": (("tokens",), StaticToken),
    "http_verifier": (("url",), Introspection),
    "oidc": (("issuer", "aud"), Jwt),
    "azure_ad": (("tenant", "aud"), Jwt),
    "gcp_iap": (("aud",), Jwt),
    "aws_sigv4": ((), AwsSts),
    "api_key": (("tokens", "key"), ApiKey),
    "basic": (("tokens",), Basic),
    "mtls": ((), lambda settings, now, _: MutualTls(settings, now)),
}


def make_providers(
    settings: Sequence[ProviderSettings],
    tokens: TokenTable | None,
    now: Now,
    log: Log = to_stderr,
) -> tuple[Provider, ...]:
    """The providers of a server; a token table is a ``static_token`` before all others."""
    tables = () if tokens is None else (ProviderSettings("static_token", tokens=tokens),)
    return tuple(PROVIDERS[one.type][1](one, now, log) for one in (*tables, *settings))
