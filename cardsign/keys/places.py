"""Where a key store lies: a folder, or the URL of a database; and its move to another place.

::

    keys/
      log.jsonl                   public: every key, its lifecycle, publications (see ledger.py)
      private/<SHA-256>.key       sealed (see sealed.py); 0600, which git does not keep
      statements/<SHA-256>.json   public: the issuer's signed statements
      .lock                       held while writing

Blobs are durable before the line that names them. So a crash leaves at most a file that nothing
refers to, and a last line without its end, which was never committed. Readers take no lock. Private
keys move as they are sealed. Of keys behind other signers only the public keys are copied.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.card.strictjson import parse_object
from cardsign.errors import (
    FileFault,
    FileMissing,
    JsonRefused,
    StoreFault,
    UsageFault,
    install_hint,
)
from cardsign.files import (
    PRIVATE_MODE,
    PUBLIC_MODE,
    append_private,
    list_names,
    locked,
    make_directory,
    read_bytes,
    remove,
    write_atomic,
)
from cardsign.keys.ledger import MAX_LINE_BYTES, Event, write_line
from cardsign.keys.store import KeyStore, StoreUser, moved_away

LOG_FILE: Final = "log.jsonl"
LOCK_FILE: Final = ".lock"
PRIVATE_FOLDER: Final = "private"
STATEMENTS_FOLDER: Final = "statements"
BLOB: Final = re.compile(
    rf"(?:{PRIVATE_FOLDER}/[0-9a-f]{{64}}\.key|{STATEMENTS_FOLDER}/[0-9a-f]{{64}}\.json)"
)
MAX_BLOB_BYTES: Final = 256 * 1024  # a statement has at most 64 KiB, a sealed key some 10
MAX_LOG_BYTES: Final = 64 * 1024 * 1024  # some 100 years
_PATIENCE: Final = 5.0  # seconds; a commit takes milliseconds, as keys are sealed before
_ARRIVED: Final[Event] = {"event": "left", "to": None}

#: A character that means something in a URL has to be percent-encoded: what one reader takes for
#: the end of a password, another would print as the name of a host.
_URL: Final = re.compile(
    r"postgresql://(?:(?P<user>[^:@/?#]*)(?::[^:@/?#]*)?@)?"
    r"(?P<rest>(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/[^:@/?#]+(?:\?[^@?#]*)?)"
)


class FolderStore(KeyStore):
    """A key store in a directory of a local file system."""

    def __init__(self, path: Path, user: StoreUser | None = None) -> None:
        super().__init__(str(path), user)
        self.path, self.log = path, path / LOG_FILE

    def read_lines(self, start: int = 1) -> list[bytes]:
        lines = self._read_log().split(b"\n")
        if not _is_whole(lines[-1]):
            lines.pop()  # it was never committed
        return lines[start - 1 :]

    def _read_log(self) -> bytes:
        try:
            return read_bytes(self.log, max_bytes=MAX_LOG_BYTES, is_found=True)
        except FileMissing:
            return b""

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        make_directory(self.path)
        with self.alone():
            if self.read_lines(seq):
                return False
            data = b"".join(line + b"\n" for line in lines)
            try:
                for name, blob in blobs.items():
                    self._put(name, blob)
                if seq == 1:  # so that a copy is whole or not there
                    write_atomic(self.log, data, mode=PRIVATE_MODE, plain=True)
                else:
                    end, torn = self._log_end()
                    append_private(self.log, end + data, drop=torn)
            except FileFault:
                # Nothing is left of a commit that failed, on a full disk say, as far as that goes.
                with contextlib.suppress(FileFault, StoreFault):
                    if not self.read_lines(seq):  # else all that failed was to sync
                        self.drop_blobs(blobs)
                raise
        return True

    def _log_end(self) -> tuple[bytes, int]:
        """Return the end that the last line lacks, and how many bytes of no whole line follow."""
        rest = self._read_log().rpartition(b"\n")[2]
        return (b"\n", 0) if _is_whole(rest) else (b"", len(rest))

    def _put(self, name: str, data: bytes) -> None:
        file = self._file(name)
        is_private = name.startswith(PRIVATE_FOLDER)
        make_directory(file.parent, mode=0o700 if is_private else 0o777)
        remove(file)  # left by an attempt that never came to commit it
        write_atomic(file, data, mode=PRIVATE_MODE if is_private else PUBLIC_MODE, plain=True)

    def _file(self, name: str) -> Path:
        """Return the file of a blob; a folder that is a link, maybe another user's, is refused."""
        file = self.path / name
        if file.parent.is_symlink():
            raise FileFault("file.not_plain", "this is a symbolic link", path=str(file.parent))
        return file

    def read_blob(self, name: str) -> bytes:
        return read_bytes(self._file(name), max_bytes=MAX_BLOB_BYTES, plain=True)

    def drop_blobs(self, names: Collection[str]) -> None:
        for name in names:
            remove(self._file(name))

    def list_blobs(self) -> frozenset[str]:
        names = (
            f"{folder}/{name}"
            for folder in (PRIVATE_FOLDER, STATEMENTS_FOLDER)
            for name in list_names(self.path / folder)
        )
        return frozenset(name for name in names if BLOB.fullmatch(name))

    def place_of(self, name: str) -> str:
        return str(self.path / name)

    def alone(self) -> AbstractContextManager[None]:
        """Hold the store alone among processes; raises ``file.busy``."""
        busy = StoreFault("file.busy", "another process is changing the store", path=self.place)
        return locked(self.path / LOCK_FILE, patience=_PATIENCE, busy=busy)


