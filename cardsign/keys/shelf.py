"""The issuer's statements in a directory.

::

    keys/statements/
      keysets/1.1.json          keyset statements, {epoch}.{version}; never changed
      releases/42.json          release statements by their number; never changed
      .lock                     held while one is added

All are public. :mod:`cardsign.keys.ledger` says what they have to be; here they are bytes.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, StoreFault
from cardsign.files import list_names, locked, make_directory, read_bytes, write_atomic
from cardsign.jose.statements import MAX_STATEMENT_BYTES
from cardsign.keys.interface import Kind, Number

DIRECTORY: Final = "statements"
LOCK_FILE: Final = ".lock"
LOCK_PATIENCE: Final = 5.0  # seconds; a statement is written in milliseconds

_FORMS: Final[dict[Kind, re.Pattern[str]]] = {
    "keysets": re.compile(r"([1-9][0-9]{0,15})\.([1-9][0-9]{0,15})\.json"),
    "releases": re.compile(r"([1-9][0-9]{0,15})\.json"),
}


class FileShelf:
    """Statements as files; see :class:`cardsign.keys.interface.Shelf`.

    Attributes:
        path: The directory; one that is not there holds none.
    """

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def place(self) -> str:
        """The directory."""
        return str(self.path)

    def file(self, kind: Kind, number: Number) -> Path:
        """Where the statement of this number lies, if it is kept."""
        return self.path / kind / f"{'.'.join(map(str, number))}.json"

    def where(self, kind: Kind, number: Number) -> str:
        """See :meth:`cardsign.keys.interface.Shelf.where`."""
        return str(self.file(kind, number))

    def read_all(self, kind: Kind) -> dict[Number, bytes]:
        """See :meth:`cardsign.keys.interface.Shelf.read_all`."""
        return {number: self._read(kind, number) for number in self._numbers(kind)}

    def read_newest(self, kind: Kind) -> tuple[Number, bytes] | None:
        """See :meth:`cardsign.keys.interface.Shelf.read_newest`."""
        numbers = self._numbers(kind)
        return (numbers[-1], self._read(kind, numbers[-1])) if numbers else None

    def add(self, kind: Kind, number: Number, data: bytes) -> None:
        """See :meth:`cardsign.keys.interface.Shelf.add`; call it within :meth:`alone`."""
        file = self.file(kind, number)
        if file.exists():
            raise StoreFault(
                "keystore.changed", "a statement of this number is kept", path=str(file)
            )
        make_directory(file.parent)
        write_atomic(file, data)

    def put_back(self, kind: Kind, number: Number, data: bytes) -> None:
        """Write a statement of a backup, where no key store is yet.

        Raises:
            FileFault: ``file.unwritable``; ``file.exists``: another one stands there.
        """
        file = self.file(kind, number)
        make_directory(file.parent)
        if file.exists() and read_bytes(file, max_bytes=MAX_STATEMENT_BYTES) != data:
            raise FileFault("file.exists", "another statement stands here", path=str(file))
        write_atomic(file, data)

    def alone(self) -> AbstractContextManager[None]:
        """See :meth:`cardsign.keys.interface.Shelf.alone`."""
        make_directory(self.path)
        busy = StoreFault("keystore.busy", "another process adds a statement", path=str(self.path))
        return locked(self.path / LOCK_FILE, patience=LOCK_PATIENCE, busy=busy)

    def _numbers(self, kind: Kind) -> list[Number]:
        matches = map(_FORMS[kind].fullmatch, list_names(self.path / kind))
        return sorted(tuple(map(int, match.groups())) for match in matches if match)

    def _read(self, kind: Kind, number: Number) -> bytes:
        return read_bytes(self.file(kind, number), max_bytes=MAX_STATEMENT_BYTES)
