"""The key store in a directory, whose one commit point is the atomic replace of one file.

::

    keys/
      keystore.json               public: every public key, its lifecycle, publications
      private/<thumbprint>.key    encrypted (see key_files.py); 0600, which git does not keep
      audit.jsonl                 0600, hash-chained (see audit.py)
      statements/                 public: the issuer's signed statements (see history.py)
      .lock                       held while writing

A private key and the lines of the log are durable before the state names them. So a crash
leaves at most a private file that nothing refers to, which is replaced when that key is added
again, and lines that do not count; it never leaves a reference to nothing. Readers take no
lock: they see one commit or the next.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, FileMissing, StoreFault
from cardsign.files import (
    PRIVATE_MODE,
    append_private,
    create_private,
    list_names,
    locked,
    make_directory,
    read_bytes,
    read_private,
    remove,
    truncate,
    write_atomic,
)
from cardsign.keys.audit import MAX_LINE_BYTES
from cardsign.keys.key_files import MAX_ENVELOPE_BYTES
from cardsign.keys.model import MAX_STATE_BYTES, StoreState, dump_state, file_custody, load_state
from cardsign.keys.stores.base import Contents, KeyStore, Number, StatementKind
from cardsign.statements.envelope import MAX_STATEMENT_BYTES

VARIABLE: Final = "CARDSIGN_KEYSTORE"
DEFAULT_DIRECTORY: Final = "keys"
STATE_FILE: Final = "keystore.json"
AUDIT_FILE: Final = "audit.jsonl"
PRIVATE_DIRECTORY: Final = "private"
PRIVATE_FILE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.key")
STATEMENTS_DIRECTORY: Final = "statements"
STATEMENT_FILES: Final[dict[StatementKind, re.Pattern[str]]] = {
    "keysets": re.compile(r"([1-9][0-9]{0,15})\.([1-9][0-9]{0,15})\.json"),
    "releases": re.compile(r"([1-9][0-9]{0,15})\.json"),
}
LOCK_FILE: Final = ".lock"
_PARTS: Final = (AUDIT_FILE, PRIVATE_DIRECTORY, STATEMENTS_DIRECTORY)
LOCK_PATIENCE: Final = 5.0  # seconds; a commit takes milliseconds, as keys are sealed before
LOG_END: Final = 4 * MAX_LINE_BYTES  # bytes read to check a state; all is read if that is too few
MAX_AUDIT_BYTES: Final = 256 * 1024 * 1024  # bytes; some 500,000 changes


class DirectoryStore(KeyStore):
    """A key store in a directory of a local file system."""

    __slots__ = ()

    @property
    def path(self) -> Path:
        """The directory."""
        assert isinstance(self.where, Path)  # noqa: S101
        return self.where

    def make(self, contents: Contents) -> bool:
        if holds_store(self.path):
            return False
        make_directory(self.path)
        with alone(self.path):
            if holds_store(self.path):
                return False
            for thumbprint, envelope in contents.envelopes.items():
                _put(self.private_file(thumbprint), envelope)
            if contents.audit:
                _put(self.path / AUDIT_FILE, contents.audit)
            for kind, statements in contents.statements.items():
                for number, data in statements.items():
                    self._put_back(kind, number, data)
            if self.seen is not None:
                self.seen.forget()
            # Last, since it is the state that makes this a store.
            write_atomic(self.path / STATE_FILE, dump_state(contents.state))
        return True

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def log_place(self) -> str:
        return str(self.path / AUDIT_FILE)

    def private_place(self, thumbprint: str) -> str:
        return str(self.private_file(thumbprint))

    def read(self) -> tuple[StoreState, bytes]:
        end = self._log(only_end=True)  # first: a commit meanwhile makes the state newer, not older
        file = self.path / STATE_FILE
        try:
            untrusted_bytes = read_bytes(file, max_bytes=MAX_STATE_BYTES, found=True)
        except FileMissing as exc:
            raise StoreFault(
                "keystore.missing", "there is no key store here", path=str(self.path)
            ) from exc
        return load_state(untrusted_bytes, where=str(file)), end

    def write(
        self, state: StoreState, lines: bytes, *, before: StoreState, envelopes: Mapping[str, bytes]
    ) -> None:
        with alone(self.path):
            found, _ = self.read()
            if (found.generation, found.audit) != (before.generation, before.audit):
                raise StoreFault(
                    "keystore.changed",
                    f"the store is at generation {found.generation}, not {before.generation}",
                    path=str(self.path),
                )
            logged: int | None = None
            try:
                for thumbprint, envelope in envelopes.items():
                    private_file = self._own_private_file(thumbprint)
                    make_directory(private_file.parent, mode=0o700)
                    remove(private_file)  # left by an attempt that never came to commit this key
                    create_private(private_file, envelope)
                logged = append_private(self.path / AUDIT_FILE, lines)
                write_atomic(self.path / STATE_FILE, dump_state(state))
            except FileFault:
                self._undo(envelopes, logged, before.generation)
                raise

    def _undo(self, envelopes: Mapping[str, bytes], logged: int | None, generation: int) -> None:
        """Leave nothing of a commit that failed, a full disk say; as far as that can be done."""
        with contextlib.suppress(FileFault, StoreFault):
            if self.read()[0].generation != generation:
                return  # all that failed was to sync the directory
            for thumbprint in envelopes:
                remove(self.private_file(thumbprint))
            if logged is not None:
                truncate(self.path / AUDIT_FILE, logged)

    def private_file(self, thumbprint: str) -> Path:
        """The file of a private key, if the store holds it."""
        return self.path / file_custody(thumbprint).removeprefix("file:")

    def _own_private_file(self, thumbprint: str) -> Path:
        """The same, but never in a folder to which another user has laid a link."""
        file = self.private_file(thumbprint)
        if file.parent.is_symlink():
            raise FileFault("file.not_plain", "this is a symbolic link", path=str(file.parent))
        return file

    def private_keys(self) -> frozenset[str]:
        names = list_names(self.path / PRIVATE_DIRECTORY)
        return frozenset(match[1] for name in names if (match := PRIVATE_FILE.fullmatch(name)))

    def read_private(self, thumbprint: str) -> bytes:
        file = self._own_private_file(thumbprint)
        return read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES, plain=True)

    def replace_private(self, thumbprint: str, envelope: bytes) -> None:
        with alone(self.path):
            file = self._own_private_file(thumbprint)
            if file.exists():
                write_atomic(file, envelope, mode=PRIVATE_MODE, plain=True)

    def remove_private(self, thumbprint: str) -> None:
        remove(self._own_private_file(thumbprint))

    def read_audit(self) -> bytes:
        return self._log(only_end=False)

    def statement_file(self, kind: StatementKind, number: Number) -> Path:
        """Where the statement of this number lies, if it is kept."""
        name = f"{'.'.join(map(str, number))}.json"
        return self.path / STATEMENTS_DIRECTORY / kind / name

    def statement_place(self, kind: StatementKind, number: Number) -> str:
        return str(self.statement_file(kind, number))

    def read_statements(self, kind: StatementKind) -> dict[Number, bytes]:
        return {number: self._statement(kind, number) for number in self._numbers(kind)}

    def read_newest_statement(self, kind: StatementKind) -> tuple[Number, bytes] | None:
        numbers = self._numbers(kind)
        return (numbers[-1], self._statement(kind, numbers[-1])) if numbers else None

    def add_statement(self, kind: StatementKind, number: Number, data: bytes) -> None:
        file = self.statement_file(kind, number)
        if file.exists():
            raise StoreFault(
                "keystore.changed", "a statement of this number is kept", path=str(file)
            )
        make_directory(file.parent)
        write_atomic(file, data)

    def _put_back(self, kind: StatementKind, number: Number, data: bytes) -> None:
        """Write a statement that is copied, where no key store is yet."""
        file = self.statement_file(kind, number)
        make_directory(file.parent)
        if file.exists() and read_bytes(file, max_bytes=MAX_STATEMENT_BYTES) != data:
            raise FileFault("file.exists", "another statement stands here", path=str(file))
        write_atomic(file, data)

    def adding_statements(self) -> AbstractContextManager[None]:
        folder = self.path / STATEMENTS_DIRECTORY
        make_directory(folder)
        busy = StoreFault("file.busy", "another process adds a statement", path=str(folder))
        return locked(folder / LOCK_FILE, patience=LOCK_PATIENCE, busy=busy)

    def _numbers(self, kind: StatementKind) -> list[Number]:
        names = list_names(self.path / STATEMENTS_DIRECTORY / kind)
        matches = map(STATEMENT_FILES[kind].fullmatch, names)
        return sorted(tuple(map(int, match.groups())) for match in matches if match)

    def _statement(self, kind: StatementKind, number: Number) -> bytes:
        return read_bytes(
            self.statement_file(kind, number), max_bytes=MAX_STATEMENT_BYTES, found=True
        )

    def _log(self, *, only_end: bool) -> bytes:
        limit = LOG_END if only_end else MAX_AUDIT_BYTES
        try:
            return read_bytes(
                self.path / AUDIT_FILE, max_bytes=limit, only_end=only_end, found=True
            )
        except FileMissing:
            return b""


def _put(file: Path, data: bytes) -> None:
    """Write a private file, over what a killed attempt has left of the same."""
    make_directory(file.parent, mode=0o700)
    with contextlib.suppress(FileFault):  # what stands in the way else is told below
        if data.startswith(read_private(file, max_bytes=len(data))):
            remove(file)
    create_private(file, data)


def holds_store(path: Path) -> bool:
    """Say whether a key store's state is in the directory `path`, readable or not."""
    return os.path.lexists(path / STATE_FILE)


