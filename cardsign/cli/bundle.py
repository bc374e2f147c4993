"""``cardsign bundle``: a card and its issuer's statements in one file."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.cli.arguments import STDIO, option, read_input, refuse_two_documents, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, say
from cardsign.cli.verifier import statements_option, supplied_statements
from cardsign.errors import UsageFault
from cardsign.trust.bundle import write_bundle


@command(example="cardsign bundle signed.json --statements public/ -o card.bundle.json")
@click.argument("card")
@statements_option
@option("-o --output OUT", "Where the bundle goes [default: stdout].", default=STDIO)
def bundle(card: str, statements: tuple[Path, ...], output: str) -> None:
    """Put CARD ('-' for stdin) and its issuer's statements into one file.

    It is for a verifier without a network: cardsign verify BUNDLE --issuer NAME. A bundle brings
    no trust; the verifier's own policy decides. Name the newest release, and all keyset statements
    from the one that the verifier has pinned.
    """
    refuse_two_documents(output)
    if not statements:
        raise UsageFault("usage.conflict", "a bundle needs --statements: keyset and release")
    supplied = supplied_statements(statements)
    releases = set(supplied.untrusted_releases)
    if len(releases) > 1:
        raise UsageFault(
            "usage.conflict",
            f"a bundle holds one release, and --statements name {len(releases)}",
            hint="Name the newest one.",
        )
    release = next(iter(releases), None)
    write_output(output, write_bundle(read_input(card), supplied.untrusted_keysets, release))
    keysets = len(supplied.untrusted_keysets)
    if printed({"output": output, "keysets": keysets, "release": release is not None}):
        return
    say("wrote the bundle; it brings no trust, the verifier's own policy decides")
