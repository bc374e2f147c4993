"""What a key store does wherever it lies: load, decide, commit, or try again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Concatenate, Final, Literal, ParamSpec, Self, TypeAlias, get_args

from cardsign.errors import FileMissing, PassphraseFault, StoreFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import lifecycle
from cardsign.keys.audit import (
    NO_LINE,
    AuditEvent,
    SeenHeads,
    check_not_put_back,
    check_vouched,
    extend,
)
from cardsign.keys.key_files import open_sealed, seal
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, NewState, TimelineSettings
from cardsign.keys.model import KeyRecord, Publication, Role, StoreState, file_custody
from cardsign.keys.rotation import Step, steps, take
from cardsign.keys.signers.access import Access, check_strength
from cardsign.keys.signers.registry import open_signer

StatementKind = Literal["keysets", "releases"]
"""Of signed statements."""

KINDS: Final[tuple[StatementKind, ...]] = get_args(StatementKind)

Number: TypeAlias = tuple[int, ...]
"""What names a statement of its kind: (epoch, version) of a keyset, (seq,) of a release."""

MAX_ATTEMPTS: Final = 100  # at one change; each that fails is one that another process made

CARD_ROLE: Final[tuple[Role, ...]] = ("card",)

_P = ParamSpec("_P")


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a key store holds, on its way from one place to another.

    Attributes:
        envelopes: The encrypted private keys by thumbprint.
    """

    state: StoreState
    audit: bytes
    envelopes: Mapping[str, bytes]
    statements: Mapping[StatementKind, Mapping[Number, bytes]]


EMPTY: Final = Contents(StoreState(0, ()), b"", {}, {})
"""What a new store holds."""


