"""What one generation answers at which path: final bytes, and the HTTP headers beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from werkzeug.http import http_date, parse_date, parse_etags

from cardsign.card.strictjson import parse_object
from cardsign.publish.generation import Generation
from cardsign.publish.layout import ANY_ORIGIN, NO_SNIFF, Headers, PublicFile, public_files
from cardsign.records import dataclass
from cardsign.server.interfaces import Places, extended_and_rpc_paths, resource_metadata
from cardsign.urls import CARD_PATH

#: Status, headers and body of a whole HTTP answer to GET; HEAD leaves out the body.
Answer: TypeAlias = tuple[str, list[tuple[str, str]], bytes]
Kind: TypeAlias = Literal["public", "extended", "rpc"]

#: What every answer about an extended card says, an error too: shared caches keep out.
PRIVATE: Final = (("Cache-Control", "private, no-cache"), ("Vary", "Authorization"))


@dataclass(frozen=True, slots=True)
class Document:
    """What is served under one path, or to one audience.

    Attributes:
        body: The final bytes.
        etag: The strong entity tag, quotes included.
        last_modified: Aware UTC in whole seconds; None if unknown.
        headers: What a 200 and a 304 share, but for the lifetime.
        media_type: Of the 200.
        public: The file behind it; None if it is private.
        older: What is served instead to clients that ask for A2A 0.3; None for the same.
    """

    body: bytes
    etag: str
    last_modified: datetime | None
    headers: Headers
    media_type: str
    public: PublicFile | None = None
    older: Document | None = None

    @classmethod
    def of_public(cls, file: PublicFile, published: datetime | None) -> Document:
        """A document for everybody."""
        etag = _etag(file.body)
        shared = (("ETag", etag), *ANY_ORIGIN, *file.headers, NO_SNIFF)
        return cls(file.body, etag, published, shared, file.media_type, file)

    @classmethod
    def of_extended(cls, body: bytes, published: datetime) -> Document:
        """An extended card, for one audience."""
        etag = _etag(body)
        shared = (("ETag", etag), *PRIVATE, NO_SNIFF)
        return cls(body, etag, published, shared, "application/a2a+json")

    def answer(
        self, if_none_match: str | None, if_modified_since: str | None, *, now: float = 0.0
    ) -> Answer:
        """Answer GET or HEAD, conditional or not (RFC 9110 13.2.2, 15.4.5).

        Args:
            if_none_match: The header's value, None if absent.
            if_modified_since: Likewise.
            now: Unix seconds; a private document does without.
        """
        headers = list(self.headers)
        if self.public is not None:
            headers.append(("Cache-Control", self.public.cache_control(now)))
        if self._is_held(if_none_match, if_modified_since):
            return "304 NOT MODIFIED", headers, b""
        entity = [
            ("Content-Type", self.media_type),
            ("Content-Length", str(len(self.body))),
        ]
        if self.last_modified is not None:  # the tag is enough for a 304
            entity.append(("Last-Modified", http_date(self.last_modified)))
        return "200 OK", entity + headers, self.body

    def _is_held(self, if_none_match: str | None, if_modified_since: str | None) -> bool:
        """Whether the client has these bytes already; a date counts only without a tag."""
        if if_none_match is not None:
            return parse_etags(if_none_match).contains_weak(self.etag[1:-1])
        since = parse_date(if_modified_since)
        if since is None or self.last_modified is None:
            return False
        return self.last_modified <= since


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()}"'


def _joined(one: Places, other: Places) -> Places:
    return {path: {*one.get(path, ()), *other.get(path, ())} for path in (*one, *other)}


def decoded(path: str) -> str:
    """A path of WSGI, which has the bytes of UTF-8 for characters, as text (PEP 3333)."""
    return path.encode("latin-1").decode(errors="replace")


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

    def find(self, script: str, path: str) -> tuple[Kind | None, str]:
        """What answers at a path, and the path as this generation knows it, public ones decoded.

        The interfaces of a card say whole paths, from the root of the host. The well-known paths
        are looked for below the place where an application is mounted.

        Args:
            script: Where the application is mounted, as WSGI writes it (``SCRIPT_NAME``).
            path: What follows (``PATH_INFO``).
        """
        if (name := decoded(path)) in self.public:
            return "public", name
        for one in (script + path, path):
            name = decoded(one)
            if name in self.extended:
                return "extended", one
            if name in self.rpc:
                return "rpc", one
        return None, path

    @classmethod
    def of(
        cls,
        generation: Generation,
        *,
        legacy: bool = True,
        sunset: datetime | None = None,
        metadata: bool = True,
    ) -> Paths:
        """Read a generation; its public card decides the paths.

        Args:
            generation: Which.
            legacy: Whether the path of before A2A 0.3 answers with the same card.
            sunset: When that path will no longer answer, if that is known.
            metadata: Whether what RFC 9728 says of the agent's OAuth is there.

        Raises:
            JsonRefused: The public card is not strict JSON.
        """
        documents = {
            path: Document.of_public(file, generation.published_at)
            for path, file in public_files(generation, legacy=legacy, sunset=sunset).items()
        }
        card = parse_object(generation.card)
        if generation.legacy_card is not None:
            file = public_files(generation)[CARD_PATH]
            file = replace(file, headers=(*file.headers, ("Vary", "A2A-Version")))
            older = replace(file, body=generation.legacy_card)
            documents[CARD_PATH] = replace(
                Document.of_public(file, generation.published_at),
                older=Document.of_public(older, generation.published_at),
            )
        if metadata:
            most = generation.max_age
            for path, body in resource_metadata(card).items():
                file = PublicFile(body, "application/json", most)
                documents[path] = Document.of_public(file, generation.published_at)
        extended, rpc = extended_and_rpc_paths(card)
        if generation.legacy_card is not None:
            also, calls = extended_and_rpc_paths(parse_object(generation.legacy_card))
            extended, rpc = _joined(extended, also), _joined(rpc, calls)
        return cls(documents, extended, rpc)
