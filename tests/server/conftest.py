"""A publication and a server in this process, for the tests of serving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.served import Site, hearing, serve, write_tokens


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    """What servers say to the operator."""
    with hearing() as lines:
        yield lines


@pytest.fixture
def site(tmp_path: Path, key: PrivateKey, log: list[str]) -> Site:
    """A card and an extended card for the staff, who have a token."""
    generation = publish_cards(tmp_path / "pub", key, PUBLIC, "staff")
    token, line = create_token("staff")
    settings = ServerSettings(token_file=write_tokens(tmp_path, line))
    client = serve(tmp_path / "pub", settings, now=NOW.timestamp)
    return Site(client, tmp_path / "pub", generation, token, settings, log)
