"""``cardsign fetch``: the verified payload of a live peer's card, or of its extended one."""

from __future__ import annotations

import secrets
from functools import partial

import click

from cardsign.card.extensions import AUDIENCE
from cardsign.card.serialize import jcs
from cardsign.cli.arguments import STDIO, option, refuse_two_documents, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, safe, say
from cardsign.cli.verifier import VerifierOptions, visit_options
from cardsign.cli.views import render_verdict
from cardsign.errors import UsageFault
from cardsign.times import minute
from cardsign.trust.policy import CardUrl


@command(example="cardsign fetch https://agents.example.com -o card.json")
@click.argument("url", metavar="URL")
@option(
    "-o --output OUT",
    "Write the verified payload here [default: stdout]; if the card is not trusted, OUT is not "
    "changed.",
    default=STDIO,
)
@option("--extended", "Fetch the extended card, at an endpoint that the trusted public card names.")
@option(
    "--audience ID",
    "For whom the extended card must be, as the issuer told you [default: as credentials.toml "
    "says].",
)
@visit_options
def fetch(
    url: str,
    output: str,
    extended: bool,
    audience: str | None,
    named: VerifierOptions,
) -> int:
    """Fetch a card, verify it, and write its verified payload.

    A URL without a path means /.well-known/agent-card.json there, then the legacy path. Only what
    the signature covers is written, never the file that was served. With --extended the public
    card is verified first. Then the credential is sent once, to one of its endpoints. The
    extended card must be of this issuer, for this audience, and current.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    refuse_two_documents(output)
    if audience is not None and not extended:
        raise UsageFault("usage.conflict", "--audience is about the extended card: add --extended")
    if audience is not None and not AUDIENCE.fullmatch(audience):
        raise UsageFault("usage.invalid", f"--audience {audience!r} is not {AUDIENCE.pattern}")
    verifier, public, credentials = named.visit(url)
    name, report = public.url, public.report
    if extended and report.verdict == "trusted":
        from cardsign.net.extended import discover_extended
        from cardsign.net.fetch import FetchSettings

        found = discover_extended(
            public,
            credentials,
            policy=verifier.policy,
            states=verifier.states,
            now=verifier.now,
            settings=FetchSettings(insecure_loopback_http=named.insecure_loopback_http),
            audience=audience,
            call_id=secrets.token_hex(8),
            expect=verifier.expect or CardUrl(public.url),
            again=partial(verifier.look_up, url, fresh=True),
        )
        name, report = found.url, found.report
    if report.card is not None:
        write_output(output, jcs(report.card))
    if printed({"input": name, **report.to_json()}):
        return report.exit_status
    if report.card is None:
        click.echo(render_verdict(name, report), err=True)
        return report.exit_status
    until = f", until {minute(report.valid_until)}" if report.valid_until else ""
    say(f"trusted: {safe(name)}, {safe(report.subject or '')}{until}")
    return report.exit_status
