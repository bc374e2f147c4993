"""A key store whose next lines stay in memory: what an issuer would lack after them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cardsign.keys.store import KeyStore, StoreUser


class PreviewStore(KeyStore):
    """What a dry run takes for the key store; the store itself is only read."""

    def __init__(self, store: KeyStore) -> None:
        super().__init__(store.place, StoreUser(store.user.actor))
        self._store, self._lines = store, store.read_lines()
        self._blobs: dict[str, bytes] = {}
        self.load()

    def read_lines(self, start: int = 1) -> list[bytes]:
        return self._lines[start - 1 :]

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        self._lines += lines
        self._blobs |= blobs
        return True

    def read_blob(self, name: str) -> bytes:
        return self._blobs[name] if name in self._blobs else self._store.read_blob(name)

    def drop_blobs(self, names: Collection[str]) -> None:
        pass

    def list_blobs(self) -> frozenset[str]:
        return self._store.list_blobs().union(self._blobs)

    def place_of(self, name: str) -> str:
        return self._store.place_of(name)
