"""Documents as they are served: final bytes with their headers, by path.

A public document is for everybody; an extended card is for one audience. What is not the
publication's own file is made here: the OAuth metadata of RFC 9728, and the page for people.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from flask import Response, request
from werkzeug.http import http_date

from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, members_of
from cardsign.errors import CardRefused
from cardsign.inspect import page
from cardsign.inspect.page import card_page
from cardsign.jose.keys import JwkSet
from cardsign.publish.generation import (
    MAX_STATEMENT_AGE,
    Generation,
    PublicFile,
    public_files,
)
from cardsign.server.settings import ServerSettings
from cardsign.statements.envelope import StatementRefused
from cardsign.times import utc
from cardsign.urls import CARD_PATH, EXTENDED_PATH, LEGACY_CARD_PATH, Headers, parse_url

log = logging.getLogger(__name__)

#: Of every answer about an extended card, an error too: shared caches keep out.
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
NO_STORE: Final = {"Cache-Control": "no-store"}
NO_SNIFF: Final = {"X-Content-Type-Options": "nosniff"}
#: Paths, and the hosts that a card names with each; none where any will do.
Paths: TypeAlias = dict[str, set[str]]

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_OIDC: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
#: The issuers in the servers' settings whose tokens a scheme of these types stands for.
_ISSUED: Final = ("oauth2", "openIdConnect")


@dataclass(frozen=True, slots=True)
class Document:
    """Final bytes with their headers.

    Attributes:
        body: What GET returns.
        headers: All of its own.
        older: What clients of A2A 0.3 get instead; None for the same.
        gone_at: The Unix time from which nothing is here any more.
    """

    body: bytes
    headers: Headers
    older: Document | None = None
    gone_at: float | None = None

    def respond(self) -> Response:
        """Return the answer to GET or HEAD: 200, or 304 to a client that has the document."""
        response = Response(self.body, headers=list(self.headers))
        with suppress(OverflowError):  # of werkzeug, where If-Modified-Since has a year without end
            response.make_conditional(request)
        return response


def public_document(file: PublicFile, published: datetime | None) -> Document:
    """Return a document for everybody, which pages of any origin may read."""
    changed = (("Last-Modified", http_date(published)),) if published else ()
    return Document(file.body, (*file.headers, *changed, ("ETag", _etag(file.body))))


def extended_document(body: bytes) -> Document:
    """Return the extended card of one audience.

    It has no Last-Modified: all audiences have the same, and who asked by it alone would be told
    that the card of another is still the one.
    """
    headers = {"Content-Type": "application/a2a+json", "ETag": _etag(body), **PRIVATE, **NO_SNIFF}
    return Document(body, tuple(headers.items()))


def public_documents(generation: Generation, settings: ServerSettings) -> dict[str, Document]:
    """Return what a generation shows to everybody, by path.

    Raises:
        JsonRefused: The public card is not strict JSON.
    """
    sunset = _midnight(settings.sunset) if settings.sunset else None
    files = public_files(
        generation,
        legacy=settings.legacy,
        deprecated=_midnight(settings.deprecated) if settings.deprecated else None,
        sunset=sunset,
    )
    issuers = [provider.issuer for provider in settings.providers if provider.issuer]
    card = parse_object(generation.card) if generation.card else {}
    for path, body in resource_metadata(card, issuers).items():
        files[path] = PublicFile(body, "application/json", generation.max_age)
    published = generation.published_at
    documents = {path: public_document(file, published) for path, file in files.items()}
    if sunset and LEGACY_CARD_PATH in documents:
        legacy = documents[LEGACY_CARD_PATH]
        documents[LEGACY_CARD_PATH] = replace(legacy, gone_at=sunset.timestamp())
    if generation.legacy_card is not None:
        file = replace(files[CARD_PATH], own_headers=(("Vary", "A2A-Version"),))
        older = public_document(replace(file, body=generation.legacy_card), published)
        documents[CARD_PATH] = replace(public_document(file, published), older=older)
    return documents


def resource_metadata(card: Mapping[str, Json], issuers: Iterable[str]) -> dict[str, bytes]:
    """Return the metadata of each interface by its path (RFC 9728); none without OAuth or OIDC.

    Args:
        card: The public card.
        issuers: Whose tokens the server takes, where the card declares that it takes some.
    """
    servers, scopes = find_servers(card, issuers)
    members: dict[str, Json] = {
        "authorization_servers": [*sorted(servers)],
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        members["scopes_supported"] = [*sorted(scopes)]
    if isinstance(name := card.get("name"), str):
        members["resource_name"] = name
    metadata = {}
    for interface in interfaces_of(card) if servers else ():
        with suppress(CardRefused):
            resource = parse_url(str(interface.url))
            body = json.dumps(
                {"resource": str(resource), **members}, ensure_ascii=False, separators=(",", ":")
            )
            # The path of a resource comes after the well-known one (3.1).
            path = METADATA_PATH + (unquote(resource.path) if resource.path != "/" else "")
            metadata[path] = body.encode()
    return metadata


def find_servers(card: Mapping[str, Json], issuers: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the issuers whose tokens a card declares, and the scopes of their tokens."""
    servers, scopes = set[str](), set[str]()
    for scheme in schemes_of(card).values():
        servers.update(issuers if scheme.type in _ISSUED else ())
        # An issuer, which its metadata's URL ends or, with a path, is put into (RFC 8414 3.1).
        for member, part in (("openIdConnectUrl", _OIDC), ("oauth2MetadataUrl", _OAUTH)):
            url = scheme.members.get(member)
            if scheme.type is not None and isinstance(url, str) and part in url:
                servers.add(url.replace(part, "", 1))
        for flow in members_of(scheme.members.get("flows")).values():
            scopes.update(members_of(members_of(flow).get("scopes")))
    return servers, scopes


