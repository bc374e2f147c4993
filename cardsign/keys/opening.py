"""A key store by the place that it is in, a directory or the URL of a database; and its move.

Private keys move as they are sealed. Of keys behind other signers only the public keys are copied.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from cardsign.errors import CardsignError, StoreFault
from cardsign.keys.address import DatabaseUrl
from cardsign.keys.folder import FolderStore
from cardsign.keys.heads import SeenHead
from cardsign.keys.log import Event
from cardsign.keys.model import StoreState
from cardsign.keys.store import KeyStore, exists_already, moved_away

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
    try:
        from cardsign.keys.postgres import PostgresStore

        return PostgresStore(place, actor=actor, seen=seen)
    except ImportError as exc:
        what, hint = (
            f"SQLAlchemy or psycopg cannot be loaded: {exc}",
            "pip install 'cardsign[postgres]'",
        )
        raise StoreFault("usage.not_installed", what, hint=hint) from exc


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already."""
    return bool(locate_store(place).read_lines(0))


def move_store(
    store: KeyStore, place: StorePlace, *, now: datetime, heads: SeenHead | None = None
) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    The old one is marked first, so that at no time both sign; it stays, and says where the new one
    is. Killed half-way, this can be called again with the same place. Where nothing can be put
    there, the mark is taken away again.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :meth:`KeyStore.checked_blob`.
    """
    to = str(place.resolve()) if isinstance(place, Path) else place.to_file()
    if isinstance(store, FolderStore) and str(store.path.resolve()) in map(str, Path(to).parents):
        # Who then deletes the old store, as they are told to, would delete the new one.
        what, hint = "a key store cannot move into its own folder", "Name a folder outside it."
        raise StoreFault("usage.conflict", what, path=to, hint=hint)
    is_fresh = store.load(moved=True).moved_to is None
    there = locate_store(place, actor=store.actor, heads=heads)
    lines, held = store.read_lines(0), there.read_lines(0)
    if held and (store.state.moved_to != to or held[: len(lines)] != lines):
        raise exists_already(to)
    if not held:
        store.commit(lambda state: _leave(state, to, store.place), now=now, moved=True)
        try:
            _copy_into(there, store)
        except CardsignError:
            # Only what was marked just now: a store of an earlier call may be there, and be
            # hidden, such as on a disk that is not mounted.
            if is_fresh and not is_taken(place):
                store.commit(_arrive, now=now, moved=True)
            raise
    there.commit(_arrive, now=now, moved=True)
    return there


def _leave(state: StoreState, to: str, place: str) -> list[Event]:
    if state.moved_to not in (None, to):
        raise moved_away(str(state.moved_to), place)
    return [] if state.moved_to else [{"event": "left", "to": to}]


def _arrive(state: StoreState) -> list[Event]:
    """Take the mark away, at the new place or because the store did not move after all."""
    return [{"event": "left", "to": None}] if state.moved_to else []


def _copy_into(there: KeyStore, store: KeyStore) -> None:
    """Put what a store holds into one that holds nothing.

    Raises:
        StoreFault, FileFault: ``file.not_found``: a blob that the store should hold is gone;
            ``keystore.corrupt``: it is another.
    """
    blobs = {name: store.checked_blob(name) for name in sorted(store.load(moved=True).blobs())}
    if there.seen is not None:
        there.seen.forget()
    if not there.append(1, store.read_lines(0)[: store.state.seq], blobs):
        raise exists_already(there.place)
