"""``cardsign resign``: the copy of a card that a gateway serves."""

from __future__ import annotations

from typing import Any

import click

from cardsign.cli.frame import Command, moment
from cardsign.cli.keystore import UnlockOptions
from cardsign.cli.options import statements_option, subject_options, take, unlock_options
from cardsign.cli.printer import Answer, is_json, safe, say_notes, show
from cardsign.cli.sign import find_signers
from cardsign.cli.streams import STDIO, refuse_two_documents, write_output
from cardsign.cli.verifier import VerifierOptions
from cardsign.cli.views import show_refusal
from cardsign.errors import EXIT_OK, LocalFault
from cardsign.gateway import resign_card
from cardsign.inputs import Inputs
from cardsign.sign.signing import SigningOptions


@click.command(
    cls=Command,
    example="cardsign resign https://agent.example --url https://gw.example/a -o copy.json",
)
@click.argument("card", metavar="URL|FILE")
@click.option(
    "--url",
    metavar="NEW",
    required=True,
    help="The gateway's endpoint. {path} stands for the path of each endpoint of the card.",
)
@click.option("-o", "--output", metavar="OUT", default=STDIO, help="'-' for stdout, the default.")
@click.option("--key", "uris", metavar="URI", multiple=True, help="As for `cardsign sign`.")
@subject_options
@statements_option
@unlock_options
def resign(card: str, url: str, output: str, uris: tuple[str, ...], **options: Any) -> int:
    """Verify a card, point it at your gateway, and sign the copy with your keys.

    The copy names the issuer and the payload that it came from. It carries none of the
    issuer's signatures. It is made anew each time; if the card is not trusted, OUT is not changed.
    A FILE needs --issuer or --jwks.

    Exit status: 0 signed, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    named = take(VerifierOptions, options)
    keystore = take(UnlockOptions, options)
    refuse_two_documents(output)
    now = moment()
    outcome = named.batch().examine(card, Inputs().read(card))
    if isinstance(outcome.result, LocalFault):
        raise outcome.result
    report = outcome.result
    if report.verdict != "trusted":
        return show_refusal(outcome.name, report)
    signers = find_signers(keystore, uris, now=now)
    signing = SigningOptions(own_kids=signers.own_kids, file=output)
    signed, names = resign_card(report, signers.signers, url=url, now=now, options=signing)
    write_output(output, signed.document)
    notes = (*signed.notes, *names)
    where = "" if output == STDIO else f" as {safe(output)}"
    view: dict[str, Any] = {"input": outcome.name, "output": output, "kids": signers.kids}
    view |= {"notes": [note.to_json() for note in notes]}
    show(Answer(view, notes=[f"signed the copy of {safe(outcome.name)}{where}"]))
    if not is_json():
        say_notes(notes)
    return EXIT_OK
