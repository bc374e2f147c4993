"""What a place has to offer in which a key store can lie: a directory does, and a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias, get_args

from cardsign.errors import StoreFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys import lifecycle
from cardsign.keys.audit import AuditEvent
from cardsign.keys.envelope import DEFAULT_COST, KeyLabel, ScryptCost, seal
from cardsign.keys.lifecycle import DEFAULT_SETTINGS, Change, TimelineSettings
from cardsign.keys.model import KeyRecord, Publication, Reason, Role, StoreState
from cardsign.keys.passphrase import check_strength
from cardsign.keys.rotation import Step, steps, take
from cardsign.statements.keyset import KeysetId

Kind = Literal["keysets", "releases"]
"""Of signed statements."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Number: TypeAlias = tuple[int, ...]
"""What names a statement of its kind: (epoch, version) of a keyset, (seq,) of a release."""


class Shelf(Protocol):
    """Where signed statements are kept as bytes: each is added once and never changed."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    def where(self, kind: Kind, number: Number) -> str:
        """Where one statement is, for people."""
        ...

    def read_all(self, kind: Kind) -> dict[Number, bytes]:
        """Return all of a kind by number, ascending; nothing of them is checked.

        Raises:
            FileFault: ``file.unreadable``.
            StoreFault: ``keystore.unreachable``, and what else keeps the place from being read.
        """
        ...

    def read_newest(self, kind: Kind) -> tuple[Number, bytes] | None:
        """Return the one of the highest number; raises as :meth:`read_all`."""
        ...

    def add(self, kind: Kind, number: Number, data: bytes) -> None:
        """Keep one more, durably.

        Raises:
            StoreFault: ``keystore.changed``: one of this number is kept already.
            FileFault: ``file.unwritable``; nothing is then kept.
        """
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Let no other process add a statement meanwhile.

        Raises:
            StoreFault: ``keystore.busy``.
            FileFault: ``file.unwritable``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a key store holds, on its way from one place to another.

    Attributes:
        state: As it was committed last.
        audit: The audit log.
        envelopes: The encrypted private halves by thumbprint.
        statements: The issuer's statements.
    """

    state: StoreState
    audit: bytes
    envelopes: Mapping[str, bytes]
    statements: Mapping[Kind, Mapping[Number, bytes]]


class KeyStore(Protocol):
    """The primitives; :class:`cardsign.keys.stores.base.KeyOperations` makes the rest of them."""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def shelf(self) -> Shelf:
        """The place for the issuer's statements beside it."""
        ...

    def load(self) -> StoreState:
        """Return the state as it was committed last.

        Raises:
            StoreFault: ``keystore.missing``, ``keystore.corrupt`` or ``keystore.newer_format``.
            FileFault: It is there but cannot be read.
        """
        ...

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        expect_generation: int,
        now: datetime,
        envelopes: Mapping[str, bytes],
    ) -> StoreState:
        """Commit all of it or nothing, unless the store has gone further meanwhile.

        Args:
            state: The new state; generation and audit head are set here.
            events: What happened, for the audit log.
            expect_generation: That of the state from which `state` was made.
            now: The time that the log shall say, with its zone.
            envelopes: Encrypted private halves by thumbprint, of keys that `state` adds.

        Returns:
            The state as committed.

        Raises:
            StoreFault: ``keystore.changed``: the generation is another one;
                ``keystore.busy``, or as :meth:`load`.
            FileFault: ``file.unwritable``; the store is then as it was.
        """
        ...

    def private_halves(self) -> frozenset[str]:
        """Return the thumbprints under which a private half lies here, known keys' or not.

        Raises:
            FileFault: ``file.unreadable``.
        """
        ...

    def read_private(self, thumbprint: str) -> bytes:
        """Return the encrypted private half of a key.

        Raises:
            FileFault: ``file.not_found``, ``file.permissions``, ``file.unreadable``.
        """
        ...

    def remove_private(self, thumbprint: str) -> None:
        """Remove the private half of a key whose destruction is committed, if it is there.

        Raises:
            FileFault: ``file.unwritable``.
        """
        ...

    def read_audit(self) -> bytes:
        """Return the audit log, attempts that came to nothing included.

        Raises:
            FileFault: ``file.unreadable``.
        """
        ...


# What can be done with a key store, wherever it lies: load, decide, commit, or try again.


MAX_ATTEMPTS: Final = 100  # at one change; each that fails is one that another process made

