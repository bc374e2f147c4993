"""A generation on disk: one immutable publication, how it is read back, what of it is public.

A publication directory belongs to cardsign alone::

    000001/                      a generation; never changed once it has this name
        agent-card.json
        agent-card-0.3.json      the same agent for clients of A2A 0.3, if that was published
        jwks.json
        extended/AUDIENCE.json
        keyset/1.1.json          the issuer's statements, if there are any
        release.json
        manifest.json            the digest of every file, the kids, the times, max-age
    current                      which generation is the newest, and its manifest's digest
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
from typing import Annotated, Final, Literal, NoReturn, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PlainSerializer,
    ValidationError,
)

from cardsign.card.extensions import AUDIENCE
from cardsign.card.strictjson import MAX_CARD_BYTES, parse_object
from cardsign.errors import FileFault, FileMissing, JsonRefused, ServeFault, UsageFault
from cardsign.files import list_names, make_directory, read_bytes, write_atomic
from cardsign.times import read_stamp, stamp
from cardsign.urls import CARD_PATH, JWKS_PATH, LEGACY_CARD_PATH, STATEMENTS_PATH, Headers

CARD_FILE: Final = "agent-card.json"
LEGACY_FILE: Final = "agent-card-0.3.json"
JWKS_FILE: Final = "jwks.json"
RELEASE_FILE: Final = "release.json"
MANIFEST_FILE: Final = "manifest.json"
CURRENT_FILE: Final = "current"
#: Six digits sort by name; the millionth generation has seven.
FOLDER: Final = re.compile(r"[0-9]{6,9}")
MAX_NUMBER: Final = 10**9 - 1
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
STATEMENT_MEDIA_TYPE: Final = "application/jose+json"  # RFC 7515 9.2.2
_MEDIA_TYPES: Final = {
    CARD_FILE: "application/json",
    LEGACY_FILE: "application/json",
    JWKS_FILE: "application/jwk-set+json",
    RELEASE_FILE: STATEMENT_MEDIA_TYPE,
}
_EXTENDED_MEDIA_TYPE: Final = "application/a2a+json"  # A2A 1.0.1 11.1


class _State(BaseModel):
    """A part of the files that say what was published, as it is written and read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    def to_bytes(self) -> bytes:
        """Return the bytes of its file."""
        return (self.model_dump_json(indent=2, exclude_none=True) + "\n").encode()


class Publisher(_State):
    """Whose publications a directory holds: another publisher is refused.

    Attributes:
        keystore: What tells a key store from any other: the SHA-256 of its audit log's first line.
        issuer: The origin of the cards; None where the settings name none.
    """

    keystore: str
    issuer: str | None = None


class _File(_State):
    sha256: str
    size: NonNegativeInt = 0
    media_type: str = ""


def _parse_stamp(value: object) -> datetime:
    return value if isinstance(value, datetime) else read_stamp(str(value))


_Stamp = Annotated[datetime, BeforeValidator(_parse_stamp), PlainSerializer(stamp)]


class _Manifest(_State):
    format: Literal[1] = _FORMAT
    generation: int
    published_at: _Stamp
    max_age: Annotated[int, Field(ge=0, le=MAX_MAX_AGE)]
    files: dict[str, _File]
    kids: list[str]
    changes_at: _Stamp | None = None
    publisher: Publisher | None = None


class _Pointer(_State):
    format: Literal[1] = _FORMAT
    generation: Annotated[int, Field(ge=1, le=MAX_NUMBER)]
    manifest: str


_StateT = TypeVar("_StateT", bound=_State)


