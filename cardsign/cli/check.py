"""``cardsign check``: a grade by what anyone can see of a card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from cardsign.cli.arguments import STDIO, moment, option, read_input, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import is_json, print_json, safe, say
from cardsign.cli.verifier import loopback_option
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.urls import is_url

if TYPE_CHECKING:
    from cardsign.check import CheckReport

FORMATS: Final = ("text", "json", "sarif", "html")
_PASSED: Final = ("A", "B", "C")


@command(example="cardsign check https://agent.example\ncardsign check card.json --jwks jwks.json")
@click.argument("card", metavar="CARD")
@option("--jwks FILE", "The keys to check a file's signatures by.")
@option("--other-hosts", "Also ask the card's interfaces on other hosts for the extended card.")
@option(
    "--format",
    "html: one page without scripts.",
    into="form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
)
@option("-o --output OUT", "Where the report goes.", default=STDIO)
@loopback_option
def check(
    card: str,
    jwks: str | None,
    other_hosts: bool,
    form: str,
    output: str,
    insecure_loopback_http: bool,
) -> int:
    """Grade a card by what anyone can see of it: a file, a URL, or '-' for stdin.

    For a URL, only its own origin is asked, without credentials: the card, its key set, and
    whether the extended card is given to anyone. A good grade is no reason to trust a card. Grades
    go from A to F; every report says by which rules.

    Exit status 0: grade A, B or C. 1: D or F.
    """
    from cardsign.check import check_card, check_url
    from cardsign.cli.sarif import findings_log
    from cardsign.net.fetch import FetchSettings

    if is_url(card):
        if jwks is not None:
            raise UsageFault("usage.conflict", "--jwks is for files; a URL's own keys are asked")
        settings = FetchSettings(insecure_loopback_http=insecure_loopback_http)
        report = check_url(card, fetch=settings, now=moment(), other_hosts=other_hosts)
    else:
        path = None if jwks is None else Path(jwks)
        keys = path and JwkSet.read(read_bytes(path, max_bytes=MAX_JWKS_BYTES))
        report = check_card(read_input(card), name=card, jwks=keys or None, keys_name=str(jwks))
    if is_json() or form == "json":
        print_json(report.to_json())
    elif form == "text":
        click.echo("\n".join(_lines(report)))
    else:
        named = [(report.name, one, "") for one in report.findings]
        text = report.to_html() if form == "html" else json.dumps(findings_log(named), indent=2)
        write_output(output, text.encode())
        if output != STDIO:
            say(f"wrote {safe(output)}")
    return EXIT_OK if report.grade in _PASSED else EXIT_NOT_TRUSTED


def _lines(report: CheckReport) -> Iterator[str]:
    """The grade, the signatures, the clients, then what was found."""
    from cardsign.cli.lint import finding_lines

    yield f"{report.grade}  {safe(report.name)}: {safe(report.because)}"
    answer = report.to_json()
    for one in answer["signatures"]:
        by = f"{safe(one['alg'])} {safe(one['kid'], limit=60)}"
        covers = f" ({', '.join(one['profiles'])})" if one["profiles"] else ""
        yield f"  signature {one['index']}: {one['verdict']}, by {by}{covers}"
    for client in report.clients:
        yield f"  {client.verifier}: {client.outcome}, predicted: {safe(client.because)}"
    yield from finding_lines(report.findings)
