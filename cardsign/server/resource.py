"""What a card says of OAuth as OAuth clients look for it (RFC 9728)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from cardsign.card.interfaces import interfaces_of
from cardsign.card.security import Scheme, schemes_of
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.urls import Url, parse_url

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_OIDC: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


def resource_metadata(card: Mapping[str, Json]) -> dict[str, bytes]:
    """The metadata of each interface, by its path; none where the card declares no OAuth."""
    schemes = schemes_of(card)
    servers = sorted({one for each in schemes.values() for one in _servers(each)})
    if not servers:
        return {}
    scopes = sorted({one for each in schemes.values() for one in _scopes(each)})
    found = {}
    for each in interfaces_of(card):
        try:
            url = parse_url(each.url) if isinstance(each.url, str) else None
        except CardRefused:
            continue
        if url is not None:
            found[metadata_path(url)] = _document(url, card, servers, scopes)
    return found


def metadata_path(url: Url) -> str:
    """Where the metadata of a resource is: its path comes after the well-known one (3.1)."""
    return METADATA_PATH + (url.path if url.path != "/" else "")


def _document(url: Url, card: Mapping[str, Json], servers: list[str], scopes: list[str]) -> bytes:
    members: dict[str, Json] = {
        "resource": str(url),
        "authorization_servers": list(servers),
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        members["scopes_supported"] = list(scopes)
    if isinstance(name := card.get("name"), str):
        members["resource_name"] = name
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def _servers(scheme: Scheme) -> Iterator[str]:
    """The issuers, which their metadata's URL ends or, with a path, is put into (RFC 8414 3.1)."""
    for member, known in (("openIdConnectUrl", _OIDC), ("oauth2MetadataUrl", _OAUTH)):
        url = scheme.members.get(member)
        if isinstance(url, str) and known in url:
            yield url.replace(known, "", 1)


def _scopes(scheme: Scheme) -> Iterator[str]:
    flows = scheme.members.get("flows")
    for flow in flows.values() if isinstance(flows, dict) else ():
        scopes = flow.get("scopes") if isinstance(flow, dict) else None
        yield from scopes if isinstance(scopes, dict) else ()
