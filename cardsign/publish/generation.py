"""A generation on disk: one immutable publication, how it is read back, what of it is public.

A publication directory belongs to cardsign alone::

    000001/                      a generation; never changed once it has this name
        agent-card.json
        agent-card-0.3.json      the same agent for clients of A2A 0.3, if that was published
        jwks.json
        extended/AUDIENCE.json
        keyset/1.1.json          the issuer's statements, if there are any
        release.json
        current                      the newest generation: its number and time, max-age, the digest
                                 of every file
    .lock                        held by the one process that publishes

Digests are SHA-256 in lower-case hex. They find accidents, not a forger who can write to the
directory; what stops him are the cards' signatures, which nothing here checks.

The server answers with the public files and their headers, and :func:`export_files` writes them
for a static host, so that the two cannot differ. Extended cards are no part of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from cardsign import files
from cardsign.card.extensions import AUDIENCE
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileFault, FileMissing, ServeFault, UsageFault
from cardsign.files import CURRENT_FILE
from cardsign.jose.keys import JwkSet
from cardsign.tomltext import Table
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH, Headers

CARD_FILE: Final = "agent-card.json"
LEGACY_FILE: Final = "agent-card-0.3.json"
JWKS_FILE: Final = "jwks.json"
RELEASE_FILE: Final = "release.json"
#: Six digits sort by name; the millionth generation has seven.
FOLDER: Final = re.compile(r"[0-9]{6,16}")
#: Seconds: one year, more than which caches do not tell from "for ever".
MAX_MAX_AGE: Final = 365 * 24 * 3600

_FORMAT: Final[Literal[1]] = 1
_MAX_KEYSETS: Final = 1500  # a manifest of that size names fewer
_MAX_LEFT: Final = 100  # folders of a damaged publication that are looked through
_MAX_STATE_BYTES: Final = 256 * 1024  # a manifest of 1000 audiences has 160 KiB
_NUMBER: Final = "[1-9][0-9]{0,15}"
_FILE: Final = re.compile(
    r"agent-card(?:-0\.3)?\.json|jwks\.json|release\.json"
    rf"|extended/(?P<audience>{AUDIENCE.pattern})\.json|keyset/(?P<keyset>{_NUMBER}\.{_NUMBER})\.json"
)


class Publisher(Table):
    """Whose publications a directory holds: another publisher is refused.

    Attributes:
        keystore: What tells a key store from any other: the SHA-256 of its audit log's first line.
        issuer: The origin of the cards; None where the settings name none.
    """

    keystore: str
    issuer: str | None = None


class _Manifest(Table):
    """What ``current`` holds."""

    format: Literal[1] = _FORMAT
    generation: Annotated[int, Field(ge=1, lt=10**16)]
    published_at: AwareDatetime
    max_age: Annotated[int, Field(ge=0, le=MAX_MAX_AGE)]
    files: dict[str, str]
    publisher: Publisher | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """One immutable publication.

    Attributes:
        number: From 1; a newer publication has a higher one.
        published_at: Aware UTC in whole seconds; later than that of the generation before.
        max_age: Seconds, for ``Cache-Control: max-age``.
        files: The bytes of each published file, by its name in the folder.
        created: Whether this call of :func:`cardsign.publish.publication.publish_generation` made
            it; False where it was there already.
        publisher: Whose it is; None if its keys are in no key store.
    """

    number: int
    published_at: datetime
    max_age: int
    files: Mapping[str, bytes] = field(repr=False)
    created: bool = False
    publisher: Publisher | None = None

    @property
    def folder(self) -> str:
        """The name of its folder in the publication directory."""
        return f"{self.number:06d}"

    @property
    def card(self) -> bytes:
        """The public card, as signed; empty where it was withdrawn."""
        return self.files.get(CARD_FILE, b"")

    @property
    def legacy_card(self) -> bytes | None:
        """The same agent in the form of A2A 0.3, as signed; None if there is no such document."""
        return self.files.get(LEGACY_FILE)

    @property
    def jwks(self) -> bytes:
        """The public key set."""
        return self.files[JWKS_FILE]

    @property
    def kids(self) -> tuple[str, ...]:
        """The kids of the public key set, in its order."""
        return tuple(key.kid for key in JwkSet.from_bytes(self.jwks).keys)

    @property
    def cards(self) -> dict[str, bytes]:
        """All cards, as signed, by their files."""
        return {name: data for name, data in self.files.items() if is_card(name)}

    @property
    def extended(self) -> dict[str, bytes]:
        """The extended cards, as signed, by audience."""
        return self._files_of("audience")

    @property
    def keysets(self) -> dict[str, bytes]:
        """The issuer's keyset statements, by `epoch.version`."""
        return self._files_of("keyset")

    @property
    def release(self) -> bytes | None:
        """The issuer's newest release statement, if there is one."""
        return self.files.get(RELEASE_FILE)

    def _files_of(self, group: str) -> dict[str, bytes]:
        names = ((_FILE.fullmatch(name), data) for name, data in self.files.items())
        return {match[group]: data for match, data in names if match and match[group]}

    def manifest(self) -> bytes:
        """Return the bytes of ``current`` that make this generation the newest."""
        manifest = _Manifest(
            generation=self.number,
            published_at=self.published_at,
            max_age=self.max_age,
            files={name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()},
            publisher=self.publisher,
        )
        return (manifest.model_dump_json(indent=2, exclude_none=True) + "\n").encode()


