"""The commands with a key store in a PostgreSQL server, from the first key to its rotation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.keys import operations
from cardsign.keys.envelope import UnsafeScryptCost
from tests.cli.conftest import Cardsign
from tests.keys.postgres import Server
from tests.support import PORTABLE

AT_ONCE = "format = 1\n[timeline]\n" + "".join(
    f"{name} = 0\n" for name in ("max_age", "worst_cache", "card_max_age", "skew", "rotate_every")
)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that cost little to seal."""
    defaults = dict(operations.KeyOperations.add_key.__kwdefaults__ or {})
    defaults["cost"] = UnsafeScryptCost(n=2, r=1, p=1)
    monkeypatch.setattr(operations.KeyOperations.add_key, "__kwdefaults__", defaults)


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
    for command in ("jwks", "timeline", "rotate"):
        ended += [database("keys", command)]
    kid = ended[0].text.strip()
    ended += [database("keys", "show", kid), database("keys", "export", kid)]
    ended += [database("keys", "revoke", kid, "--reason", "ceased")]
    ended += [database("keys", "audit", "verify")]

    assert [one.status for one in ended] == [0] * len(ended), "".join(one.err for one in ended)
    assert not Path("keys").exists()
    states = [key["state"] for key in database("keys", "list", "--json").json]
    assert states == ["revoked", "active"]
    shown = "".join(one.err + one.text for one in ended)
    assert f"postgresql+psycopg://127.0.0.1:{postgres.port}/postgres" in shown
    assert postgres.password not in shown


@pytest.mark.needs_postgres
def test_the_option_goes_before_the_environment(
    database: Cardsign, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL as well as a directory."""
    other = postgres.new_url()

    assert database("keys", "generate", "--keystore", other).status == 0
    assert "keystore.missing" in database("keys", "list").err
    assert len(database("keys", "list", "--keystore", other, "--json").json) == 1
    monkeypatch.delenv("CARDSIGN_KEYSTORE")
    assert "keystore.missing" in database("keys", "list").err


@pytest.mark.needs_postgres
@pytest.mark.parametrize(
    "command",
    [
        ("keys", "doctor"),
        ("keys", "backup", "-r", "age1x", "-o", "store.age"),
        ("keyset", "show"),
        ("release", "show"),
    ],
    ids=" ".join,
)
def test_a_command_that_needs_a_directory_says_so(command, database, postgres) -> None:
    """Instead of looking for a directory of that name."""
    assert database("keys", "generate").status == 0

    ended = database(*command)

    assert ended.status == 2
    assert "usage.conflict" in ended.err
    assert "in a directory" in ended.err
    assert postgres.password not in ended.err


def test_a_url_that_is_malformed_is_refused_without_repeating_it(cardsign: Cardsign) -> None:
    """As an option and in the environment."""
    ended = cardsign("keys", "list", "--keystore", "postgresql+psycopg://me:s3@cret@db/keys")

    assert ended.status == 2
    assert "keystore.url" in ended.err
    assert "cret" not in ended.err
