"""The commands with a key store in a PostgreSQL server: keys, statements, moves, doctor."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign
from tests.keys.postgres import Server
from tests.support import PORTABLE

AT_ONCE = "format = 1\n[timeline]\n" + "".join(
    f"{name} = 0\n" for name in ("max_age", "worst_cache", "card_max_age", "skew", "rotate_every")
)
ISSUER = "https://tides.example"


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def database(postgres: Server, cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> Cardsign:
    """The command, with `CARDSIGN_KEYSTORE` in a schema that nobody has used, and a card."""
    monkeypatch.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    Path("cardsign.toml").write_text(AT_ONCE)
    Path("card.json").write_text(json.dumps(PORTABLE))
    return cardsign


@pytest.mark.needs_postgres
def test_keys_live_in_a_database(database: Cardsign, postgres: Server) -> None:
    """Made, signing, published, rotated, revoked, audited; nothing lies in the folder."""
    ended = [database("keys", "generate")]
    ended += [database("keys", "generate")]
    ended += [database("sign", "card.json", "-o", "signed.json")]
    ended += [database("publish", "signed.json", "-o", "public", "--max-age", "0")]
    ended += [database("keys", "jwks"), database("keys", "list", "--ahead")]
    rotated = database("keys", "rotate")
    assert (rotated.status, "sign these published cards again" in rotated.err) == (1, True)
    kid = ended[0].text.strip()
    ended += [database("keys", "export", kid)]
    revoked = database("keys", "revoke", "--yes", kid, "--reason", "ceased")
    assert (revoked.status, "sign these published cards again" in revoked.err) == (1, True)
    ended += [database("keys", "log")]

    assert [one.status for one in ended] == [0] * len(ended), "".join(one.err for one in ended)
    assert not Path("keys").exists()
    states = [key["state"] for key in database("keys", "list", "--json").json]
    assert states == ["revoked", "active", "prepublished"]
    shown = "".join(one.err + one.text for one in (*ended, rotated, revoked))
    assert f"postgresql://cardsign@127.0.0.1:{postgres.port}/postgres" in shown
    assert postgres.password not in shown


@pytest.mark.needs_postgres
@pytest.mark.parametrize("hinder", ["no schema", "no right"])
def test_a_database_that_takes_nothing_leaves_no_recovery_key(
    database: Cardsign, postgres: Server, hinder: str
) -> None:
    """So that the same command works once the schema is there."""
    Path("cardsign.toml").unlink()
    url = postgres.url("nobody_made_it") if hinder == "no schema" else postgres.new_url()
    if hinder == "no right":
        url += "%20-cdefault_transaction_read_only%3Don"
    words = ("init", "--issuer", ISSUER, "--recovery-out", "recovery.key", "--keystore", url)
    ended = database(*words, CARDSIGN_RECOVERY_PASSPHRASE="another horse entirely")
    assert (ended.status, Path("recovery.key").exists()) == (2, False), ended.err
    assert ("CREATE SCHEMA nobody_made_it" in ended.err) == (hinder == "no schema"), ended.err
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
        assert "by CARDSIGN_KEYSTORE or --keystore" in ended.err
        assert "s3cret" not in ended.err
        with pytest.raises(TimeoutError):
            stranger.accept()
