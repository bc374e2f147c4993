"""A key store by the place that it is in, a directory or the URL of a database; and its move.

Private keys move as they are sealed. Of keys behind other signers only the public keys are copied.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cardsign.errors import CardsignError, StoreFault
from cardsign.keys import lifecycle
from cardsign.keys.address import DatabaseUrl
from cardsign.keys.folder import FolderStore, holds_store
from cardsign.keys.heads import SeenHead
from cardsign.keys.store import KeyStore, exists_already

if TYPE_CHECKING:
    from cardsign.keys.postgres import PostgresStore

StorePlace: TypeAlias = Path | DatabaseUrl


def open_store(
    place: StorePlace, *, actor: str = "", heads: SeenHead | None = None, moved: bool = False
) -> KeyStore:
    """Open the key store at `place`; ``keystore.missing``, or as :meth:`KeyStore.load`."""
    store = locate_store(place, actor=actor, heads=heads)
    if not store.load(moved=moved).seq:
        raise StoreFault("keystore.missing", "there is no key store here", path=store.place)
    return store


def create_store(
    place: StorePlace, *, exist_ok: bool = False, actor: str = "", heads: SeenHead | None = None
) -> KeyStore:
    """Return the key store at `place`, or an empty one, which begins with its first commit.

    Raises:
        StoreFault: ``keystore.exists``: there is one, and not `exist_ok`; or as
            :meth:`KeyStore.load`.
    """
    store = locate_store(place, actor=actor, heads=heads)
    if store.read_lines(0):
        if not exist_ok:
            raise exists_already(store.place)
        store.load()
    elif store.seen is not None:
        store.seen.forget()
    return store


def locate_store(place: StorePlace, *, actor: str = "", heads: SeenHead | None = None) -> KeyStore:
    """Return the key store at `place`, of which nothing is read yet."""
    if isinstance(place, Path):
        seen = heads and heads.of(str(place.resolve()))
        return FolderStore(place, actor=actor, seen=seen)
    seen = heads and heads.of(f"{place.server}/{place.database}?{place.query.get('options', '')}")
    return _postgres_store()(place, actor=actor, seen=seen)


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already, readable or not."""
    return (
        holds_store(place) if isinstance(place, Path) else bool(locate_store(place).read_lines(0))
    )


def _postgres_store() -> type[PostgresStore]:
    try:
        from cardsign.keys.postgres import PostgresStore
    except ImportError as exc:
        raise StoreFault(
            "usage.not_installed",
            f"SQLAlchemy cannot be loaded: {exc}",
            hint="pip install 'cardsign[postgres]'",
        ) from exc
    return PostgresStore


def copy_store(store: KeyStore, place: StorePlace, *, heads: SeenHead | None = None) -> KeyStore:
    """Make a key store of what `store` holds at `place`, which holds none, and return it.

    Raises:
        StoreFault, FileFault: As for reading the store; ``file.not_found``: a blob that the store
            should hold is gone; ``keystore.corrupt``: it is another.
    """
    copy = create_store(place, actor=store.actor, heads=heads)
    blobs = {name: store.checked_blob(name) for name in sorted(store.load(moved=True).blobs())}
    if not copy.append(1, store.read_lines(0)[: store.state.seq], blobs):
        raise exists_already(copy.place)
    copy.load(moved=True)
    return copy


def move_store(
    store: KeyStore, place: StorePlace, *, now: datetime, heads: SeenHead | None = None
) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    The old one is marked first, so that at no time both sign; it stays, and says where the new one
    is. Killed half-way, this can be called again with the same place. Where nothing can be put
    there, the mark is taken away again.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :func:`copy_store`.
    """
    to = str(place.resolve()) if isinstance(place, Path) else place.to_file()
    if isinstance(place, Path) and isinstance(store, FolderStore):
        here = store.path.resolve()
        if place.resolve() != here and place.resolve().is_relative_to(here):
            # Who then deletes the old store, as they are told to, would delete the new one.
            raise StoreFault(
                "usage.conflict",
                "a key store cannot move into its own folder",
                path=to,
                hint="Name a folder outside it.",
            )
    is_fresh = store.load(moved=True).moved_to is None
    if is_taken(place):
        there = locate_store(place, actor=store.actor, heads=heads)
        lines = store.read_lines(0)
        if store.state.moved_to != to or there.read_lines(0)[: len(lines)] != lines:
            raise exists_already(to)
    else:
        store.commit(lambda state: lifecycle.leave(state, to, now=now), now=now, moved=True)
        try:
            there = copy_store(store, place, heads=heads)
        except CardsignError:
            # Only what was marked just now: a store of an earlier call may be there, and be
            # hidden, such as on a disk that is not mounted.
            if is_fresh and not is_taken(place):
                store.commit(lambda state: lifecycle.arrive(state, now=now), now=now, moved=True)
            raise
    there.commit(lambda state: lifecycle.arrive(state, now=now), now=now, moved=True)
    return there
