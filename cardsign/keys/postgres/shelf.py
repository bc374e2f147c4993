"""The issuer's statements in a key store's database; see :mod:`cardsign.keys.ledger`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import sqlalchemy as sa

from cardsign.keys.interface import Kind, Number
from cardsign.keys.postgres.address import DatabaseUrl
from cardsign.keys.postgres.schema import KEYSET, RELEASE

_TABLES: Final[dict[Kind, sa.Table]] = {"keysets": KEYSET, "releases": RELEASE}

#: Held by who adds a statement, plus the table's own id: no two stores of a database share it.
_ADDING: Final = int.from_bytes(b"add") << 32
_HOLD: Final = sa.text(
    f"SELECT pg_advisory_xact_lock({_ADDING} + '{KEYSET.name}'::regclass::oid::bigint)"
)


class TableShelf:
    """Statements as rows; see :class:`cardsign.keys.interface.Shelf`."""

    __slots__ = ("_transaction", "_url")

    def __init__(
        self, url: DatabaseUrl, transaction: Callable[[], AbstractContextManager[sa.Connection]]
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: Where it is, for people.
            transaction: Begins one, and converts what goes wrong in it.
        """
        self._url = url
        self._transaction = transaction

    @property
    def place(self) -> str:
        """See :meth:`cardsign.keys.interface.Shelf.place`."""
        return self._url.shown

    def where(self, kind: Kind, number: Number) -> str:
        """See :meth:`cardsign.keys.interface.Shelf.where`."""
        return f"{self._url.shown}, table {_TABLES[kind].name}, {'.'.join(map(str, number))}"

    def read_all(self, kind: Kind) -> dict[Number, bytes]:
        """See :meth:`cardsign.keys.interface.Shelf.read_all`."""
        table = _TABLES[kind]
        with self._transaction() as connection:
            rows = connection.execute(sa.select(table).order_by(*table.primary_key)).all()
        return {tuple(number): bytes(data) for *number, data in rows}

    def read_newest(self, kind: Kind) -> tuple[Number, bytes] | None:
        """See :meth:`cardsign.keys.interface.Shelf.read_newest`."""
        table = _TABLES[kind]
        newest = (column.desc() for column in table.primary_key)
        with self._transaction() as connection:
            row = connection.execute(sa.select(table).order_by(*newest).limit(1)).first()
        return None if row is None else (tuple(row[:-1]), bytes(row[-1]))

    def add(self, kind: Kind, number: Number, data: bytes) -> None:
        """See :meth:`cardsign.keys.interface.Shelf.add`; the table itself knows one of each."""
        with self._transaction() as connection:
            write_statement(connection, kind, number, data)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """See :meth:`cardsign.keys.interface.Shelf.alone`; what is added goes its own way."""
        with self._transaction() as connection:
            connection.execute(_HOLD)
            yield


def write_statement(connection: sa.Connection, kind: Kind, number: Number, data: bytes) -> None:
    """Add a statement within a transaction that the caller has begun."""
    table = _TABLES[kind]
    row = {column.name: part for column, part in zip(table.primary_key, number, strict=True)}
    connection.execute(sa.insert(table).values(**row, statement=data))
