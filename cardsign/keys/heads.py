"""What this user saw last of a key store's log, in the user's own state folder.

One small file for each store, by the place where the store lies::

    {"format": 1, "store": "/srv/issuer/keys", "seq": 7, "digest": "<SHA-256 of line 7>"}

Somebody who can edit a store can write its state and its log anew, so that the two agree. They
cannot edit this file as well, unless they are the user. A log that does not lead back to the
line that is named here is refused (``keystore.other_history``).

Not found out: what was done to a store before this user opened it for the first time on this
machine, or before it was moved to its present place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.errors import FileFault, FileMissing, JsonRefused, StoreFault
from cardsign.files import make_directory, read_bytes, remove, write_atomic
from cardsign.keys.model import AuditHead
from cardsign.records import dataclass

FOLDER: Final = "cardsign/keystores"
FORMAT: Final = 1
MAX_BYTES: Final = 16 * 1024  # a path and a digest


@dataclass(frozen=True, slots=True)
class UserHeads:
    """What a user saw of all the key stores that they use.

    Attributes:
        folder: Where it is remembered.
        warn: Told once for each store if that cannot be done; it keeps nobody from signing.
    """

    folder: Path
    warn: Callable[[str], None]

    @classmethod
    def find(cls, environment: Mapping[str, str], warn: Callable[[str], None]) -> UserHeads | None:
        """Return those of a user; None if there is no place for them.

        Args:
            environment: XDG_STATE_HOME counts if it is an absolute path, else HOME.
            warn: See above.
        """
        configured = Path(environment.get("XDG_STATE_HOME", ""))
        if not configured.is_absolute():
            configured = Path(environment.get("HOME", "")) / ".local/state"
        return cls(configured / FOLDER, warn) if configured.is_absolute() else None

    def of(self, store: str) -> SeenHeads:
        """What the user saw of one store, by its real path or its address in a database."""
        return SeenHeads(self.folder, store, self.warn)


@dataclass(slots=True)
class SeenHeads:
    """The newest line that this user saw of one store's log.

    Attributes:
        folder: Where such files lie.
        store: Which store: its real path, or its address in a database.
        warn: Told once if the head cannot be remembered; that keeps nobody from signing.
    """

    folder: Path
    store: str
    warn: Callable[[str], None]
    _told: bool = field(default=False, repr=False)

    @property
    def file(self) -> Path:
        """Where the head is remembered."""
        return self.folder / f"{hashlib.sha256(self.store.encode()).hexdigest()[:32]}.json"

    def read(self) -> AuditHead:
        """Return the head that was seen last; that of an empty log if none was.

        That the file cannot be reached, as in a container without a home, is told and no more.

        Raises:
            StoreFault: ``keystore.corrupt``: the file is not one of ours.
        """
        try:
            untrusted_bytes = read_bytes(self.file, max_bytes=MAX_BYTES)
        except FileMissing:
            return AuditHead()
        except FileFault as fault:
            self._tell(fault, "it is not known which line of the log was the newest before")
            return AuditHead()
        try:
            members = parse_object(untrusted_bytes, max_bytes=MAX_BYTES, max_depth=1)
        except JsonRefused as exc:
            raise self._damaged(exc.message) from exc
        match members:
            case {"format": 1, "store": self.store, "seq": int(seq), "digest": str(digest)} if (
                len(members) == 4
            ):
                return AuditHead(seq, digest)
        raise self._damaged("it is not what cardsign writes about this key store")

    def note(self, head: AuditHead, known: AuditHead) -> None:
        """Remember a head, which the log now has; `known` is remembered already.

        That it cannot be written is told, and changes nothing else: the check of the next
        command then begins at an older line.
        """
        if head == known or head.digest is None:
            return
        document = {
            "format": FORMAT,
            "store": self.store,
            "seq": head.seq,
            "digest": head.digest,
        }
        try:
            make_directory(self.folder, mode=0o700)
            write_atomic(self.file, json.dumps(document).encode("ascii") + b"\n", mode=0o600)
        except FileFault as fault:
            self._tell(fault, "the newest line of the log cannot be remembered")

    def forget(self) -> None:
        """Begin anew: the user is making the store at this place, or restoring it."""
        try:
            remove(self.file)
        except FileFault as fault:
            self._tell(fault, "what was remembered of an earlier key store here cannot be removed")

    def _tell(self, fault: FileFault, what: str) -> None:
        if not self._told:
            self._told = True
            self.warn(f"{fault.code}: {what} ({self.file}: {fault.message})")

    def _damaged(self, what: str) -> StoreFault:
        return StoreFault("keystore.corrupt", what, path=str(self.file), hint="Remove the file.")
