"""A key store by the place that it is in, a directory or the URL of a database; and its move.

Private keys move as they are sealed. Of keys behind other signers only the public keys are copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.errors import StoreFault, UsageFault, install_hint
from cardsign.keys.folder import FolderStore
from cardsign.keys.log import Event, write_line
from cardsign.keys.store import KeyStore, StoreUser, moved_away

#: A character that means something in a URL has to be percent-encoded: what one reader takes for
#: the end of a password, another would print as the name of a host.
_URL: Final = re.compile(
    r"postgresql://(?:(?P<user>[^:@/?#]*)(?::[^:@/?#]*)?@)?"
    r"(?P<rest>(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/[^:@/?#]+(?:\?[^@?#]*)?)"
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a PostgreSQL database is, ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE?...``.

    Attributes:
        text: As libpq takes it.
        shown: The same without its password, for people.
    """

    text: str = field(repr=False)
    shown: str

    def __str__(self) -> str:
        return self.shown


StorePlace: TypeAlias = Path | DatabaseUrl


def read_place(text: str) -> StorePlace:
    """Return a key store's place: a folder, or the URL of a database.

    Raises:
        UsageFault: It is empty.
        StoreFault: ``keystore.url``; the text is not repeated, since a password may stand in it.
    """
    if not text:
        raise UsageFault("usage.invalid", "no key store has an empty name")
    if "://" not in text:
        return Path(text)
    match = _URL.fullmatch(text)
    if match and "password" not in match["rest"]:
        user = "" if match["user"] is None else f"{match['user']}@"
        return DatabaseUrl(text, f"postgresql://{user}{match['rest']}")
    form = "postgresql://USER@HOST:PORT/DATABASE"
    raise StoreFault("keystore.url", f"the URL of the key store is not of the form {form}")


def open_store(
    place: StorePlace, user: StoreUser | None = None, *, moved: bool = False
) -> KeyStore:
    """Open the key store at `place`; ``keystore.missing``, or as :meth:`KeyStore.load`."""
    store = locate_store(place, user)
    if not store.load(moved=moved).seq:
        raise missing_store(store.place)
    return store


def missing_store(place: str) -> StoreFault:
    """Return what is raised where no key store is."""
    return StoreFault("keystore.missing", "there is no key store here", path=place)


def create_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, or an empty one, which begins with its first commit."""
    store = locate_store(place, user)
    if store.read_lines():
        store.load()
    else:
        store.forget_seen()
    return store


def locate_store(place: StorePlace, user: StoreUser | None = None) -> KeyStore:
    """Return the key store at `place`, of which nothing is read yet."""
    if isinstance(place, Path):
        return FolderStore(place, user)
    try:
        from cardsign.keys.postgres import PostgresStore
    except ImportError as exc:
        message = f"psycopg cannot be loaded: {exc}"
        raise StoreFault("usage.not_installed", message, hint=install_hint("postgres")) from exc
    return PostgresStore(place.text, place.shown, user)


def is_taken(place: StorePlace) -> bool:
    """Say whether a key store is at `place` already."""
    return bool(locate_store(place).read_lines())


def move_store(store: KeyStore, place: StorePlace, *, now: datetime) -> KeyStore:
    """Move a store to `place`, and return what is there: only that signs from now on.

    A line that says so is put into both; the old one stays, and says where the new one is. What is
    at the new place signs only after a line more, so that at no time both sign. Killed half-way,
    this can be called again with the same place.

    Raises:
        StoreFault: ``keystore.exists``; ``keystore.moved``: to another place;
            ``usage.conflict``: into its own folder; as :meth:`KeyStore.checked_blob`.
    """
    to = str(place.resolve() if isinstance(place, Path) else place)
    if isinstance(store, FolderStore) and store.path.resolve() in Path(to).parents:
        # Who then deletes the old store, as they are told to, would delete the new one.
        message, hint = "a key store cannot move into its own folder", "Name a folder outside it."
        raise StoreFault("usage.conflict", message, path=to, hint=hint)
    state, there = store.load(moved=True), locate_store(place, store.user)
    if state.moved_to not in (None, to):
        raise moved_away(str(state.moved_to), store.place)
    lines = store.read_lines()[: state.seq]
    line = write_line(state, [{"event": "left", "to": to}], now, store.user.actor)
    copied = there.read_lines()
    if not copied:
        blobs = {name: store.checked_blob(name) for name in sorted(state.blobs())}
        copied = lines if state.moved_to else [*lines, line]
        there.forget_seen()
        there.append(1, copied, blobs)
    is_same = copied[: len(lines)] == lines
    if state.moved_to is None:
        is_same = copied[:-1] == lines and store.append(state.seq + 1, copied[-1:], {})
    if not is_same:
        message, hint = "there is a key store here", ""
        if copied == lines[: len(copied)]:
            message = "this key store was here, and left an old copy of itself"
            hint = "Name another folder, or another schema of the database. Or make a backup of "
            hint += "this key store, and delete the old copy: its folder, or DROP TABLE "
            hint += "cardsign_line, cardsign_blob."
        raise StoreFault("keystore.exists", message, path=to, hint=hint)
    there.commit(lambda there: [_ARRIVED] if there.moved_to else [], now=now, moved=True)
    return there


_ARRIVED: Final[Event] = {"event": "left", "to": None}