def _is_whole(last: bytes) -> bool:
    """Say whether what stands behind the last end of a line is a line all the same."""
    try:
        return bool(last) and bool(parse_object(last, max_bytes=MAX_LINE_BYTES))
    except JsonRefused:
        return False


# A place by its name, and what is there.


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a PostgreSQL database is, ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE?...``.

    Attributes:
        text: As libpq takes it.
        shown: The same without its password, for people.
    """

    text: str = field(repr=False)
    shown: str

    def __str__(self) -> str:
        return self.shown


StorePlace: TypeAlias = Path | DatabaseUrl


def read_place(text: str) -> StorePlace:
    """Return a key store's place: a folder, or the URL of a database.

    Raises:
        UsageFault: It is empty.
        StoreFault: ``keystore.url``; the text is not repeated, since a password may stand in it.
    """
    if not text:
        raise UsageFault("usage.invalid", "no key store has an empty name")
    if "://" not in text:
        return Path(text)
    match = _URL.fullmatch(text)
    if match and "password" not in match["rest"]:
        user = "" if match["user"] is None else f"{match['user']}@"
        return DatabaseUrl(text, f"postgresql://{user}{match['rest']}")
    form = "postgresql://USER@HOST:PORT/DATABASE"
    raise StoreFault("keystore.url", f"the URL of the key store is not of the form {form}")


def open_store(
    place: StorePlace, user: StoreUser | None = None, *, moved: bool = False
) -> KeyStore:
    """Open the key store at `place`; ``keystore.missing``, or as :meth:`KeyStore.load`."""
    store = locate_store(place, user)
    if not store.load(moved=moved).seq:
        raise missing_store(store.place)
    return store


def missing_store(place: str) -> StoreFault:
    """Return what is raised where no key store is."""
    return StoreFault("keystore.missing", "there is no key store here", path=place)


def create_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, or an empty one, which begins with its first commit."""
    store = locate_store(place, user)
    if store.read_lines():
        store.load()
    else:
        store.forget_seen()
    return store


def locate_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, of which nothing is read yet."""
    if isinstance(place, Path):
        return FolderStore(place, user)
    try:
        from cardsign.keys.postgres import PostgresStore
    except ImportError as exc:
        message = f"psycopg cannot be loaded: {exc}"
        raise StoreFault("usage.not_installed", message, hint=install_hint("postgres")) from exc
    return PostgresStore(place.text, place.shown, user)


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already."""
    return bool(locate_store(place).read_lines())


def move_store(store: KeyStore, place: StorePlace, *, now: datetime) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    A line that says so is put into both; the old one stays, and says where the new one is. What is
    at the new place signs only after a line more, so that at no time both sign. Killed half-way,
    this can be called again with the same place.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :meth:`KeyStore.checked_blob`.
    """
    to = str(place.resolve() if isinstance(place, Path) else place)
    if isinstance(store, FolderStore) and store.path.resolve() in Path(to).parents:
        # Who then deletes the old store, as they are told to, would delete the new one.
        message, hint = "a key store cannot move into its own folder", "Name a folder outside it."
        raise StoreFault("usage.conflict", message, path=to, hint=hint)
    state, there = store.load(moved=True), locate_store(place, store.user)
    if state.moved_to not in (None, to):
        raise moved_away(str(state.moved_to), store.place)
    lines = store.read_lines()[: state.seq]
    line = write_line(state, [{"event": "left", "to": to}], now, store.user.actor)
    copied = there.read_lines()
    if not copied:
        blobs = {name: store.checked_blob(name) for name in sorted(state.blobs())}
        copied = lines if state.moved_to else [*lines, line]
        there.forget_seen()
        there.append(1, copied, blobs)
    is_same = copied[: len(lines)] == lines
    if state.moved_to is None:
        is_same = copied[:-1] == lines and store.append(state.seq + 1, copied[-1:], {})
    if not is_same:
        message, hint = "there is a key store here", ""
        if copied == lines[: len(copied)]:
            message = "this key store was here, and left an old copy of itself"
            hint = "Name another folder, or another schema of the database. Or make a backup of "
            hint += "this key store, and delete the old copy: its folder, or DROP TABLE "
            hint += "cardsign_line, cardsign_blob."
        raise StoreFault("keystore.exists", message, path=to, hint=hint)
    there.commit(lambda there: [_ARRIVED] if there.moved_to else [], now=now, moved=True)
    return there
