"""Statements at hand: what came with a card, from files, from its server, or from the cache.

Nothing of it has been checked, and none of it brings trust (threat 16).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.errors import CardsignError, FileFault, InputRefused, UsageFault, of_the_user
from cardsign.files import MAX_INPUT_BYTES, locked, make_directory, read_bytes, write_atomic
from cardsign.statements.envelope import (
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
    read_envelope,
)
from cardsign.statements.keyset import KeysetId, KeysetStatement, RootAnchor, read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.times import utc
from cardsign.trust.lock import Floor
from cardsign.trust.policy import user_folder
from cardsign.trust.walk import Walk, choose_release, read_statements


@dataclass(frozen=True, slots=True)
class SuppliedStatements:
    """Statements and key sets as received: from files or from the issuer's server.

    Attributes:
        untrusted_keysets: Keyset statements, in any order; superfluous ones do no harm.
        untrusted_releases: Release statements, likewise.
        untrusted_jwks: A JWK Set.
        jwks_url: Where the JWK Set was fetched from, over TLS; None if that is not known. A
            `jwks` anchor reads a set that comes from its own URL and no other.
    """

    untrusted_keysets: tuple[bytes, ...] = ()
    untrusted_releases: tuple[bytes, ...] = ()
    untrusted_jwks: bytes | None = None
    jwks_url: str | None = None

    def __post_init__(self) -> None:
        # What is resolved by them is kept, so they must not change in the hands of the caller.
        for name in ("untrusted_keysets", "untrusted_releases"):
            object.__setattr__(self, name, tuple(map(bytes, getattr(self, name))))
        if self.untrusted_jwks is not None:
            object.__setattr__(self, "untrusted_jwks", bytes(self.untrusted_jwks))

    def joined(self, other: SuppliedStatements) -> SuppliedStatements:
        """What both hold; neither vouches for the other. A key set is the other's first."""
        empty = SuppliedStatements()
        if empty in (self, other):
            return other if self == empty else self
        jwks = other if other.untrusted_jwks is not None else self
        return SuppliedStatements(
            tuple(dict.fromkeys((*self.untrusted_keysets, *other.untrusted_keysets))),
            tuple(dict.fromkeys((*self.untrusted_releases, *other.untrusted_releases))),
            jwks.untrusted_jwks,
            jwks.jwks_url,
        )


NO_STATEMENTS: Final = SuppliedStatements()
#: Statements, in each form that a program may have them: a file or folder of them, their bytes in
#: any order, or sorted already.
Statements: TypeAlias = SuppliedStatements | Path | str | Sequence[bytes]


def read_supplied(statements: Statements) -> SuppliedStatements:
    """Sort the statements that a program hands over.

    Raises:
        TypeError: They are in no form of :data:`Statements`.
        UsageFault, FileFault: As :func:`load_statements`, of a path.
    """
    if isinstance(statements, SuppliedStatements):
        return statements
    if isinstance(statements, str | Path):
        return load_statements([Path(statements)])
    if isinstance(statements, list | tuple) and all(isinstance(data, bytes) for data in statements):
        supplied = NO_STATEMENTS
        for data in statements:
            try:
                supplied = supplied.joined(_sort_statement(data))
            except InputRefused:  # a peer's: the verdict says what is wrong with it
                supplied = supplied.joined(SuppliedStatements((data,)))
        return supplied
    raise TypeError(
        "statements takes the folder in which they are, or a list of their bytes: "
        "statements=[keyset, release]"
    )


#: Files of one folder: all the steps of a refresh, and as many releases.
MAX_FILES: Final = 512

# Statements from files, sorted by what they say they are; nothing is verified.


def load_statements(paths: Iterable[Path]) -> SuppliedStatements:
    """Read keyset and release statements from files, and from the folders among them.

    What else is in a folder, such as the card itself, is left out.

    Raises:
        UsageFault: A file that was named is no statement, under its own ``statement.*`` code;
            ``usage.conflict``: a folder holds too many files, or no statement.
        FileFault: A file cannot be read.
    """
    statements = NO_STATEMENTS
    for path in paths:
        if path.is_dir():
            statements = statements.joined(_of_folder(path))
        else:
            with of_the_user(str(path)):
                statements = statements.joined(_of_file(path))
    return statements


def _of_folder(folder: Path) -> SuppliedStatements:
    files, statements = sorted(folder.rglob("*.json")), NO_STATEMENTS
    for file in files[:MAX_FILES]:
        with suppress(InputRefused):
            statements = statements.joined(_of_file(file, is_named=False))
    if len(files) > MAX_FILES or statements == NO_STATEMENTS:
        raise UsageFault(
            "usage.conflict",
            f"expected 1 to {MAX_FILES} files (*.json) here, and statements among them; found "
            f"{len(files)} files",
            path=str(folder),
        )
    return statements


def _of_file(path: Path, *, is_named: bool = True) -> SuppliedStatements:
    return _sort_statement(read_bytes(path, max_bytes=MAX_INPUT_BYTES, found=not is_named))


