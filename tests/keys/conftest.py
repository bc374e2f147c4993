"""Keys, costs and stores for the tests of the signer's side; every key is made at run time."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.envelope import UnsafeScryptCost
from cardsign.keys.records import KeyRecord
from cardsign.keys.store import DirectoryStore

CHEAP = UnsafeScryptCost(n=2, r=1, p=1)
NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PASSPHRASE = b"correct horse battery staple"


class Store(DirectoryStore):
    """A key store that is quick to add to."""

    def add(self, private: PrivateKey, **changes: object) -> KeyRecord:
        """Add a key, with everything but the key defaulted."""
        given = {"passphrase": PASSPHRASE, "now": NOON, "random": os.urandom, "cost": CHEAP}
        return self.add_key(private, **{**given, **changes})


@pytest.fixture(scope="session")
def es256() -> PrivateKey:
    """A P-256 key."""
    return PrivateKey.generate("ES256")


@pytest.fixture(scope="session")
def another_es256() -> PrivateKey:
    """Another P-256 key."""
    return PrivateKey.generate("ES256")


@pytest.fixture(scope="session")
def rs256() -> PrivateKey:
    """An RSA key."""
    return PrivateKey.generate("RS256")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty key store."""
    return Store.create(tmp_path / "keys")
