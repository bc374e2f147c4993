"""The commands with a key store in a PostgreSQL server: keys, statements, moves, doctor."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, World
from tests.cli.test_transcripts import FOLDER, play
from tests.keys.postgres import Server
from tests.support import PORTABLE

ISSUER = "https://tides.example"


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.mark.needs_postgres
def test_keys_live_in_a_database(postgres: Server, cardsign: Cardsign, world: World) -> None:
    """As `transcripts/postgres/keys.txt` tells it."""
    world.variables.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    Path("tides.json").write_text(json.dumps(PORTABLE))
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
    words = ("init", "--issuer", ISSUER, "--recovery-out", "recovery.key", "--keystore", url)
    ended = cardsign(*words, CARDSIGN_RECOVERY_PASSPHRASE="another horse entirely")
    assert (ended.status, Path("recovery.key").exists()) == (2, False), ended.err
    assert ("no schema has been selected" in ended.err) == (hinder == "no schema"), ended.err
    assert "keys generate" not in ended.err


@pytest.mark.parametrize("words", [("keys", "list"), ("keys", "generate"), ("config", "check")])
def test_a_committed_file_sends_no_password_to_a_stranger(
    cardsign: Cardsign, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names no database; the user does, in the environment or on the command line."""
    monkeypatch.setenv("PGPASSWORD", "of the user")
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.05)
        url = f"postgresql://me:s3cret@127.0.0.1:{stranger.getsockname()[1]}/keys"
        Path("cardsign.toml").write_text(f'format = 1\nkeystore = "{url}"\n')
        ended = cardsign(*words)
        assert (ended.status, "config.malformed" in ended.err) == (2, True)
        assert "named by CARDSIGN_KEYSTORE" in ended.err
        assert "s3cret" not in ended.err
        with pytest.raises(TimeoutError):
            stranger.accept()
