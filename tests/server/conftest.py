"""A publication and a server in this process, for the tests of serving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.programs import Authority
from tests.server.served import Served, Site, hearing, serve, write_tokens


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture(autouse=True)
def log() -> Iterator[list[str]]:
    """What servers say to the operator."""
    with hearing() as Served.lines:
        yield Served.lines


@pytest.fixture
def make_site(tmp_path: Path, key: PrivateKey, log: list[str]) -> Callable[..., Site]:
    """Publish a card with extended cards for some audiences, and serve them.

    `tokens` names the audiences of the tokens; None configures no token table at all.
    """

    def make(
        card: dict[str, Any] = PUBLIC,
        audiences: tuple[str, ...] = ("staff",),
        tokens: tuple[str, ...] | None = ("staff",),
    ) -> Site:
        directory = tmp_path / "pub"
        generation = publish_cards(directory, key, card, *audiences)
        made = {name: create_token(name) for name in tokens or ()}
        settings = ServerSettings()
        if tokens is not None:
            path = write_tokens(tmp_path, *(line for _, line in made.values()))
            settings = ServerSettings(token_file=path)
        seconds = [0.0]
        client = serve(directory, settings, now=lambda: NOW.timestamp() + seconds[0])
        secrets = {name: token for name, (token, _) in made.items()}
        return Site(client, directory, generation, secrets, seconds, settings, log)

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """The usual site: one extended card, one token."""
    return make_site()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority, with the certificate of the server."""
    (tmp_path / "tls").mkdir()
    made = Authority(tmp_path / "tls")
    made.sign("tides", x509.IPAddress(ip_address("127.0.0.1")))
    return made
