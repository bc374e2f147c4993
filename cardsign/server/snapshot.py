"""What one generation makes a server answer: its documents, paths and challenges."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

from werkzeug.http import http_date, parse_date, parse_etags

from cardsign.card.extended import declares_extended_card
from cardsign.card.interfaces import Interface, interfaces_of
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import Json, parse_object
from cardsign.publish.generation import STATEMENT_MEDIA_TYPE, Generation
from cardsign.records import dataclass
from cardsign.urls import CARD_PATH, EXTENDED_PATH, JWKS_PATH, STATEMENTS_PATH

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
        changes_at: Unix seconds: when it is to change; None if that is unknown.
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


#: Seconds; what says that a key is revoked must not be older than this in any cache.
MAX_STATEMENT_AGE: Final = 300


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
        interfaces = tuple(interfaces_of(card))
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
                {EXTENDED_PATH, *(path for each in interfaces for path in _extended_paths(each))}
            ),
            rpc_paths=frozenset(path for each in interfaces for path in _rpc_paths(each)),
            bearer_schemes=tuple(
                re.sub(r"[^ -~]", "?", each.name)
                for each in schemes_of(card).values()
                if each.carrier == "bearer"
            ),
        )


def _extended_paths(interface: Interface) -> Iterator[str]:
    """Where an interface is asked for its extended card by GET."""
    path = _path(interface.url)
    if path is not None:
        yield path + EXTENDED_PATH
        if isinstance(interface.tenant, str) and interface.tenant:
            yield f"{path}/{interface.tenant}{EXTENDED_PATH}"


def _rpc_paths(interface: Interface) -> Iterator[str]:
    """Where it takes JSON-RPC: with and without a final slash, since clients disagree."""
    path = _path(interface.url)
    if path is not None and str(interface.binding).upper() == "JSONRPC":
        yield path + "/"
        if path:
            yield path


def _path(url: Json) -> str | None:
    """The decoded path of an http(s) url without a final slash; None for any other url."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return unquote(parts.path).rstrip("/") if parts.scheme in ("http", "https") else None
