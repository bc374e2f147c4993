"""The tables of a key store in PostgreSQL, and what the database itself does not let happen.

One store is in each schema of a database (``options=-csearch_path=NAME`` chooses one). Each
generation holds the whole state, as the text of :func:`cardsign.keys.model.dump_state`. The
invariants, with any user and any client:

- a generation follows the one before it and exists once, so of two who commit on the same one
  only the first succeeds;
- in each state, of each algorithm and rotating role one key is active, a kid belongs to one key,
  and every key of the state before is still there;
- a private key belongs to a key that the newest state knows;
- generations, lines of the log and signed statements are added, never changed or removed, and
  no two statements have one number.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from cardsign.keys.envelope import MAX_ENVELOPE_BYTES
from cardsign.keys.model import ROTATING, file_custody
from cardsign.statements.envelope import MAX_STATEMENT_BYTES

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
    sa.Column("state", sa.Text),  # none before the generation at which a store was restored
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

#: Signed statements, as bytes; see :mod:`cardsign.keys.history`.
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
