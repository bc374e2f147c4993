"""What the interfaces of a card mean for the paths of its host.

Where each A2A version asks for the extended card, and where OAuth clients look for what the card
says of its issuers (RFC 9728).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.security import Scheme, schemes_of
from cardsign.card.strictjson import Json
from cardsign.errors import CardRefused
from cardsign.urls import EXTENDED_PATH, Url, parse_url

#: Decoded paths, and the hosts that the card names with each; none where any will do.
Places: TypeAlias = Mapping[str, AbstractSet[str]]

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
    return METADATA_PATH + (unquote(url.path) if url.path != "/" else "")


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


def extended_and_rpc_paths(*cards: Mapping[str, Json]) -> tuple[Places, Places]:
    """Where GET asks for the extended card of these, and where POST takes JSON-RPC."""
    extended, rpc = {EXTENDED_PATH: set[str]()}, dict[str, set[str]]()
    for each in chain.from_iterable(map(interfaces_of, cards)):
        parts = _http_url(each.url)
        if parts is None:
            continue
        host, path = bare_host(parts.netloc), unquote(parts.path).rstrip("/")
        for one in _extended_paths(path, each):
            extended.setdefault(one, set()).add(host)
        if str(each.binding).upper() == "JSONRPC":
            for one in _with_and_without_slash(path):
                rpc.setdefault(one, set()).add(host)
    return extended, rpc


def decoded(path: str) -> str:
    """A path of WSGI, which has the bytes of UTF-8 for characters, as text (PEP 3333)."""
    return path.encode("latin-1").decode(errors="replace")


def bare_host(authority: str) -> str:
    """A host as URLs and ``Host`` name it, without the port that goes without saying."""
    return authority.lower().removesuffix(":443").removesuffix(":80")


def _extended_paths(path: str, interface: Interface) -> Iterator[str]:
    """Where clients of each A2A version ask for the extended card of an interface by REST."""
    yield path + EXTENDED_PATH
    if isinstance(interface.tenant, str) and interface.tenant:
        yield f"{path}/{interface.tenant}{EXTENDED_PATH}"
    silent = "1.0" if interface.written_in == "1.0" else "0.3"
    if str(interface.version or silent).startswith("0."):
        yield f"{path}/v1/card"  # A2A 0.3
        yield f"{path.rpartition('/')[0]}/agent/authenticatedExtendedCard"  # up to A2A 0.2


def _with_and_without_slash(path: str) -> Iterator[str]:
    """Clients disagree about a final slash; the root has no path without one."""
    yield path + "/"
    if path:
        yield path


def _http_url(url: Json) -> SplitResult | None:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None
    return parts if parts and parts.scheme in ("http", "https") else None
