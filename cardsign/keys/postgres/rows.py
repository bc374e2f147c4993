"""A key store's state as rows, within a transaction that the caller has begun."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from cardsign.keys.postgres.schema import AUDIT, GENERATION, KEY, LAYOUT, PRIVATE, STORE
from cardsign.keys.records import AuditHead, StoreState
from cardsign.keys.stateformat import dump_state

_REST: Final = ("format", "publications", "statements")


def read_newest(connection: sa.Connection) -> tuple[int, AuditHead] | None:
    """Return the newest generation and the head of the log that it commits to."""
    query = sa.select(GENERATION.c.generation, GENERATION.c.audit_seq, GENERATION.c.audit_digest)
    row = connection.execute(query.order_by(GENERATION.c.generation.desc()).limit(1)).first()
    return None if row is None else (row[0], AuditHead(row[1], row[2]))


def read_document(connection: sa.Connection) -> tuple[int, bytes] | None:
    """Return the tables' layout, and the state's document put together from its members.

    Each member is kept as the text of a JSON value, so nothing is read before the strict
    reader reads it. Needs a transaction that sees one moment. None if a row is not there.
    """
    parts = (sa.cast(STORE.c.publications, sa.Text), sa.cast(STORE.c.statements, sa.Text))
    row = connection.execute(sa.select(STORE.c.layout, STORE.c.format, *parts)).first()
    newest = read_newest(connection)
    if row is None or newest is None:
        return None
    layout, format_, publications, statements = row
    generation, head = newest
    records = sa.select(sa.cast(KEY.c.record, sa.Text)).order_by(KEY.c.position)
    keys = ",".join(connection.scalars(records))
    audit = json.dumps({"seq": head.seq, "digest": head.digest})
    document = (
        f'{{"format":{format_},"generation":{generation},"audit":{audit},"keys":[{keys}],'
        f'"publications":{publications},"statements":{statements}}}'
    )
    return layout, document.encode()


def write_generation(connection: sa.Connection, state: StoreState) -> None:
    """Take the next generation; whoever is second waits here, and is refused."""
    connection.execute(
        sa.insert(GENERATION).values(
            generation=state.generation,
            previous=state.generation - 1 if state.generation else None,
            audit_seq=state.audit.seq,
            audit_digest=state.audit.digest,
        )
    )


def write_generations_before(connection: sa.Connection, generation: int) -> None:
    """Count up to a generation that is restored; the heads of those before it are not known."""
    if generation:
        number = sa.func.generate_series(0, generation - 1).column_valued("number")
        previous = sa.func.nullif(number - 1, -1)
        columns = ("generation", "previous", "audit_seq")
        rows = sa.select(number, previous, sa.literal(0))
        connection.execute(sa.insert(GENERATION).from_select(columns, rows))


def write_state(connection: sa.Connection, state: StoreState) -> None:
    """Write all of a state but its generation."""
    document: dict[str, Any] = json.loads(dump_state(state))
    rest = {"layout": LAYOUT, **{name: document[name] for name in _REST}}
    connection.execute(
        insert(STORE)
        .values(single=True, **rest)
        .on_conflict_do_update(index_elements=[STORE.c.single], set_=rest)
    )
    rows = [
        {"thumbprint": record["thumbprint"], "position": position, "record": record}
        for position, record in enumerate(document["keys"])
    ]
    # What ends to be active goes first: no index may see two active keys in between.
    rows.sort(key=lambda row: bool(row["record"]["state"] == "active"))
    added = insert(KEY)
    changed = added.on_conflict_do_update(
        index_elements=[KEY.c.thumbprint],
        set_={"record": added.excluded.record},
        where=sa.cast(KEY.c.record, sa.Text) != sa.cast(added.excluded.record, sa.Text),
    )
    if rows:
        connection.execute(changed, rows)


def write_envelopes(
    connection: sa.Connection, state: StoreState, envelopes: Mapping[str, bytes]
) -> None:
    """Add private halves, and remove those of keys that `state` says are destroyed."""
    gone = [key.thumbprint for key in state.keys if key.private == "destroyed"]
    connection.execute(sa.delete(PRIVATE).where(PRIVATE.c.thumbprint.in_(gone)))
    for thumbprint, envelope in envelopes.items():
        connection.execute(sa.insert(PRIVATE).values(thumbprint=thumbprint, envelope=envelope))


def write_lines(connection: sa.Connection, lines: bytes, *, after: int) -> None:
    """Add lines to the log, the first of which is number `after` + 1."""
    for seq, line in enumerate(lines.decode("ascii").splitlines(), after + 1):
        connection.execute(sa.insert(AUDIT).values(seq=seq, line=line))
