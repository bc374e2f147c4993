"""The key store in PostgreSQL, for issuers whose keys several hosts rotate; extra ``postgres``.

A commit is one transaction: whatever happens, all of it is there or nothing. Private keys are
encrypted before they leave this process, as those in files are (see key_files.py).

One store is in each schema of a database (``options=-csearch_path=NAME`` chooses one). Each
generation holds the whole state, as the text of :func:`cardsign.keys.model.dump_state`. The
database itself holds, with any user and any client:

- a generation follows the one before it and exists once, so of two who commit on the same one
  only the first succeeds;
- in each state, of each algorithm and rotating role one key is active, a kid belongs to one key,
  and every key of the state before is still there;
- a private key belongs to a key that the newest state knows;
- generations, lines of the log and signed statements are added, never changed or removed, and
  no two statements have one number.

Not covered: copies that a database makes. A destroyed private key is still there, encrypted, in
backups, in the write-ahead log, and on the disk until its page is used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from cardsign.errors import FileMissing, StoreFault
from cardsign.keys.audit import SeenHeads
from cardsign.keys.key_files import MAX_ENVELOPE_BYTES
from cardsign.keys.model import ROTATING, StoreState, dump_state, file_custody, load_state
from cardsign.keys.stores.address import CONNECT_PATIENCE, DatabaseUrl, parse_database_url
from cardsign.keys.stores.base import Contents, KeyStore, Number, StatementKind
from cardsign.statements.envelope import MAX_STATEMENT_BYTES

# The tables, and what the database itself does not let happen.


LAYOUT: Final = 2
"""Of the tables, as a number that the store's row holds; a higher one is a newer cardsign's."""

#: Held while the tables are made: ``CREATE TABLE IF NOT EXISTS`` does not survive a race.
MAKING: Final = int.from_bytes(b"cardsign")

METADATA: Final = sa.MetaData()

STORE: Final = sa.Table(
    "cardsign_store",
    METADATA,
    sa.Column("single", sa.Boolean, sa.CheckConstraint("single"), primary_key=True),
    sa.Column("layout", sa.Integer, nullable=False),
)

GENERATION: Final = sa.Table(
    "cardsign_generation",
    METADATA,
    sa.Column("generation", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column(
        "previous", sa.BigInteger, sa.ForeignKey("cardsign_generation.generation"), unique=True
    ),
    sa.Column("state", sa.Text),  # none before the generation at which a store was copied
    sa.CheckConstraint("generation = coalesce(previous + 1, 0)", name="cardsign_generation_next"),
)


def _statement(limit: str) -> sa.Column[bytes]:
    size = sa.CheckConstraint(f"octet_length(statement) <= {MAX_STATEMENT_BYTES}", name=limit)
    return sa.Column("statement", sa.LargeBinary, size, nullable=False)


PRIVATE: Final = sa.Table(
    "cardsign_private",
    METADATA,
    sa.Column("thumbprint", sa.Text, primary_key=True),
    sa.Column("envelope", sa.LargeBinary, nullable=False),
    sa.CheckConstraint(
        f"octet_length(envelope) <= {MAX_ENVELOPE_BYTES}", name="cardsign_private_size"
    ),
)

AUDIT: Final = sa.Table(
    "cardsign_audit",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("line", sa.Text, nullable=False),
)

KEYSET: Final = sa.Table(
    "cardsign_keyset",
    METADATA,
    sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    _statement("cardsign_keyset_size"),
    sa.CheckConstraint("epoch > 0 AND version > 0", name="cardsign_keyset_number"),
)
RELEASE: Final = sa.Table(
    "cardsign_release",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    _statement("cardsign_release_size"),
    sa.CheckConstraint("seq > 0", name="cardsign_release_number"),
)

#: Tables to which rows are only added.
_KEPT: Final = (AUDIT, GENERATION, KEYSET, RELEASE)

_FUNCTIONS: Final = {
    "cardsign_refuse": "BEGIN RAISE EXCEPTION '% of % is refused', TG_OP, TG_TABLE_NAME; END",
    "cardsign_check_state": r"""
        DECLARE
            -- the database's JSON knows no NUL, which a kid in a foreign card may have
            keys json := replace(NEW.state, '\u0000', '\u0001')::json -> 'keys';
            earlier json := (
                SELECT replace(state, '\u0000', '\u0001')::json -> 'keys' FROM cardsign_generation
                WHERE generation = NEW.previous
            );
        BEGIN
            IF EXISTS (
                SELECT FROM json_array_elements(keys) key,
                    json_array_elements_text(key -> 'roles') role
                WHERE key ->> 'state' = 'active' AND role IN (%ROTATING%)
                GROUP BY key -> 'public' ->> 'alg', role HAVING count(*) > 1
            ) THEN
                RAISE EXCEPTION 'two keys of one role and algorithm are active';
            END IF;
            IF EXISTS (
                SELECT FROM json_array_elements(keys) key
                GROUP BY key -> 'public' ->> 'kid' HAVING count(*) > 1
            ) THEN
                RAISE EXCEPTION 'two keys have one kid';
            END IF;
            IF EXISTS (
                SELECT FROM json_array_elements(earlier) was WHERE NOT EXISTS (
                    SELECT FROM json_array_elements(keys) key
                    WHERE (key ->> 'public')::jsonb = (was ->> 'public')::jsonb
                )
            ) THEN
                RAISE EXCEPTION 'a key of the state before is gone';
            END IF;
            RETURN NEW;
        END""",
    "cardsign_check_private": r"""
        BEGIN
            IF NOT EXISTS (
                SELECT FROM json_array_elements((
                    SELECT replace(state, '\u0000', '\u0001')::json -> 'keys'
                    FROM cardsign_generation ORDER BY generation DESC LIMIT 1
                )) key
                WHERE key ->> 'custody' = replace('%CUSTODY%', '*', NEW.thumbprint)
            ) THEN
                RAISE EXCEPTION 'the private key belongs to no key of the store';
            END IF;
            RETURN NEW;
        END""",
}


def make_tables(connection: sa.Connection) -> None:
    """Make every table and trigger in the first schema of the connection's search path."""
    METADATA.create_all(connection)
    roles = ", ".join(f"'{role}'" for role in sorted(ROTATING))
    for name, text in _FUNCTIONS.items():
        body = text.replace("%ROTATING%", roles).replace("%CUSTODY%", file_custody("*"))
        head = f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
        _run(connection, f"{head} AS $$ {body} $$")
    for table in _KEPT:
        _run(
            connection,
            f"CREATE TRIGGER {table.name}_kept BEFORE UPDATE OR DELETE OR TRUNCATE "
            f"ON {table.name} FOR EACH STATEMENT EXECUTE FUNCTION cardsign_refuse()",
        )
    for table, check, when in (
        (GENERATION, "cardsign_check_state", "INSERT"),
        (PRIVATE, "cardsign_check_private", "INSERT OR UPDATE"),
    ):
        _run(
            connection,
            f"CREATE TRIGGER {table.name}_checked BEFORE {when} "
            f"ON {table.name} FOR EACH ROW EXECUTE FUNCTION {check}()",
        )


