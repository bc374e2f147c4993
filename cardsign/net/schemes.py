"""How a peer wants to be shown a credential: in which header, and in which form.

The verified card says so, or the user's own file; a server's challenge never does. Only headers
are sent: a query ends up in logs (RFC 6750 2.3), a cookie in a jar, and a certificate is no text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cardsign.card.strictjson import Json
from cardsign.errors import CredentialFault

_HEADER_PREFIX: Final = "header:"
MANNERS: Final = ("bearer", "basic", f"{_HEADER_PREFIX}NAME")

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")  # a header's name (RFC 9110 5.1)
_B64TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 2.1
# Headers that shape the message or its way, or that mean something else: never a credential's.
_NOT_FOR_KEYS: Final = re.compile(
    r"a2a-.*|accept.*|cache-.*|connection|content-.*|cookie2?|date|expect|forwarded|host|if-.*|"
    r"keep-alive|origin|proxy-.*|range|referer|sec-.*|te|trailer|transfer-.*|upgrade|user-agent|"
    r"via|x-forwarded-.*|x-http-method.*",
    re.IGNORECASE,
)
_WRAPPED: Final = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}


@dataclass(frozen=True, slots=True)
class Manner:
    """In which header a credential goes, and as what.

    Attributes:
        header: Its name.
        scheme: ``Bearer`` or ``Basic`` before the credential; empty for a key by itself.
    """

    header: str
    scheme: str = ""

    def value(self, secret: str) -> str:
        """The header's value.

        Args:
            secret: A bearer token, ``user:password`` for Basic (RFC 7617 2), or a key.

        Raises:
            CredentialFault: ``credential.source``: it has not the form that this takes; the
                message never shows it.
        """
        if self.scheme == "Basic":
            if ":" not in secret:
                raise CredentialFault(
                    "credential.source", "Basic takes USER:PASSWORD, with a colon"
                )
            secret = base64.b64encode(secret.encode()).decode()
        elif self.scheme and not _B64TOKEN.fullmatch(secret):
            raise CredentialFault(
                "credential.source", "the credential has characters that no bearer token has"
            )
        return f"{self.scheme} {secret}".strip()


BEARER: Final = Manner("Authorization", "Bearer")
BASIC: Final = Manner("Authorization", "Basic")


def parse_manner(text: str) -> Manner | None:
    """Read one of :data:`MANNERS`; None where it is none."""
    name = text.removeprefix(_HEADER_PREFIX)
    if name != text:
        return Manner(name) if _may_hold_keys(name) else None
    return {"bearer": BEARER, "basic": BASIC}.get(text)


def manner_of(payload: Mapping[str, Json]) -> Manner:
    """How a verified card wants one credential.

    Requirements are alternatives (A2A 1.0 4.5, 0.3 5.5): the first that names a single scheme
    which goes in a header decides. Where there is none at all, the first such scheme that the card
    declares, since an agent may want nothing for itself, and something for its extended card.

    Raises:
        CredentialFault: ``credential.scheme``: no such scheme; nothing may be guessed.
    """
    schemes = payload.get("securitySchemes")
    declared = schemes if isinstance(schemes, dict) else {}
    alternatives = [names for names in _alternatives(payload) if names]
    wanted = [names[0] for names in alternatives if len(names) == 1]
    for name in wanted if alternatives else declared:
        manner = _manner(declared.get(name))
        if manner is not None:
            return manner
    raise CredentialFault(
        "credential.scheme",
        f"of what the card demands ({_listed(alternatives, declared)}) nothing is one credential "
        "in a header",
    )


def demands_credentials(payload: Mapping[str, Json]) -> bool:
    """Whether a card lets nobody in without any credential."""
    alternatives = list(_alternatives(payload))
    return bool(alternatives) and all(alternatives)


def _alternatives(payload: Mapping[str, Json]) -> Iterator[list[str]]:
    """The names of the schemes that each requirement takes together, of either generation."""
    for name in ("securityRequirements", "security"):
        requirements = payload.get(name)
        for one in requirements if isinstance(requirements, list) else ():
            if isinstance(one, dict):
                schemes = one.get("schemes", one if name == "security" else {})
                yield list(schemes) if isinstance(schemes, dict) else []


def _manner(scheme: Json) -> Manner | None:
    """What a scheme takes, flat as in 0.3 or wrapped as in 1.0; None where no header holds it."""
    if not isinstance(scheme, dict):
        return None
    kind, members = str(scheme.get("type", "")), scheme
    for wrapper, named in _WRAPPED.items():
        wrapped = scheme.get(wrapper)
        if isinstance(wrapped, dict):
            kind, members = named, wrapped
    if kind in ("oauth2", "openIdConnect"):
        return BEARER
    if kind == "http":
        return {"bearer": BEARER, "basic": BASIC}.get(str(members.get("scheme")).lower())
    place, name = members.get("location") or members.get("in"), members.get("name")
    if kind == "apiKey" and place == "header" and isinstance(name, str) and _may_hold_keys(name):
        return Manner(name)
    return None


def _may_hold_keys(name: str) -> bool:
    return bool(_TOKEN.fullmatch(name)) and not _NOT_FOR_KEYS.fullmatch(name)


def _listed(alternatives: list[list[str]], declared: Mapping[str, Json]) -> str:
    names = [" and ".join(one) for one in alternatives] or list(declared)
    return ", or ".join(names) or "nothing"
