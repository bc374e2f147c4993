"""``cardsign drift``: is what is live what was committed."""

from __future__ import annotations

import click

from cardsign.cli.arguments import moment, option, read_input
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, safe
from cardsign.cli.verifier import loopback_option, make_fetcher
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.loading import load_card


@command(example="cardsign drift card.json https://agent.example/.well-known/agent-card.json")
@click.argument("committed")
@click.argument("live", required=False)
@option(
    "--tools FILE",
    "A recorded answer to tools/list, in place of LIVE. No server is asked: save its answer first.",
)
@loopback_option
def drift(committed: str, live: str | None, tools: str | None, insecure_loopback_http: bool) -> int:
    """Compare the COMMITTED card with the LIVE one by digest, and say what differs.

    Each is a file, a URL, or REVISION:PATH in git. With --tools the skills' schemas are compared
    with the tools that an agent really has. If only LIVE is signed, its signatures are not
    compared. Nothing is verified.

    Exit status 0: they are the same. 1: they are not.
    """
    from cardsign.drift import MAX_MANIFEST_BYTES, card_drift, tools_drift

    if (live is None) == (tools is None):
        raise UsageFault("usage.conflict", "name either LIVE or --tools FILE")
    fetcher = make_fetcher(moment, insecure_loopback_http)
    card = load_card(committed, fetcher)
    if tools is not None:
        found = tools_drift(card, read_input(tools, max_bytes=MAX_MANIFEST_BYTES))
    else:
        found = card_drift(card, load_card(str(live), fetcher))
    if not printed(found.to_json()):
        click.echo(f"committed {found.committed_sha256}")
        if found.live_sha256 is not None:
            click.echo(f"live      {found.live_sha256}")
        for where, what in found.differences:
            click.echo(f"  {safe(where, limit=120)}  {safe(what)}")
        if found.only_live_is_signed:
            click.echo("the committed card is unsigned: the live signatures do not count")
        click.echo("it has drifted" if found.has_drifted else "no drift")
    return EXIT_NOT_TRUSTED if found.has_drifted else EXIT_OK
