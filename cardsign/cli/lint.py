"""``cardsign lint``, ``check`` and ``contract check``: what is wrong with a card, and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.arguments import (
    STDIO,
    done,
    dry_run_option,
    is_dry_run,
    moment,
    option,
    option_group,
    read_input,
    write_output,
)
from cardsign.cli.commands import command, group
from cardsign.cli.talk import (
    counted,
    is_json,
    json_text,
    print_json,
    printed,
    safe,
    say,
)
from cardsign.cli.verifier import NetworkOptions, network_options
from cardsign.errors import UsageFault
from cardsign.files import read_bytes
from cardsign.findings import SEVERITIES, Finding, Severity, cap_findings
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.lint.cards import GROUPS, CardReport, FixResult, LintReport, fix, lint_card
from cardsign.lint.rules import LintSettings
from cardsign.trust.policy import Policy
from cardsign.urls import is_url

FORMATS: Final = ("text", "json", "sarif", "github")
_GITHUB: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Which rules, by which settings, printed how: each field is an option of `lint`."""

    groups: tuple[str, ...]
    ignore: tuple[str, ...]
    strict: bool
    fail_on: Severity
    form: str

    def settings(self) -> LintSettings:
        """Those of cardsign.toml, with the options; the settings never choose files."""
        from cardsign.config import CONFIG_FILE, read_config  # a key store, which check needs not

        own = read_config(Path(CONFIG_FILE)).lint
        return replace(
            own,
            groups=self.groups or own.groups,
            ignore=own.ignore | set(self.ignore),
            strict=own.strict or self.strict,
            today=moment().date(),
        )


_lint_options = option_group(
    LintOptions,
    "options",
    option(
        "--group ...",
        "Only these groups of rules [default: all; contract for contract cards].",
        into="groups",
        type=click.Choice(list(GROUPS)),
    ),
    option("--ignore RULE...", "Leave out a rule or group; repeatable."),
    option("--strict", "A contract card needs description, spiffe_id and authentication, too."),
    option(
        "--fail-on",
        "The least severe finding that makes the exit status 1.",
        type=click.Choice(SEVERITIES),
        default="warning",
        show_default=True,
    ),
    option(
        "--format",
        "sarif: for code scanning. github: annotations.",
        into="form",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
    ),
)


@command(example="cardsign lint card.json\ncardsign lint agents/ --format sarif > lint.sarif")
@click.argument("cards", nargs=-1, required=True, metavar="CARD...")
@_lint_options
@option("--fix", "Write a fixed copy to OUT; only what loses nothing is fixed.", into="fixing")
@option("-o --output OUT", "Where the fixed card goes; '-' for stdout.")
@dry_run_option
@network_options
def lint(
    cards: tuple[str, ...],
    options: LintOptions,
    fixing: bool,
    output: str | None,
    network: NetworkOptions,
) -> int:
    """Find what is wrong with cards, say why, and how to fix it.

    Each CARD is a file, a folder, a URL, REVISION:PATH in git, or '-' for stdin. In a folder,
    cards are found by their names and contents, and compared with one another; a folder without
    cards is refused. Nothing is verified.

    Exit status 0: no finding is as severe as --fail-on. 1: one is. If --fix changes
    the card, it removes the signatures. Settings and waivers are in cardsign.toml.
    """
    options = replace(options, form="json") if is_json() else options
    _check_together(cards, options, fixing, output)
    settings = options.settings()
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

        reports = lint_sources(cards, settings, network.fetcher())
    report = LintReport(reports, options.fail_on, fixed)
    if options.form == "json":
        print_json(report.to_json())
    else:
        for line in _texts(report, options.form):
            click.echo(line, err=output == STDIO)
    return report.exit_status


def _check_together(
    cards: tuple[str, ...], options: LintOptions, fixing: bool, output: str | None
) -> None:
    if is_dry_run() and not fixing:
        raise UsageFault("usage.conflict", "--dry-run is for --fix: lint alone changes nothing")
    if fixing != (output is not None) and not (fixing and is_dry_run()):
        first, place = shlex.quote(cards[0]), shlex.quote(output or "OUT")
        form = options.form if options.form != "text" else "json"
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
    if output == STDIO and options.form != "text":
        raise UsageFault("usage.conflict", "-o - and another format would both print on stdout")


