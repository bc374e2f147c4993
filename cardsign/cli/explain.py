"""``cardsign explain`` and ``inspect``: what signatures cover, and what a card says of itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cardsign.card.document import Card
from cardsign.cli.frame import Command, moment
from cardsign.cli.options import take, trust_options
from cardsign.cli.printer import say, show
from cardsign.cli.streams import STDIO, read_input, write_output
from cardsign.cli.verifier import TrustOptions
from cardsign.errors import EXIT_OK, UsageFault, of_the_user
from cardsign.explain.explanation import explain_card
from cardsign.explain.report import describe_card
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.trust.resolve import resolve_issuer
from cardsign.trust.supplied import NO_STATEMENTS


@click.command(cls=Command, example="cardsign explain signed.json --jwks jwks.json")
@click.argument("card")
@click.option("--jwks", metavar="FILE", help="The keys to check the signatures with.")
@click.option(
    "--issuer",
    metavar="NAME",
    help="Use the keys of this issuer of your policy, as far as they are known here.",
)
@trust_options
def explain(card: str, jwks: str | None, issuer: str | None, **options: Any) -> int:
    """Explain CARD ('-' for stdin): what each signature covers, and why one does not fit.

    It shows at which members the profiles differ. A signature that fits nothing is tried on the
    card as Python's json, Go's encoding/json and others write it. What SDKs would say is
    predicted; none is run. It gives no verdict: for that, use verify.

    Exit status 0: nothing is wrong. 1: the card cannot be read, a signature is malformed, or a
    signature by a key of --jwks fits nothing.
    """
    trust = take(TrustOptions, options)
    if jwks is not None and issuer is not None:
        raise UsageFault("usage.conflict", "--jwks and --issuer both name the keys")
    untrusted_bytes = read_input(card)
    keys = None
    if jwks is not None:
        with of_the_user(jwks):
            keys = JwkSet.from_bytes(read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES))
    if issuer is not None:
        keys = _keys_of(issuer, trust)
    return show(explain_card(untrusted_bytes, jwks=keys, name=card))


def _keys_of(name: str, options: TrustOptions) -> JwkSet:
    """The keys that the policy's anchor and the issuer state give for an issuer now."""
    loaded = options.load()
    if loaded is None:
        missing = "there is no policy that names a trusted issuer"
        raise UsageFault(
            "file.not_found",
            missing,
            hint="Check --trust and CARDSIGN_TRUST, or make one: cardsign trust init",
        )
    issuer = loaded.issuer(name)
    with options.states(loaded).of(issuer) as state:
        now = datetime.now(UTC)
        resolved = resolve_issuer(issuer, loaded.policy.limits, NO_STATEMENTS, state, now=now)
    if not resolved.has_source:
        unknown = f"the keys of {name!r} are not known here yet"
        raise UsageFault(
            "trust.no_keys", unknown, hint="Verify a card of it online first, or give --jwks FILE."
        )
    return JwkSet.of([key.public for key in resolved.keys])


# What a card says of itself: nothing of it is verified.


@click.command(
    cls=Command, example="cardsign inspect card.json\ncardsign inspect public --html page.html"
)
@click.argument("card")
@click.option(
    "--html",
    "page",
    metavar="OUT",
    help="Write one page for people instead, as `cardsign serve` does at /; '-' for stdout.",
)
@click.option("--jwks", metavar="FILE", help="The keys that the page judges signatures by.")
def inspect(card: str, page: str | None, jwks: str | None) -> int:
    """Show what CARD ('-' for stdin) holds. Nothing is verified: these are its own words.

    With --html, CARD may also be a publication directory, with its issuer's statements. The
    page shows the verdict of a verifier that trusts the newest of these statements.
    """
    if page is not None:
        write_output(page, _page(card, jwks).encode())
        if page != STDIO:
            say(f"wrote {page}")
        return EXIT_OK
    return show(describe_card(Card.from_bytes(read_input(card))))


def _page(card: str, jwks: str | None) -> str:
    from cardsign.explain.page import Published, card_page
    from cardsign.publish.generation import load_current

    keys = None if jwks is None else read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES)
    if card != STDIO and os.path.isdir(card):
        one = load_current(Path(card))
        given = one.card, Published(tuple(one.keysets.values()), one.release, keys or one.jwks)
    else:
        given = read_input(card), Published(jwks=keys)
    return card_page(*given, now=moment())[0]
