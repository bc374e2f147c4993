"""The key store in a directory.

::

    keys/
      log.jsonl                   public: every key, its lifecycle, publications (see log.py)
      private/<SHA-256>.key       sealed (see sealed.py); 0600, which git does not keep
      statements/<SHA-256>.json   public: the issuer's signed statements
      .lock                       held while writing

Blobs are durable before the line that names them. So a crash leaves at most a file that nothing
refers to, and a last line without its end, which was never committed. Readers take no lock.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.errors import FileFault, FileMissing, JsonRefused, StoreFault
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
from cardsign.keys.log import MAX_LINE_BYTES
from cardsign.keys.store import KeyStore, StoreUser

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
            return read_bytes(self.log, max_bytes=MAX_LOG_BYTES, found=True)
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
        """The file of a blob, but never in a folder to which another user has laid a link."""
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
