"""Where an issuer, and each holder of a root key, keeps the statements that were signed.

::

    keys/statements/
      keysets/1.1.json          keyset statements, {epoch}.{version}; never changed
      releases/42.json          release statements by their number; never changed
      .lock                     held while one is added

All are public. What is read is checked anew, each statement by the one before, and the key
store's state must name the newest: so neither of the two files can be put back or exchanged by
itself. A statement is written before the state names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import FileFault, JsonRefused, StoreFault
from cardsign.files import list_names, locked, make_directory, read_bytes, write_atomic
from cardsign.jose import base64url
from cardsign.jose.keys import PublicKey
from cardsign.jose.keyset import KeysetStatement, Role, keyset_of, read_keyset
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.jose.statements import (
    MAX_STATEMENT_BYTES,
    MAX_STATEMENT_DEPTH,
    TYP_KEYSET,
    Envelope,
    StatementRefused,
)
from cardsign.keys.audit import AuditEvent
from cardsign.keys.interface import KeyStore
from cardsign.keys.records import HeldKeyset, StatementsHeld, StoreState
from cardsign.keys.statements import check_step
from cardsign.keys.store import DirectoryStore

DIRECTORY: Final = "statements"
KEYSETS: Final = "keysets"
RELEASES: Final = "releases"
LOCK_FILE: Final = ".lock"
LOCK_PATIENCE: Final = 5.0  # seconds; a statement is written in milliseconds

_KEYSET_FILE: Final = re.compile(r"([1-9][0-9]{0,15})\.([1-9][0-9]{0,15})\.json")
_RELEASE_FILE: Final = re.compile(r"([1-9][0-9]{0,15})\.json")


class Ledger:
    """The statements in a directory; one that is not there holds none."""

    __slots__ = ("held", "path")

    def __init__(self, path: Path, held: StatementsHeld) -> None:
        """Look at nothing yet.

        Args:
            path: The directory.
            held: What the state of the key store says of it.
        """
        self.path = path
        self.held = held

    @classmethod
    def beside(cls, store: DirectoryStore) -> Ledger:
        """The ledger of a key store."""
        return cls(store.path / DIRECTORY, store.load().statements)

    def keysets(self) -> tuple[KeysetStatement, ...]:
        """Return every keyset statement, oldest first, each checked by the one before.

        Raises:
            StoreFault: ``keystore.statements``: they are no history, or not the one that the
                key store's state names.
            FileFault: One cannot be read.
        """
        found: list[KeysetStatement] = []
        for epoch, version in sorted(self._numbers(KEYSETS, _KEYSET_FILE)):
            path = self.keyset_file(epoch, version)
            try:
                statement = read_keyset(_read(path))
                if (statement.epoch, statement.version) != (epoch, version):
                    raise StatementRefused("statement.gap", "its number is not that of its file")
                check_step(statement, found[-1] if found else None)
            except StatementRefused as refusal:
                raise _broken(path, f"{refusal.code}: {refusal.message}") from refusal
            found.append(statement)
        self._check_held(found[-1] if found else None)
        return tuple(found)

    def newest_keyset(self) -> KeysetStatement | None:
        """Return the newest keyset statement, or None; see :meth:`keysets`."""
        statements = self.keysets()
        return statements[-1] if statements else None

    def newest_release(self) -> ReleaseStatement | None:
        """Return the release of the highest number, or None; no signature is verified.

        Raises:
            StoreFault: ``keystore.statements``: it cannot be understood.
            FileFault: It cannot be read.
        """
        numbers = [number for (number,) in self._numbers(RELEASES, _RELEASE_FILE)]
        if not numbers:
            return None
        path = self.release_file(max(numbers))
        try:
            release = read_release(_read(path))
        except StatementRefused as refusal:
            raise _broken(path, f"{refusal.code}: {refusal.message}") from refusal
        if release.seq != max(numbers):
            raise _broken(path, "its number is not that of its file")
        return release

    def keep_keyset(self, statement: KeysetStatement, untrusted_bytes: bytes) -> bool:
        """Keep a statement as the newest one.

        Args:
            statement: As read from the bytes.
            untrusted_bytes: What is written.

        Returns:
            Whether it is new.

        Raises:
            StatementRefused: It does not follow the newest, or too few have signed it.
            StoreFault: As :meth:`keysets`; ``keystore.busy``.
            FileFault: ``file.unwritable``.
        """
        with self.alone():
            statements = self.keysets()
            newest = statements[-1] if statements else None
            if newest is not None and newest.digest == statement.digest:
                return False
            check_step(statement, newest)
            path = self.keyset_file(statement.epoch, statement.version)
            make_directory(path.parent)
            write_atomic(path, untrusted_bytes)
        return True

    def keep_release(self, release: ReleaseStatement, data: bytes) -> None:
        """Keep a release, whose number nobody else has.

        Call it within :meth:`alone`, in which the release before was read as well: else what
        another process lists meanwhile would be forgotten.

        Raises:
            FileFault: ``file.exists`` or ``file.unwritable``.
        """
        path = self.release_file(release.seq)
        if path.exists():
            raise FileFault("file.exists", "a release has this number", path=str(path))
        make_directory(path.parent)
        write_atomic(path, data)

    def alone(self) -> AbstractContextManager[None]:
        """Let no other process add a statement meanwhile.

        Raises:
            StoreFault: ``keystore.busy``.
            FileFault: ``file.unwritable``.
        """
        make_directory(self.path)
        busy = StoreFault("keystore.busy", "another process adds a statement", path=str(self.path))
        return locked(self.path / LOCK_FILE, patience=LOCK_PATIENCE, busy=busy)

    def check_listed(self, keys: Iterable[PublicKey], role: Role) -> None:
        """Check that the roots have listed keys that are to be used, if there is a keyset at all.

        So a key store into which somebody else has edited his key is found out (threats.md 22).

        Raises:
            StoreFault: ``keystore.not_listed``, or as :meth:`keysets`.
        """
        keyset = self.newest_keyset()
        if keyset is None:
            return
        listed = {key.public.thumbprint for key in keyset.keys if role in key.roles}
        for key in keys:
            if key.thumbprint not in listed:
                number = f"{keyset.epoch}.{keyset.version}"
                raise StoreFault(
                    "keystore.not_listed", f"keyset {number} lists no {role} key {key.kid!r}"
                )

    def keyset_file(self, epoch: int, version: int) -> Path:
        """Where the statement of this number lies, if it is kept."""
        return self.path / KEYSETS / f"{epoch}.{version}.json"

    def release_file(self, seq: int) -> Path:
        """Where the release of this number lies, if it is kept."""
        return self.path / RELEASES / f"{seq}.json"

    def _numbers(self, folder: str, form: re.Pattern[str]) -> list[tuple[int, ...]]:
        matches = map(form.fullmatch, list_names(self.path / folder))
        return [tuple(map(int, match.groups())) for match in matches if match]

    def _check_held(self, newest: KeysetStatement | None) -> None:
        held = self.held.keyset
        if held is None:
            return
        number = (held.epoch, held.version)
        found = (newest.epoch, newest.version) if newest else (0, 0)
        if found < number:
            raise _broken(self.path, f"keyset {held.epoch}.{held.version} is missing")
        if newest is not None and found == number and newest.digest != held.digest:
            raise _broken(self.path, f"keyset {held.epoch}.{held.version} is not {held.digest}")


def note_keyset(store: KeyStore, statement: KeysetStatement, *, now: datetime) -> None:
    """Let the key store's state name the newest keyset statement; again is no change.

    Raises:
        StoreFault: ``keystore.changed``: the store was changed meanwhile, so try again;
            ``keystore.busy``, or as :meth:`KeyStore.load`.
        FileFault: ``file.unwritable``.
    """
    state = store.load()
    held = HeldKeyset(statement.epoch, statement.version, statement.digest)
    if state.statements.keyset != held:
        details: dict[str, Json] = {"number": f"{held.epoch}.{held.version}", "digest": held.digest}
        event = AuditEvent("keyset.kept", None, details)
        _commit(store, state, replace(state.statements, keyset=held), event, now)


def note_release(store: KeyStore, release: ReleaseStatement, *, now: datetime) -> None:
    """Take the release's number for it, before it is written: no two releases have one.

    Raises:
        StoreFault: As :func:`note_keyset`; ``keystore.changed`` also where it is taken.
        FileFault: ``file.unwritable``.
    """
    state = store.load()
    if state.statements.release_seq >= release.seq:
        newest = state.statements.release_seq
        raise StoreFault("keystore.changed", f"release {newest} was signed meanwhile")
    event = AuditEvent("release.signed", None, {"seq": release.seq, "digest": release.digest})
    _commit(store, state, replace(state.statements, release_seq=release.seq), event, now)


def write_draft(statement: KeysetStatement) -> bytes:
    """A draft as a file: General JSON as a statement is, with the signatures that there are."""
    envelope = statement.envelope
    document = {
        "payload": base64url.encode(envelope.payload),
        "signatures": [signature.to_json() for signature in envelope.signatures],
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def read_draft(untrusted_bytes: bytes) -> KeysetStatement:
    """Read a draft or a statement. No signature is verified.

    Raises:
        StatementRefused: As :func:`cardsign.jose.keyset.read_keyset`.
    """
    try:
        document = parse_object(
            untrusted_bytes, max_bytes=MAX_STATEMENT_BYTES, max_depth=MAX_STATEMENT_DEPTH
        )
    except JsonRefused:
        document = {}  # the strict reader says what is wrong
    payload = document.get("payload")
    if document.get("signatures") != [] or len(document) != 2 or not isinstance(payload, str):
        return read_keyset(untrusted_bytes)
    try:
        return keyset_of(Envelope(TYP_KEYSET, base64url.decode(payload), ()))
    except base64url.Base64urlError as exc:
        raise StatementRefused(
            "statement.shape", f"not canonical unpadded base64url: {exc}", path="/payload"
        ) from exc


def _commit(
    store: KeyStore, state: StoreState, statements: StatementsHeld, event: AuditEvent, now: datetime
) -> None:
    store.commit(
        replace(state, statements=statements),
        (event,),
        expect_generation=state.generation,
        now=now,
        envelopes={},
    )


def _read(path: Path) -> bytes:
    return read_bytes(path, max_bytes=MAX_STATEMENT_BYTES)


def _broken(path: Path, what: str) -> StoreFault:
    return StoreFault("keystore.statements", what, path=str(path))
