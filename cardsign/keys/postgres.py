"""The key store in PostgreSQL, for issuers whose keys several hosts rotate; extra ``postgres``.

One store is in each schema of a database (``options=-csearch_path=NAME`` chooses one): a table of
lines, whose number exists once, and a table of blobs. Private keys are sealed before they leave
this process. Not covered: copies that a database makes. A destroyed private key is still there,
sealed, in backups, in the write-ahead log, and on the disk until its page is used again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from cardsign.errors import FileMissing, StoreFault
from cardsign.keys.address import CONNECT_PATIENCE, DatabaseUrl
from cardsign.keys.heads import SeenHead
from cardsign.keys.store import KeyStore, digest_of

#: The first is held while the tables are made: ``IF NOT EXISTS`` alone does not survive a race.
_MAKING: Final = (
    f"SELECT pg_advisory_xact_lock({int.from_bytes(b'cardsign')})",
    "CREATE TABLE IF NOT EXISTS cardsign_line (seq bigint PRIMARY KEY, line text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS cardsign_blob (name text PRIMARY KEY, data bytea NOT NULL)",
)
_LINES: Final = sa.text("SELECT line FROM cardsign_line WHERE seq >= :seq ORDER BY seq")
_ADD_LINE: Final = sa.text("INSERT INTO cardsign_line VALUES (:seq, :line)")
_BLOB: Final = sa.text("SELECT data FROM cardsign_blob WHERE name = :name")
_BLOBS: Final = sa.text("SELECT name FROM cardsign_blob")
_ADD_BLOB: Final = sa.text("INSERT INTO cardsign_blob VALUES (:name, :data) ON CONFLICT DO NOTHING")
_DROP_BLOBS: Final = sa.text("DELETE FROM cardsign_blob WHERE name = ANY(:names)")
_PATIENCE: Final = "SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 30000"

#: SQLSTATEs, or their classes; whatever else there is keeps the database from being used.
_CODES: Final = {
    "22": "keystore.corrupt",  # data exception
    "42": "keystore.corrupt",  # other columns than ours
    "3F000": "keystore.missing",  # no such schema
    "42501": "keystore.unreachable",  # no privilege
    "42P01": "keystore.missing",  # no such table
    "55P03": "file.busy",  # lock timeout
    "57014": "file.busy",  # statement timeout
}


class PostgresStore(KeyStore):
    """A key store in a schema of a PostgreSQL database, 12 or newer."""

    def __init__(self, url: DatabaseUrl, *, actor: str = "", seen: SeenHead | None = None) -> None:
        super().__init__(url.shown, actor=actor, seen=seen)
        self.url, self.patience = url, _PATIENCE
        self._engine = _engine(url)

    def read_lines(self, after: int) -> list[bytes]:
        try:
            with self._transaction() as connection:
                rows = connection.scalars(_LINES, {"seq": max(1, after)})
                lines = [line.encode() for line in rows]
        except StoreFault as fault:
            if fault.code != "keystore.missing":
                raise
            lines = []
        self.check_continues(after, digest_of(lines[0]) if lines else None)
        return lines[1:] if after else lines

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        rows = [{"seq": at, "line": line.decode("ascii")} for at, line in enumerate(lines, seq)]
        with self._transaction() as connection:
            for statement in _MAKING if seq == 1 else ():
                connection.exec_driver_sql(statement)
            try:  # the second process waits here, and is refused
                connection.execute(_ADD_LINE, rows)
            except IntegrityError:
                connection.rollback()
                return False
            for name, data in blobs.items():
                connection.execute(_ADD_BLOB, {"name": name, "data": data})
        return True

    def read_blob(self, name: str) -> bytes:
        with self._transaction() as connection:
            data = connection.scalar(_BLOB, {"name": name})
        if data is None:
            raise FileMissing("file.not_found", "there is no such blob", path=self.place_of(name))
        return bytes(data)

    def drop_blobs(self, names: Collection[str]) -> None:
        with self._transaction() as connection:
            connection.execute(_DROP_BLOBS, {"names": list(names)})

    def list_blobs(self) -> frozenset[str]:
        with self._transaction() as connection:
            return frozenset(connection.scalars(_BLOBS))

    def place_of(self, name: str) -> str:
        return f"{self.place}, table cardsign_blob, {name}"

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """A transaction of its own connection, committed unless something is raised."""
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(self.patience)
                yield connection
        except SQLAlchemyError as exc:
            raise _fault(exc, self.url) from None


def _fault(exc: SQLAlchemyError, url: DatabaseUrl) -> StoreFault:
    driver: Any = getattr(exc, "orig", None)
    state: str = getattr(driver, "sqlstate", None) or ""
    code = _CODES.get(state) or _CODES.get(state[:2], "keystore.unreachable")
    words = str(driver or type(exc).__name__).strip().partition("\n")[0]
    message = f"the database says: {url.without_password(words)}"
    if code == "keystore.missing":
        message = "there is no key store here"
    return StoreFault(code, message, path=url.shown)


def _engine(url: DatabaseUrl) -> sa.Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_PATIENCE}
    at = (url.username, url.password, url.host, url.port, url.database, dict(url.query))
    # A command needs few connections, and a fork shares none.
    return sa.create_engine(
        sa.URL.create("postgresql+psycopg", *at),
        connect_args=patience,
        hide_parameters=True,
        poolclass=sa.NullPool,
    )