@dataclass(frozen=True, slots=True)
class Generation:
    """One immutable publication.

    Attributes:
        number: From 1; a newer publication has a higher one.
        published_at: Aware UTC in whole seconds; later than that of the generation before.
        max_age: Seconds, for ``Cache-Control: max-age``.
        files: The bytes of each published file, by its name in the folder.
        kids: The kids of the published key set, in its order.
        created: Whether this call of :func:`cardsign.publish.publication.publish_generation` made
            it; False where it was there already.
        changes_at: Aware UTC in whole seconds: when the published keys are to change next, as
            far as that was known; caches must hold nothing much longer. None if unknown.
        publisher: Whose it is; None if unknown.
    """

    number: int
    published_at: datetime
    max_age: int
    files: Mapping[str, bytes] = field(repr=False)
    kids: tuple[str, ...]
    created: bool = False
    changes_at: datetime | None = None
    publisher: Publisher | None = None

    @property
    def folder(self) -> str:
        """The name of its folder in the publication directory."""
        return f"{self.number:06d}"

    @property
    def card(self) -> bytes:
        """The public card, as signed."""
        return self.files[CARD_FILE]

    @property
    def legacy_card(self) -> bytes | None:
        """The same agent in the form of A2A 0.3, as signed; None if there is no such document."""
        return self.files.get(LEGACY_FILE)

    @property
    def jwks(self) -> bytes:
        """The public key set."""
        return self.files[JWKS_FILE]

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

    @property
    def statement_files(self) -> tuple[str, ...]:
        """The names of the files that are statements."""
        return tuple(name for name in self.files if _media_type(name) == STATEMENT_MEDIA_TYPE)

    def _files_of(self, group: str) -> dict[str, bytes]:
        names = ((_FILE.fullmatch(name), data) for name, data in self.files.items())
        return {match[group]: data for match, data in names if match and match[group]}

    def manifest(self) -> bytes:
        """The bytes of ``manifest.json``; the same for the same generation."""
        files = {
            name: _File(sha256=_sha256(data), size=len(data), media_type=_media_type(name))
            for name, data in self.files.items()
        }
        return _Manifest(
            generation=self.number,
            published_at=self.published_at,
            max_age=self.max_age,
            files=files,
            kids=list(self.kids),
            changes_at=self.changes_at,
            publisher=self.publisher,
        ).to_bytes()

    def pointer(self) -> bytes:
        """The bytes of ``current`` that make this generation the newest."""
        manifest = _sha256(self.manifest())
        return _Pointer(generation=self.number, manifest=manifest).to_bytes()


def load_current(directory: Path) -> Generation:
    """Read the newest generation and check every digest; signatures are not checked.

    Raises:
        ServeFault: ``serve.no_generation``; ``serve.corrupt_generation`` (a file is missing,
            changed, or none that a generation may have); ``serve.newer_format``.
        FileFault: ``file.unreadable``.
    """
    number, digest = read_pointer(directory)
    folder = directory / f"{number:06d}"
    path = folder / MANIFEST_FILE
    data = _read(path, _MAX_STATE_BYTES)
    if _sha256(data) != digest:
        _corrupt(path, f"its digest is not the one that `{CURRENT_FILE}` names")
    manifest = _parse_state(data, path, _Manifest)
    if manifest.generation != number or not {CARD_FILE, JWKS_FILE} <= manifest.files.keys():
        _corrupt(path, f"it is not the manifest of generation {number}")
    files = {}
    for name, entry in manifest.files.items():
        if not _FILE.fullmatch(name):  # a name is also a path, and must not leave the folder
            _corrupt(path, f"it names {name!r}, which no generation has")
        files[name] = _read(folder / name, MAX_CARD_BYTES)
        if entry.sha256 != _sha256(files[name]):
            _corrupt(folder / name, "it does not have the digest that the manifest names")
    return Generation(
        number=number,
        published_at=manifest.published_at,
        max_age=manifest.max_age,
        files=files,
        kids=tuple(manifest.kids),
        changes_at=manifest.changes_at,
        publisher=manifest.publisher,
    )


def tell_servers(directory: Path) -> None:
    """Let a server of several publications know that one of them changed.

    It looks at their folder each second, and at each publication once a minute.
    """
    with contextlib.suppress(OSError):  # another user's folder
        os.utime(directory.parent)


def read_statements_left(directory: Path) -> Iterator[tuple[tuple[bytes, ...], bytes]]:
    """Yield the keysets and the release in each folder of a damaged publication, newest first.

    Statements are signed, so that no digest is needed. A folder that cannot be read is left out.

    Raises:
        FileFault: ``file.unreadable``: the directory cannot be read.
    """
    names = list_names(directory)
    folders = sorted(filter(FOLDER.fullmatch, names), key=int, reverse=True)
    for folder in folders[:_MAX_LEFT] if CURRENT_FILE in names else ():
        with contextlib.suppress(FileFault):
            files = [f"keyset/{name}" for name in list_names(directory / folder / "keyset")]
            files = [*filter(_FILE.fullmatch, files[:_MAX_KEYSETS]), RELEASE_FILE]
            places = [directory / folder / name for name in files]
            statements = [read_bytes(one, max_bytes=MAX_CARD_BYTES, found=True) for one in places]
            yield tuple(statements[:-1]), statements[-1]


def read_pointer(directory: Path) -> tuple[int, str]:
    """The number that ``current`` names, sound or not, and the digest of that one's manifest.

    Raises:
        ServeFault, FileFault: As :func:`load_current`.
    """
    path = directory / CURRENT_FILE
    try:
        data = read_bytes(path, max_bytes=_MAX_STATE_BYTES, found=True)
    except FileMissing as exc:
        raise ServeFault(
            "serve.no_generation", "the directory holds no publication", path=str(directory)
        ) from exc
    pointer = _parse_state(data, path, _Pointer)
    return pointer.generation, pointer.manifest


