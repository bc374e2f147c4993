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

import psycopg

from cardsign.errors import FileMissing, StoreFault
from cardsign.keys.store import KeyStore

#: The lock is held while the tables are made: ``IF NOT EXISTS`` alone does not survive a race.
_MAKE: Final = f"""
SELECT pg_advisory_xact_lock({int.from_bytes(b"cardsign")});
CREATE TABLE IF NOT EXISTS cardsign_line (seq bigint PRIMARY KEY, line text NOT NULL);
CREATE TABLE IF NOT EXISTS cardsign_blob (name text PRIMARY KEY, data bytea NOT NULL)
"""
_PATIENCE: Final = "SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 30000"
_CONNECT_PATIENCE: Final = 10  # seconds

#: SQLSTATEs, or their classes; whatever else there is keeps the database from being used.
_CODES: Final = {
    "22": "keystore.corrupt",  # data exception
    "42": "keystore.corrupt",  # other columns than ours
    "42501": "keystore.unreachable",  # no privilege
    "42P01": "keystore.missing",  # no such table
    "55P03": "file.busy",  # lock timeout
    "57014": "file.busy",  # statement timeout
}


class PostgresStore(KeyStore):
    """A key store in a schema of a PostgreSQL database, 12 or newer."""

    def read_lines(self, start: int = 1) -> list[bytes]:
        query = "SELECT line FROM cardsign_line WHERE seq >= %s ORDER BY seq"
        try:
            with self._transaction() as connection:
                return [line.encode() for (line,) in connection.execute(query, [start])]
        except StoreFault as fault:
            if fault.code != "keystore.missing":
                raise
            return []

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        rows = [(number, line.decode("ascii")) for number, line in enumerate(lines, seq)]
        with self._transaction() as connection, connection.cursor() as cursor:
            if seq == 1:
                cursor.execute(_MAKE)
            try:  # the second process waits here, and is refused
                cursor.executemany("INSERT INTO cardsign_line VALUES (%s, %s)", rows)
            except psycopg.errors.UniqueViolation:
                connection.rollback()
                return False
            query = "INSERT INTO cardsign_blob VALUES (%s, %s) ON CONFLICT DO NOTHING"
            cursor.executemany(query, list(blobs.items()))
        return True

    def read_blob(self, name: str) -> bytes:
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT data FROM cardsign_blob WHERE name = %s", [name]
            ).fetchone()
        if row is None:
            raise FileMissing("file.not_found", "there is no such blob", path=self.place_of(name))
        return bytes(row[0])

    def drop_blobs(self, names: Collection[str]) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM cardsign_blob WHERE name = ANY(%s)", [list(names)])

    def list_blobs(self) -> frozenset[str]:
        with self._transaction() as connection:
            rows = connection.execute("SELECT name FROM cardsign_blob")
            return frozenset(name for (name,) in rows)

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Open a transaction of its own connection, committed unless something is raised."""
        try:
            with psycopg.connect(self.place, connect_timeout=_CONNECT_PATIENCE) as connection:
                connection.execute(_PATIENCE)
                yield connection
        except psycopg.Error as exc:
            state = exc.sqlstate or ""
            code = _CODES.get(state) or _CODES.get(state[:2], "keystore.unreachable")
            message = f"the database says: {str(exc).strip().partition(chr(10))[0]}"
            raise StoreFault(code, message, path=self.place) from None