def load_current(directory: Path) -> Generation:
    """Read the newest generation and check every digest; signatures are not checked.

    Raises:
        ServeFault: ``serve.no_generation``; ``serve.corrupt_generation`` (a file is missing,
            changed, or none that a generation may have); ``serve.newer_format``.
        FileFault: ``file.unreadable``.
    """
    manifest = _read_manifest(directory)
    folder, content = directory / f"{manifest.generation:06d}", {}
    is_withdrawn = not any(map(is_card, manifest.files))
    if JWKS_FILE not in manifest.files or not (is_withdrawn or CARD_FILE in manifest.files):
        raise _corrupt(directory / CURRENT_FILE, "it names no card and key set")
    for name, digest in manifest.files.items():
        if not _FILE.fullmatch(name):  # a name is also a path, and must not leave the folder
            raise _corrupt(directory / CURRENT_FILE, f"it names {name!r}, which no generation has")
        try:
            content[name] = files.read_bytes(folder / name, max_bytes=MAX_CARD_BYTES, is_found=True)
        except FileMissing as exc:
            raise _corrupt(folder / name, "it is missing") from exc
        if digest != hashlib.sha256(content[name]).hexdigest():
            raise _corrupt(folder / name, "its digest is not the one that `current` names")
    number, published_at = manifest.generation, manifest.published_at.astimezone(UTC)
    return Generation(number, published_at, manifest.max_age, content, publisher=manifest.publisher)


def newest_generation(directory: Path | None) -> Generation | None:
    """Return the newest generation of a publication directory; None if there is none.

    A damaged one counts as none, because publishing again repairs it.

    Raises:
        ServeFault: ``serve.newer_format``.
        FileFault: As :func:`load_current`.
    """
    try:
        return load_current(directory) if directory else None
    except ServeFault as fault:
        if fault.code == "serve.newer_format":
            raise
        return None


def last_number(directory: Path) -> int:
    """Return the highest number ever given, whether or not `current` came to name it."""
    numbers = [int(name) for name in files.list_names(directory) if FOLDER.fullmatch(name)]
    with contextlib.suppress(ServeFault):
        numbers.append(_read_manifest(directory).generation)
    return max(numbers, default=0)


def read_statements_left(directory: Path) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
    """Yield the keysets and the release in each folder of a damaged publication, newest first.

    Statements are signed, so that no digest is needed. A folder that cannot be read is left out.

    Raises:
        FileFault: ``file.unreadable``: the directory cannot be read.
    """
    names = files.list_names(directory)
    folders = sorted(filter(FOLDER.fullmatch, names), key=int, reverse=True)
    for folder in folders[:_MAX_LEFT] if CURRENT_FILE in names else ():
        with contextlib.suppress(FileFault):
            keysets = [f"keyset/{name}" for name in files.list_names(directory / folder / "keyset")]
            *kept, release = (
                files.read_bytes(directory / folder / name, max_bytes=MAX_CARD_BYTES, is_found=True)
                for name in (*filter(_FILE.fullmatch, keysets[:_MAX_KEYSETS]), RELEASE_FILE)
            )
            yield tuple(kept), release


def is_card(name: str) -> bool:
    """Say whether a file of a generation is a card."""
    return name in (CARD_FILE, LEGACY_FILE) or name.startswith("extended/")


def _read_manifest(directory: Path) -> _Manifest:
    """Read ``current``, once its format is one that this version reads."""
    path = directory / CURRENT_FILE
    try:
        data = files.read_bytes(path, max_bytes=_MAX_STATE_BYTES, is_found=True)
        return _Manifest.model_validate_json(data)
    except FileMissing as exc:
        message = "the directory holds no publication"
        raise ServeFault("serve.no_generation", message, path=str(directory)) from exc
    except ValidationError as exc:
        error, *_ = exc.errors()
        where, value = ".".join(map(str, error["loc"])) or "it is not JSON", error["input"]
        if where == "format" and isinstance(value, int) and value > _FORMAT:
            message = f"format {value} is newer than format {_FORMAT}, which this cardsign reads"
            raise ServeFault("serve.newer_format", message, path=str(path)) from exc
        raise _corrupt(path, f"it is not as cardsign writes it: {where}") from exc


