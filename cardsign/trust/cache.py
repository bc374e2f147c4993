"""Signed statements kept in the user's cache folder (decision F6, L6). It brings no trust.

One file for each keyset that our own walk has reached, named by its digest. It holds statements
alone: that keyset, the one that follows it, and its newest release. What is read is verified
again, so a poisoned file costs time and nothing else. Whatever cannot be read is empty.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cardsign.errors import CardsignError, UsageFault
from cardsign.files import read_bytes, write_atomic
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetId, KeysetStatement, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.trust.disk import user_folder

MAX_FILE_BYTES: Final = 4 * MAX_STATEMENT_BYTES
#: Keysets that are followed back from the locked one.
MAX_STEPS_BACK: Final = 4096
MAX_STATEMENTS: Final = 4  # the keyset, its successor, a recovery, the release


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

    def get(self, digest: str) -> tuple[bytes, ...]:
        """Return the statements kept under a keyset digest; empty if there is anything odd."""
        if self.folder is None:
            return ()
        path = self.folder / f"{digest}.json"
        try:
            status = path.stat(follow_symlinks=False)
            is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
            if not stat.S_ISREG(status.st_mode) or not is_ours:
                return ()
            data = read_bytes(path, max_bytes=MAX_FILE_BYTES, plain=True)
            texts = json.loads(data)
            if not isinstance(texts, list) or len(texts) > MAX_STATEMENTS:
                return ()
            return tuple(text.encode() for text in texts if isinstance(text, str))
        except (OSError, ValueError, RecursionError, CardsignError):
            return ()

    def put(self, digest: str, statements: Iterable[bytes]) -> None:
        """Keep statements; nothing happens where the folder cannot be written."""
        if self.folder is None:
            return
        texts = [statement.decode() for statement in statements]
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.folder / f"{digest}.json"
            write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
        except (OSError, CardsignError):
            pass


class CachedStatements:
    """What one resolution takes from the cache; nothing in it has been verified.

    Attributes:
        cache: Where it is.
        releases: The releases seen on the way.
        found: What was read, by keyset digest.
    """

    def __init__(self, cache: StatementCache) -> None:
        self.cache = cache
        self.found: dict[str, tuple[bytes, ...]] = {}
        self.releases: list[ReleaseStatement] = []

    def under(self, digest: str) -> list[KeysetStatement]:
        """Return the keysets under a digest that our walk has reached; junk is left out."""
        keysets = []
        self.found[digest] = self.cache.get(digest)
        for data in self.found[digest]:
            try:
                keysets.append(read_keyset(data))
            except StatementRefused:
                with suppress(StatementRefused):
                    self.releases.append(read_release(data))
        return keysets

    def leading_to(self, locked: KeysetId | None) -> list[KeysetStatement]:
        """Return the keysets up to a locked one; each names the digest of the one before."""
        keysets: list[KeysetStatement] = []
        digest = locked.digest if locked is not None else None
        while digest is not None and len(keysets) < MAX_STEPS_BACK:
            same = (keyset for keyset in self.under(digest) if keyset.digest == digest)
            keyset = next(same, None)
            if keyset is None:
                break
            keysets.append(keyset)
            digest = keyset.prev
        return keysets
