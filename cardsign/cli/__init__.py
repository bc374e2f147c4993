"""The command line: parse, call one library function, print, exit.

Each command's module is imported when the command is used, so that ``cardsign verify`` reaches
its verdict without the web server's libraries.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from cardsign import __version__
from cardsign.cli.failures import run

_COMMANDS: Final = {
    "init": "cardsign.cli.init:init",
    "keys": "cardsign.cli.keys:keys",
    "keyset": "cardsign.cli.keyset:keyset",
    "release": "cardsign.cli.release:release",
    "canonicalize": "cardsign.cli.sign:canonicalize",
    "sign": "cardsign.cli.sign:sign",
    "verify": "cardsign.cli.verify:verify",
    "bundle": "cardsign.cli.bundle:bundle",
    "trust": "cardsign.cli.trust:trust",
    "inspect": "cardsign.cli.inspect:inspect",
    "explain": "cardsign.cli.explain:explain",
    "lint": "cardsign.cli.lint:lint",
    "publish": "cardsign.cli.publish:publish",
    "serve": "cardsign.cli.serve:serve",
    "tokens": "cardsign.cli.serve:tokens",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cardsign", message="%(prog)s %(version)s")
def cli() -> None:
    """Sign, publish and verify A2A Agent Cards.

    A first signature takes three commands: keys generate, sign, verify.

    Exit status: 0 trusted or clean, 1 not trusted or findings, 2 wrong usage or a fault of
    this machine, 3 no verdict could be reached.
    """


def main() -> None:
    """Entry point of the ``cardsign`` command."""
    sys.exit(run(lambda: cli.main(standalone_mode=False, prog_name="cardsign")))
