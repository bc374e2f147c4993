"""A key store: a log, and blobs beside it that are named by their digests, wherever they lie.

A blob is a sealed private key or a signed statement. It is kept together with the line that names
it, so a store never names what it does not hold. Appending the line after the newest is the
commit: of two processes that decide on the same state one succeeds, and the other decides again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from cardsign.errors import FileMissing, PassphraseFault, StoreFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import lifecycle
from cardsign.keys.agenda import Step, steps, take
from cardsign.keys.heads import SeenHead
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, TimelineSettings
from cardsign.keys.log import Event, Line, fold_all, read_line, write_line
from cardsign.keys.model import (
    KeyRecord,
    Publication,
    Role,
    StoreState,
    file_custody,
    private_blob,
)
from cardsign.keys.sealed import open_sealed, seal
from cardsign.keys.signers.access import Access, check_strength
from cardsign.keys.signers.registry import open_signer

MAX_ATTEMPTS: Final = 100  # at one change; each that fails is one that another process made

CARD_ROLE: Final[tuple[Role, ...]] = ("card",)


def digest_of(data: bytes) -> str:
    """Return the digest by which a blob is named."""
    return hashlib.sha256(data).hexdigest()


def exists_already(place: str) -> StoreFault:
    """Return the fault of a key store where one is to be made."""
    return StoreFault("keystore.exists", "there is a key store here", path=place)


def moved_away(to: str, place: str) -> StoreFault:
    """Return the fault of a store that has moved, which names the new place."""
    message = f"this key store moved to {to}; nothing is signed or changed here"
    hint = f"Use the new one: --keystore {to}."
    return StoreFault("keystore.moved", message, path=place, hint=hint)


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
        self._read_new_lines()
        if self.state.moved_to is not None and not moved:
            raise moved_away(self.state.moved_to, self.place)
        return self.state

    def read_log(self) -> list[Line]:
        """Return the whole log, oldest line first; raises as :meth:`load`."""
        self.state = StoreState()
        return self._read_new_lines()

    def _read_new_lines(self) -> list[Line]:
        """Read the lines after the state, and hold them against the line that was seen before."""
        known = self.seen.read() if self.seen else None  # first: others may go further
        state, lines = self.state, list[Line]()
        heads = {state.seq: state.head}
        for untrusted_line in self.read_lines(state.seq):
            state, line = read_line(state, untrusted_line, self.place)
            heads[state.seq] = state.head
            lines.append(line)
        if self.seen and known:
            seq, head = known
            if state.seq < seq or heads.get(seq, head) != head:
                raise StoreFault(
                    "keystore.other_history",
                    f"the log does not continue from line {seq}, the newest that was seen here",
                    path=self.place,
                    hint="If you put an older or another store there yourself, remove "
                    f"{self.seen.file}.",
                )
        self.state = state
        if self.seen and state.head is not None and known != (state.seq, state.head):
            self.seen.note((state.seq, state.head))
        return lines

    def check_continues(self, after: int, head: str | None) -> None:
        """Refuse (``keystore.audit_broken``) a log whose line `after` is not the one read before.

        Args:
            after: The number of the line; 0 for none.
            head: Its digest now; None if it is gone.
        """
        if after and head != self.state.head:
            message = f"the log does not continue from line {after}, which was read before"
            raise StoreFault("keystore.audit_broken", message, path=self.place)

    def apply(
        self, decide: Callable[..., list[Event]], *arguments: Any, now: datetime, **named: Any
    ) -> StoreState:
        """Commit what a decision of :mod:`cardsign.keys.lifecycle` makes of the newest state.

        ``store.apply(revoke, kid, reason="ceased", now=now)``. Raises as `decide`, and as
        :meth:`commit`.
        """
        return self.commit(lambda state: decide(state, *arguments, now=now, **named), now=now)

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
                if self.seen:
                    self.seen.note((after.seq, digest_of(line)))
                if over := before.private_blobs() - after.private_blobs():
                    self.drop_blobs(over)
                return after
        raise StoreFault(
            "file.busy",
            f"gave up after {MAX_ATTEMPTS} attempts: other processes keep changing the store",
            path=self.place,
        )

    def checked_blob(self, name: str) -> bytes:
        """Return a blob if it is the one that its name says.

        Raises:
            FileMissing: ``file.not_found``.
            StoreFault: ``keystore.corrupt``.
        """
        try:
            data = self.read_blob(name)
        except FileMissing as exc:
            hint = "Restore it from a backup, or go on at the machine that holds it."
            message = "a private key or statement that the log names is not here"
            raise FileMissing(exc.code, message, path=self.place_of(name), hint=hint) from exc
        if digest_of(data) != name.partition("/")[2].partition(".")[0]:
            message = "this file is not the one that the log names: its digest is another"
            raise StoreFault("keystore.corrupt", message, path=self.place_of(name))
        return data

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
        self.checked_blob(private_blob(record.blob))  # before anybody is asked for a passphrase
        return self._unseal(record, access.secrets("passphrase", record.kid))

    def _unseal(self, record: KeyRecord, passphrase: bytes) -> PrivateKey:
        name = private_blob(record.blob or "")
        where = self.place_of(name)
        return open_sealed(self.checked_blob(name), record.public, passphrase, where=where)

    def _find_opened(self, passphrase: bytes) -> list[KeyRecord]:
        """Return a key of each custody whose keys a passphrase opens."""
        opened = []
        for key in {key.custody: key for key in self.state.keys if key.private == "held"}.values():
            with suppress(FileMissing, PassphraseFault):
                self._unseal(key, passphrase)
                opened.append(key)
        return opened

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
                further than `expect_seq`.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(private.to_pkcs8_der(), passphrase, public)
        blob = digest_of(envelope)
        opened = self._find_opened(passphrase)
        custody = opened[0].custody if opened else file_custody(blob)

        def decide(state: StoreState) -> list[Event]:
            if expect_seq not in (None, state.seq):
                message = f"the store is at line {state.seq}, not {expect_seq}"
                raise StoreFault("keystore.changed", message)
            return lifecycle.enter(
                state, public, now=now, roles=roles, holder=holder, custody=custody, blob=blob
            )

        self.commit(decide, now=now, blobs={private_blob(blob): envelope})
        return self.state.find(public.thumbprint)

    def add_remote_key(
        self, public: PublicKey, custody: str, *, now: datetime, **how: Any
    ) -> KeyRecord:
        """Take a key in whose private key stays where it is, behind a signer.

        Not checked: that a signer there holds the key; see
        :func:`cardsign.keys.signers.registry.check_possession`.

        `custody` is the URI of the signer; the other arguments are as for :meth:`add_key`.

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
        custodies = {key.custody: key for key in self._find_opened(new)}
        for key in self.state.keys:
            if key.private == "held" and key.custody in custodies and key not in records:
                raise PassphraseFault(
                    "passphrase.unfit",
                    f"this is the passphrase of {key.named} already",
                    hint="Choose another one: each role has its own.",
                )
        sealed: dict[str, bytes] = {}
        for record in records:
            if record.custody not in custodies:
                private = self._unseal(record, old)
                sealed[record.thumbprint] = seal(private.to_pkcs8_der(), new, record.public)
        digests = {name: digest_of(envelope) for name, envelope in sealed.items()}
        custody = file_custody(next(iter(digests.values()), ""))

        def decide(state: StoreState) -> list[Event]:
            held = [name for name in sealed if state.find(name).private == "held"]
            return [
                {"event": "resealed", "key": name, "custody": custody, "blob": digests[name]}
                for name in held
            ]

        blobs = {private_blob(digests[name]): sealed[name] for name in sealed}
        self.commit(decide, now=now, blobs=blobs)
        return tuple(record for record in records if record.thumbprint in sealed)

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