CARD_ROLE: Final[tuple[Role, ...]] = ("card",)


class KeyOperations(ABC):
    """A key store; a subclass says where it lies, see :class:`cardsign.keys.stores.base.KeyStore`.

    Holds the state as it was last read or written; other processes may have gone further.
    Every change raises StoreFault ``keystore.changed`` if `expect_generation` is given and the
    store has gone further, ``keystore.busy`` if others leave it no chance, and FileFault
    ``file.unwritable``, after which the store is as it was.
    """

    __slots__ = ("_state",)

    def __init__(self, state: StoreState) -> None:
        self._state = state

    @abstractmethod
    def load(self) -> StoreState:
        """See :meth:`KeyStore.load`."""

    @abstractmethod
    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        expect_generation: int,
        now: datetime,
        envelopes: Mapping[str, bytes],
    ) -> StoreState:
        """See :meth:`KeyStore.commit`."""

    @abstractmethod
    def remove_private(self, thumbprint: str) -> None:
        """See :meth:`KeyStore.remove_private`."""

    @property
    def state(self) -> StoreState:
        """The state as last read or written here."""
        return self._state

    def active_keys(self) -> tuple[KeyRecord, ...]:
        """See :meth:`StoreState.active_keys`."""
        return self._state.active_keys()

    def signing_keys(self, now: datetime) -> tuple[KeyRecord, ...]:
        """See :meth:`StoreState.signing_keys`."""
        return self._state.signing_keys(now)

    def published_keys(self) -> tuple[KeyRecord, ...]:
        """See :meth:`StoreState.published_keys`."""
        return self._state.published_keys()

    def ever_held_kids(self) -> frozenset[str]:
        """See :meth:`StoreState.ever_held_kids`."""
        return self._state.ever_held_kids()

    def find(self, kid_or_prefix: str) -> KeyRecord:
        """See :meth:`StoreState.find`."""
        return self._state.find(kid_or_prefix)

    def jwks(self) -> JwkSet:
        """Return the public halves to publish, oldest first."""
        return JwkSet.of([key.public for key in self.published_keys()])

    def add_key(
        self,
        private: PrivateKey,
        passphrase: bytes,
        *,
        now: datetime,
        random: Callable[[int], bytes],
        cost: ScryptCost = DEFAULT_COST,
        roles: tuple[Role, ...] = CARD_ROLE,
        holder: str | None = None,
        standby: bool = False,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """Take a key in: its private half encrypted, its public half in the state.

        See :func:`cardsign.keys.lifecycle.enter` for the state in which it begins.

        Args:
            private: The key, with the kid that it is to be published under.
            passphrase: Encrypts the private half.
            now: The time of entry, with its zone.
            random: Gives that many fresh bytes: ``os.urandom``.
            cost: What a guess at the passphrase shall cost.
            roles: What it may sign.
            holder: Who holds it, if that matters.
            standby: Let even a first key wait to be activated.
            expect_generation: Refuse if the store has gone further than this; by default the
                key is added to whatever the store holds by then.

        Raises:
            PassphraseFault: ``passphrase.weak``.
            StoreFault: ``keystore.duplicate_key``.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(
            private.to_pkcs8_der(), passphrase, label=KeyLabel.of(public), cost=cost, random=random
        )

        def entered(state: StoreState) -> Change:
            return lifecycle.enter(
                state, public, now=now, roles=roles, holder=holder, standby=standby
            )

        envelopes = {public.thumbprint: envelope}
        self._change(entered, now, expect_generation, envelopes=envelopes)
        return self.find(public.thumbprint)

    def add_remote_key(
        self,
        public: PublicKey,
        custody: str,
        *,
        now: datetime,
        roles: tuple[Role, ...] = CARD_ROLE,
        holder: str | None = None,
        standby: bool = False,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """Take a key in whose private half stays where it is, behind a signer.

        Not checked: that a signer there holds the key; see
        :func:`cardsign.keys.signers.check_possession`.

        Args:
            public: The public half, with the kid to publish.
            custody: The URI that :func:`cardsign.keys.signers.custody_of` gives.
            now: The time of entry, with its zone.
            roles: As for :meth:`add_key`, and so the rest.
            holder: Likewise.
            standby: Likewise.
            expect_generation: Likewise.

        Raises:
            StoreFault: ``keystore.duplicate_key``.
        """

        def entered(state: StoreState) -> Change:
            return lifecycle.enter(
                state,
                public,
                now=now,
                roles=roles,
                holder=holder,
                custody=custody,
                standby=standby,
            )

        self._change(entered, now, expect_generation)
        return self.find(public.thumbprint)

    def activate(
        self,
        name: str,
        *,
        now: datetime,
        settings: TimelineSettings = DEFAULT_SETTINGS,
        same_custody_accepted: bool = False,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """See :func:`cardsign.keys.lifecycle.activate`."""

        def activated(state: StoreState) -> Change:
            return lifecycle.activate(
                state,
                name,
                now=now,
                settings=settings,
                same_custody_accepted=same_custody_accepted,
            )

        self._change(activated, now, expect_generation)
        return self.find(name)

    def retire(
        self,
        name: str,
        *,
        now: datetime,
        settings: TimelineSettings = DEFAULT_SETTINGS,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """See :func:`cardsign.keys.lifecycle.retire`."""
        self._change(
            lambda state: lifecycle.retire(state, name, now=now, settings=settings),
            now,
            expect_generation,
        )
        return self.find(name)

    def revoke(
        self,
        name: str,
        *,
        reason: Reason,
        now: datetime,
        same_custody_accepted: bool = False,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """See :func:`cardsign.keys.lifecycle.revoke`."""

        def revoked(state: StoreState) -> Change:
            return lifecycle.revoke(
                state, name, reason=reason, now=now, same_custody_accepted=same_custody_accepted
            )

        self._change(revoked, now, expect_generation)
        return self.find(name)

    def destroy(
        self,
        name: str,
        *,
        now: datetime,
        settings: TimelineSettings = DEFAULT_SETTINGS,
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """Destroy a private half, see :func:`cardsign.keys.lifecycle.destroy`.

        The record says so before the file goes: a crash in between leaves a file that nothing
        refers to, which ``doctor`` removes, and never a reference to nothing.
        """
        self._change(
            lambda state: lifecycle.destroy(state, name, now=now, settings=settings),
            now,
            expect_generation,
        )
        record = self.find(name)
        self.remove_private(record.thumbprint)
        return record

    def record_publication(self, publication: Publication, *, now: datetime) -> None:
        """See :func:`.lifecycle.record_publication`; recording it again is no change."""
        self._change(lambda state: lifecycle.record_publication(state, publication), now)

    def keep_keyset(self, held: KeysetId, listed: Collection[str], *, now: datetime) -> None:
        """See :func:`cardsign.keys.lifecycle.keep_keyset`; again is no change."""
        self._change(lambda state: lifecycle.keep_keyset(state, held, listed, now=now), now)

    def withdraw(self, series: str, *, now: datetime) -> None:
        """See :func:`cardsign.keys.lifecycle.withdraw`."""
        self._change(lambda state: lifecycle.withdraw(state, series, now=now), now)

    def tick(
        self, *, now: datetime, settings: TimelineSettings = DEFAULT_SETTINGS, asked: bool = False
    ) -> Step | None:
        """Take the next due step that changes a key; idempotent.

        A step that makes a new key is left to the caller, who has a passphrase.

        Args:
            now: The time, with its zone.
            settings: What is assumed of caches.
            asked: Rotate as soon as that is lawful, instead of when it is due.

        Returns:
            The step that was taken, or None.
        """
        taken: list[Step] = []

        def decide(state: StoreState) -> Change:
            taken.clear()
            ready = (
                step
                for step in steps(state, settings, now, asked=asked)
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
        decide: Callable[[StoreState], Change],
        now: datetime,
        expect_generation: int | None = None,
        *,
        envelopes: Mapping[str, bytes] | None = None,
    ) -> None:
        """Commit what `decide` makes of the newest state; no event, no commit."""
        for _ in range(MAX_ATTEMPTS):
            self._state = self.load()
            generation = self._state.generation
            if expect_generation not in (None, generation):
                raise StoreFault(
                    "keystore.changed",
                    f"the store is at generation {generation}, not {expect_generation}",
                )
            changed, events = decide(self._state)
            if not events:
                return
            try:
                self._state = self.commit(
                    changed,
                    events,
                    expect_generation=generation,
                    now=now,
                    envelopes=envelopes or {},
                )
            except StoreFault as fault:
                if fault.code != "keystore.changed":
                    raise
            else:
                return
        raise StoreFault("keystore.busy", f"others were faster {MAX_ATTEMPTS} times")
