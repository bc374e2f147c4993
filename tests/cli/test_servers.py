"""Stories with a real server beside the command: an agent of a2a-sdk, a PostgreSQL database."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign, World
from tests.cli.test_transcripts import FOLDER, play
from tests.keys.postgres import Server
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key
from tests.support import PORTABLE, dump

pytestmark = pytest.mark.usefixtures("cheap")

TOKEN = "tok-2f0c77d1a9"
SERVERS = ("a2a.server", "sse_starlette", "uvicorn")  # loggers of the agent, in this process
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "by JSON-RPC, events": ("call", {}),
    "by HTTP+JSON, one answer": ("call", {"protocolBinding": "HTTP+JSON", "url": "/rest"}),
    "by JSON-RPC of 0.3": ("call", {"protocolVersion": "0.3"}),
    "tasks": ("tasks", {}),
    "a credential": ("credential", {}),
}


@pytest.mark.needs_a2a
@pytest.mark.parametrize(("story", "interface"), AGENTS.values(), ids=AGENTS)
def test_O19_O33_an_agent_is_called(
    story: str,
    interface: dict[str, Any],
    cardsign: Cardsign,
    world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As `transcripts/agent` tells it; an edited card is not called, and no log has the token."""
    from tests.integrations.sdk_agent import sdk_agent

    def make_card(port: int) -> dict[str, Any]:
        member = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", **interface}
        member["url"] = f"http://127.0.0.1:{port}{interface.get('url', '/a2a')}"
        streaming = {"streaming": member["protocolBinding"] == "JSONRPC"}
        return {**PUBLIC, "supportedInterfaces": [member], "capabilities": streaming}

    token = TOKEN if story == "credential" else ""
    world.variables.setenv("TIDES_TOKEN", TOKEN)
    with sdk_agent(make_card, token=token) as agent, caplog.at_level(logging.DEBUG):
        site = Path("site/.well-known")
        site.mkdir(parents=True)
        (site / "agent-card.json").write_bytes(sign(make_card(agent.port), key("card")))
        Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
        Path("origin").write_text(f"http://127.0.0.1:{agent.port}\n")
        difference = play((FOLDER / f"agent/{story}.txt").read_text(), cardsign, world)
        assert not difference, difference
        if token:
            assert agent.seen == [f"Bearer {TOKEN}", ""]  # and nothing for the edited card
    logged = [record for record in caplog.records if not record.name.startswith(SERVERS)]
    assert logged
    assert not any(TOKEN in record.getMessage() for record in logged)


@pytest.mark.needs_postgres
def test_keys_live_in_a_database(postgres: Server, cardsign: Cardsign, world: World) -> None:
    """As `transcripts/postgres/keys.txt` tells it."""
    world.variables.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    Path("tides.json").write_bytes(dump(PORTABLE))
    difference = play((FOLDER / "postgres/keys.txt").read_text(), cardsign, world)
    assert not difference, difference


@pytest.mark.needs_postgres
@pytest.mark.parametrize("hinder", ["no schema", "no right"])
def test_a_database_that_takes_nothing_leaves_no_recovery_key(
    cardsign: Cardsign, postgres: Server, hinder: str
) -> None:
    """So that the same command works once the schema is there."""
    url = postgres.url("nobody_made_it") if hinder == "no schema" else postgres.new_url()
    if hinder == "no right":
        url += "%20-cdefault_transaction_read_only%3Don"
    words = "init --issuer https://tides.example --recovery-out recovery.key --keystore"
    ended = cardsign(*words.split(), url, CARDSIGN_RECOVERY_PASSPHRASE="another horse entirely")
    assert (ended.status, Path("recovery.key").exists()) == (2, False), ended.err
    assert ("no schema has been selected" in ended.err) == (hinder == "no schema"), ended.err
    assert "keys generate" not in ended.err


@pytest.mark.parametrize("words", ["keys list", "keys generate", "config check"])
def test_a_committed_file_sends_no_password_to_a_stranger(cardsign: Cardsign, words: str) -> None:
    """It names no database; the user does, in the environment or on the command line."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.05)
        url = f"postgresql://me:s3cret@127.0.0.1:{stranger.getsockname()[1]}/keys"
        Path("cardsign.toml").write_text(f'format = 1\nkeystore = "{url}"\n')
        ended = cardsign(*words.split(), PGPASSWORD="of the user")
        assert (ended.status, "config.malformed" in ended.err) == (2, True)
        assert "named by CARDSIGN_KEYSTORE" in ended.err
        assert "s3cret" not in ended.err
        with pytest.raises(TimeoutError):
            stranger.accept()
