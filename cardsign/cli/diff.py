"""``cardsign diff``: what changed between two cards, which nobody verifies here."""

from __future__ import annotations

from functools import partial

import click

from cardsign.cli.frame import Command
from cardsign.cli.options import network_option, read_input
from cardsign.cli.printer import show
from cardsign.errors import UsageFault
from cardsign.inputs import load_card


@click.command(
    cls=Command,
    example="cardsign diff HEAD~1:agent-card.json agent-card.json\n"
    "cardsign diff card.json https://agent.example/.well-known/agent-card.json --live",
)
@click.argument("old")
@click.argument("new", required=False)
@click.option("--live", is_flag=True, help="Say whether NEW is what was committed as OLD.")
@click.option(
    "--tools",
    metavar="FILE",
    help="Compare the skills' schemas with a saved answer to tools/list, in place of NEW.",
)
@network_option
def diff(old: str, new: str | None, live: bool, tools: str | None, insecure: bool) -> int:
    """Say what changed from card OLD to NEW, and whether NEW's version says so.

    Each is a file, a URL, or REVISION:PATH in the git repository of this folder. Nothing is
    verified, and signatures are not compared; with --live they are, and the bytes, unless only
    NEW is signed.

    Exit status 0: the version is enough; with --live or --tools: nothing differs. 1: a higher
    version is needed; something differs. 3: the version is enough unless a change that cannot be
    judged breaks a caller.
    """
    from cardsign.diff.cards import MAX_MANIFEST_BYTES, diff_cards, diff_live, diff_tools

    if (new is None) == (tools is None):
        raise UsageFault("usage.conflict", "name either NEW or --tools FILE")
    if live and tools is not None:
        raise UsageFault("usage.conflict", "--live is for NEW, not for --tools")
    read = partial(load_card, insecure=insecure)
    names = (old, str(new or tools))
    if tools is not None:
        manifest = read_input(tools, max_bytes=MAX_MANIFEST_BYTES)
        return show(diff_tools(read(old), manifest, names=names))
    compare = diff_live if live else diff_cards
    return show(compare(read(old), read(str(new)), names=names))
