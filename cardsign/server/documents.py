"""What one generation answers at which path: final bytes, and the HTTP headers beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from werkzeug.http import http_date, parse_date, parse_etags

from cardsign.card.strictjson import parse_object
from cardsign.publish.generation import Generation
from cardsign.publish.headers import ANY_ORIGIN, NO_SNIFF, Headers, PublicFile, public_files
from cardsign.records import dataclass
from cardsign.server.answers import Answer
from cardsign.server.interfaces import Places, extended_and_rpc_paths, resource_metadata
from cardsign.server.settings import ServerSettings
from cardsign.urls import CARD_PATH, JWKS_PATH, STATEMENTS_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


#: What every answer about an extended card says, an error too: shared caches keep out.
PRIVATE: Final = (("Cache-Control", "private, no-cache"), ("Vary", "Authorization"))
#: Request headers that decide what a GET of a public document is answered.
DECIDING: Final = ("if-none-match", "if-modified-since", "a2a-version")


@dataclass(frozen=True, slots=True)
class Document:
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
    older: Document | None = None
    _whole: dict[str, Answer] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(
        cls,
        body: bytes,
        media_type: str,
        published: datetime | None,
        headers: Headers,
        lifetime: Callable[[float], str],
    ) -> Document:
        """Reckon the tag, and the headers that follow from the bytes and the date."""
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        entity = ("Content-Type", media_type), ("Content-Length", str(len(body)))
        changed = (("Last-Modified", http_date(published)),) if published else ()
        shared = ("ETag", etag), *headers, NO_SNIFF
        return cls(body, etag, published, (*entity, *changed), shared, lifetime)

    @classmethod
    def of_public(cls, file: PublicFile, published: datetime | None) -> Document:
        """A document for everybody."""
        headers = *ANY_ORIGIN, *file.headers
        return cls.of(file.body, file.media_type, published, headers, file.cache_control)

    @classmethod
    def of_extended(cls, body: bytes, published: datetime) -> Document:
        """An extended card, for one audience: shared caches keep out."""
        (_, lifetime), *headers = PRIVATE
        return cls.of(body, "application/a2a+json", published, tuple(headers), lambda _: lifetime)

    def whole(self, now: float) -> Answer:
        """Answer GET without conditions, at a Unix time; kept while it is the same."""
        lifetime = self.lifetime(now)
        found = self._whole.get(lifetime)
        if found is None:
            self._whole.clear()
            headers = *self.entity, *self.headers, ("Cache-Control", lifetime)
            found = self._whole[lifetime] = Answer(self.body, 200, headers)
        return found

    def answer(self, environ: WSGIEnvironment, now: float) -> Answer:
        """Answer GET or HEAD, conditional or not (RFC 9110 13.2.2, 15.4.5), at a Unix time."""
        whole = self.whole(now)
        if self._client_has_it(environ):
            return Answer(b"", 304, whole.headers[len(self.entity) :])
        return whole

    def _client_has_it(self, environ: WSGIEnvironment) -> bool:
        """Whether the client has these bytes already; a date counts only without a tag."""
        tags = environ.get("HTTP_IF_NONE_MATCH")
        if tags is not None:
            return parse_etags(tags).contains_weak(self.etag[1:-1])
        since = parse_date(environ.get("HTTP_IF_MODIFIED_SINCE"))
        return bool(since and self.published and self.published <= since)


@dataclass(frozen=True, slots=True)
class Paths:
    """What one generation answers, by path.

    Attributes:
        public: The documents for everybody.
        extended: Where GET answers an extended card, and for which hosts.
        rpc: Where POST takes JSON-RPC, likewise.
    """

    public: Mapping[str, Document]
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
            path: Document.of_public(file, published)
            for path, file in files.items()
            if (settings.keys or path != JWKS_PATH)
            and (settings.statements or not path.startswith(STATEMENTS_PATH))
        }
        if older is not None:
            card = replace(files[CARD_PATH], headers=(("Vary", "A2A-Version"),))
            same = Document.of_public(replace(card, body=older), published)
            public[CARD_PATH] = replace(Document.of_public(card, published), older=same)
        return cls(public, *extended_and_rpc_paths(*cards))
