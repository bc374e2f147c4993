"""Keys and stores for the tests of the signer's side; every key is made at run time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.keys.ledger import KeyRecord
from cardsign.keys.store import FolderStore, KeyStore, open_store, read_place
from tests.keys import openbao as bao
from tests.keys import postgres as pg
from tests.keys import softhsm as hsm
from tests.keys.states import FIRST
from tests.support import native, rsa_key


class Quick:
    """What a test asks of a store, in little time and few words."""

    add_key: Any
    DEFAULTS: ClassVar[dict[str, Any]] = {
        "passphrase": b"correct horse battery staple",
        "now": datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC),
    }

    def add(self, private: PrivateKey, **changes: Any) -> KeyRecord:
        """Add a key; what is not given is as in `DEFAULTS`."""
        record: KeyRecord = self.add_key(private, **{**self.DEFAULTS, **changes})
        return record


class QuickStore(Quick, FolderStore):
    """A key store in a directory."""

    def again(self) -> KeyStore:
        """Open it as the next process would."""
        return open_store(self.path)


def quick_postgres_store(url: str) -> Any:
    """A key store in PostgreSQL, made at `url`."""
    from cardsign.keys.postgres import PostgresStore

    class QuickPostgresStore(Quick, PostgresStore):
        def again(self) -> KeyStore:
            return open_store(read_place(url))

    return QuickPostgresStore(url)


#: For a test that holds wherever the store lies.
in_each_store = pytest.mark.parametrize(
    "store", ["files", pytest.param("postgres", marks=pytest.mark.needs_postgres)], indirect=True
)


@pytest.fixture(autouse=True)
def always_cheap(cheap: None) -> None:
    """What an envelope withstands is tested by its bounds, and not by waiting."""


@pytest.fixture(scope="session")
def rs256() -> PrivateKey:
    """An RSA key."""
    return rsa_key()


@pytest.fixture(scope="session")
def natives(rs256: PrivateKey) -> dict[str, Any]:
    """Keys that a service holds."""
    return {"ES256": native(FIRST), "RS256": native(rs256)}


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty key store, in a directory unless the test is marked `in_each_store`."""
    if getattr(request, "param", "files") == "postgres":
        server: pg.Server = request.getfixturevalue("postgres")
        return quick_postgres_store(server.new_url())
    return QuickStore(tmp_path / "keys")


@pytest.fixture(scope="session")
def softhsm(tmp_path_factory: pytest.TempPathFactory) -> hsm.SoftHsm:
    """SoftHSM with keys on a token; only for tests marked `needs_softhsm`."""
    found = hsm.library()
    assert found is not None
    return hsm.make_tokens(tmp_path_factory.mktemp("softhsm"), found)


@pytest.fixture(scope="session")
def openbao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bao.OpenBao]:
    """An OpenBao server behind TLS; only for tests marked `needs_openbao`."""
    with bao.running(tmp_path_factory.mktemp("openbao"), tls=True) as server:
        yield server