def _run(connection: sa.Connection, statement: str) -> None:
    connection.exec_driver_sql(statement.replace("%", "%%"))


# The one boundary at which what SQLAlchemy and the driver raise becomes ours.


#: SQLSTATEs, or their classes; whatever else there is keeps the database from being used.
_CODES: Final = {
    "22": "keystore.corrupt",  # data exception
    "23": "keystore.corrupt",  # an invariant would be broken
    "40": "keystore.changed",  # serialization failure, deadlock
    "42": "keystore.corrupt",  # other columns than ours
    "P0": "keystore.corrupt",  # refused by a trigger of ours
    "3F000": "keystore.missing",  # no such schema
    "42501": "keystore.unreachable",  # no privilege
    "42P01": "keystore.missing",  # no such table
    "55P03": "file.busy",  # lock timeout
    "57014": "file.busy",  # statement timeout
}
#: Tables of numbers that only one of two processes gets.
_NUMBERED: Final = frozenset({GENERATION.name, KEYSET.name, RELEASE.name})


def _fault(exc: SQLAlchemyError, url: DatabaseUrl) -> StoreFault:
    driver: Any = getattr(exc, "orig", None)
    state: str = getattr(driver, "sqlstate", None) or ""
    code = _CODES.get(state) or _CODES.get(state[:2], "keystore.unreachable")
    if state[:2] == "23" and driver.diag.table_name in _NUMBERED:
        code = "keystore.changed"  # another process has committed this number
    if code == "keystore.missing":
        return StoreFault(code, "there is no key store here", path=url.shown)
    words = str(driver or type(exc).__name__).strip().partition("\n")[0]
    return StoreFault(code, f"the database says: {url.without_password(words)}", path=url.shown)


# A key store's state as rows, within a transaction that the caller has begun.


LINES_READ: Final = 64  # to check a state; all are read if that is too few


