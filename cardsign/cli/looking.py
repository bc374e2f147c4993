"""``cardsign inspect``, ``diff`` and ``conformance``: cards looked at without trusting them."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Final

import click

from cardsign.cli.frame import Command, moment
from cardsign.cli.options import PATH, fetch_settings, format_option, network_option, open_fetcher
from cardsign.cli.printer import asked_form, say, show
from cardsign.cli.streams import STDIO, read_input, write_output
from cardsign.errors import UsageFault, of_the_user
from cardsign.files import read_bytes
from cardsign.inputs import load_card
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.urls import is_url

_OURS: Final = "-m cardsign verify - --quiet --jwks {keys} --origin {origin}"


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
    service has an error.
    """
    from cardsign.inspect.card import inspect_card

    if is_url(card) and jwks is not None:
        raise UsageFault("usage.conflict", "--jwks is for files; a URL's own keys are asked")
    keys = None
    if jwks is not None:
        with of_the_user(jwks):
            keys = JwkSet.from_bytes(read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES))
    if page is not None:
        return _write_page(page, card, keys, insecure=insecure)
    if is_url(card):
        from cardsign.inspect.service import inspect_url

        return show(inspect_url(card, fetch=fetch_settings(insecure), now=moment()))
    return show(inspect_card(read_input(card), jwks=keys, name=card))


def _write_page(page: str, card: str, jwks: JwkSet | None, *, insecure: bool) -> int:
    from cardsign.inspect.card import inspect_card
    from cardsign.inspect.page import card_page

    if asked_form() != "text":
        raise UsageFault("usage.conflict", f"--html and --format {asked_form()} are two formats")
    if is_url(card):
        from cardsign.inspect.service import fetch_with_keys

        answer, keys = fetch_with_keys(card, fetch_settings(insecure), now=moment())
        untrusted_bytes, jwks = answer.untrusted_body, keys if isinstance(keys, JwkSet) else None
    else:
        untrusted_bytes = read_input(card)
    write_output(page, card_page(untrusted_bytes, jwks=jwks, now=moment())[0].encode())
    if page != STDIO:
        say(f"wrote {page}")
    return inspect_card(untrusted_bytes, jwks=jwks).exit_status


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
    read = partial(load_card, open_fetcher=partial(open_fetcher, insecure))
    names = (old, str(new or tools))
    if tools is not None:
        manifest = read_input(tools, max_bytes=MAX_MANIFEST_BYTES)
        return show(diff_tools(read(old), manifest, names=names))
    compare = diff_live if live else diff_cards
    return show(compare(read(old), read(str(new)), names=names))


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
    from cardsign.testing.conformance import check_verifier

    return show(
        check_verifier(
            folder, verifier if verifier is not None else f"{shlex.quote(sys.executable)} {_OURS}"
        )
    )