def is_card(name: str) -> bool:
    """Say whether a file of a generation is a card."""
    return name in (CARD_FILE, LEGACY_FILE) or name.startswith("extended/")


def _media_type(name: str) -> str:
    if name.startswith("keyset/"):
        return STATEMENT_MEDIA_TYPE
    return _MEDIA_TYPES.get(name, _EXTENDED_MEDIA_TYPE)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        return read_bytes(path, max_bytes=max_bytes, found=True)
    except FileMissing:
        _corrupt(path, "it is missing")


def _parse_state(data: bytes, path: Path, form: type[_StateT]) -> _StateT:
    """Read a file of ours, once its format is one that this version reads."""
    try:
        state = parse_object(data, max_bytes=_MAX_STATE_BYTES)
        written = state.get("format")
        if isinstance(written, int) and written > _FORMAT:
            raise ServeFault(
                "serve.newer_format",
                f"format {written} is newer than format {_FORMAT}, which this cardsign reads",
                path=str(path),
            )
        return form.model_validate(state)
    except JsonRefused as exc:
        _corrupt(path, f"it is not strict JSON: {exc.message}")
    except ValidationError as exc:
        member = ".".join(map(str, exc.errors()[0]["loc"]))
        _corrupt(path, f"its member {member!r} is missing or not as cardsign writes it")


def _corrupt(path: Path, message: str) -> NoReturn:
    raise ServeFault("serve.corrupt_generation", message, path=str(path))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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

#: Its successor is in the same folder, wherever the agent is mounted.
_SUCCESSOR: Final = ("Link", f'<{CARD_PATH.rpartition("/")[2]}>; rel="successor-version"')

SITE_FOLDER: Final = "site"
HEADERS_FILE: Final = "_headers"
NGINX_FILE: Final = "nginx.conf"


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

    def cache_control(self, now: float) -> str:
        """The header's value at a time, in Unix seconds.

        No more than there are until the change, but for :data:`LEAST_MAX_AGE`.
        """
        age = self.max_age
        if self.changes_at is not None:
            age = min(age, max(LEAST_MAX_AGE, int(self.changes_at - now)))
        return f"public, max-age={age}"


def public_files(
    generation: Generation,
    *,
    legacy: bool = True,
    deprecated: datetime | None = None,
    sunset: datetime | None = None,
) -> dict[str, PublicFile]:
    """The public files by their paths, in the order in which they may be replaced one by one.

    Args:
        generation: Which.
        legacy: Whether the path of before A2A 0.3 has the document for older clients, or, where
            there is none, the same card.
        deprecated: Since when that path is deprecated, which ``Deprecation`` says (RFC 9745);
            without it the header says ``true``, as its drafts did; aware.
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
        since = f"@{int(deprecated.timestamp())}" if deprecated else "true"
        moved = [("Deprecation", since)]
        if sunset:  # RFC 8594
            from email.utils import format_datetime  # which loading a generation needs not

            moved.append(("Sunset", format_datetime(sunset.astimezone(UTC), usegmt=True)))
        moved.append(_SUCCESSOR)
        older = generation.legacy_card or generation.card
        files[LEGACY_CARD_PATH] = file(older, "application/json", *moved)
    return files


def export_files(generation: Generation, directory: Path, *, now: datetime) -> None:
    """Write the public files of a generation for a host that serves files::

        site/.well-known/...   the files at their URLs; nothing else belongs on the host
        site/_headers          their headers, for static hosts that read this file
        nginx.conf             the same, for a `server` block of nginx

    Each file is replaced atomically: statements first, then the key set, then the card. No other
    file in the directory is touched.

    Args:
        generation: Which.
        directory: Made if absent.
        now: Aware; caches may keep nothing past the next change of keys, so export again by then.

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
    files = public_files(generation)
    site = directory / SITE_FOLDER
    for path, file in files.items():
        place = site / path.removeprefix("/")
        make_directory(place.parent)
        write_atomic(place, file.body)
    headers: dict[str, Headers] = {
        path: (
            ("Content-Type", file.media_type),
            ("Cache-Control", file.cache_control(now.timestamp())),
            *(*ANY_ORIGIN, *file.headers, NO_SNIFF),
        )
        for path, file in files.items()
    }
    write_atomic(site / HEADERS_FILE, _for_static_hosts(headers).encode())
    write_atomic(directory / NGINX_FILE, _for_nginx(headers).encode())


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
