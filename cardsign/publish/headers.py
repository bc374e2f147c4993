"""What of a generation is public: the files at their URLs, with the headers that go along.

The server answers with these, and :func:`export_files` writes them for a static host, so that the
two cannot differ. Extended cards are no part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.errors import UsageFault
from cardsign.files import make_directory, write_atomic
from cardsign.publish.generation import CURRENT_FILE, STATEMENT_MEDIA_TYPE, Generation
from cardsign.records import dataclass
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH

Headers: TypeAlias = tuple[tuple[str, str], ...]

NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")
#: Any page may read public documents, and see the ETag that it needs to ask again.
ANY_ORIGIN: Final = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "ETag"),
)
#: Seconds. What is about to change, or is late, is no reason to be asked at every turn.
LEAST_MAX_AGE: Final = 60
#: Seconds; what says that a key is revoked must not be older than this in any cache.
MAX_STATEMENT_AGE: Final = 300
#: Unix seconds: A2A 0.3.0, of 2025-07-30, moved the card to its present path.
LEGACY_SINCE: Final = 1753833600

#: Beside it, wherever the agent is mounted.
_SUCCESSOR: Final = ("Link", f'<{CARD_PATH.rpartition("/")[2]}>; rel="successor-version"')

SITE_FOLDER: Final = "site"
HEADERS_FILE: Final = "_headers"
NGINX_FILE: Final = "nginx.conf"
OBJECTS_FILE: Final = "objects.json"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """One document for everybody.

    Attributes:
        body: The final bytes.
        media_type: Its ``Content-Type``.
        max_age: Seconds that caches may keep it, at most.
        changes_at: Unix seconds: when it is to change; None if that is unknown.
        headers: Further ones of its own.
    """

    body: bytes
    media_type: str
    max_age: int
    changes_at: float | None = None
    headers: Headers = ()

    def max_age_at(self, now: float) -> int:
        """Seconds: no more than there are until the change, but for :data:`LEAST_MAX_AGE`."""
        if self.changes_at is None:
            return self.max_age
        return min(self.max_age, max(LEAST_MAX_AGE, int(self.changes_at - now)))

    def cache_control(self, now: float) -> str:
        """The header's value at a time, in Unix seconds."""
        return f"public, max-age={self.max_age_at(now)}"


def public_files(
    generation: Generation, *, legacy: bool = True, sunset: datetime | None = None
) -> dict[str, PublicFile]:
    """The public files by their paths, in the order in which they may be replaced one by one.

    Args:
        generation: Which.
        legacy: Whether the path of before A2A 0.3 has the document for older clients, or, where
            there is none, the same card.
        sunset: When that path will no longer answer, if that is known; aware.
    """
    changes, most = generation.changes_at, generation.max_age
    changes_at = changes.timestamp() if changes else None

    def file(body: bytes, media_type: str, *headers: tuple[str, str]) -> PublicFile:
        return PublicFile(body, media_type, most, changes_at, headers)

    files = {
        STATEMENTS_PATH + name: PublicFile(
            generation.files[name], STATEMENT_MEDIA_TYPE, min(most, MAX_STATEMENT_AGE), changes_at
        )
        for name in generation.statement_files
    }
    files[JWKS_PATH] = file(generation.jwks, "application/jwk-set+json")
    files[CARD_PATH] = file(generation.card, "application/json")
    if legacy:
        moved = [("Deprecation", f"@{LEGACY_SINCE}")]  # RFC 9745
        if sunset:  # RFC 8594
            moved.append(("Sunset", format_datetime(sunset.astimezone(UTC), usegmt=True)))
        moved.append(_SUCCESSOR)
        older = generation.legacy_card or generation.card
        files[LEGACY_CARD_PATH] = file(older, "application/json", *moved)
    return files


def export_files(
    generation: Generation, directory: Path, *, now: datetime, legacy: bool = True
) -> tuple[str, ...]:
    """Write the public files of a generation for a host that serves files::

        site/.well-known/...   the files at their URLs; nothing else belongs on the host
        site/_headers          their headers, for static hosts that read this file
        nginx.conf             the same, for a `server` block of nginx
        objects.json           the same, for a program that uploads to an object store

    Each file is replaced atomically: statements first, then the key set, then the card. No other
    file in the directory is touched, but a legacy path that is no longer wanted.

    Args:
        generation: Which.
        directory: Made if absent.
        now: Aware; caches may keep nothing past the next change of keys, so export again by then.
        legacy: Whether the path of before A2A 0.3 has the card too.

    Returns:
        The paths of the URLs.

    Raises:
        UsageFault: ``usage.conflict``: it is a publication directory.
        FileFault: ``file.unwritable``.
    """
    if (directory / CURRENT_FILE).exists():
        raise UsageFault(
            "usage.conflict",
            "a publication directory cannot be exported into: it holds extended cards",
            path=str(directory),
        )
    files = public_files(generation, legacy=legacy)
    site = directory / SITE_FOLDER
    for path, file in files.items():
        place = site / path.removeprefix("/")
        make_directory(place.parent)
        write_atomic(place, file.body)
    if not legacy:
        (site / LEGACY_CARD_PATH.removeprefix("/")).unlink(missing_ok=True)
    headers = {path: _headers_of(file, now.timestamp()) for path, file in files.items()}
    write_atomic(site / HEADERS_FILE, _for_static_hosts(headers).encode())
    write_atomic(directory / NGINX_FILE, _for_nginx(headers).encode())
    write_atomic(directory / OBJECTS_FILE, _for_object_stores(files, headers))
    return tuple(files)


def _headers_of(file: PublicFile, now: float) -> Headers:
    kind = ("Content-Type", file.media_type)
    return (kind, ("Cache-Control", file.cache_control(now)), *ANY_ORIGIN, *file.headers, NO_SNIFF)


def _for_static_hosts(headers: Mapping[str, Headers]) -> str:
    lines: list[str] = []
    for path, said in headers.items():
        lines += [path, *(f"  {name}: {value}" for name, value in said)]
    return "\n".join(lines) + "\n"


def _for_nginx(headers: Mapping[str, Headers]) -> str:
    lines = ["# Include this in a server block whose root is the folder `site`."]
    for path, said in headers.items():
        kind, *others = said
        lines += [f"location = {path} {{", "    types {}", f"    default_type {kind[1]};"]
        lines += [f"    add_header {name} '{value}';" for name, value in others] + ["}"]
    # A cached 404 would hide the next keyset.
    lines += [
        f"location {STATEMENTS_PATH} {{",
        '    add_header Cache-Control "no-store" always;',
        "}",
    ]
    return "\n".join(lines) + "\n"


def _for_object_stores(files: Mapping[str, PublicFile], headers: Mapping[str, Headers]) -> bytes:
    objects: Iterable[object] = [
        {
            "key": path.removeprefix("/"),
            "sha256": hashlib.sha256(files[path].body).hexdigest(),
            "headers": dict(headers[path]),
        }
        for path in files
    ]
    return (json.dumps({"objects": objects}, indent=2) + "\n").encode()
