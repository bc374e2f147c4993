"""``cardsign lint`` and ``contract check``: what is wrong with a card, and why."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.frame import Command, Group, moment
from cardsign.cli.options import (
    STDIO,
    done,
    dry_run_option,
    format_option,
    is_dry_run,
    network_option,
    read_input,
    refuse_two_documents,
    write_output,
)
from cardsign.cli.printer import asked_form, safe, say, show
from cardsign.errors import UsageFault
from cardsign.files import CONFIG_FILE, read_bytes
from cardsign.findings import MAX_TEXT, SEVERITIES, cap_findings, counted
from cardsign.lint.cards import GROUPS, LAYERS, CardReport, LintReport, lint_card
from cardsign.lint.portability import FixResult, fix
from cardsign.lint.rules import DEFAULT_SETTINGS, LintSettings


def _settings(options: Mapping[str, Any]) -> LintSettings:
    """Return those of cardsign.toml, with the options; the settings never choose files."""
    own = DEFAULT_SETTINGS
    if os.path.lexists(CONFIG_FILE):
        from cardsign.config import read_config  # and with it the model of a key store

        own = read_config(Path(CONFIG_FILE)).lint.settings()
    of_layers = (name for layer in options["layers"] for name in LAYERS[layer])
    return replace(
        own,
        groups=(*options["groups"], *of_layers) or own.groups,
        ignore=own.ignore | set(options["ignore"]),
        strict=own.strict or options["strict"],
        today=moment().date(),
    )


@click.command(
    cls=Command,
    example="cardsign lint card.json\ncardsign lint agents/ --format sarif > lint.sarif",
)
@click.argument("cards", nargs=-1, required=True, metavar="CARD...")
@click.option(
    "--group",
    "groups",
    multiple=True,
    type=click.Choice(list(GROUPS)),
    help="Only these groups of rules [default: all; contract for contract cards].",
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    type=click.Choice(list(LAYERS)),
    help="Only this layer of a contract's rules: 1 JSON and JSON Schema, 2 required members, "
    "3 schemas and names, 4 A2A.",
)
@click.option(
    "--ignore", metavar="RULE", multiple=True, help="Leave out a rule or group; repeatable."
)
@click.option(
    "--strict",
    is_flag=True,
    help="A contract card needs description, spiffe_id and authentication, too.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="The least severe finding that makes the exit status 1.",
)
@format_option("json", "sarif", "github", text="; sarif: for code scanning; github: annotations")
@click.option(
    "--fix",
    "fixing",
    is_flag=True,
    help="Write a fixed copy to OUT; only what loses nothing is fixed.",
)
@click.option("-o", "--output", metavar="OUT", help="Where the fixed card goes; '-' for stdout.")
@dry_run_option
@network_option
def lint(
    cards: tuple[str, ...], fixing: bool, output: str | None, insecure: bool, **options: Any
) -> int:
    """Find what is wrong with cards, say why, and how to fix it.

    Each CARD is a file, a folder, a URL, REVISION:PATH in git, or '-' for stdin. In a folder,
    cards are found by their names and contents, and compared with one another; a folder without
    cards is refused. Nothing is verified.

    Exit status 0: no finding is as severe as --fail-on. 1: one is. If --fix changes
    the card, it removes the signatures. Settings and waivers are in cardsign.toml.
    """
    _check_together(cards, fixing, output)
    settings = _settings(options)
    fixed: FixResult | None = None
    if fixing:
        fixed = fix(read_input(cards[0]))
        if output is not None and not (is_dry_run() and output == STDIO):
            write_output(output, fixed.document)
        _say_fixed(fixed)
        name = output or cards[0]  # whose lines the findings name
        reports: Sequence[CardReport] = [lint_card(fixed.document, settings, name=name)]
    elif cards == (STDIO,):
        reports = [lint_card(read_input(STDIO, max_bytes=MAX_CARD_BYTES), settings, name=STDIO)]
    else:
        from cardsign.projects import lint_sources

        reports = lint_sources(cards, settings, insecure=insecure)
    report = LintReport(reports, options["fail_on"], fixed)
    return show(report, err=output == STDIO)


def _check_together(cards: tuple[str, ...], fixing: bool, output: str | None) -> None:
    if is_dry_run() and not fixing:
        raise UsageFault("usage.conflict", "--dry-run is for --fix: lint alone changes nothing")
    if fixing != (output is not None) and not (fixing and is_dry_run()):
        first, place = (
            shlex.quote(name) if len(name) <= MAX_TEXT else other
            for name, other in ((cards[0], "CARD"), (output or "OUT", "OUT"))
        )
        form = "json" if asked_form() == "text" else asked_form()
        raise UsageFault(
            "usage.conflict",
            "--fix and -o OUT belong together: OUT is where the fixed card goes",
            hint=f"To fix: cardsign lint {first} --fix -o {place}. "
            f"For a report: cardsign lint {first} --format {form} > {place}",
        )
    if fixing and len(cards) > 1:
        raise UsageFault("usage.conflict", "--fix takes one card")
    if STDIO in cards and len(cards) > 1:
        raise UsageFault("usage.conflict", "- stands alone: there is one standard input")
    refuse_two_documents(output)


def _say_fixed(result: FixResult) -> None:
    fixed = done("fixed", "fix")
    say(f"{fixed} {counted(len(result.fixed), 'finding')}")
    for finding in cap_findings(result.fixed) if is_dry_run() else ():
        say(f"{fixed} {safe(finding.path, limit=120)}: {safe(finding.message)} ({finding.code})")
    if result.signatures_removed:
        say(
            f"{done('removed', 'remove')} the signatures, since the card has changed; sign it again"
        )


@click.group(cls=Group)
def contract() -> None:
    """Check tasks and responses against the schemas of a verified card."""


@contract.command(
    "check", example="cardsign contract check task.json --card card.json --jwks jwks.json"
)
@click.argument("envelope")
@click.option("--card", "card_file", metavar="CARD", required=True, help="The agent's card.")
@click.option("--jwks", metavar="FILE", help="The keys that you trust.")
@click.option("--trust", "policy_file", metavar="FILE", help="Your policy, in place of --jwks.")
@click.option("--issuer", metavar="NAME", help="With --trust: whose card it must be.")
def contract_check(
    envelope: str, card_file: str, jwks: str | None, policy_file: str | None, issuer: str | None
) -> int:
    """Check a task or response, ENVELOPE ('-' for stdin), against CARD.

    The card is verified first. If it is not trusted, nothing is checked. No `pattern` of a schema
    is tried. Exit status 0: it keeps the contract. 1: it does not, or the card is not trusted.
    3: nothing breaks it, but something of a schema could not be checked.
    """
    from cardsign.api import verify_card
    from cardsign.contract import check_envelope
    from cardsign.jose.keys import MAX_JWKS_BYTES
    from cardsign.trust.policy import Policy

    if (jwks is None) == (policy_file is None):
        raise UsageFault("usage.conflict", "name either --jwks or --trust with --issuer")
    data = read_input(card_file)
    if jwks is not None:
        keys = read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES)
        card = verify_card(data, jwks=keys, now=moment())
    else:
        policy = Policy.load(str(policy_file))
        card = verify_card(data, policy=policy, issuer=issuer, now=moment())
    return show(check_envelope(read_input(envelope), card))
