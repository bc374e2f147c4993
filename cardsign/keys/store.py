"""A key store: a log, and blobs beside it that are named by their digests, wherever they lie.

A blob is a sealed private key or a signed statement. It is kept together with the line that names
it, so a store never names what it does not hold. Appending the line after the newest is the
commit: of two processes that decide on the same state one succeeds, and the other decides again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Concatenate, Final, ParamSpec

from cardsign.errors import FileMissing, PassphraseFault, StoreFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import lifecycle
from cardsign.keys.agenda import Step, steps, take
from cardsign.keys.heads import SeenHead
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.log import Event, Line, fold_all, read_line, write_line
from cardsign.keys.model import (
    HeldStatement,
    KeyRecord,
    Publication,
    Role,
    StoreState,
    private_blob,
    statement_blob,
)
from cardsign.keys.sealed import open_sealed, seal
from cardsign.keys.signers.access import Access, check_strength
from cardsign.keys.signers.registry import open_signer

MAX_ATTEMPTS: Final = 100  # at one change; each that fails is one that another process made

CARD_ROLE: Final[tuple[Role, ...]] = ("card",)

_P = ParamSpec("_P")


def digest_of(data: bytes) -> str:
    """Return the digest by which a blob is named."""
    return hashlib.sha256(data).hexdigest()


def exists_already(place: str) -> StoreFault:
    """Return the fault of a key store where one is to be made."""
    return StoreFault("keystore.exists", "there is a key store here", path=place)


def broken_off(after: int, place: str) -> StoreFault:
    """Return the fault of a log that lacks a line which was read before."""
    what = f"the log does not continue from line {after}, which was read before"
    return StoreFault("keystore.audit_broken", what, path=place)


class KeyStore(ABC):
    """A key store; a subclass says where it lies.

    It holds the state as it was last read or written; other processes may have gone further.

    Attributes:
        place: Where it is, for people.
        actor: Who the log shall say made the changes.
        seen: The newest line that this user saw before; None if that is not remembered.
        keysets: Statements that were verified, by their blob; see :mod:`cardsign.keys.history`.
    """

    def __init__(self, place: str, *, actor: str = "", seen: SeenHead | None = None) -> None:
        self.place, self.actor, self.seen = place, actor, seen
        self.state = StoreState()
        self.keysets: dict[str, Any] = {}

    # What a place has to offer. All raise FileFault ``file.unreadable`` or ``file.unwritable``,
    # or what keeps a database from being used: StoreFault ``keystore.unreachable`` and others.

    @abstractmethod
    def read_lines(self, after: int) -> list[bytes]:
        """Return the lines after this number, without their ends."""

    @abstractmethod
    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        """Add blobs and lines from number `seq` on, all or nothing; False if there is such a line.

        Raises:
            StoreFault: ``file.busy``.
        """

    @abstractmethod
    def read_blob(self, name: str) -> bytes:
        """Return a blob; ``file.not_found``."""

    @abstractmethod
    def drop_blobs(self, names: Collection[str]) -> None:
        """Remove blobs that the log names no longer, as far as they are there."""

    @abstractmethod
    def list_blobs(self) -> frozenset[str]:
        """Return the names of all blobs, known to the log or not."""

    @abstractmethod
    def place_of(self, name: str) -> str:
        """Return where a blob lies, for people."""

    # What every store does with that.

    def load(self, *, moved: bool = False) -> StoreState:
        """Read what was added to the log, and return the state.

        With ``moved=True`` the store may have moved: to look for what is wrong, never to sign.

        Raises:
            StoreFault: ``keystore.audit_broken``, ``keystore.corrupt``,
                ``keystore.newer_format``; ``keystore.other_history``: the log does not lead back
                to the line that this user saw; ``keystore.moved``.
        """
        known = self.seen.read() if self.seen else None  # first: others may go further
        for _ in self._follow(known):
            pass
        if not moved:
            lifecycle.check_not_moved(self.state, where=self.place)
        return self.state

    def read_log(self) -> list[Line]:
        """Return the whole log, oldest line first; raises as :meth:`load`."""
        self.state = StoreState()
        return list(self._follow(self.seen.read() if self.seen else None))

    def _follow(self, known: tuple[int, str] | None) -> Iterator[Line]:
        """Read the lines after the state, and hold them against the line that was seen before."""
        state = self.state
        for untrusted_line in self.read_lines(state.seq):
            state, line = read_line(state, untrusted_line, self.place)
            if known and (state.seq, state.head) != known and state.seq == known[0]:
                break
            yield line
            self.state = state
        if known and (state.seq < known[0] or (state.seq == known[0] and state.head != known[1])):
            assert self.seen is not None  # noqa: S101
            raise StoreFault(
                "keystore.other_history",
                f"the log does not continue from line {known[0]}, the newest that was seen here",
                path=self.place,
                hint="If you put an older or another store there yourself, remove "
                f"{self.seen.file}.",
            )
        if self.seen and state.head is not None:
            self.seen.note((state.seq, state.head), known)

    def apply(
        self,
        decide: Callable[Concatenate[StoreState, _P], list[Event]],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> StoreState:
        """Commit what a decision of :mod:`cardsign.keys.lifecycle` makes of the newest state.

        ``store.apply(activate, kid, now=now)``. Raises as `decide`, and as :meth:`commit`.
        """
        now = named["now"]
        assert isinstance(now, datetime)  # noqa: S101, every decision has it
        named["now"] = now.astimezone(UTC).replace(microsecond=0)
        return self.commit(lambda state: decide(state, *args, **named), now=now)

    def commit(
        self,
        decide: Callable[[StoreState], list[Event]],
        *,
        now: datetime,
        blobs: Mapping[str, bytes] | None = None,
        moved: bool = False,
    ) -> StoreState:
        """Commit the events that `decide` makes of the newest state; again if others were faster.

        No event is no commit. `blobs` are kept with the line. A store begins with its first
        commit. What was destroyed or sealed anew is removed.

        Raises:
            StoreFault: ``file.busy``: others leave it no chance; or as :meth:`load`.
        """
        for _ in range(MAX_ATTEMPTS):
            before = self.load(moved=moved)
            if not (events := decide(before)):
                return before
            fold_all(before, events, now)  # refuses in the words of the decision
            line = write_line(before, events, now, self.actor)
            after, _line = read_line(before, line, self.place)  # what is written can be read
            if self.append(after.seq, [line], blobs or {}):
                self.state = after
                if self.seen and after.head is not None:
                    self.seen.note((after.seq, after.head), None)
                if over := before.private_blobs() - after.private_blobs():
                    self.drop_blobs(over)
                return after
        raise StoreFault(
            "file.busy",
            f"gave up after {MAX_ATTEMPTS} attempts: other processes keep changing the store",
            path=self.place,
        )

    # Private keys.

    def signer(self, record: KeyRecord, access: Access | bytes) -> Signer:
        """Open the private key of a record, or what reaches it; a passphrase is enough for a file.

        Not checked: that the key's state lets it sign.

        Raises:
            PassphraseFault, SignerFault, FileFault, StoreFault: As
                :func:`cardsign.keys.signers.registry.open_signer`.
        """
        if isinstance(access, bytes):
            access = Access.by_passphrase(access)
        access = access.for_roles(record.roles)
        if record.blob is None or not record.custody.startswith("file:"):
            return open_signer(record.custody, record.public, access)
        envelope = self._envelope(record)
        passphrase = access.secrets("passphrase", record.kid)
        where = self.place_of(private_blob(record.blob))
        return open_sealed(envelope, record.public, passphrase, where=where)

    def _envelope(self, record: KeyRecord) -> bytes:
        name = private_blob(record.blob or "")
        try:
            return self.checked_blob(name)
        except FileMissing as exc:
            raise FileMissing(
                exc.code,
                f"the private key of {record.kid!r} is not here",
                path=self.place_of(name),
                hint="Restore it from a backup, or sign on the machine that holds it.",
            ) from exc

    def checked_blob(self, name: str) -> bytes:
        """Return a blob if it is the one that its name says, else ``keystore.corrupt``."""
        data = self.read_blob(name)
        if digest_of(data) != name.partition("/")[2].partition(".")[0]:
            what = "this file is not the one that the log names: its digest is another"
            raise StoreFault("keystore.corrupt", what, path=self.place_of(name))
        return data

    def read_statement(self, held: HeldStatement) -> bytes:
        """Return the bytes of a statement that the store keeps."""
        try:
            return self.checked_blob(statement_blob(held.blob))
        except FileMissing as exc:
            where = self.place_of(statement_blob(held.blob))
            what = f"statement {'.'.join(map(str, held.number))} is missing"
            raise StoreFault("keystore.audit_broken", what, path=where) from exc

    def add_key(
        self,
        private: PrivateKey,
        passphrase: bytes,
        *,
        now: datetime,
        roles: tuple[Role, ...] = CARD_ROLE,
        holder: str | None = None,
        expect_seq: int | None = None,
    ) -> KeyRecord:
        """Take a key in: its private key sealed, its public key in the log.

        See :func:`cardsign.keys.lifecycle.enter` for the state in which it begins.

        Raises:
            PassphraseFault: ``passphrase.unfit``.
            StoreFault: ``keystore.duplicate_key``; ``keystore.changed``: the store has gone
                further than `expect_seq`; ``keystore.exists`` if that is 0.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(private.to_pkcs8_der(), passphrase, public)
        blob = digest_of(envelope)
        custody = self.find_custody(passphrase) or f"file:{blob[:8]}"

        def entered(state: StoreState) -> list[Event]:
            if expect_seq not in (None, state.seq):
                if expect_seq == 0:
                    raise exists_already(self.place)
                what = f"the store is at line {state.seq}, not {expect_seq}"
                raise StoreFault("keystore.changed", what)
            return lifecycle.enter(
                state,
                public,
                now=now,
                roles=roles,
                holder=holder,
                custody=custody,
                blob=blob,
            )

        self.commit(entered, now=now, blobs={private_blob(blob): envelope})
        return self.state.find(public.thumbprint)

    def find_custody(self, passphrase: bytes) -> str | None:
        """Return the custody of the sealed keys that a passphrase opens; None if there are none."""
        newest = {key.custody: key for key in self.state.keys if key.private == "held"}
        for custody, key in newest.items():
            if self._opens(key, passphrase):
                return custody
        return None

    def _opens(self, key: KeyRecord, passphrase: bytes) -> bool:
        try:
            open_sealed(self._envelope(key), key.public, passphrase, where=self.place)
        except (FileMissing, PassphraseFault):
            return False
        return True

    def add_remote_key(
        self, public: PublicKey, custody: str, *, now: datetime, **how: Any
    ) -> KeyRecord:
        """Take a key in whose private key stays where it is, behind a signer.

        Not checked: that a signer there holds the key; see
        :func:`cardsign.keys.signers.registry.check_possession`.

        `custody` is the URI that :func:`cardsign.keys.signers.registry.custody_of` gives; the
        other arguments are as for :meth:`add_key`.

        Raises:
            StoreFault: ``keystore.duplicate_key``.
        """
        self.apply(lifecycle.enter, public, now=now, custody=custody, **how)
        return self.state.find(public.thumbprint)

    def change_passphrase(
        self, records: Sequence[KeyRecord], old: bytes, new: bytes, *, now: datetime
    ) -> tuple[KeyRecord, ...]:
        """Seal private keys of this store under another passphrase; return those that were not.

        One commit names all new envelopes, and the old ones are removed.

        Raises:
            PassphraseFault: ``passphrase.unfit``: `new` is too short, or that of another key here;
                ``passphrase.wrong``: a key opens with neither. Nothing was changed.
            StoreFault, FileFault, SignerFault: As :meth:`signer`.
        """
        check_strength(new)
        names = {record.thumbprint for record in records}
        for key in self.state.keys:
            if key.private == "held" and key.thumbprint not in names and self._opens(key, new):
                raise PassphraseFault(
                    "passphrase.unfit",
                    f"this is the passphrase of {key.named} already",
                    hint="Choose another one: each role has its own.",
                )
        sealed: dict[str, tuple[str, bytes]] = {}
        for record in records:
            if self._opens(record, new):
                continue
            private = open_sealed(self._envelope(record), record.public, old, where=self.place)
            envelope = seal(private.to_pkcs8_der(), new, record.public)
            sealed[record.thumbprint] = digest_of(envelope), envelope
        custody = f"file:{next(iter(sealed.values()))[0][:8]}" if sealed else ""

        def resealed(state: StoreState) -> list[Event]:
            changed = [state.find(name) for name in sealed]
            return [
                {
                    "event": "resealed",
                    "key": key.thumbprint,
                    "custody": custody,
                    "blob": sealed[key.thumbprint][0],
                }
                for key in changed
                if key.private == "held"
            ]

        blobs = {private_blob(digest): envelope for digest, envelope in sealed.values()}
        self.commit(resealed, now=now, blobs=blobs)
        return tuple(record for record in records if record.thumbprint in sealed)

    # Statements and publications.

    def keep_statement(
        self,
        data: bytes,
        number: tuple[int, ...],
        digest: str,
        decide: Callable[[StoreState, HeldStatement], list[Event]],
        *,
        now: datetime,
    ) -> StoreState:
        """Keep a statement, and commit what `decide` makes of it."""
        held = HeldStatement(number, digest, digest_of(data))
        blobs = {statement_blob(held.blob): data}
        return self.commit(lambda state: decide(state, held), now=now, blobs=blobs)

    def record_publication(
        self, publication: Publication, *, now: datetime, replaced: Publication | None = None
    ) -> None:
        """See :func:`.lifecycle.record_publication`; recording it again is no change."""
        self.apply(lifecycle.record_publication, publication, now=now, replaced=replaced)

    def tick(self, *, now: datetime, settings: TimelineSettings = DEFAULT_SETTINGS) -> Step | None:
        """Take the next due step that changes a key, and return it, or None; idempotent.

        A step that makes a new key is left to the caller, who has a passphrase.
        """
        taken: Step | None = None

        def decide(state: StoreState) -> list[Event]:
            nonlocal taken
            due = (step for step in steps(state, settings, now) if step.is_due(now))
            taken = next((step for step in due if step.key is not None), None)
            return [] if taken is None else take(state, taken, settings, now)

        self.commit(decide, now=now)
        return taken