class KeyStore(ABC):
    """A key store; a subclass says where it lies, by the abstract methods.

    It holds the state as it was last read or written; other processes may have gone further.
    Every change raises StoreFault ``file.busy`` if others leave it no chance, and FileFault
    ``file.unwritable``, after which the store is as it was.

    Attributes:
        where: The directory, or the URL of the database.
        actor: Who the audit log shall say made the changes.
        seen: What this user saw of the store's log before; None if that is not remembered.
        history: The one statement history beside it, once it was asked for.
    """

    __slots__ = ("actor", "history", "seen", "state", "where")

    def __init__(
        self,
        where: Any,
        *,
        actor: str = "",
        seen: SeenHeads | None = None,
    ) -> None:
        self.where = where
        self.state = EMPTY.state
        self.actor = actor
        self.seen = seen
        self.history: object = None

    @classmethod
    def open(
        cls,
        where: Any,
        *,
        actor: str = "",
        seen: SeenHeads | None = None,
        vouched: bool = True,
        moved: bool = False,
    ) -> Self:
        """Return the store at `where`, its state read strictly.

        With ``vouched=False`` its log need not vouch for the state, and with ``moved=True`` it
        may have moved: both only to look for what is wrong, never to sign or to publish.

        Raises:
            StoreFault, FileFault: As :meth:`load`, or :meth:`read` if it need not be vouched for.
        """
        store = cls(where, actor=actor, seen=seen)
        store.state = store.load(moved=moved) if vouched else store.read()[0]
        return store

    @classmethod
    def create(
        cls,
        where: Any,
        contents: Contents = EMPTY,
        *,
        exist_ok: bool = False,
        actor: str = "",
        seen: SeenHeads | None = None,
    ) -> Self:
        """Make a store at `where`, empty or of `contents`; with `exist_ok` open one that is there.

        Missing directories are made; the schema of a database must exist.

        Raises:
            StoreFault: ``keystore.exists``, ``file.busy``, or as :meth:`load`.
            FileFault: ``file.unwritable``; ``file.exists``: a file is in the way.
        """
        store = cls(where, actor=actor, seen=seen)
        if not store.make(contents) and not exist_ok:
            raise StoreFault("keystore.exists", "there is a key store here", path=store.place)
        store.state = store.load()
        return store

    # Where things are, for people.

    @property
    @abstractmethod
    def place(self) -> str:
        """Of the store."""

    @property
    @abstractmethod
    def log_place(self) -> str:
        """Of the audit log."""

    @abstractmethod
    def private_place(self, thumbprint: str) -> str:
        """Of one private key."""

    @abstractmethod
    def statement_place(self, kind: StatementKind, number: Number) -> str:
        """Of one statement."""

    # What a place has to offer. All raise FileFault ``file.unreadable`` or ``file.unwritable``,
    # or what keeps a database from being used: StoreFault ``keystore.unreachable`` and others.

    @abstractmethod
    def make(self, contents: Contents) -> bool:
        """Make a store of `contents`, all of it or nothing; False if there is one.

        What the user saw of a log here before is forgotten: the store begins anew.

        Raises:
            StoreFault: ``file.busy``.
            FileFault: ``file.exists`` for a file in the way, unless an attempt to make the same
                has left it.
        """

    @abstractmethod
    def read(self) -> tuple[StoreState, bytes]:
        """Return the state as it was committed last, and the end of the log from before that.

        Not checked: that the log vouches for the state; :meth:`load` does.

        Raises:
            StoreFault: ``keystore.missing``, ``keystore.corrupt``, ``keystore.newer_format``.
        """

    @abstractmethod
    def write(
        self, state: StoreState, lines: bytes, *, before: StoreState, envelopes: Mapping[str, bytes]
    ) -> None:
        """Commit a state, the lines of the log that tell of it, and private keys that it adds.

        All of it or nothing, and nothing if the store is no longer at the state `before`.

        Raises:
            StoreFault: ``keystore.changed``: the store is at another generation;
                ``file.busy``, or as :meth:`read`.
        """

    @abstractmethod
    def private_keys(self) -> frozenset[str]:
        """Return the thumbprints under which a private key is stored here, known keys' or not."""

    @abstractmethod
    def read_private(self, thumbprint: str) -> bytes:
        """Return an encrypted private key; also raises ``file.not_found``, ``file.not_plain``."""

    @abstractmethod
    def replace_private(self, thumbprint: str, envelope: bytes) -> None:
        """Put another envelope of the same private key in the place of the one that is there.

        At once: a crash leaves one or the other. Where there is none, nothing is done.
        """

    @abstractmethod
    def remove_private(self, thumbprint: str) -> None:
        """Remove the private key whose destruction is committed, if it is there."""

    @abstractmethod
    def read_audit(self) -> bytes:
        """Return the audit log, attempts that came to nothing included."""

    # The issuer's signed statements: bytes beside the state, each added once and never changed.

    @abstractmethod
    def read_statements(self, kind: StatementKind) -> dict[Number, bytes]:
        """Return all of a kind by number, ascending; nothing of them is checked."""

    @abstractmethod
    def read_newest_statement(self, kind: StatementKind) -> tuple[Number, bytes] | None:
        """Return the one of the highest number; nothing of it is checked."""

    @abstractmethod
    def add_statement(self, kind: StatementKind, number: Number, data: bytes) -> None:
        """Keep one more, durably; call it within :meth:`adding_statements`.

        Raises:
            StoreFault: ``keystore.changed``: one of this number is kept already.
        """

    @abstractmethod
    def adding_statements(self) -> AbstractContextManager[None]:
        """Let no other process add a statement meanwhile; raises ``file.busy``."""

    # What every store does with that.

    def signer(self, record: KeyRecord, access: Access | bytes) -> Signer:
        """Open the private key of a record, or what reaches it; a passphrase is enough for a file.

        Not checked: that the key's state lets it sign; take it from :meth:`signing_keys`.

        Raises:
            PassphraseFault, SignerFault, FileFault, StoreFault: As
                :func:`cardsign.keys.signers.registry.open_signer`.
        """
        if isinstance(access, bytes):
            access = Access.by_passphrase(access)
        if record.custody != file_custody(record.thumbprint):
            access.tell(record.roles[0], f"signer {record.custody}")
            return open_signer(record.custody, record.public, access)
        where = self.private_place(record.thumbprint)
        try:
            envelope = self.read_private(record.thumbprint)
        except FileMissing as exc:
            raise FileMissing(
                exc.code,
                f"the private key of {record.kid!r} is not here",
                path=where,
                hint="Restore it from a backup, or sign on the machine that holds it.",
            ) from exc
        passphrase = access.passphrase(record.kid, record.roles)
        return open_sealed(envelope, record.public, passphrase, where=where)

    def load(self, *, moved: bool = False) -> StoreState:
        """Return the state as it was committed last, if its log vouches for it.

        An edit of the state alone is found here. An edit of the log as well is found if this user
        has seen the store before, by :attr:`seen`. With ``moved=True`` the store may have moved.

        Raises:
            StoreFault: As :meth:`read`; ``keystore.rolled_back``, ``keystore.audit_broken``,
                ``keystore.other_history``, ``keystore.moved``.
        """
        known = self.seen.read() if self.seen else NO_LINE  # first: others may go further
        state, end = self.read()
        where = self.log_place
        check_not_put_back(end, state, where=where)
        try:
            vouched = check_vouched(end, state, since=known, where=where)
            vouched = vouched or check_vouched(self.read_audit(), state, since=known, where=where)
        except StoreFault as fault:
            if self.seen is None or fault.code != "keystore.other_history":
                raise
            hint = f"If you put an older or another store there yourself, remove {self.seen.file}."
            raise StoreFault(fault.code, fault.message, path=where, hint=hint) from fault
        if not vouched:
            raise StoreFault(
                "keystore.audit_broken",
                "the audit log lacks lines between the newest and one that was seen before"
                if known.digest
                else f"the audit log lacks line {state.audit.seq}, the newest that counts",
                path=where,
            )
        if self.seen:
            self.seen.note(state.audit, known)
        if not moved:
            lifecycle.check_not_moved(state, where=self.place)
        return state

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        now: datetime,
        envelopes: Mapping[str, bytes] | None = None,
    ) -> StoreState:
        """Commit what was made of a state, and return it as committed; raises as :meth:`write`."""
        following = replace(state, generation=state.generation + 1)
        committed, lines = extend(following, events, now=now, actor=self.actor)
        self.write(committed, lines, before=state, envelopes=envelopes or {})
        if self.seen:
            self.seen.note(committed.audit, state.audit)
        return committed

    def apply(
        self,
        step: Callable[Concatenate[StoreState, _P], NewState],
        *args: _P.args,
        **named: _P.kwargs,
    ) -> StoreState:
        """Take a step of :mod:`cardsign.keys.lifecycle`: ``store.apply(activate, kid, now=now)``.

        The step is decided on the newest state, and again if another process was faster. A step
        without an event changes nothing. The log says the time ``now``. Raises as `step`.
        """
        now = named["now"]
        assert isinstance(now, datetime)  # noqa: S101, every step of the lifecycle has it
        return self._change(lambda state: step(state, *args, **named), now)

    def add_key(
        self,
        private: PrivateKey,
        passphrase: bytes,
        *,
        now: datetime,
        roles: tuple[Role, ...] = CARD_ROLE,
        holder: str | None = None,
        standby: bool = False,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """Take a key in: its private key encrypted, its public key in the state.

        See :func:`cardsign.keys.lifecycle.enter` for the state in which it begins.

        Raises:
            PassphraseFault: ``passphrase.unfit``.
            StoreFault: ``keystore.duplicate_key``; ``keystore.changed``: the store has gone
                further than `expect_generation`.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(private.to_pkcs8_der(), passphrase, public)

        def entered(state: StoreState) -> NewState:
            if expect_generation not in (None, state.generation):
                raise StoreFault(
                    "keystore.changed",
                    f"the store is at generation {state.generation}, not {expect_generation}",
                )
            return lifecycle.enter(
                state, public, now=now, roles=roles, holder=holder, standby=standby
            )

        self._change(entered, now, {public.thumbprint: envelope})
        return self.state.find(public.thumbprint)

    def add_remote_key(
        self,
        public: PublicKey,
        custody: str,
        *,
        now: datetime,
        roles: tuple[Role, ...] = CARD_ROLE,
        holder: str | None = None,
        standby: bool = False,
    ) -> KeyRecord:
        """Take a key in whose private key stays where it is, behind a signer.

        Not checked: that a signer there holds the key; see
        :func:`cardsign.keys.signers.registry.check_possession`.

        `custody` is the URI that :func:`cardsign.keys.signers.registry.custody_of` gives.

        Raises:
            StoreFault: ``keystore.duplicate_key``.
        """
        self.apply(
            lifecycle.enter,
            public,
            now=now,
            roles=roles,
            holder=holder,
            custody=custody,
            standby=standby,
        )
        return self.state.find(public.thumbprint)

    def destroy(
        self, name: str, *, now: datetime, settings: TimelineSettings = DEFAULT_SETTINGS
    ) -> KeyRecord:
        """Destroy a private key, see :func:`cardsign.keys.lifecycle.destroy`."""
        # The record says so before the file goes: a crash in between leaves a file that nothing
        # refers to, which `doctor` removes, and never a reference to nothing.
        self.apply(lifecycle.destroy, name, now=now, settings=settings)
        record = self.state.find(name)
        self.remove_private(record.thumbprint)
        return record

    def change_passphrase(
        self, records: Sequence[KeyRecord], old: bytes, new: bytes, *, now: datetime
    ) -> tuple[KeyRecord, ...]:
        """Encrypt private keys of this store under another passphrase; return those that were not.

        The log says so before the first envelope is replaced. Killed half-way, it can be called
        again: what `new` opens is left as it is.

        Raises:
            PassphraseFault: ``passphrase.unfit``: `new` is too short, or that of another key here;
                ``passphrase.wrong``: a key opens with neither. Nothing was changed.
            StoreFault, FileFault, SignerFault: As :meth:`signer`.
        """
        check_strength(new)
        self._check_unused(new, {record.thumbprint for record in records})
        found: list[tuple[KeyRecord, bytes]] = []
        for record in records:
            envelope, where = self.read_private(record.thumbprint), record.thumbprint
            try:
                private = open_sealed(envelope, record.public, old, where=where)
            except PassphraseFault:
                open_sealed(envelope, record.public, new, where=where)
                continue
            found.append((record, seal(private.to_pkcs8_der(), new, record.public)))
        changed = tuple(record for record, _ in found)
        self.apply(lifecycle.note_passphrase, [one.thumbprint for one in changed], now=now)
        for record, sealed in found:
            self.replace_private(record.thumbprint, sealed)
        return changed

    def _check_unused(self, new: bytes, thumbprints: Collection[str]) -> None:
        """Refuse a passphrase of other keys: cron's opens the release keys, and never a card key.

        Raises:
            PassphraseFault: ``passphrase.unfit``.
        """
        here = self.private_keys().difference(thumbprints)
        for key in self.state.keys:
            if key.thumbprint not in here or key.custody != file_custody(key.thumbprint):
                continue
            envelope, where = self.read_private(key.thumbprint), key.thumbprint
            try:
                open_sealed(envelope, key.public, new, where=where)
            except PassphraseFault:
                continue
            raise PassphraseFault(
                "passphrase.unfit",
                f"this is the passphrase of {key.named} already",
                hint="Choose another one: each role has its own.",
            )

    def leave(self, to: str, *, now: datetime) -> StoreState:
        """Mark the store as moved; see :func:`cardsign.keys.lifecycle.leave`."""
        return self._change(lambda state: lifecycle.leave(state, to, now=now), now, moved=True)

    def stay(self, *, now: datetime) -> StoreState:
        """Take the mark away: the store did not move, and nothing signs elsewhere."""
        return self._change(lifecycle.arrive, now, moved=True)

    def record_publication(self, publication: Publication, *, now: datetime) -> None:
        """See :func:`.lifecycle.record_publication`; recording it again is no change."""
        self._change(lambda state: lifecycle.record_publication(state, publication), now)

    def tick(self, *, now: datetime, settings: TimelineSettings = DEFAULT_SETTINGS) -> Step | None:
        """Take the next due step that changes a key, and return it, or None; idempotent.

        A step that makes a new key is left to the caller, who has a passphrase.
        """
        taken: list[Step] = []

        def decide(state: StoreState) -> NewState:
            taken.clear()
            ready = (
                step
                for step in steps(state, settings, now)
                if step.key is not None and step.is_due(now)
            )
            step = next(ready, None)
            if step is None:
                return state, ()
            taken.append(step)
            return take(state, step, settings, now)

        self._change(decide, now)
        for step in taken:
            if step.action == "destroy" and step.key is not None:
                self.remove_private(step.key.thumbprint)
        return taken[0] if taken else None

    def _change(
        self,
        decide: Callable[[StoreState], NewState],
        now: datetime,
        envelopes: Mapping[str, bytes] | None = None,
        *,
        moved: bool = False,
    ) -> StoreState:
        """Commit what `decide` makes of the newest state; no event, no commit."""
        for _ in range(MAX_ATTEMPTS):
            self.state = self.load(moved=True) if moved else self.load()
            changed, events = decide(self.state)
            if not events:
                return self.state
            try:
                self.state = self.commit(changed, events, now=now, envelopes=envelopes)
            except StoreFault as fault:
                if fault.code != "keystore.changed":
                    raise
            else:
                return self.state
        raise StoreFault("file.busy", f"others were faster {MAX_ATTEMPTS} times")
