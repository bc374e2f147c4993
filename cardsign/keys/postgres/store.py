"""The key store in PostgreSQL, for issuers whose keys several hosts rotate; extra ``postgres``.

A commit is one transaction: whatever happens, all of it is there or nothing. The tables, and
what the database itself refuses, stand in :mod:`cardsign.keys.postgres.schema`. Private halves
are encrypted before they leave this process, as those in files are (see envelope.py).

Not covered: copies that a database makes. A destroyed private half is still, encrypted, in
backups, in the write-ahead log, and on the disk until its page is used again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from cardsign.errors import FileFault, StoreFault
from cardsign.keys.audit import AuditEvent, extend
from cardsign.keys.custody import file_custody
from cardsign.keys.interface import Contents
from cardsign.keys.operations import KeyOperations
from cardsign.keys.postgres.address import (
    CONNECT_PATIENCE,
    SCHEME,
    DatabaseUrl,
    parse_database_url,
)
from cardsign.keys.postgres.faults import converted
from cardsign.keys.postgres.rows import (
    read_document,
    read_newest,
    write_envelopes,
    write_generation,
    write_generations_before,
    write_lines,
    write_state,
)
from cardsign.keys.postgres.schema import AUDIT, LAYOUT, MAKING, PRIVATE, STORE, make_tables
from cardsign.keys.postgres.shelf import TableShelf, write_statement
from cardsign.keys.records import AuditHead, KeyRecord, StoreState
from cardsign.keys.signers import Access, Signer, open_signer
from cardsign.keys.signers.file import open_sealed
from cardsign.keys.stateformat import load_state

LOCK_PATIENCE: Final = 5000  # milliseconds; a commit takes some, as keys are sealed before
STATEMENT_PATIENCE: Final = 30_000  # milliseconds; for a server that is overloaded


class PostgresStore(KeyOperations):
    """A key store in a schema of a PostgreSQL database, 12 or newer.

    Get one by :meth:`open` or :meth:`create`.

    Attributes:
        url: Where it is.
        actor: Who the audit log shall say made the changes.
    """

    __slots__ = ("_engine", "_random", "actor", "url")

    def __init__(
        self,
        url: DatabaseUrl,
        *,
        actor: str = "",
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Connect to nothing yet; the state is empty until it is loaded.

        Raises:
            StoreFault: ``keystore.not_installed``.
        """
        super().__init__(StoreState(0, ()))
        self.url = url
        self.actor = actor
        self._engine = _engine(url)
        self._random = random

    def __repr__(self) -> str:
        return f"PostgresStore({self.url.shown!r})"

    @classmethod
    def open(cls, url: str | DatabaseUrl, *, actor: str = "") -> PostgresStore:
        """Return the store at `url`, its state read strictly.

        Raises:
            StoreFault: ``keystore.url``, ``keystore.not_installed``, or as :meth:`load`.
        """
        store = cls(_parsed(url), actor=actor)
        store._state = store.load()
        return store

    @classmethod
    def create(
        cls, url: str | DatabaseUrl, *, exist_ok: bool = False, actor: str = ""
    ) -> PostgresStore:
        """Make an empty store in the schema that `url` chooses, which must exist.

        Args:
            url: See :mod:`cardsign.keys.postgres.address`.
            exist_ok: Open the store that may be there already, instead of refusing.
            actor: Who the audit log shall say made the changes.

        Raises:
            StoreFault: ``keystore.exists``, or as :meth:`open`.
        """
        store = cls(_parsed(url), actor=actor)
        with store._transaction() as connection:
            made = _made_tables(connection)
            if made:
                write_generation(connection, store.state)
                write_state(connection, store.state)
        if not made and not exist_ok:
            raise StoreFault("keystore.exists", "there is a key store here", path=store.url.shown)
        store._state = store.load()
        return store

    @classmethod
    def restore(cls, url: DatabaseUrl, contents: Contents) -> PostgresStore:
        """Make a store of `contents` in the schema that `url` chooses, all of it or nothing.

        Raises:
            StoreFault: ``keystore.exists``, or as :meth:`open`.
        """
        store = cls(url)
        with store._transaction() as connection:
            if not _made_tables(connection):
                raise StoreFault("keystore.exists", "there is a key store here", path=url.shown)
            write_generations_before(connection, contents.state.generation)
            write_generation(connection, contents.state)
            write_state(connection, contents.state)
            write_envelopes(connection, contents.state, contents.envelopes)
            write_lines(connection, contents.audit, after=0)
            for kind, statements in contents.statements.items():
                for number, data in statements.items():
                    write_statement(connection, kind, number, data)
        store._state = store.load()
        return store

    @classmethod
    def exists(cls, url: DatabaseUrl) -> bool:
        """Say whether the schema that `url` chooses holds a key store.

        Raises:
            StoreFault: ``keystore.not_installed`` or ``keystore.unreachable``.
        """
        with cls(url)._transaction() as connection:
            return sa.inspect(connection).has_table(STORE.name)

    @property
    def place(self) -> str:
        """Where it is, for people; see :attr:`DatabaseUrl.shown`."""
        return self.url.shown

    def private_place(self, thumbprint: str) -> str:
        """Where the private half of a key is, for people."""
        return f"{self.url.shown}, table {PRIVATE.name}, {thumbprint}"

    @property
    def shelf(self) -> TableShelf:
        """See :attr:`cardsign.keys.interface.KeyStore.shelf`."""
        return TableShelf(self.url, self._transaction)

    @property
    def log_place(self) -> str:
        """Where the audit log is, for people."""
        return f"{self.url.shown}, table {AUDIT.name}"

    def load(self) -> StoreState:
        """Return the state as it was committed last; readers wait for nobody.

        Raises:
            StoreFault: ``keystore.unreachable``, ``keystore.missing``, ``keystore.corrupt`` or
                ``keystore.newer_format``.
        """
        with self._transaction(isolation="REPEATABLE READ") as connection:
            found = read_document(connection)
        if found is None:
            raise StoreFault("keystore.corrupt", "a row of the store is gone", path=self.url.shown)
        layout, untrusted_bytes = found
        if layout != LAYOUT:
            code = "keystore.newer_format" if layout > LAYOUT else "keystore.corrupt"
            raise StoreFault(code, f"its tables are of layout {layout}", path=self.url.shown)
        return load_state(untrusted_bytes, where=self.url.shown)

    def commit(
        self,
        state: StoreState,
        events: Sequence[AuditEvent],
        *,
        expect_generation: int,
        now: datetime,
        envelopes: Mapping[str, bytes],
    ) -> StoreState:
        """See :meth:`cardsign.keys.interface.KeyStore.commit`.

        Private halves of keys that `state` says are destroyed go in the same transaction.
        """
        with self._transaction() as connection:
            generation, before = read_newest(connection) or (None, AuditHead())
            if generation != expect_generation:
                raise StoreFault(
                    "keystore.changed",
                    f"the store is at generation {generation}, not {expect_generation}",
                    path=self.url.shown,
                )
            following = expect_generation + 1
            head, lines = extend(
                before,
                events,
                generation=following,
                now=now,
                actor=self.actor,
                random=self._random,
            )
            committed = replace(state, generation=following, audit=head)
            write_generation(connection, committed)
            write_state(connection, committed)
            write_envelopes(connection, committed, envelopes)
            write_lines(connection, lines, after=before.seq)
        return committed

    def private_halves(self) -> frozenset[str]:
        """See :meth:`cardsign.keys.interface.KeyStore.private_halves`."""
        with self._transaction() as connection:
            return frozenset(connection.scalars(sa.select(PRIVATE.c.thumbprint)))

    def read_private(self, thumbprint: str) -> bytes:
        """See :meth:`cardsign.keys.interface.KeyStore.read_private`.

        Raises:
            FileFault: ``file.not_found``.
            StoreFault: ``keystore.unreachable``, and as :meth:`load`.
        """
        query = sa.select(PRIVATE.c.envelope).where(PRIVATE.c.thumbprint == thumbprint)
        with self._transaction() as connection:
            envelope = connection.scalar(query)
        if envelope is None:
            raise FileFault(
                "file.not_found",
                f"the private half of key {thumbprint!r} is not here",
                path=self.url.shown,
                hint="Restore the database from a backup, or revoke the key.",
            )
        return bytes(envelope)

    def remove_private(self, thumbprint: str) -> None:
        """See :meth:`cardsign.keys.interface.KeyStore.remove_private`; a commit did it already."""
        with self._transaction() as connection:
            connection.execute(sa.delete(PRIVATE).where(PRIVATE.c.thumbprint == thumbprint))

    def read_audit(self) -> bytes:
        """See :meth:`cardsign.keys.interface.KeyStore.read_audit`; here no attempt fails half."""
        with self._transaction() as connection:
            lines = connection.scalars(sa.select(AUDIT.c.line).order_by(AUDIT.c.seq)).all()
        return "".join(f"{line}\n" for line in lines).encode()

    def signer(self, record: KeyRecord, access: Access | bytes) -> Signer:
        """Open the private half of a key; see :meth:`cardsign.keys.store.DirectoryStore.signer`.

        A custody ``file:`` of a record means this store.
        """
        if isinstance(access, bytes):
            access = Access.by_passphrase(access)
        if record.custody != file_custody(record.thumbprint):
            return open_signer(record.custody, record.public, access, base=Path())
        envelope = self.read_private(record.thumbprint)
        passphrase = access.secrets("passphrase", record.kid)
        return open_sealed(envelope, record.public, passphrase, where=self.url.shown)

    @contextmanager
    def _transaction(self, isolation: str = "READ COMMITTED") -> Iterator[sa.Connection]:
        """A transaction of its own connection, committed unless something is raised."""
        with converted(self.url), self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level=isolation)
            with connection.begin():
                connection.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_PATIENCE}"))
                connection.execute(sa.text(f"SET LOCAL statement_timeout = {STATEMENT_PATIENCE}"))
                yield connection


def _made_tables(connection: sa.Connection) -> bool:
    """Make the tables unless they are there; of several processes one does."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MAKING)))
    if sa.inspect(connection).has_table(STORE.name):
        return False
    make_tables(connection)
    return True


def _parsed(url: str | DatabaseUrl) -> DatabaseUrl:
    return parse_database_url(url) if isinstance(url, str) else url


def _engine(url: DatabaseUrl) -> sa.Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_PATIENCE}
    address = sa.URL.create(
        SCHEME, url.username, url.password, url.host, url.port, url.database, dict(url.query)
    )
    try:
        return sa.create_engine(
            address,
            connect_args=patience,
            hide_parameters=True,
            poolclass=sa.NullPool,  # a command needs few connections, and a fork shares none
        )
    except ImportError as exc:
        raise StoreFault("keystore.not_installed", f"psycopg cannot be loaded: {exc}") from exc
