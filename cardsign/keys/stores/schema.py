"""The tables of a key store in PostgreSQL, and what the database itself does not let happen.

One store lies in each schema of a database (``options=-csearch_path=NAME`` chooses one). The
invariants, whoever writes and whatever client he uses:

- a generation follows the one before it and exists once, so of two who commit on the same one
  only the first succeeds;
- of each algorithm and rotating role one key is active, and a kid belongs to one key;
- a private half belongs to a key that the store knows;
- generations, lines of the log and signed statements are added, never changed or removed, and
  no two statements have one number; keys are never removed.

Records are kept as the JSON of :mod:`cardsign.keys.stateformat`, verbatim, and the indexes are
over its members: there is no second copy that could say something else.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from cardsign.keys.envelope import MAX_ENVELOPE_BYTES
from cardsign.keys.model import ROTATING, Role
from cardsign.statements.envelope import MAX_STATEMENT_BYTES

LAYOUT: Final = 1
"""Of the tables, as a number that the store's row holds; a higher one is a newer cardsign's."""

#: Held by whoever makes the tables: ``CREATE TABLE IF NOT EXISTS`` does not survive a race.
MAKING: Final = int.from_bytes(b"cardsign")

METADATA: Final = sa.MetaData()

STORE: Final = sa.Table(
    "cardsign_store",
    METADATA,
    sa.Column("single", sa.Boolean, sa.CheckConstraint("single"), primary_key=True),
    sa.Column("layout", sa.Integer, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("publications", postgresql.JSON, nullable=False),
    sa.Column("statements", postgresql.JSON, nullable=False),
)

GENERATION: Final = sa.Table(
    "cardsign_generation",
    METADATA,
    sa.Column("generation", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column(
        "previous", sa.BigInteger, sa.ForeignKey("cardsign_generation.generation"), unique=True
    ),
    sa.Column("audit_seq", sa.BigInteger, nullable=False),
    sa.Column("audit_digest", sa.Text),
    sa.CheckConstraint("generation = coalesce(previous + 1, 0)", name="cardsign_generation_next"),
)


def _statement(limit: str) -> sa.Column[bytes]:
    size = sa.CheckConstraint(f"octet_length(statement) <= {MAX_STATEMENT_BYTES}", name=limit)
    return sa.Column("statement", sa.LargeBinary, size, nullable=False)


def _one_active(role: Role) -> sa.Index:
    return sa.Index(
        f"cardsign_key_one_active_{role}",
        sa.text("(record->>'alg')"),
        unique=True,
        postgresql_where=sa.text(
            f"record->>'state' = 'active' AND record->>'roles' LIKE '%\"{role}\"%'"
        ),
    )


KEY: Final = sa.Table(
    "cardsign_key",
    METADATA,
    sa.Column("thumbprint", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False, unique=True),
    sa.Column("record", postgresql.JSON, nullable=False),
    sa.CheckConstraint("record->>'thumbprint' = thumbprint", name="cardsign_key_thumbprint"),
    sa.Index("cardsign_key_kid", sa.text("(record->>'kid')"), unique=True),
    *(_one_active(role) for role in sorted(ROTATING)),
)
PRIVATE: Final = sa.Table(
    "cardsign_private",
    METADATA,
    sa.Column("thumbprint", sa.Text, sa.ForeignKey("cardsign_key.thumbprint"), primary_key=True),
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

#: Tables and what is refused on them.
_PROTECTED: Final = (
    *((table, "UPDATE OR DELETE OR TRUNCATE") for table in (AUDIT, GENERATION, KEYSET, RELEASE)),
    (KEY, "DELETE OR TRUNCATE"),
)


def make_tables(connection: sa.Connection) -> None:
    """Make every table, index and trigger in the first schema of the connection's search path."""
    METADATA.create_all(connection)
    connection.execute(
        sa.text(
            "CREATE FUNCTION cardsign_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION '% of % is refused', TG_OP, TG_TABLE_NAME; END $$"
        )
    )
    for table, operations in _PROTECTED:
        connection.execute(
            sa.text(
                f"CREATE TRIGGER {table.name}_kept BEFORE {operations} ON {table.name} "
                "FOR EACH STATEMENT EXECUTE FUNCTION cardsign_refuse()"
            )
        )
