"""The command ``cardsign``: its subcommands by name, and how the process begins and ends.

Each command's module is imported when the command is used, so that ``cardsign verify`` reaches
its verdict without the web server's libraries.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from cardsign import __version__
from cardsign.cli.talk import run

#: Where each command is, and what it does in one line, so that help imports none of them.
_COMMANDS: Final = {
    "init": ("cardsign.cli.init:init", "Set up this folder: settings, keys, first statements."),
    "keys": (
        "cardsign.cli.keys:keys",
        "Make, import and show keys, and take them through their lives.",
    ),
    "keyset": (
        "cardsign.cli.keyset:keyset",
        "The statement of which keys may sign for the issuer.",
    ),
    "release": ("cardsign.cli.release:release", "Say which cards are current, daily."),
    "canonicalize": (
        "cardsign.cli.sign:canonicalize",
        "Print exactly the bytes that a signature covers.",
    ),
    "sign": ("cardsign.cli.sign:sign", "Sign a card with every active key."),
    "verify": ("cardsign.cli.verify:verify", "Verify cards and URLs, and say why or why not."),
    "fetch": ("cardsign.cli.fetch:fetch", "Fetch a card, verify it, and write what was verified."),
    "call": ("cardsign.cli.call:call", "Send a text to an agent whose card is trusted."),
    "bundle": (
        "cardsign.cli.bundle:bundle",
        "Put a card and its issuer's statements into one file.",
    ),
    "trust": (
        "cardsign.cli.trust:trust_commands",
        "Say whose cards to believe, and by which keys.",
    ),
    "peers": ("cardsign.cli.peers:peers", "Verify all peers, day by day, and see how they stand."),
    "inspect": ("cardsign.cli.inspect:inspect", "Show what a card holds."),
    "explain": (
        "cardsign.cli.explain:explain",
        "Explain what each signature covers, and why one fails.",
    ),
    "lint": ("cardsign.cli.lint:lint", "Find what parts the readers of a card, and mend it."),
    "publish": ("cardsign.cli.publish:publish", "Publish a signed card with its key set."),
    "serve": ("cardsign.cli.serve:serve", "Serve a publication, and follow it as it changes."),
    "tokens": ("cardsign.cli.serve:tokens", "Bearer tokens for the extended card."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cardsign", message="%(prog)s %(version)s")
def command_line() -> None:
    """Sign, publish and verify A2A Agent Cards.

    A first signature takes three commands: keys generate, sign, verify.

    Exit status: 0 trusted or clean, 1 not trusted or findings, 2 wrong usage or a fault of
    this machine, 3 no verdict could be reached.
    """


def main() -> None:
    """Entry point of the ``cardsign`` command."""
    sys.exit(run(lambda: command_line.main(standalone_mode=False, prog_name="cardsign")))
