"""A key store by the place that it is in: a directory, or the URL of a database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cardsign.errors import StoreFault
from cardsign.keys.stores.address import DatabaseUrl
from cardsign.keys.stores.directory import DirectoryStore, holds_store

if TYPE_CHECKING:
    from cardsign.keys.stores.postgres import PostgresStore


Place: TypeAlias = Path | DatabaseUrl
AnyStore: TypeAlias = "DirectoryStore | PostgresStore"


def open_store(place: Place, *, actor: str = "") -> AnyStore:
    """Open the key store at `place`.

    Raises:
        StoreFault: As :meth:`DirectoryStore.open` or :meth:`PostgresStore.open`.
        FileFault: As :meth:`DirectoryStore.open`.
    """
    if isinstance(place, Path):
        return DirectoryStore.open(place, actor=actor)
    return postgres_store().open(place, actor=actor)


def create_store(place: Place, *, exist_ok: bool = False, actor: str = "") -> AnyStore:
    """Make an empty key store at `place`.

    Raises:
        StoreFault: As :meth:`DirectoryStore.create` or :meth:`PostgresStore.create`.
        FileFault: As :meth:`DirectoryStore.create`.
    """
    if isinstance(place, Path):
        return DirectoryStore.create(place, exist_ok=exist_ok, actor=actor)
    return postgres_store().create(place, exist_ok=exist_ok, actor=actor)


def is_taken(place: Place) -> bool:
    """Say whether a key store is at `place` already, readable or not.

    Raises:
        StoreFault: As :meth:`PostgresStore.exists`.
    """
    return holds_store(place) if isinstance(place, Path) else postgres_store().exists(place)


def postgres_store() -> type[PostgresStore]:
    """Load what keeps key stores in PostgreSQL.

    Raises:
        StoreFault: ``keystore.not_installed``.
    """
    try:
        from cardsign.keys.stores.postgres import PostgresStore
    except ImportError as exc:
        raise StoreFault("keystore.not_installed", f"SQLAlchemy cannot be loaded: {exc}") from exc
    return PostgresStore