def find_paths(*cards: Mapping[str, Json]) -> tuple[Paths, Paths]:
    """Return where GET asks for the extended card of these, and where POST takes JSON-RPC."""
    extended: Paths = {EXTENDED_PATH: set()}
    rpc: Paths = {}
    for interface in (entry for card in cards for entry in interfaces_of(card)):
        try:
            parts = urlsplit(interface.url) if isinstance(interface.url, str) else None
        except ValueError:
            continue
        if parts is None or parts.scheme not in ("http", "https"):
            continue
        host, path = bare_host(parts.netloc), unquote(parts.path).rstrip("/")
        for place in _extended_paths(path, interface):
            extended.setdefault(place, set()).add(host)
        if str(interface.binding).upper() == "JSONRPC":
            # Clients disagree about a final slash; the root has no path without one.
            for place in (path, f"{path}/") if path else ("/",):
                rpc.setdefault(place, set()).add(host)
    return extended, rpc


def bare_host(authority: str) -> str:
    """Return a host as URLs and ``Host`` name it, without the port that goes without saying."""
    return authority.lower().removesuffix(":443").removesuffix(":80")


def _extended_paths(path: str, interface: Interface) -> Iterator[str]:
    """Yield where clients of each A2A version ask for the extended card of an interface."""
    yield path + EXTENDED_PATH
    if isinstance(interface.tenant, str) and interface.tenant:
        yield f"{path}/{interface.tenant}{EXTENDED_PATH}"
    silent = "1.0" if interface.written_in == "1.0" else "0.3"
    if str(interface.version or silent).startswith("0."):
        yield f"{path}/v1/card"  # A2A 0.3
        yield f"{path.rpartition('/')[0]}/agent/authenticatedExtendedCard"  # up to A2A 0.2


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(tzinfo=UTC))


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()}"'


# The page for people.

#: The page is for clients that ask for HTML, so caches keep it apart from others at its path.
PAGE_HEADERS: Final = (
    ("Content-Security-Policy", f"{page.POLICY}; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept"),
)


class Page:
    """The page of one generation, made when it is asked for, and again when its verdict ends."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._made: tuple[Document, float] | None = None

    def find_document(self, now: float) -> Document:
        """Return the page at a Unix time."""
        if self._made is None or now >= self._made[1]:
            self._made = _make_page(self._generation, now)
        return self._made[0]


def _make_page(generation: Generation, now: float) -> tuple[Document, float]:
    """Return the page, and when its verdict ends."""
    keysets, jwks = generation.keysets, JwkSet.from_bytes(generation.jwks)
    newest = max(keysets, key=lambda label: [*map(int, label.split("."))], default="")
    make = partial(card_page, generation.card, jwks=jwks, now=utc(now))
    try:
        text, until = make(keyset=keysets.get(newest), release=generation.release)
    except StatementRefused as refusal:
        log.error("the page leaves the statements out: %s", refusal)
        text, until = make()
    ends = until.timestamp() if until and until > utc(now) else math.inf
    age = min(generation.max_age, MAX_STATEMENT_AGE, max(0, int(min(ends - now, 1e6))))
    file = PublicFile(text.encode(), "text/html; charset=utf-8", age, PAGE_HEADERS)
    return public_document(file, None), ends
