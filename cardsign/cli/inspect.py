"""``cardsign inspect``: what a card says of itself, as text, JSON or a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cardsign.card.document import Card
from cardsign.card.values import Json
from cardsign.cli.arguments import STDIO, moment, option, read_input, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, safe, say
from cardsign.explain.report import describe_card
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES


@command(example="cardsign inspect card.json\ncardsign inspect public --html page.html")
@click.argument("card")
@option(
    "--html OUT",
    "Write one page for people instead, as `cardsign serve` does at /; '-' for stdout.",
    into="page",
)
@option("--jwks FILE", "The keys that the page judges signatures by.")
def inspect(card: str, page: str | None, jwks: str | None) -> None:
    """Show what CARD ('-' for stdin) holds. Nothing is verified: these are its own words.

    With --html, CARD may also be a publication directory, with its issuer's statements. The
    page shows the verdict of a verifier that trusts the newest of these statements.
    """
    if page is not None:
        write_output(page, _page(card, jwks).encode())
        if page != STDIO:
            say(f"wrote {safe(page)}")
        return
    described = describe_card(Card.from_bytes(read_input(card)))
    if printed(described):
        return
    click.echo("nothing here is verified; these are the card's own words")
    if described.pop("signature_block"):
        click.echo("  a `signature` block is there: it is no signature of A2A; sign the card again")
    left_out = described.pop("left_out")
    for member, value in described.items():
        name = "A2A version" if member == "a2a_version" else member
        if not isinstance(value, list):
            click.echo(f"  {name:<15} {safe(_value(value)) if value is not None else '-'}")
            continue
        more = left_out.get(member, 0)
        click.echo(f"  {name:<15} {len(value) + more}")
        for element in value:
            click.echo(f"    {_element(member, element)}")
        if more:
            click.echo(f"    and {more:,} more")


def _element(member: str, element: Any) -> str:
    """An element of a list; of a requirement the schemes that it takes together."""
    if member == "requirements" and element is None:
        return "cannot be read: nobody knows from it who may call"
    if member == "requirements":
        named = [
            f"{name} ({', '.join(map(str, scopes))})" if scopes else name
            for name, scopes in element.items()
        ]
        return safe(" and ".join(named) or "none: anybody may call")
    if not isinstance(element, dict):
        return safe(str(element))
    return safe("  ".join(f"{k}={_value(v)}" for k, v in element.items() if v not in (None, [])))


def _value(value: Json) -> str:
    """A value of a line, without JSON's or Python's marks."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)


def _page(card: str, jwks: str | None) -> str:
    from cardsign.explain.page import Published, card_page
    from cardsign.publish.generation import load_current

    keys = None if jwks is None else read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES)
    if card != STDIO and Path(card).is_dir():
        one = load_current(Path(card))
        given = one.card, Published(tuple(one.keysets.values()), one.release, keys or one.jwks)
    else:
        given = read_input(card), Published(jwks=keys)
    return card_page(*given, now=moment())[0]
