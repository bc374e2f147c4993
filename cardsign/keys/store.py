"""The key store: a directory whose one commit point is the atomic replace of one file.

::

    keys/
      keystore.json               public: every key's public half, state and custody
      private/<thumbprint>.key    0600, encrypted (see envelope.py)
      .lock                       held while writing

A private half is durable before the state names it. So a crash leaves at most a private
file that nothing refers to, which is replaced when that key is added again; it never leaves
a reference to nothing. Readers take no lock: they see one commit or the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, StoreFault
from cardsign.files import (
    create_private,
    locked,
    make_directory,
    read_bytes,
    remove,
    write_atomic,
)
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.envelope import DEFAULT_COST, KeyLabel, ScryptCost, seal
from cardsign.keys.passphrase import check_strength
from cardsign.keys.records import KeyRecord, StoreState
from cardsign.keys.signers import Signer, open_signer
from cardsign.keys.stateformat import MAX_STATE_BYTES, dump_state, file_custody, load_state

VARIABLE: Final = "CARDSIGN_KEYSTORE"
DEFAULT_DIRECTORY: Final = "keys"
STATE_FILE: Final = "keystore.json"
LOCK_FILE: Final = ".lock"
LOCK_PATIENCE: Final = 5.0  # seconds; a commit takes milliseconds, as keys are sealed before


class DirectoryStore:
    """A key store in a directory of a local file system.

    Holds the state as it was last read or written; other processes may have gone further.
    Get one by :meth:`open` or :meth:`create`.

    Attributes:
        path: The directory.
    """

    __slots__ = ("_state", "path")

    def __init__(self, path: Path, state: StoreState) -> None:
        self.path = path
        self._state = state

    @classmethod
    def open(cls, path: Path) -> DirectoryStore:
        """Return the store in the directory `path`, its state read strictly.

        Raises:
            StoreFault: ``keystore.missing``, ``keystore.corrupt`` or ``keystore.newer_format``.
            FileFault: The state is there but cannot be read.
        """
        return cls(path, _load(path))

    @classmethod
    def create(cls, path: Path, *, exist_ok: bool = False) -> DirectoryStore:
        """Make an empty store in the directory `path`, which may exist.

        Args:
            path: The directory; missing parents are made as well.
            exist_ok: Open the store that may be there already, instead of refusing.

        Raises:
            StoreFault: ``keystore.exists``, ``keystore.busy``, or as :meth:`open`.
            FileFault: ``file.unwritable``, or ``file.exists`` (`path` is no directory).
        """
        if not holds_store(path):
            make_directory(path)
            with _alone(path):
                if not holds_store(path):
                    store = cls(path, StoreState(0, ()))
                    store._commit(store.state)
                    return store
        if not exist_ok:
            raise StoreFault("keystore.exists", "there is a key store here", path=str(path))
        return cls.open(path)

    @property
    def state(self) -> StoreState:
        """The state as last read or written here."""
        return self._state

    def active_keys(self) -> tuple[KeyRecord, ...]:
        """See :meth:`StoreState.active_keys`."""
        return self._state.active_keys()

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
        expect_generation: int | None = None,
    ) -> KeyRecord:
        """Take a key in: its private half encrypted, its public half in the state.

        The store's first key of an algorithm is active at once; a later one is prepublished.

        Args:
            private: The key, with the kid that it is to be published under.
            passphrase: Encrypts the private half.
            now: The time of entry, with its zone.
            random: Gives that many fresh bytes: ``os.urandom``.
            cost: What a guess at the passphrase shall cost.
            expect_generation: Refuse if the store has gone further than this; by default the
                key is added to whatever the store holds by then.

        Raises:
            PassphraseFault: ``passphrase.weak``.
            StoreFault: ``keystore.duplicate_key``, ``keystore.changed``, ``keystore.busy``, or
                as :meth:`open`.
            FileFault: ``file.unwritable``; the store is then as it was.
        """
        check_strength(passphrase)
        public = private.public
        envelope = seal(
            private.to_pkcs8_der(), passphrase, label=KeyLabel.of(public), cost=cost, random=random
        )
        with self._writing(expect_generation) as state:
            record = _new_record(state, public, now)
            extended = state.with_key(record)
            private_file = self.path / record.custody.removeprefix("file:")
            make_directory(private_file.parent, mode=0o700)
            remove(private_file)  # left by an attempt that never came to commit this key
            create_private(private_file, envelope)
            self._commit(extended)
        return record

    def signer(self, record: KeyRecord, passphrase: bytes) -> Signer:
        """Open the private half of a key.

        Not checked: that the key's state lets it sign; take it from :meth:`active_keys`.

        Raises:
            PassphraseFault: ``passphrase.wrong``.
            SignerFault: ``signer.wrong_key`` or ``signer.unsupported``.
            FileFault: ``file.not_found``, ``file.permissions`` or ``file.unreadable``.
            StoreFault: ``keystore.envelope`` or ``keystore.newer_format``.
        """
        return open_signer(record.custody, record.public, lambda: passphrase, base=self.path)

    @contextmanager
    def _writing(self, expect_generation: int | None) -> Iterator[StoreState]:
        """Hold the store alone, and give its state as it now is."""
        with _alone(self.path):
            state = _load(self.path)
            if expect_generation not in (None, state.generation):
                raise StoreFault(
                    "keystore.changed",
                    f"the store is at generation {state.generation}, not {expect_generation}",
                    path=str(self.path),
                )
            yield state

    def _commit(self, state: StoreState) -> None:
        """The one commit point; to be called within :meth:`_writing`."""
        write_atomic(self.path / STATE_FILE, dump_state(state))
        self._state = state


def holds_store(path: Path) -> bool:
    """Say whether a key store's state lies in the directory `path`, readable or not."""
    return os.path.lexists(path / STATE_FILE)


