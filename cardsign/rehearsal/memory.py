"""A key store in memory, and one whose keys stand in for those of a real store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

from cardsign.errors import PassphraseFault
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.keys import lifecycle
from cardsign.keys.audit import AuditEvent
from cardsign.keys.history import StatementHistory, kept_keyset, note_keyset
from cardsign.keys.keyset_drafts import KeysetPlan, draft_next, draft_recovery, write_draft
from cardsign.keys.model import KeyRecord, Role, StatementsHeld, StoreState, file_custody
from cardsign.keys.stores.base import KeyStore, Kind, Number
from cardsign.statements.envelope import TYP_KEYSET
from cardsign.statements.keyset import KeysetStatement, Quorum, RootKey, read_keyset
from cardsign.statements.signing import sign_statement
from cardsign.times import utc


class MemoryStore(KeyStore):
    """A key store in memory, for one thread. It keeps no log, and encrypts nothing.

    Attributes:
        kept: The statements.
        private: The private keys by thumbprint.
        locked: The roles whose keys cannot be used for now, as without their passphrase.
    """

    __slots__ = ("kept", "locked", "private")
    place = log_place = "memory"

    def __init__(self) -> None:
        super().__init__(None)
        self.kept: dict[Kind, dict[Number, bytes]] = {"keysets": {}, "releases": {}}
        self.private: dict[str, PrivateKey] = {}
        self.locked = frozenset[Role]()

    def load(self, *, moved: bool = False) -> StoreState:
        return self.state

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        now: datetime,
        envelopes: Mapping[str, bytes] | None = None,
    ) -> StoreState:
        self.state = replace(state, generation=state.generation + 1)
        return self.state

    def add_key(self, private: PrivateKey, passphrase: bytes, **how: Any) -> KeyRecord:
        """Take a key in as it is; `custody` says where a standby is kept."""
        words = ("now", "roles", "holder", "standby", "custody")
        entering = {word: how[word] for word in words if word in how}
        self.state, _ = lifecycle.enter(self.state, private.public, **entering)
        self.private[private.public.thumbprint] = private
        return self.state.find(private.public.thumbprint)

    def signer(self, record: KeyRecord, access: object) -> PrivateKey:
        if not self.locked.isdisjoint(record.roles):
            raise PassphraseFault("passphrase.none", "only a person has this passphrase")
        return self.private[record.thumbprint]

    def statement_place(self, kind: Kind, number: Number) -> str:
        return f"{kind} {number}"

    def read_statements(self, kind: Kind) -> dict[Number, bytes]:
        return dict(sorted(self.kept[kind].items()))

    def read_newest_statement(self, kind: Kind) -> tuple[Number, bytes] | None:
        return max(self.kept[kind].items(), default=None)

    def add_statement(self, kind: Kind, number: Number, data: bytes) -> None:
        assert number not in self.kept[kind]  # noqa: S101  the history asks first
        self.kept[kind][number] = data

    def adding_statements(self) -> AbstractContextManager[None]:
        return nullcontext()

    def remove_private(self, thumbprint: str) -> None:
        """There are no files."""

    def read_audit(self) -> bytes:
        return b"a store in memory\n"

    def _nothing(self, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    read = write = read_private = private_keys = private_place = _nothing
    make = replace_private = _nothing


def stand_in(store: KeyStore) -> tuple[MemoryStore, MemoryStore]:
    """A store in memory in the state of another, with fresh keys under the same kids.

    So a rotation can be rehearsed without any passphrase. Of the statements only the newest
    keyset stands in, under its number and with its own times; releases are not taken over.

    Args:
        store: The real store; it is only read.

    Returns:
        The store, and one with the root keys that the real one does not hold.
    """
    copy, roots = MemoryStore(), MemoryStore()
    state = store.load()
    names = dict[str, str]()
    keys = []
    for record in state.keys:
        private = _fresh(record.alg, record.kid)
        name = private.public.thumbprint
        names[record.thumbprint] = name
        copy.private[name] = private
        custody = file_custody(name) if record.custody.startswith("file:") else record.custody
        keys.append(replace(record, public=private.public, custody=custody))
    counted = StatementsHeld(release_seq=state.statements.release_seq)
    copy.state = replace(state, keys=tuple(keys), statements=counted, moved=None)
    newest = kept_keyset(store)
    if newest is not None:
        _keep(newest, names, copy, roots)
    return copy, roots


def _fresh(alg: str, kid: str) -> PrivateKey:
    return PrivateKey.generate(next(one for one in SIGNING_ALGORITHMS if one == alg), kid=kid)


def _keep(
    newest: KeysetStatement, names: dict[str, str], copy: MemoryStore, roots: MemoryStore
) -> None:
    """Keep a statement in both stores that says of the stand-ins what `newest` says."""
    begun = utc(newest.iat)
    made = dict[str, PrivateKey]()
    recovery = newest.recovery.keys if newest.recovery else ()
    listed = [(key.public, key.holder) for key in newest.keys]
    listed += [(key.public, key.holder) for key in (*newest.root.keys, *recovery)]
    root_names = {key.public.thumbprint for key in newest.root.keys}
    for old, holder in listed:
        if old.thumbprint in names:
            continue
        private = made[old.thumbprint] = _fresh(old.alg, old.kid)
        names[old.thumbprint] = private.public.thumbprint
        if old.thumbprint in root_names:
            roots.add_key(private, b"", now=begun, roles=("root",), holder=holder)
    private_keys = {**copy.private, **{key.public.thumbprint: key for key in made.values()}}

    def quorum(given: Quorum) -> Quorum:
        keys = (
            RootKey(private_keys[names[key.public.thumbprint]].public, key.holder)
            for key in given.keys
        )
        return Quorum(given.threshold, tuple(keys))

    plan = replace(
        KeysetPlan.of(newest),
        root=quorum(newest.root),
        recovery=quorum(newest.recovery) if newest.recovery else None,
        keys=tuple(
            replace(key, public=private_keys[names[key.public.thumbprint]].public)
            for key in newest.keys
        ),
        revoked=frozenset(names.get(name, name) for name in newest.revoked),
    )
    signers = [private_keys[key.public.thumbprint] for key in plan.root.keys]
    for statement in _history(newest, plan, signers, _fresh("ES256", "recovery")):
        for one in (copy, roots):
            StatementHistory.of(one).keep_keyset(statement, write_draft(statement))
            note_keyset(one, statement, now=begun)


def _history(
    newest: KeysetStatement, plan: KeysetPlan, signers: Sequence[Signer], recovering: PrivateKey
) -> Iterator[KeysetStatement]:
    """Statements that say `plan`, up to the number of `newest` and with its times.

    A recovery opened each epoch but the first. `recovering` stands in for the keys that did, since
    the newest statement may have given them up.
    """
    begun = utc(newest.iat)
    lifetime = utc(newest.exp) - begun
    before = replace(plan, recovery=Quorum(1, (RootKey(recovering.public, "recovery"),)))
    statement: KeysetStatement | None = None
    while statement is None or statement.number < newest.number:
        epoch = min(statement.epoch + 1, newest.epoch) if statement else 1
        says = plan if epoch == newest.epoch else before
        if statement is None or statement.epoch == epoch:
            draft, by = draft_next(says, statement, now=begun, lifetime=lifetime), signers
        else:
            draft = draft_recovery(says, statement, now=begun, lifetime=lifetime)
            by = [*signers, recovering]
        statement = read_keyset(sign_statement(draft.envelope.payload, by, TYP_KEYSET))
        yield statement
