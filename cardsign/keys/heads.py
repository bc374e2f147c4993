"""What a user saw last of a key store's log, in the user's own state folder.

One small file for each store: ``{"format": 1, "store": "/srv/issuer/keys", "seq": 7, "digest":
"<SHA-256 of line 7>"}``. Anyone who can edit a store can write its whole log anew. They cannot edit
these files as well, unless they are the user.

Not found out: what was done to a store before this user opened it for the first time on this
machine, or before it was moved to its present place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.card.strictjson import parse_object
from cardsign.errors import FileFault, FileMissing, JsonRefused, StoreFault
from cardsign.files import make_directory, read_bytes, remove, write_atomic

_FOLDER: Final = "cardsign/keystores"
_FORMAT: Final = 1
_MAX_BYTES: Final = 16 * 1024  # a path and a digest

Head: TypeAlias = tuple[int, str]
"""The number of a line, and its SHA-256."""


@dataclass(frozen=True, slots=True)
class SeenHead:
    """The newest line that this user saw of a store's log.

    Attributes:
        warn: Told if it cannot be remembered; that keeps nobody from signing.
        store: Which store: its real path, or its address in a database.
    """

    folder: Path
    warn: Callable[[str], None]
    store: str = ""

    @classmethod
    def find(cls, environment: Mapping[str, str], warn: Callable[[str], None]) -> SeenHead | None:
        """Return that of a user, under XDG_STATE_HOME or HOME; None if there is no place for it."""
        configured = Path(environment.get("XDG_STATE_HOME", ""))
        if not configured.is_absolute():
            configured = Path(environment.get("HOME", "")) / ".local/state"
        return cls(configured / _FOLDER, warn) if configured.is_absolute() else None

    def of(self, store: str) -> SeenHead:
        """Return what the user saw of one store."""
        return replace(self, store=store)

    @property
    def file(self) -> Path:
        """Where it is remembered."""
        return self.folder / f"{hashlib.sha256(self.store.encode()).hexdigest()[:32]}.json"

    def read(self) -> Head | None:
        """Return the line that was seen last; None if none was.

        That the file cannot be reached, as in a container without a home, is told and no more. One
        that is not ours is refused (``keystore.corrupt``).
        """
        try:
            untrusted_bytes = read_bytes(self.file, max_bytes=_MAX_BYTES)
            members = parse_object(untrusted_bytes, max_bytes=_MAX_BYTES, max_depth=1)
        except FileMissing:
            return None
        except FileFault as fault:
            self._tell(fault)
            return None
        except JsonRefused:
            members = {}
        match members:
            case {"format": 1, "store": self.store, "seq": int(seq), "digest": str(digest)}:
                return seq, digest
        message = "it is not what cardsign writes about this key store"
        raise StoreFault("keystore.corrupt", message, path=str(self.file), hint="Remove the file.")

    def note(self, head: Head) -> None:
        """Remember a line, which the log now has.

        Where it cannot be written, the check of the next command begins at an older line.
        """
        document = {"format": _FORMAT, "store": self.store, "seq": head[0], "digest": head[1]}
        try:
            make_directory(self.folder, mode=0o700)
            write_atomic(self.file, json.dumps(document).encode("ascii") + b"\n", mode=0o600)
        except FileFault as fault:
            self._tell(fault)

    def forget(self) -> None:
        """Begin anew: the user is making the store at this place."""
        try:
            remove(self.file)
        except FileFault as fault:
            self._tell(fault)

    def _tell(self, fault: FileFault) -> None:
        message = "the newest line of a key store's log cannot be remembered"
        self.warn(f"{fault.code}: {message} ({self.file}: {fault.message})")
