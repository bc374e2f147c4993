"""A key store by the place that it is in: a directory, or the URL of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cardsign.errors import StoreFault
from cardsign.keys.audit import SeenHeads
from cardsign.keys.stores.address import DatabaseUrl
from cardsign.keys.stores.base import EMPTY, Contents, KeyStore
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
