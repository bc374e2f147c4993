"""``cardsign conformance``: attacks and honest cards, put to any verifier."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

import click

from cardsign.cli.frame import Command
from cardsign.cli.options import PATH
from cardsign.cli.printer import show

_OURS: Final = "-m cardsign verify - --quiet --jwks {keys} --origin {origin}"


@click.command(
    cls=Command,
    example="cardsign conformance tests --verifier 'node my-verifier.mjs {keys} {origin}'",
)
@click.argument("folder", metavar="DIR", type=PATH)
@click.option(
    "--verifier",
    metavar="CMD",
    help="The program to check, started for each case with the card on stdin. {keys} stands for a "
    "file with the trusted keys (a JWK Set), {origin} for the issuer's origin [default: this "
    "program].",
)
def conformance(folder: Path, verifier: str | None) -> int:
    """Try attacks and honest cards on a verifier, and say what it gets wrong.

    DIR is the folder `tests` of a checkout of cardsign. CMD exits with 0 if it trusts the card, and
    with 1 or 3 if it does not; it is run without a shell. Cases that need statements, a memory or
    a network are left out, and counted.

    Exit status: 0 all cases are right, 1 some are wrong.
    """
    from cardsign.testing.conformance import run_cases

    command = f"{shlex.quote(sys.executable)} {_OURS}" if verifier is None else verifier
    return show(run_cases(folder, command))
