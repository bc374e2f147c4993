"""A publication and a server in this process, for the tests of serving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from publications import NOW, PUBLIC, publish_cards
from served import Site
from werkzeug.test import Client

from cardsign.jose.keys import PrivateKey
from cardsign.server.live import LiveApplication
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import TokenTable, create_token


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate("ES256")


@pytest.fixture
def make_site(tmp_path: Path, key: PrivateKey) -> Callable[..., Site]:
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
        lines = "\n".join(line for _, line in made.values())
        table = None if tokens is None else TokenTable.from_bytes(lines.encode())
        seconds, log = [0.0], list[str]()
        settings = ServerSettings(table)
        live = LiveApplication(
            directory,
            settings,
            clock=lambda: seconds[0],
            now=lambda: NOW.timestamp() + seconds[0],
            log=log.append,
        )
        live.app.testing = True
        secrets = {name: token for name, (token, _) in made.items()}
        return Site(Client(live), directory, generation, secrets, seconds, log)

    return make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """The usual site: one extended card, one token."""
    return make_site()
