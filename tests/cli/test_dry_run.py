"""``--dry-run`` changes nothing; what is final asks first, or takes ``--yes``."""

from __future__ import annotations

import pytest

from tests.cli.test_help import LEAVES

FINAL = {"keys revoke", "keyset recover"}


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
    assert taking >= FINAL