def locate_keystore(
    option: Path | None, env: Mapping[str, str], cwd: Path, *, create: bool = False
) -> Path:
    """Return the directory to use: the option, else `VARIABLE`, else ``./keys``.

    ``./keys`` is taken only if it holds a key store, since many repositories keep other keys
    there; to create one in, also if there is nothing of that name.

    Args:
        option: ``--keystore``.
        env: Where `VARIABLE` is looked up; empty counts as unset.
        cwd: Where ``./keys`` would be.
        create: The caller will make a store there if there is none.

    Raises:
        StoreFault: ``keystore.missing``: nothing is named, and ``./keys`` is not to be taken.
    """
    if option is not None:
        return option
    if named := env.get(VARIABLE):
        return Path(named)
    default = cwd / DEFAULT_DIRECTORY
    if holds_store(default) or (create and not os.path.lexists(default)):
        return default
    if create:
        raise StoreFault(
            "keystore.missing",
            "this directory is there but is no key store",
            path=str(default),
            hint="Name the directory to make one in: --keystore DIR.",
        )
    raise StoreFault(
        "keystore.missing", "no key store is named, and none is here", path=str(default)
    )


def _new_record(state: StoreState, public: PublicKey, now: datetime) -> KeyRecord:
    first = all(key.alg != public.alg for key in state.keys)
    return KeyRecord(
        public=public,
        state="active" if first else "prepublished",
        roles=("card",),
        holder=None,
        custody=file_custody(public.thumbprint),
        created=now.astimezone(UTC).replace(microsecond=0),
    )


def _alone(path: Path) -> AbstractContextManager[None]:
    busy = StoreFault("keystore.busy", "another process is changing the store", path=str(path))
    return locked(path / LOCK_FILE, patience=LOCK_PATIENCE, busy=busy)


def _load(path: Path) -> StoreState:
    file = path / STATE_FILE
    try:
        untrusted_bytes = read_bytes(file, max_bytes=MAX_STATE_BYTES)
    except FileFault as exc:
        if exc.code != "file.not_found":
            raise
        raise StoreFault("keystore.missing", "there is no key store here", path=str(path)) from exc
    return load_state(untrusted_bytes, where=str(file))
