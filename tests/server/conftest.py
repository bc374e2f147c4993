"""A publication and a server in this process, for the tests of serving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.net.authorities import Authority
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
def make_site(tmp_path: Path, key: PrivateKey, log: list[str]) -> Callable[..., Site]:
    """Publish a card with an extended card for the staff, who have a token, and serve them."""

    def make(card: dict[str, Any] = PUBLIC) -> Site:
        generation = publish_cards(tmp_path / "pub", key, card, "staff")
        token, line = create_token("staff")
        settings = ServerSettings(token_file=write_tokens(tmp_path, line))
        client = serve(tmp_path / "pub", settings, now=NOW.timestamp)
        return Site(client, tmp_path / "pub", generation, token, settings, log)

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """The usual site."""
    return make_site()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority of this test."""
    (tmp_path / "tls").mkdir()
    return Authority(tmp_path / "tls")