def _say_fixed(result: FixResult) -> None:
    fixed = done("fixed", "fix")
    say(f"{fixed} {counted(len(result.fixed), 'finding')}")
    for one in cap_findings(result.fixed) if is_dry_run() else ():
        say(f"{fixed} {safe(one.path, limit=120)}: {safe(one.message)} ({one.code})")
    if result.signatures_removed:
        say(
            f"{done('removed', 'remove')} the signatures, since the card has changed; sign it again"
        )


def _texts(report: LintReport, form: str) -> Iterator[str]:
    """What was found, for a person or in a format of other programs."""
    if form == "sarif":
        from cardsign.cli.sarif import sarif_log

        yield json_text(sarif_log(report.subjects(), report.exit_status))
    elif form == "github":
        yield from (_annotation(card.name, one) for card in report.cards for one in card.findings)
    else:
        yield from (safe(line, limit=len(line)) for line in report.lines())


def _annotation(name: str, one: Finding) -> str:
    """A workflow command of GitHub; a card's words cannot end it or begin another."""
    file = _escaped(name, 1000).replace(":", "%3A").replace(",", "%2C")
    line, column = one.place.line, one.place.column
    place = f",line={line},col={column}" if line else ""
    text = _escaped(f"{one.path or 'the card'}: {one.message}. {one.hint}", 600)
    return f"::{_GITHUB[one.severity]} file={file}{place},title={one.code}::{text}"


def _escaped(text: str, limit: int) -> str:
    shown = safe(text, limit=limit)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


@command(example="cardsign check https://agent.example\ncardsign check card.json --jwks jwks.json")
@click.argument("card", metavar="CARD")
@option("--jwks FILE", "The keys to check a file's signatures by.")
@option("--other-hosts", "Also ask the card's interfaces on other hosts for the extended card.")
@option(
    "--format",
    "html: one page without scripts.",
    into="form",
    type=click.Choice(("text", "json", "sarif", "html")),
    default="text",
    show_default=True,
)
@option("-o --output OUT", "Where the report goes.", default=STDIO)
@network_options
def check(
    card: str,
    jwks: str | None,
    other_hosts: bool,
    form: str,
    output: str,
    network: NetworkOptions,
) -> int:
    """Say what anyone can see of a card: a file, a URL, or '-' for stdin.

    For a URL, only its own origin is asked, without credentials: the card, its key set, and
    whether the extended card is given to anyone. A report without findings is no reason to
    trust a card.

    Exit status 1: there is an error.
    """
    from cardsign.check import check_card, check_url

    if is_url(card):
        if jwks is not None:
            raise UsageFault("usage.conflict", "--jwks is for files; a URL's own keys are asked")
        fetch = network.settings()
        report = check_url(card, fetch=fetch, now=moment(), other_hosts=other_hosts)
    else:
        path = None if jwks is None else Path(jwks)
        keys = path and JwkSet.read(read_bytes(path, max_bytes=MAX_JWKS_BYTES))
        report = check_card(read_input(card), name=card, jwks=keys or None)
    if is_json() or form == "json":
        print_json(report.to_json())
    elif form == "text":
        for line in report.lines():
            click.echo(safe(line, limit=len(line)))
    else:
        from cardsign.cli.sarif import sarif_log

        log = sarif_log(report.subjects(), report.exit_status)
        text = report.to_html() if form == "html" else json_text(log)
        write_output(output, text.encode())
        if output != STDIO:
            say(f"wrote {safe(output)}")
    return report.exit_status


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

    The card is verified first. If it is not trusted, nothing is checked. No `pattern` of a schema
    is tried. Exit status 0: it keeps the contract. 1: it does not, or the card is not trusted.
    3: nothing breaks it, but something of a schema could not be checked.
    """
    from cardsign.api import verify_card
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
    report = check_envelope(read_input(envelope), card)
    if not printed(report.to_json()):
        for line in report.lines():
            click.echo(safe(line, limit=len(line)))
    return report.exit_status
