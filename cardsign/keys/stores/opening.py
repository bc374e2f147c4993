"""A key store by the place that it is in: a directory, or the URL of a database; and its move.

Private keys move as encrypted as they are in the store. Of keys behind other signers only the
public keys are copied. The issuer's statements are copied too: the state names them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cardsign.errors import CardsignError, StoreFault
from cardsign.keys.audit import SeenHeads, extend, holds_line, verify_chain
from cardsign.keys.history import StatementHistory
from cardsign.keys.key_files import label_of, read_label
from cardsign.keys.lifecycle import arrive
from cardsign.keys.stores.address import DatabaseUrl
from cardsign.keys.stores.base import EMPTY, KINDS, Contents, KeyStore
from cardsign.keys.stores.directory import DirectoryStore, holds_store

if TYPE_CHECKING:
    from cardsign.keys.stores.postgres import PostgresStore


StorePlace: TypeAlias = Path | DatabaseUrl


def open_store(
    place: StorePlace,
    *,
    actor: str = "",
    heads: SeenHeads | None = None,
    vouched: bool = True,
    moved: bool = False,
) -> KeyStore:
    """Open the key store at `place`; see :meth:`KeyStore.open`."""
    seen = seen_head(place, heads)
    return _kind(place).open(place, actor=actor, seen=seen, vouched=vouched, moved=moved)


def create_store(
    place: StorePlace,
    contents: Contents = EMPTY,
    *,
    exist_ok: bool = False,
    actor: str = "",
    heads: SeenHeads | None = None,
) -> KeyStore:
    """Make a key store at `place`, empty or of `contents`; see :meth:`KeyStore.create`."""
    seen = seen_head(place, heads)
    return _kind(place).create(place, contents, exist_ok=exist_ok, actor=actor, seen=seen)


def seen_head(place: StorePlace, heads: SeenHeads | None) -> SeenHeads | None:
    """Return what a user saw of the store at `place`, by whatever path or link it is named."""
    if heads is None:
        return None
    if isinstance(place, Path):
        return heads.of(str(place.resolve()))
    return heads.of(f"{place.server}/{place.database}?{place.query.get('options', '')}")


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already, readable or not."""
    return holds_store(place) if isinstance(place, Path) else _postgres_store().exists(place)


def _kind(place: StorePlace) -> type[KeyStore]:
    return DirectoryStore if isinstance(place, Path) else _postgres_store()


def _postgres_store() -> type[PostgresStore]:
    try:
        from cardsign.keys.stores.postgres import PostgresStore
    except ImportError as exc:
        raise StoreFault(
            "usage.not_installed",
            f"SQLAlchemy cannot be loaded: {exc}",
            hint="pip install 'cardsign[postgres]'",
        ) from exc
    return PostgresStore


# A store that is copied to another folder or database, or moves there.


def read_contents(store: KeyStore) -> Contents:
    """Return all of a store, also of one that has moved; the lines of its log that count.

    Raises:
        StoreFault, FileFault: As for reading the store and its statements;
            ``file.not_found``: a private key that the store should hold is gone;
            ``keystore.corrupt``: a file holds another private key than it should.
    """
    state = store.load(moved=True)
    history = StatementHistory(store, state.statements)
    history.to_publish()  # refuses statements that are no history
    _, audit, _ = verify_chain(store.read_audit(), state.audit, where=store.log_place)
    envelopes = dict[str, bytes]()
    for key in state.keys:
        if key.private != "held":
            continue
        envelope = envelopes[key.thumbprint] = store.read_private(key.thumbprint)
        if read_label(envelope) != label_of(key.public):
            raise StoreFault(
                "keystore.corrupt",
                f"this file holds another private key than that of {key.kid!r}",
                path=store.private_place(key.thumbprint),
            )
    statements = {
        kind: {
            number: data
            for number, data in store.read_statements(kind).items()
            if kind != "releases" or number <= (state.statements.release_seq,)
        }
        for kind in KINDS
    }
    return Contents(state, audit, envelopes, statements)


def copy_store(
    store: KeyStore, place: StorePlace, *, now: datetime, heads: SeenHeads | None = None
) -> KeyStore:
    """Make a key store of what `store` holds at `place`, which holds none, and return it.

    A store that moved is at its new place then, which its log says. What the user saw of a log
    here before is forgotten.

    Raises:
        StoreFault, FileFault: As :func:`read_contents` and :func:`create_store`.
    """
    contents = read_contents(store)
    state, events = arrive(contents.state)
    if events:
        state = replace(state, generation=state.generation + 1)
        state, lines = extend(state, events, now=now, actor=store.actor)
        contents = replace(contents, state=state, audit=contents.audit + lines)
    return create_store(place, contents, actor=store.actor, heads=heads)


def move_store(
    store: KeyStore,
    place: StorePlace,
    *,
    now: datetime,
    heads: SeenHeads | None = None,
) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    The old one is marked first, so that at no time both sign; it stays, and says where the new one
    is. Killed half-way, this can be called again with the same place, on the store as
    :func:`open_store` gives it with ``moved=True``. Where nothing can be put there, the mark is
    taken away again.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :func:`copy_store`.
    """
    to = str(place.resolve()) if isinstance(place, Path) else place.to_file()
    if isinstance(place, Path) and isinstance(store.where, Path):
        inside = place.resolve() != store.where.resolve()
        if inside and place.resolve().is_relative_to(store.where.resolve()):
            # Who then deletes the old store, as they are told to, would delete the new one.
            raise StoreFault(
                "usage.conflict",
                "a key store cannot move into its own folder",
                path=to,
                hint="Name a folder outside it.",
            )
    if is_taken(place):
        there = open_store(place, actor=store.actor, heads=heads)
        moved, head = store.state.moved, store.state.audit.digest
        if moved is None or moved.to != to or not holds_line(there.read_audit(), head):
            raise StoreFault("keystore.exists", "there is a key store here", path=to)
        return there
    fresh = store.state.moved is None
    store.leave(to, now=now)
    try:
        return copy_store(store, place, now=now, heads=heads)
    except CardsignError:
        # Only what was marked just now: a store of an earlier call may be there, and be hidden,
        # such as on a disk that is not mounted.
        if fresh and not is_taken(place):
            store.stay(now=now)
        raise
