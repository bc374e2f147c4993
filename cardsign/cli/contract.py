"""``cardsign contract check``: a task or response against the schemas of a verified card."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.api import verify_card
from cardsign.cli.arguments import moment, option, read_input
from cardsign.cli.commands import group
from cardsign.cli.talk import printed
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES
from cardsign.trust.policy import Policy


@group()
def contract() -> None:
    """Check tasks and responses against the schemas of a verified card."""


@contract.command(
    "check",
    example="cardsign contract check task.json --card card.json --jwks jwks.json",
)
@click.argument("envelope")
@option("--card CARD", "The agent's card.", into="card_file", required=True)
@option("--jwks FILE", "The keys that you trust.")
@option("--trust FILE", "Your policy, in place of --jwks.", into="policy_file")
@option("--issuer NAME", "With --trust: whose card it must be.")
def contract_check(
    envelope: str,
    card_file: str,
    jwks: str | None,
    policy_file: str | None,
    issuer: str | None,
) -> int:
    """Check a task or response, ENVELOPE ('-' for stdin), against CARD.

    The card is verified first. If it is not trusted, nothing is checked. Exit status 0: it
    keeps the contract. 1: it does not, or the card is not trusted.
    """
    from cardsign.cli.lint import finding_lines
    from cardsign.contract import check_envelope

    if (jwks is None) == (policy_file is None):
        raise UsageFault("usage.conflict", "name either --jwks or --trust with --issuer")
    data = read_input(card_file)
    if jwks is not None:
        keys = read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES)
        card = verify_card(data, jwks=keys, now=moment())
    else:
        policy = Policy.load(str(policy_file))
        card = verify_card(data, policy=policy, issuer=issuer, now=moment())
    found = check_envelope(read_input(envelope), card)
    errors = any(one.severity == "error" for one in found)
    findings = [one.to_json() for one in found]
    if not printed({"schema": "cardsign.contract/1", "kept": not errors, "findings": findings}):
        for line in finding_lines(found, "the envelope"):
            click.echo(line)
        click.echo("the contract is broken" if errors else "the contract is kept")
    return EXIT_NOT_TRUSTED if errors else EXIT_OK
