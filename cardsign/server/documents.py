"""Final bytes and the HTTP headers that go with them, all made once per generation.

The ETag is strong and covers the exact bytes, signatures included: re-signing a card changes
what a client should hold, although the card says the same (RFC 9110 8.8.3, A2A 1.0 8.6).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from werkzeug.http import http_date, parse_date, parse_etags

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
        caching: The headers that a 200 and a 304 share.
        media_type: Of the 200.
    """

    body: bytes
    etag: str
    last_modified: datetime
    caching: tuple[tuple[str, str], ...]
    media_type: str

    @classmethod
    def public(cls, body: bytes, media_type: str, published: datetime, max_age: int) -> Document:
        """A document for everybody, which caches may keep for `max_age` seconds."""
        caching = (("Cache-Control", f"public, max-age={max_age}"), *_ANY_ORIGIN)
        return cls._of(body, media_type, published, caching)

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
    ) -> Document:
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        validators = (("ETag", etag), ("Last-Modified", http_date(published)))
        return cls(body, etag, published, (*validators, *caching, NO_SNIFF), media_type)

    def answer(self, if_none_match: str | None, if_modified_since: str | None) -> Answer:
        """Answer GET or HEAD, conditional or not (RFC 9110 13.2.2, 15.4.5).

        Args:
            if_none_match: The header's value, None if absent.
            if_modified_since: Likewise.
        """
        if self._is_held(if_none_match, if_modified_since):
            return Answer("304 NOT MODIFIED", list(self.caching), b"")
        entity = [("Content-Type", self.media_type), ("Content-Length", str(len(self.body)))]
        return Answer("200 OK", entity + list(self.caching), self.body)

    def _is_held(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Whether the client has these bytes already; a date counts only without a tag."""
        if if_none_match is not None:
            return parse_etags(if_none_match).contains_weak(self.etag[1:-1])
        since = parse_date(if_modified_since)
        return since is not None and self.last_modified <= since