def _sort_statement(untrusted_bytes: bytes) -> SuppliedStatements:
    try:  # which of the two statements it says it is; its reader holds it to that
        read_envelope(untrusted_bytes, TYP_KEYSET)
    except StatementRefused as refusal:
        if refusal.code != "statement.typ":
            raise
        read_envelope(untrusted_bytes, TYP_RELEASE)
        return SuppliedStatements((), (untrusted_bytes,))
    return SuppliedStatements((untrusted_bytes,))


# Signed statements kept in the user's cache folder (decision F6, L6). What is read is verified
# again, so a poisoned file costs time and nothing else. Whatever cannot be read is empty.

#: Bytes of one file of the cache: more statements than a walk reads.
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
#: Seconds to wait for another process that keeps statements.
PATIENCE: Final = 1.0


class StatementCache:
    """The cache in one folder, with a file for each anchor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_user(cls) -> StatementCache | None:
        """Return the cache in the user's cache folder; None where this user has none."""
        with suppress(UsageFault):
            return cls(user_folder("CACHE") / "statements")
        return None

    def get(self, pin: KeysetId | RootAnchor) -> SuppliedStatements:
        """Return the statements kept for an anchor; none if there is anything odd."""
        path = self.folder / f"{cache_name(pin)}.json"
        try:
            if hasattr(os, "geteuid") and path.lstat().st_uid != os.geteuid():
                return NO_STATEMENTS
            kept = json.loads(read_bytes(path, max_bytes=MAX_FILE_BYTES, plain=True))
            keysets, releases = ([text.encode() for text in texts] for texts in kept)
            return SuppliedStatements(tuple(keysets), tuple(releases))
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, CardsignError):
            return NO_STATEMENTS

    def keep(
        self,
        pin: KeysetId | RootAnchor,
        passed: Sequence[KeysetStatement],
        release: ReleaseStatement | None,
    ) -> SuppliedStatements:
        """Keep the keysets from the anchor to the newest, and the newest release.

        What another process has kept beyond them stays, also where this one could not use it: its
        clock may be behind. Nothing happens where the folder cannot be written.

        Returns:
            What stayed of the other process.
        """
        busy = FileFault("file.busy", "another process uses the cache", path=str(self.folder))
        with suppress(OSError, CardsignError):
            make_directory(self.folder, mode=0o700)
            with locked(self.folder / "lock", patience=PATIENCE, busy=busy):
                newer = _go_on(self.get(pin), passed[-1], release)
                keysets = [*(_data(keyset) for keyset in passed), *newer.untrusted_keysets]
                releases = newer.untrusted_releases or ([_data(release)] if release else [])
                texts = [[data.decode() for data in group] for group in (keysets, releases)]
                path = self.folder / f"{cache_name(pin)}.json"
                write_atomic(path, json.dumps(texts).encode(), mode=0o600, plain=True)
                return newer
        return NO_STATEMENTS

    def follow(self, pin: KeysetId, moved: KeysetId) -> None:
        """Keep what is kept for a pin for the one to which it moved forward, from there on."""
        kept = self.get(pin)
        keysets = read_statements(kept.untrusted_keysets, read_keyset, [])
        passed = [keyset for keyset in keysets if keyset.number >= moved.number]
        releases = read_statements(kept.untrusted_releases, read_release, [])
        if passed:
            self.keep(moved, passed, next(iter(releases), None))


def cache_name(pin: KeysetId | RootAnchor) -> str:
    """Return the name under which the cache holds the statements of an anchor."""
    if isinstance(pin, KeysetId):
        return pin.digest
    pairs = " ".join(sorted(f"{thumbprint}:{holder}" for thumbprint, holder in pin.holders))
    return hashlib.sha256(f"roots {pin.threshold} {pairs}".encode()).hexdigest()


def _go_on(
    others: SuppliedStatements, keyset: KeysetStatement, release: ReleaseStatement | None
) -> SuppliedStatements:
    """Return the statements that lawfully go on from a keyset, and the release if it is newer.

    They are verified as of their own time: a clock that is behind is no reason to lose them.
    """
    keysets = read_statements(others.untrusted_keysets, read_keyset, [], keyset)
    releases = read_statements(others.untrusted_releases, read_release, [])
    issued = [*(kept.iat for kept in keysets), *(kept.iat for kept in releases)]
    now = utc(max(issued, default=keyset.iat))
    walk = Walk(keysets, Floor(), now, timedelta(), max_steps=len(keysets))
    with suppress(StatementRefused):
        keyset = walk.onward(keyset)
    newest = choose_release(release, releases, keyset, None, now=now, skew=timedelta()).release
    newer = [newest] if newest is not None and newest is not release else []
    return SuppliedStatements(tuple(map(_data, walk.passed)), tuple(map(_data, newer)))


def _data(statement: KeysetStatement | ReleaseStatement) -> bytes:
    return statement.envelope.to_bytes()
