"""Signed statements kept in the user's cache folder (decision F6). It brings no trust.

One file for each anchor, named by its digest: the keyset statements that our own walk has passed
from there, and the newest release. What is read is verified again, so a poisoned file costs time
and nothing else. Whatever cannot be read is empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cardsign.errors import CardsignError, FileFault, UsageFault
from cardsign.files import locked, make_directory, read_bytes, write_atomic
from cardsign.trust.disk import user_folder
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements

#: Bytes of one file: more statements than a walk reads.
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
#: Seconds to wait for another process that keeps statements.
PATIENCE: Final = 1.0


class StatementCache:
    """The cache in one folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    @classmethod
    def of_user(cls) -> StatementCache:
        """Return the cache in the user's cache folder; where there is none, nothing is kept."""
        try:
            return cls(user_folder("CACHE") / "statements")
        except UsageFault:
            return cls()

    def get(self, name: str) -> SuppliedStatements:
        """Return the statements kept under a name; none if there is anything odd."""
        if self.folder is None:
            return NO_STATEMENTS
        path = self.folder / f"{name}.json"
        try:
            if hasattr(os, "geteuid") and path.lstat().st_uid != os.geteuid():
                return NO_STATEMENTS
            kept = json.loads(read_bytes(path, max_bytes=MAX_FILE_BYTES, plain=True))
            keysets, releases = ([text.encode() for text in texts] for texts in kept)
            return SuppliedStatements(tuple(keysets), tuple(releases))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, CardsignError):
            return NO_STATEMENTS

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from putting anything.

        Raises:
            FileFault: The folder cannot be written, or another process holds it too long.
        """
        if self.folder is None:
            yield
            return
        busy = FileFault("file.busy", "another process uses the cache", path=str(self.folder))
        make_directory(self.folder, mode=0o700)
        with locked(self.folder / "lock", patience=PATIENCE, busy=busy):
            yield

    def put(self, name: str, statements: SuppliedStatements) -> None:
        """Keep statements; nothing happens where the folder cannot be written."""
        if self.folder is None:
            return
        every = (statements.untrusted_keysets, statements.untrusted_releases)
        texts = [[data.decode() for data in group] for group in every]
        with suppress(OSError, CardsignError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.folder / f"{name}.json"
            write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