def write_state(connection: sa.Connection, state: StoreState) -> None:
    """Take the next generation for a state; the second process waits here, and is refused."""
    connection.execute(
        sa.insert(GENERATION).values(
            generation=state.generation,
            previous=state.generation - 1 if state.generation else None,
            state=dump_state(state).decode("ascii"),
        )
    )


def write_envelopes(
    connection: sa.Connection, state: StoreState, envelopes: Mapping[str, bytes]
) -> None:
    """Add private keys, and remove those of keys that `state` says are destroyed."""
    gone = [key.thumbprint for key in state.keys if key.private == "destroyed"]
    connection.execute(sa.delete(PRIVATE).where(PRIVATE.c.thumbprint.in_(gone)))
    for thumbprint, envelope in envelopes.items():
        connection.execute(sa.insert(PRIVATE).values(thumbprint=thumbprint, envelope=envelope))


def _log(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def write_lines(connection: sa.Connection, lines: bytes, *, after: int) -> None:
    """Add lines to the log, the first of which is number `after` + 1."""
    for seq, line in enumerate(lines.decode("ascii").splitlines(), after + 1):
        connection.execute(sa.insert(AUDIT).values(seq=seq, line=line))


# The issuer's statements in a key store's database; see :mod:`cardsign.keys.history`.


_TABLES: Final[dict[StatementKind, sa.Table]] = {"keysets": KEYSET, "releases": RELEASE}

#: Held by who adds a statement, plus the table's own id: no two stores of a database share it.
_ADDING: Final = int.from_bytes(b"add") << 32
_HOLD: Final = sa.text(
    f"SELECT pg_advisory_xact_lock({_ADDING} + '{KEYSET.name}'::regclass::oid::bigint)"
)


def write_statement(
    connection: sa.Connection, kind: StatementKind, number: Number, data: bytes
) -> None:
    """Add a statement within a transaction that the caller has begun."""
    table = _TABLES[kind]
    row = {column.name: part for column, part in zip(table.primary_key, number, strict=True)}
    connection.execute(sa.insert(table).values(**row, statement=data))


LOCK_PATIENCE: Final = 5000  # milliseconds; a commit takes some, as keys are sealed before
STATEMENT_PATIENCE: Final = 30_000  # milliseconds; for a server that is overloaded


class PostgresStore(KeyStore):
    """A key store in a schema of a PostgreSQL database, 12 or newer."""

    __slots__ = ("_engine", "url")

    def __init__(
        self,
        where: str | DatabaseUrl,
        *,
        actor: str = "",
        seen: SeenHeads | None = None,
    ) -> None:
        self.url = parse_database_url(where) if isinstance(where, str) else where
        super().__init__(self.url, actor=actor, seen=seen)
        self._engine = _engine(self.url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url.shown!r})"

    def make(self, contents: Contents) -> bool:
        with self._transaction() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MAKING)))
            if sa.inspect(connection).has_table(STORE.name):
                return False  # of several processes one makes it
            make_tables(connection)
            connection.execute(sa.insert(STORE).values(single=True, layout=LAYOUT))
            if (generation := contents.state.generation) > 0:
                # The states of the generations before one that is copied are not known.
                earlier = sa.func.generate_series(0, generation - 1).column_valued("earlier")
                rows = sa.select(earlier, sa.func.nullif(earlier - 1, -1))
                counted = sa.insert(GENERATION).from_select(("generation", "previous"), rows)
                connection.execute(counted)
            write_state(connection, contents.state)
            write_envelopes(connection, contents.state, contents.envelopes)
            write_lines(connection, contents.audit, after=0)
            for kind, statements in contents.statements.items():
                for number, data in statements.items():
                    write_statement(connection, kind, number, data)
            if self.seen is not None:
                self.seen.forget()
        return True

    @classmethod
    def exists(cls, url: DatabaseUrl) -> bool:
        """Say whether the schema that `url` chooses holds a key store."""
        with cls(url)._transaction() as connection:
            return sa.inspect(connection).has_table(STORE.name)

    @property
    def place(self) -> str:
        return self.url.shown

    def private_place(self, thumbprint: str) -> str:
        return f"{self.url.shown}, table {PRIVATE.name}, {thumbprint}"

    @property
    def log_place(self) -> str:
        return f"{self.url.shown}, table {AUDIT.name}"

    def read(self) -> tuple[StoreState, bytes]:
        # One moment of state and log, for which a reader waits for nobody.
        newest = sa.select(GENERATION.c.state).order_by(GENERATION.c.generation.desc()).limit(1)
        lines = sa.select(AUDIT.c.line).order_by(AUDIT.c.seq.desc()).limit(LINES_READ)
        with self._transaction(isolation="REPEATABLE READ") as connection:
            layout = connection.scalar(sa.select(STORE.c.layout))
            untrusted_text = connection.scalar(newest)
            end = _log(reversed(connection.scalars(lines).all()))
        if layout is None or untrusted_text is None:
            raise StoreFault("keystore.corrupt", "a row of the store is gone", path=self.url.shown)
        if layout != LAYOUT:
            code = "keystore.newer_format" if layout > LAYOUT else "keystore.corrupt"
            raise StoreFault(code, f"its tables are of layout {layout}", path=self.url.shown)
        return load_state(untrusted_text.encode(), where=self.url.shown), end

    def write(
        self, state: StoreState, lines: bytes, *, before: StoreState, envelopes: Mapping[str, bytes]
    ) -> None:
        with self._transaction() as connection:
            write_state(connection, state)
            write_envelopes(connection, state, envelopes)
            write_lines(connection, lines, after=before.audit.seq)

    def private_keys(self) -> frozenset[str]:
        with self._transaction() as connection:
            return frozenset(connection.scalars(sa.select(PRIVATE.c.thumbprint)))

    def read_private(self, thumbprint: str) -> bytes:
        query = sa.select(PRIVATE.c.envelope).where(PRIVATE.c.thumbprint == thumbprint)
        with self._transaction() as connection:
            envelope = connection.scalar(query)
        if envelope is None:
            raise FileMissing("file.not_found", "no such private key", path=self.url.shown)
        return bytes(envelope)

    def replace_private(self, thumbprint: str, envelope: bytes) -> None:
        row = sa.update(PRIVATE).where(PRIVATE.c.thumbprint == thumbprint)
        with self._transaction() as connection:
            connection.execute(row.values(envelope=envelope))

    def remove_private(self, thumbprint: str) -> None:
        # A commit of ours did it already; this is for one out of a dump.
        with self._transaction() as connection:
            connection.execute(sa.delete(PRIVATE).where(PRIVATE.c.thumbprint == thumbprint))

    def read_audit(self) -> bytes:
        with self._transaction() as connection:
            lines = connection.scalars(sa.select(AUDIT.c.line).order_by(AUDIT.c.seq)).all()
        return _log(lines)

    def statement_place(self, kind: StatementKind, number: Number) -> str:
        return f"{self.url.shown}, table {_TABLES[kind].name}, {'.'.join(map(str, number))}"

    def read_statements(self, kind: StatementKind) -> dict[Number, bytes]:
        table = _TABLES[kind]
        with self._transaction() as connection:
            rows = connection.execute(sa.select(table).order_by(*table.primary_key)).all()
        return {tuple(number): bytes(data) for *number, data in rows}

    def read_newest_statement(self, kind: StatementKind) -> tuple[Number, bytes] | None:
        table = _TABLES[kind]
        newest = (column.desc() for column in table.primary_key)
        with self._transaction() as connection:
            row = connection.execute(sa.select(table).order_by(*newest).limit(1)).first()
        return None if row is None else (tuple(row[:-1]), bytes(row[-1]))

    def add_statement(self, kind: StatementKind, number: Number, data: bytes) -> None:
        with self._transaction() as connection:
            write_statement(connection, kind, number, data)

    @contextmanager
    def adding_statements(self) -> Iterator[None]:
        with self._transaction() as connection:
            connection.execute(_HOLD)
            yield

    @contextmanager
    def _transaction(self, isolation: str = "READ COMMITTED") -> Iterator[sa.Connection]:
        """A transaction of its own connection, committed unless something is raised."""
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(isolation_level=isolation)
                with connection.begin():
                    connection.execute(sa.text(f"SET LOCAL lock_timeout = {LOCK_PATIENCE}"))
                    timeout = f"SET LOCAL statement_timeout = {STATEMENT_PATIENCE}"
                    connection.execute(sa.text(timeout))
                    yield connection
        except SQLAlchemyError as exc:
            raise _fault(exc, self.url) from None


def _engine(url: DatabaseUrl) -> sa.Engine:
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_PATIENCE}
    address = sa.URL.create(
        "postgresql+psycopg",
        url.username,
        url.password,
        url.host,
        url.port,
        url.database,
        dict(url.query),
    )
    try:
        return sa.create_engine(
            address,
            connect_args=patience,
            hide_parameters=True,
            poolclass=sa.NullPool,  # a command needs few connections, and a fork shares none
        )
    except ImportError as exc:
        raise StoreFault(
            "usage.not_installed",
            f"psycopg cannot be loaded: {exc}",
            hint="pip install 'cardsign[postgres]'",
        ) from exc
