"""``cardsign lint``, ``check`` and ``contract check``: what is wrong with a card, and why."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
    finding_lines,
    is_json,
    json_text,
    print_json,
    printed,
    safe,
    say,
)
from cardsign.cli.verifier import NetworkOptions, network_options
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.files import read_bytes
from cardsign.findings import SEVERITIES, Finding, Severity
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.lint.cards import GROUPS, CardReport, FixResult, fix, lint_card
from cardsign.lint.rules import LintSettings, cap_lint_findings, describe_finding
from cardsign.trust.policy import Policy
from cardsign.urls import is_url

if TYPE_CHECKING:
    from cardsign.check import CheckReport

FORMATS: Final = ("text", "json", "sarif", "github")
SCHEMA: Final = "cardsign.lint/1"
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
    heavy = SEVERITIES[: SEVERITIES.index(options.fail_on) + 1]
    failed = any(one.severity in heavy for report in reports for one in report.findings)
    status = EXIT_NOT_TRUSTED if failed else EXIT_OK
    if options.form == "json":
        print_json(_to_json(reports, fixed))
    else:
        click.echo(_text(reports, options.form, status), err=output == STDIO)
    return status


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
    for one in cap_lint_findings(result.fixed) if is_dry_run() else ():
        say(f"{fixed} {safe(one.path, limit=120)}: {safe(one.message)} ({one.code})")
    if result.signatures_removed:
        say(
            f"{done('removed', 'remove')} the signatures, since the card has changed; sign it again"
        )


def _to_json(reports: Sequence[CardReport], fixed: FixResult | None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "clean": not any(one.findings for one in reports),
        "cards": [
            {
                "name": one.name,
                "findings": [describe_finding(finding) for finding in one.findings],
                "waived": [{**describe_finding(it), "reason": why} for it, why in one.waived],
            }
            for one in reports
        ],
    }
    if fixed is not None:
        answer["fixed"] = [describe_finding(finding) for finding in cap_lint_findings(fixed.fixed)]
        answer["signatures_removed"] = fixed.signatures_removed
    return answer


def _text(reports: Sequence[CardReport], form: str, status: int) -> str:
    """What was found, for a person or in a format of other programs."""
    if form == "sarif":
        from cardsign.cli.sarif import Subject, sarif_log

        subjects = [Subject(one.name, one.findings, one.waived) for one in reports]
        return json_text(sarif_log(subjects, status))
    if form == "github":
        return "\n".join(_annotation(one.name, each) for one in reports for each in one.findings)
    return "\n".join(line for one in reports for line in _lines(one))


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


def _lines(report: CardReport) -> Iterator[str]:
    """What was found in a card."""
    name, findings = safe(report.name), report.findings
    accepted = f"; {sum(one.count for one, _ in report.waived)} waived" if report.waived else ""
    if not findings:
        yield f"clean: {name}{accepted}"
        return
    counts = [
        (sum(one.count for one in findings if one.severity == level), level) for level in SEVERITIES
    ]
    weights = ", ".join(counted(number, level) for number, level in counts if number)
    fixable = sum(one.count for one in findings if one.fixable)
    offer = f"; --fix fixes {fixable}" if fixable else ""
    yield f"{weights}: {name}{offer}{accepted}"
    yield from finding_lines(findings)


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
    has_error = any(finding.severity == "error" for finding in report.findings)
    status = EXIT_NOT_TRUSTED if has_error else EXIT_OK
    if is_json() or form == "json":
        print_json(report.to_json())
    elif form == "text":
        click.echo("\n".join(_check_lines(report)))
    else:
        from cardsign.cli.sarif import Subject, sarif_log

        log = sarif_log([Subject(report.name, report.findings)], status)
        text = report.to_html() if form == "html" else json_text(log)
        write_output(output, text.encode())
        if output != STDIO:
            say(f"wrote {safe(output)}")
    return status


def _check_lines(report: CheckReport) -> Iterator[str]:
    """How much was found, the signatures, the clients, then each finding."""
    yield f"{safe(report.name)}: {report.summary}"
    answer = report.to_json()
    for one in answer["signatures"]:
        by = f"{safe(one['alg'])} {safe(one['kid'], limit=60)}"
        covers = f" ({', '.join(one['profiles'])})" if one["profiles"] else ""
        yield f"  signature {one['index']}: {one['verdict']}, by {by}{covers}"
    for client in report.explanation.predictions:
        yield f"  {client.verifier}: {client.outcome}, predicted: {safe(client.because)}"
    yield from finding_lines(report.findings)


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
    found = check_envelope(read_input(envelope), card)
    kept: bool | None = not any(one.severity == "error" for one in found)
    if kept and any(one.code == "envelope.unclear" for one in found):
        kept = None
    findings = [one.to_json() for one in found]
    if not printed({"schema": "cardsign.contract/1", "kept": kept, "findings": findings}):
        for line in finding_lines(found, "the envelope"):
            click.echo(line)
        words = {True: "kept", False: "broken", None: "not broken, as far as can be told"}
        click.echo(f"the contract is {words[kept]}")
    return {True: EXIT_OK, False: EXIT_NOT_TRUSTED, None: EXIT_NO_VERDICT}[kept]
