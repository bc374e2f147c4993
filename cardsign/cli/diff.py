"""``cardsign diff`` and ``cardsign drift``: two cards compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from cardsign.cli.frame import Command
from cardsign.cli.options import NetworkOptions, network_option, take
from cardsign.cli.printer import Answer, show
from cardsign.cli.streams import read_input
from cardsign.diff.cards import diff_cards
from cardsign.errors import UsageFault
from cardsign.inputs import load_card


@click.command(cls=Command, example="cardsign diff HEAD~1:agent-card.json agent-card.json")
@click.argument("old")
@click.argument("new")
@click.option("--github", is_flag=True, help="Print Markdown, for a comment on a pull request.")
@network_option
def diff(old: str, new: str, github: bool, **options: Any) -> int:
    """Say what changed from card OLD to NEW, and whether NEW's version says so.

    Each is a file, a URL, or REVISION:PATH in the git repository of this folder. Nothing is
    verified, and signatures are not compared.

    Exit status 0: the version is enough. 1: a higher one is needed. 3: it is enough unless a
    change that cannot be judged breaks a caller.
    """
    network = take(NetworkOptions, options)
    read = partial(load_card, open_fetcher=network.fetcher)
    comparison = diff_cards(read(old), read(new), names=(old, new))
    if github:
        lines, status = comparison.markdown(), comparison.exit_status
        return show(Answer(comparison.to_json(), lines, exit_status=status))
    return show(comparison)


@click.command(
    cls=Command,
    example="cardsign drift card.json https://agent.example/.well-known/agent-card.json",
)
@click.argument("committed")
@click.argument("live", required=False)
@click.option(
    "--tools",
    metavar="FILE",
    help="A recorded answer to tools/list, in place of LIVE. No server is asked: save its answer "
    "first.",
)
@network_option
def drift(committed: str, live: str | None, tools: str | None, **options: Any) -> int:
    """Compare the COMMITTED card with the LIVE one by digest, and say what differs.

    Each is a file, a URL, or REVISION:PATH in git. With --tools the skills' schemas are compared
    with the tools that an agent really has. If only LIVE is signed, its signatures are not
    compared. Nothing is verified.

    Exit status 0: they are the same. 1: they are not.
    """
    network = take(NetworkOptions, options)
    from cardsign.contract import MAX_MANIFEST_BYTES, card_drift, tools_drift

    if (live is None) == (tools is None):
        raise UsageFault("usage.conflict", "name either LIVE or --tools FILE")
    read = partial(load_card, open_fetcher=network.fetcher)
    card = read(committed)
    if tools is not None:
        report = tools_drift(card, read_input(tools, max_bytes=MAX_MANIFEST_BYTES))
    else:
        report = card_drift(card, read(str(live)))
    return show(report)
