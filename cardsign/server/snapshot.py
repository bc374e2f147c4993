"""What one generation makes a server answer: its documents, paths and challenges."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from werkzeug.http import http_date, parse_date, parse_etags

from cardsign.card.extended import declares_extended_card
from cardsign.card.strictjson import Json, parse_object
from cardsign.publish.generation import STATEMENT_MEDIA_TYPE, Generation

# Final bytes and the HTTP headers that go with them, made once per generation.


Headers: TypeAlias = list[tuple[str, str]]

NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")
#: What every answer about an extended card says, an error too: shared caches keep out.
PRIVATE: Final = (("Cache-Control", "private, no-cache"), ("Vary", "Authorization"))
# Any page may read public documents, and see the ETag that it needs to ask again.
_ANY_ORIGIN: Final = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "ETag"),
)
PREFLIGHT: Final = (
    *_ANY_ORIGIN,
    ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
    ("Access-Control-Allow-Headers", "A2A-Version, If-Modified-Since, If-None-Match"),
    ("Access-Control-Max-Age", "86400"),
    NO_SNIFF,
)


#: Seconds. What is about to change, or is late, is no reason to be asked at every turn.
LEAST_MAX_AGE: Final = 60


@dataclass(frozen=True, slots=True)
class Lifetime:
    """For how long caches may keep a document.

    Attributes:
        max_age: Seconds, at most.
        changes_at: Unix seconds: when it is to change; None if nobody knows.
    """

    max_age: int
    changes_at: float | None = None

    def at(self, now: float) -> int:
        """Seconds: no more than there are until the change, but for `LEAST_MAX_AGE`."""
        if self.changes_at is None:
            return self.max_age
        return min(self.max_age, max(LEAST_MAX_AGE, int(self.changes_at - now)))


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer to GET; HEAD leaves out the body."""

    status: str
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Document:
    """What is served under one path, or to one audience.

    Attributes:
        body: The final bytes.
        etag: The strong entity tag, quotes included.
        last_modified: Aware UTC in whole seconds.
        caching: The headers that a 200 and a 304 share, but for the lifetime.
        media_type: Of the 200.
        lifetime: Of a document for everybody; None for one that is private.
    """

    body: bytes
    etag: str
    last_modified: datetime
    caching: tuple[tuple[str, str], ...]
    media_type: str
    lifetime: Lifetime | None = None

    @classmethod
    def public(
        cls, body: bytes, media_type: str, published: datetime, lifetime: Lifetime
    ) -> Document:
        """A document for everybody, which caches may keep."""
        return cls._of(body, media_type, published, _ANY_ORIGIN, lifetime)

    @classmethod
    def private(cls, body: bytes, media_type: str, published: datetime) -> Document:
        """A document for one audience; each use of a kept copy asks first."""
        return cls._of(body, media_type, published, PRIVATE)

    @classmethod
    def _of(
        cls,
        body: bytes,
        media_type: str,
        published: datetime,
        caching: tuple[tuple[str, str], ...],
        lifetime: Lifetime | None = None,
    ) -> Document:
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        validators = (("ETag", etag), ("Last-Modified", http_date(published)))
        headers = (*validators, *caching, NO_SNIFF)
        return cls(body, etag, published, headers, media_type, lifetime)

    def answer(
        self, if_none_match: str | None, if_modified_since: str | None, *, now: float = 0.0
    ) -> Answer:
        """Answer GET or HEAD, conditional or not (RFC 9110 13.2.2, 15.4.5).

        Args:
            if_none_match: The header's value, None if absent.
            if_modified_since: Likewise.
            now: Unix seconds; a private document does without.
        """
        headers = list(self.caching)
        if self.lifetime is not None:
            headers.append(("Cache-Control", f"public, max-age={self.lifetime.at(now)}"))
        if self._is_held(if_none_match, if_modified_since):
            return Answer("304 NOT MODIFIED", headers, b"")
        entity = [("Content-Type", self.media_type), ("Content-Length", str(len(self.body)))]
        return Answer("200 OK", entity + headers, self.body)

    def _is_held(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Whether the client has these bytes already; a date counts only without a tag."""
        if if_none_match is not None:
            return parse_etags(if_none_match).contains_weak(self.etag[1:-1])
        since = parse_date(if_modified_since)
        return since is not None and self.last_modified <= since


CARD_PATH: Final = "/.well-known/agent-card.json"
JWKS_PATH: Final = "/.well-known/jwks.json"
STATEMENTS_PATH: Final = "/.well-known/cardsign/"
#: Seconds; what says that a key is revoked must not be older than this in any cache.
MAX_STATEMENT_AGE: Final = 300
EXTENDED_PATH: Final = "/extendedAgentCard"

# 1.0 wraps a scheme in a member of this name; 0.3 names its type (A2A 1.0 4.5, 0.3 5.5.3).
_BEARER_MEMBERS: Final = frozenset({"oauth2SecurityScheme", "openIdConnectSecurityScheme"})
_BEARER_TYPES: Final = frozenset({"oauth2", "openIdConnect"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One generation, ready to be served.

    Attributes:
        number: The generation's number.
        public: The documents for everybody, by path.
        extended: The extended cards, by audience.
        declares_extended: Whether the public card announces an extended one.
        extended_paths: Where GET answers an extended card.
        rpc_paths: Where POST takes JSON-RPC.
        bearer_schemes: The names, in the card's ``securitySchemes``, of those that a bearer
            token satisfies.
    """

    number: int
    public: Mapping[str, Document]
    extended: Mapping[str, Document]
    declares_extended: bool
    extended_paths: frozenset[str]
    rpc_paths: frozenset[str]
    bearer_schemes: tuple[str, ...]

    @classmethod
    def of(cls, generation: Generation) -> Snapshot:
        """Prepare a generation; its public card decides the paths and the challenges.

        Raises:
            JsonRefused: The public card is not strict JSON.
        """
        published, changes_at = generation.published_at, generation.changes_at
        until = changes_at.timestamp() if changes_at else None
        lifetime = Lifetime(generation.max_age, until)
        brief = Lifetime(min(generation.max_age, MAX_STATEMENT_AGE), until)
        card = parse_object(generation.card)
        interfaces = tuple(_interfaces(card))
        return cls(
            number=generation.number,
            public={
                CARD_PATH: Document.public(
                    generation.card, "application/json", published, lifetime
                ),
                JWKS_PATH: Document.public(
                    generation.jwks, "application/jwk-set+json", published, lifetime
                ),
                **{
                    STATEMENTS_PATH + name: Document.public(
                        generation.files[name], STATEMENT_MEDIA_TYPE, published, brief
                    )
                    for name in generation.statement_files
                },
            },
            extended={
                audience: Document.private(data, "application/a2a+json", published)
                for audience, data in generation.extended.items()
            },
            declares_extended=declares_extended_card(card),
            extended_paths=frozenset(
                {EXTENDED_PATH, *(path for each in interfaces for path in each.extended_paths())}
            ),
            rpc_paths=frozenset(path for each in interfaces for path in each.rpc_paths()),
            bearer_schemes=tuple(_bearer_schemes(card)),
        )


@dataclass(frozen=True, slots=True)
class _Interface:
    """One interface of the card: the path of its url without a final slash, and so on."""

    path: str
    binding: str
    tenant: str

    def extended_paths(self) -> Iterator[str]:
        yield self.path + EXTENDED_PATH
        if self.tenant:
            yield f"{self.path}/{self.tenant}{EXTENDED_PATH}"

    def rpc_paths(self) -> Iterator[str]:
        """With and without a final slash: clients disagree."""
        if self.binding.upper() == "JSONRPC":
            yield self.path + "/"
            if self.path:
                yield self.path


def _interfaces(card: Mapping[str, Json]) -> Iterator[_Interface]:
    """The interfaces of a 1.0 card, of a 0.3 card, or of one that is both."""
    listed = [("protocolBinding", each) for each in _objects(card.get("supportedInterfaces"))]
    listed += [("transport", each) for each in _objects(card.get("additionalInterfaces"))]
    listed.append(("preferredTransport", {"preferredTransport": "JSONRPC", **card}))
    for binding_name, interface in listed:
        url, binding = interface.get("url"), interface.get(binding_name)
        path = _path(url) if isinstance(url, str) else None
        if path is not None and isinstance(binding, str):
            tenant = interface.get("tenant")
            yield _Interface(path, binding, tenant if isinstance(tenant, str) else "")


def _path(url: str) -> str | None:
    """The decoded path of an http(s) url without a final slash; None for any other url."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return unquote(parts.path).rstrip("/") if parts.scheme in ("http", "https") else None


def _objects(value: Json) -> list[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _bearer_schemes(card: Mapping[str, Json]) -> Iterator[str]:
    schemes = card.get("securitySchemes")
    for name, scheme in schemes.items() if isinstance(schemes, dict) else ():
        if isinstance(scheme, dict) and _takes_bearer(scheme):
            yield re.sub(r"[^ -~]", "?", name)


def _takes_bearer(scheme: Mapping[str, Json]) -> bool:
    wrapped = scheme.get("httpAuthSecurityScheme")
    http = wrapped if isinstance(wrapped, dict) else scheme if scheme.get("type") == "http" else {}
    if str(http.get("scheme")).lower() == "bearer":
        return True
    return bool(_BEARER_MEMBERS & scheme.keys()) or scheme.get("type") in _BEARER_TYPES
