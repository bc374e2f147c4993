"""``--dry-run`` changes nothing; what is final asks first, or takes ``--yes``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, run
from tests.cli.test_help import LEAVES
from tests.support import PORTABLE

ISSUER = "https://tides.example"


@pytest.fixture
def issuer(cardsign: Cardsign, cheap: None) -> Cardsign:
    """A folder whose card is signed, listed and published once."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    recovery = {"CARDSIGN_RECOVERY_PASSPHRASE": "a passphrase of its own"}
    run(cardsign("init", "--issuer", ISSUER, "--recovery-out", "recovery.key", **recovery))
    run(cardsign("sign", "card.json", "-o", "signed.json"))
    run(cardsign("release", "renew", "--card", "signed.json"))
    run(cardsign("publish", "signed.json"))
    run(cardsign("keys", "generate"))
    run(cardsign("keyset", "draft", "--days", "80", "-o", "next.json"))
    keyset = next(Path("public/000001/keyset").iterdir())
    for name, origin in (("former", "https://former.example"), ("us", ISSUER)):
        run(cardsign("trust", "add", name, "--yes", "--origin", origin, "--keyset", keyset))
    run(cardsign("trust", "remove", "former"))
    return cardsign


def files() -> dict[str, tuple[int, bytes]]:
    """Every file below the working directory, the home folder included."""
    return {
        str(path): (path.stat().st_mode, path.read_bytes())
        for path in Path().rglob("*")
        if path.is_file() and path.name != "lock"
    }


def kid(cardsign: Cardsign, role: str) -> str:
    """The key of a role that signs."""
    for key in cardsign("keys", "list", "--json").json:
        if key["roles"] == [role] and key["state"] == "active":
            return str(key["kid"])
    raise AssertionError(role)


#: What each command would do for real; ``KID`` is the active card key.
COMMANDS = {
    "keys revoke": ("keys", "revoke", "--reason", "ceased", "KID"),
    "keys rotate": ("keys", "rotate"),
    "release renew": ("release", "renew", "--force"),
    "publish": ("publish", "signed.json", "--max-age", "7"),
    "sign": ("sign", "card.json", "-o", "signed-anew.json"),
    "trust add": (
        "trust",
        "add",
        "them",
        "--origin",
        "https://them.example",
        "--jwks-url",
        "https://a.example/jwks.json",
    ),
    "trust remove": ("trust", "remove", "us"),
    "trust forget": ("trust", "forget", "former", "--yes"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_dry_run_changes_nothing_and_the_real_run_does(
    issuer: Cardsign, words: tuple[str, ...]
) -> None:
    """It takes the same way, refusals included."""
    run(issuer("keys", "jwks", "-o", "jwks.json"))
    typed = [kid(issuer, "card") if word == "KID" else word for word in words]
    before = files()

    dry = run(issuer(*typed, "--dry-run"))

    assert files() == before
    assert "cardsign: dry run: nothing was changed" in dry.err
    assert "would" in dry.err or words[0] == "sign"
    last = ["--yes"] if words[1] == "revoke" else []
    run(issuer(*typed, *last))
    assert files() != before


FINAL = {
    "keys revoke": ("keys", "revoke", "KID", "--reason", "ceased"),
    "keyset recover": ("keyset", "recover", "--recovery-file", "recovery.key"),
}


#: Commands that print, or write only what their user names.
READ_ONLY = {
    "tokens list",
    "config check",
    "config schema",
    *("canonicalize", "conformance", "verify", "fetch", "call", "inspect", "serve"),
    *("contract check", "diff"),
    *("completion", "keys export", "keys list", "keys jwks"),
    *("keys log", "keys log", "keys doctor"),
    *("keyset show", "release show", "trust list", "trust show"),
    *("peers status", "peers verify"),  # by --update alone, and it asks no person then
    *("keyset draft", "help", "build", "mcp", "resign"),
    *("keys generate", "keys import", "keys passwd", "keys move"),
    *("keyset sign", "keyset recover", "tokens create", "tokens revoke"),
    "init",  # of a new folder, which it refuses to change
}


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_that_changes_something_has_a_dry_run(path: str) -> None:
    """The others are listed above."""
    options = {name for one in LEAVES[path].command.params for name in one.opts}
    assert ("--dry-run" in options) is (path.removeprefix("cardsign ") not in READ_ONLY)


def test_every_final_command_takes_yes() -> None:
    """The three that cannot be undone, and those that begin trust."""
    taking = {
        path.removeprefix("cardsign ")
        for path, one in LEAVES.items()
        if any("--yes" in option.opts for option in one.command.params)
    }
    assert taking >= set(FINAL)