def locate_keystore(cwd: Path, *, create: bool = False) -> Path:
    """Return the directory to use where nothing is named: ``./keys``.

    It is taken if it holds a key store. With `create` it is also taken if none is in it, whatever
    else lies there, since many repositories keep other keys in a folder of that name.

    Raises:
        StoreFault: ``keystore.missing``: no store is here; or, with `create`, parts of one are,
            without its state: a new store would take them for its own.
    """
    default = cwd / DEFAULT_DIRECTORY
    if holds_store(default):
        return default
    if not create:
        raise StoreFault(
            "keystore.missing", "no key store is named, and none is here", path=str(default)
        )
    parts = [name for name in _PARTS if os.path.lexists(default / name)]
    if parts:
        raise StoreFault(
            "keystore.missing",
            f"this directory holds {parts[0]} of a key store, but no {STATE_FILE}",
            path=str(default),
            hint=f"Put {STATE_FILE} back, or make a key store in another directory: cardsign keys "
            "generate --keystore DIR.",
        )
    return default


def alone(path: Path) -> AbstractContextManager[None]:
    """Hold the store in the directory `path` alone among processes; raises ``file.busy``."""
    busy = StoreFault("file.busy", "another process is changing the store", path=str(path))
    return locked(path / LOCK_FILE, patience=LOCK_PATIENCE, busy=busy)