def _corrupt(path: Path, message: str) -> ServeFault:
    return ServeFault("serve.corrupt_generation", message, path=str(path))


NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")
#: Any page may read public documents, and see the ETag that it needs to ask again.
ANY_ORIGIN: Final = (
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Expose-Headers", "ETag"),
)
#: Seconds; what says that a key is revoked must not be older than this in any cache.
MAX_STATEMENT_AGE: Final = 300

#: Of the path of before A2A 0.3, as drafts of RFC 9745 had it: no date is needed.
DEPRECATED: Final[Headers] = (("Deprecation", "true"),)
#: Its successor is in the same folder, wherever the agent is mounted.
_SUCCESSOR: Final = ("Link", f'<{CARD_PATH.rpartition("/")[2]}>; rel="successor-version"')

SITE_FOLDER: Final = "site"
HEADERS_FILE: Final = "_headers"
NGINX_FILE: Final = "nginx.conf"


def public_headers(media_type: str, max_age: int, *others: tuple[str, str]) -> Headers:
    """Return the headers of a document for everybody, but for those that a host makes itself.

    Args:
        media_type: Its ``Content-Type``.
        max_age: Seconds that caches may keep it.
        others: Further ones.
    """
    kept = f"public, max-age={max_age}"
    return (("Content-Type", media_type), ("Cache-Control", kept), *ANY_ORIGIN, *others, NO_SNIFF)


def public_files(
    generation: Generation, *, legacy: Headers | None = DEPRECATED
) -> dict[str, tuple[bytes, Headers]]:
    """Return the public files with their headers, by path, in the order in which to replace them.

    Args:
        generation: Which.
        legacy: The headers that say that the path of before A2A 0.3 is deprecated. It has the
            document for older clients, or the same card where there is none; None for no such path.
    """
    max_age = generation.max_age
    of_statements = public_headers("application/jose+json", min(max_age, MAX_STATEMENT_AGE))
    public = {
        STATEMENTS_PATH + name: (data, of_statements)
        for name, data in generation.files.items()
        if name.startswith("keyset/") or name == RELEASE_FILE
    }
    public[JWKS_PATH] = generation.jwks, public_headers("application/jwk-set+json", max_age)
    if not generation.card:
        return public
    public[CARD_PATH] = generation.card, public_headers("application/json", max_age)
    if legacy is not None:
        older = generation.legacy_card or generation.card
        headers = public_headers("application/json", max_age, *legacy, _SUCCESSOR)
        public[LEGACY_CARD_PATH] = older, headers
    return public


def check_export(directory: Path, publication: Path | None = None) -> None:
    """Refuse to export into what is, or becomes, a publication directory: ``usage.conflict``."""
    is_same = publication and os.path.realpath(directory) == os.path.realpath(publication)
    if is_same or (directory / CURRENT_FILE).is_file():
        message = "a publication directory cannot be exported into: it also holds extended cards"
        hint = "--export needs another folder than -o: --export static"
        raise UsageFault("usage.conflict", message, path=str(directory), hint=hint)


def export_files(generation: Generation, directory: Path) -> None:
    """Write the public files of a generation for a host that serves files::

        site/.well-known/...   the files at their URLs; nothing else belongs on the host
        site/_headers          their headers, for static hosts that read this file
        nginx.conf             the same, for a `server` block of nginx

    Each file is replaced atomically: statements first, then the key set, then the card. No other
    file in the directory is touched.

    Raises:
        UsageFault: ``usage.conflict``: it is a publication directory.
        FileFault: ``file.unwritable``; ``file.not_plain``: a link is below the directory.
    """
    check_export(directory)
    public = public_files(generation)
    site = directory / SITE_FOLDER
    for path in {CARD_PATH, LEGACY_CARD_PATH} - public.keys():
        files.refuse_links(directory, site / path.removeprefix("/"))
        (site / path.removeprefix("/")).unlink(missing_ok=True)
    static = list[str]()
    nginx = ["# Include this in a server block whose root is the folder `site`."]
    for path, (body, headers) in public.items():
        place = site / path.removeprefix("/")
        files.refuse_links(directory, place)
        files.make_directory(place.parent)
        files.write_atomic(place, body, plain=True)
        static += [path, *(f"  {name}: {value}" for name, value in headers)]
        (_, media_type), *others = headers
        nginx += [f"location = {path} {{", "    types {}", f"    default_type {media_type};"]
        nginx += [f"    add_header {name} '{value}';" for name, value in others] + ["}"]
    # A cached 404 would hide the next keyset.
    nginx += [f"location {STATEMENTS_PATH} {{", '    add_header Cache-Control "no-store" always;']
    files.write_atomic(site / HEADERS_FILE, "\n".join([*static, ""]).encode(), plain=True)
    files.write_atomic(directory / NGINX_FILE, "\n".join([*nginx, "}", ""]).encode(), plain=True)
