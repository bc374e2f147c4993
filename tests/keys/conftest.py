"""Keys and stores for the tests of the signer's side; every key is made at run time."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.envelope import UnsafeScryptCost
from cardsign.keys.records import KeyRecord
from cardsign.keys.store import DirectoryStore


class QuickStore(DirectoryStore):
    """A key store to which a test adds keys in little time and few words."""

    DEFAULTS: ClassVar[dict[str, Any]] = {
        "passphrase": b"correct horse battery staple",
        "now": datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC),
        "random": os.urandom,
        "cost": UnsafeScryptCost(n=2, r=1, p=1),
    }

    def add(self, private: PrivateKey, **changes: Any) -> KeyRecord:
        """Add a key; what is not given is as in `DEFAULTS`."""
        return self.add_key(private, **{**self.DEFAULTS, **changes})


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
def store(tmp_path: Path) -> QuickStore:
    """An empty key store."""
    return QuickStore.create(tmp_path / "keys")
