"""What one generation answers at which path: final bytes, and their HTTP headers.

The interfaces of its cards say where each A2A version asks for the extended card, and where OAuth
clients look for what the card says of its issuers (RFC 9728).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from werkzeug.http import http_date, parse_date, parse_etags

from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import CardRefused
from cardsign.publish.generation import (
    ANY_ORIGIN,
    NO_SNIFF,
    Generation,
    PublicFile,
    public_files,
)
from cardsign.server.answers import Answer
from cardsign.server.settings import ServerSettings
from cardsign.urls import CARD_PATH, EXTENDED_PATH, JWKS_PATH, STATEMENTS_PATH, Headers, parse_url

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

#: Decoded paths, and the hosts that the card names with each; none where any will do.
Places: TypeAlias = Mapping[str, AbstractSet[str]]

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_OIDC: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"


def resource_metadata(card: Mapping[str, Json]) -> dict[str, bytes]:
    """The metadata of each interface, by its path; none where the card declares no OAuth."""
    servers, scopes = set[str](), set[str]()
    for scheme in schemes_of(card).values():
        if scheme.type is None:
            continue
        # An issuer, which its metadata's URL ends or, with a path, is put into (RFC 8414 3.1).
        for member, known in (("openIdConnectUrl", _OIDC), ("oauth2MetadataUrl", _OAUTH)):
            place = scheme.members.get(member)
            if isinstance(place, str) and known in place:
                servers.add(place.replace(known, "", 1))
        flows = scheme.members.get("flows")
        for flow in flows.values() if isinstance(flows, dict) else ():
            named = flow.get("scopes") if isinstance(flow, dict) else None
            scopes.update(named if isinstance(named, dict) else ())
    found = {}
    for each in interfaces_of(card) if servers else ():
        try:
            url = parse_url(each.url) if isinstance(each.url, str) else None
        except CardRefused:
            continue
        if url is None:
            continue
        members: dict[str, Json] = {
            "resource": str(url),
            "authorization_servers": [*sorted(servers)],
            "bearer_methods_supported": ["header"],
        }
        if scopes:
            members["scopes_supported"] = [*sorted(scopes)]
        if isinstance(name := card.get("name"), str):
            members["resource_name"] = name
        # The path of a resource comes after the well-known one (3.1).
        path = METADATA_PATH + (unquote(url.path) if url.path != "/" else "")
        found[path] = json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
    return found


def extended_and_rpc_paths(*cards: Mapping[str, Json]) -> tuple[Places, Places]:
    """Where GET asks for the extended card of these, and where POST takes JSON-RPC."""
    extended, rpc = {EXTENDED_PATH: set[str]()}, dict[str, set[str]]()
    for each in chain.from_iterable(map(interfaces_of, cards)):
        try:
            parts = urlsplit(each.url) if isinstance(each.url, str) else None
        except ValueError:
            continue
        if parts is None or parts.scheme not in ("http", "https"):
            continue
        host, path = bare_host(parts.netloc), unquote(parts.path).rstrip("/")
        for one in _extended_paths(path, each):
            extended.setdefault(one, set()).add(host)
        if str(each.binding).upper() == "JSONRPC":
            # Clients disagree about a final slash; the root has no path without one.
            for one in (f"{path}/", path) if path else ("/",):
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


#: What every answer about an extended card says, an error too: shared caches keep out.
PRIVATE: Final = (("Cache-Control", "private, no-cache"), ("Vary", "Authorization"))


@dataclass(frozen=True, slots=True)
class Representation:
    """What is served under one path, or to one audience.

    Attributes:
        body: The final bytes.
        etag: The strong entity tag, quotes included.
        published: Aware UTC in whole seconds; None if unknown.
        entity: The headers of a 200 alone: media type, length, date of change.
        headers: Those that a 304 has too, but for the lifetime.
        lifetime: The value of ``Cache-Control`` at a Unix time.
        older: What is served instead to clients that ask for A2A 0.3; None for the same.
    """

    body: bytes
    etag: str
    published: datetime | None
    entity: Headers
    headers: Headers
    lifetime: Callable[[float], str]
    older: Representation | None = None

    @classmethod
    def of(
        cls,
        body: bytes,
        media_type: str,
        published: datetime | None,
        headers: Headers,
        lifetime: Callable[[float], str],
    ) -> Representation:
        """Reckon the tag, and the headers that follow from the bytes and the date."""
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        entity = ("Content-Type", media_type), ("Content-Length", str(len(body)))
        changed = (("Last-Modified", http_date(published)),) if published else ()
        shared = ("ETag", etag), *headers, NO_SNIFF
        return cls(body, etag, published, (*entity, *changed), shared, lifetime)

    @classmethod
    def of_public(cls, file: PublicFile, published: datetime | None) -> Representation:
        """A document for everybody."""
        headers = *ANY_ORIGIN, *file.headers
        return cls.of(file.body, file.media_type, published, headers, file.cache_control)

    @classmethod
    def of_extended(cls, body: bytes, published: datetime) -> Representation:
        """An extended card, for one audience: shared caches keep out."""
        (_, lifetime), *headers = PRIVATE
        return cls.of(body, "application/a2a+json", published, tuple(headers), lambda _: lifetime)

    def answer(self, environ: WSGIEnvironment, now: float) -> Answer:
        """Answer GET or HEAD, conditional or not (RFC 9110 13.2.2, 15.4.5), at a Unix time."""
        tags = environ.get("HTTP_IF_NONE_MATCH")
        if tags is not None:
            client_has_it = parse_etags(tags).contains_weak(self.etag[1:-1])
        else:  # a date counts only without a tag
            since = parse_date(environ.get("HTTP_IF_MODIFIED_SINCE"))
            client_has_it = bool(since and self.published and self.published <= since)
        headers = *self.headers, ("Cache-Control", self.lifetime(now))
        if client_has_it:
            return Answer(b"", 304, headers)
        return Answer(self.body, 200, (*self.entity, *headers))


@dataclass(frozen=True, slots=True)
class Paths:
    """What one generation answers, by path.

    Attributes:
        public: The documents for everybody.
        extended: Where GET answers an extended card, and for which hosts.
        rpc: Where POST takes JSON-RPC, likewise.
    """

    public: Mapping[str, Representation]
    extended: Places
    rpc: Places

    @classmethod
    def of(cls, generation: Generation, settings: ServerSettings) -> Paths:
        """Read a generation; its public cards decide the paths, the settings what is left out.

        Raises:
            JsonRefused: A public card is not strict JSON.
        """
        published, older = generation.published_at, generation.legacy_card
        files = public_files(generation, legacy=settings.legacy, sunset=settings.sunset)
        cards = [parse_object(one) for one in (generation.card, older) if one is not None]
        if settings.metadata:
            for path, body in resource_metadata(cards[0]).items():
                files[path] = PublicFile(body, "application/json", generation.max_age)
        public = {
            path: Representation.of_public(file, published)
            for path, file in files.items()
            if (settings.keys or path != JWKS_PATH)
            and (settings.statements or not path.startswith(STATEMENTS_PATH))
        }
        if older is not None:
            card = replace(files[CARD_PATH], headers=(("Vary", "A2A-Version"),))
            same = Representation.of_public(replace(card, body=older), published)
            public[CARD_PATH] = replace(Representation.of_public(card, published), older=same)
        return cls(public, *extended_and_rpc_paths(*cards))
