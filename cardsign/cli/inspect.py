"""``cardsign inspect``: what a card is, without trusting it."""

from __future__ import annotations

import click

from cardsign.cli.frame import Command, moment
from cardsign.cli.options import (
    STDIO,
    fetch_settings,
    format_option,
    network_option,
    read_input,
    read_jwks,
    write_output,
)
from cardsign.cli.printer import asked_form, say, show
from cardsign.errors import UsageFault
from cardsign.jose.keys import JwkSet
from cardsign.urls import is_url


@click.command(
    cls=Command,
    example="cardsign inspect card.json --jwks jwks.json\ncardsign inspect https://agent.example",
)
@click.argument("card")
@click.option("--jwks", metavar="FILE", help="The keys to check a file's signatures by.")
@click.option(
    "--html",
    "page",
    metavar="OUT",
    help="Write one page for people instead, as `cardsign serve` does at /; '-' for stdout.",
)
@format_option("json", "sarif", text="; sarif: for code scanning")
@network_option
def inspect(card: str, jwks: str | None, page: str | None, insecure: bool) -> int:
    """Show what CARD is, what its signatures cover, and why one does not fit.

    CARD is a file, a URL, or '-' for stdin. For a URL only its origin is asked, without
    credentials: for the card, its key set, and whether anyone gets the extended card. The answers
    of SDKs are predicted. There is no verdict: for that, use verify.

    Exit status 1: the card cannot be read, a signature is malformed or fits nothing, or the
    service has an error (not looked at with --html).
    """
    from cardsign.inspect.card import inspect_card

    if is_url(card) and jwks is not None:
        raise UsageFault("usage.conflict", "--jwks is for files; a URL's own keys are asked")
    keys = None if jwks is None else read_jwks(jwks)
    if page is not None:
        return _write_page(page, card, keys, insecure=insecure)
    if is_url(card):
        from cardsign.inspect.service import inspect_url

        return show(inspect_url(card, fetch=fetch_settings(insecure)))
    return show(inspect_card(read_input(card), jwks=keys, name=card))


def _write_page(page: str, card: str, jwks: JwkSet | None, *, insecure: bool) -> int:
    from cardsign.inspect.card import inspect_card
    from cardsign.inspect.page import card_page

    if asked_form() != "text":
        raise UsageFault("usage.conflict", f"--html and --format {asked_form()} are two formats")
    if is_url(card):
        from cardsign.inspect.service import fetch_with_keys

        answer, keys = fetch_with_keys(card, fetch_settings(insecure))
        untrusted_bytes, jwks = answer.untrusted_body, keys if isinstance(keys, JwkSet) else None
    else:
        untrusted_bytes = read_input(card)
    write_output(page, card_page(untrusted_bytes, jwks=jwks, now=moment())[0].encode())
    if page != STDIO:
        say(f"wrote {page}")
    return inspect_card(untrusted_bytes, jwks=jwks).exit_status
