"""``cardsign lint``: what is wrong with cards, why, and what can be fixed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

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
from cardsign.cli.commands import command
from cardsign.cli.talk import counted, is_json, print_json, print_table, safe, say
from cardsign.cli.verifier import loopback_option, make_fetcher
from cardsign.config import CONFIG_FILE, read_config
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault, closest
from cardsign.lint.cards import GROUPS, RULES, CardReport, lint_card
from cardsign.lint.fixing import FixResult, fix
from cardsign.lint.portability import TARGETS
from cardsign.lint.rules import Example, Finding, LintSettings, Rule
from cardsign.reasons import Severity
from cardsign.records import dataclass

FORMATS: Final = ("text", "json", "sarif", "junit", "github")
SCHEMA: Final = "cardsign.lint/1"
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)  # the heaviest first
_MAX_PLACES: Final = 6  # lines for one rule; --json has them all
_WIDTH: Final = 96  # columns, whatever the terminal has
_GITHUB: Final[dict[Severity, str]] = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Which rules, by which settings, printed how.

    Attributes:
        target: ``--for``; None for all groups that fit the card.
        groups: ``--group``.
        ignore: ``--ignore``, added to those of the settings.
        strict: ``--strict``.
        fail_on: ``--fail-on``.
        form: ``--format``.
    """

    target: str | None
    groups: tuple[str, ...]
    ignore: tuple[str, ...]
    strict: bool
    fail_on: Severity
    form: str

    def settings(self) -> LintSettings:
        """Those of cardsign.toml, with the options; the settings never choose files."""
        own = read_config(Path(CONFIG_FILE)).lint
        groups = (*self.groups, *([self.target] if self.target else [])) or own.groups
        return replace(
            own,
            groups=groups,
            ignore=own.ignore | set(self.ignore),
            strict=own.strict or self.strict,
            today=moment().date(),
        )


_lint_options = option_group(
    LintOptions,
    "options",
    option(
        "--for",
        "Only what one kind of reader needs. portable: the clients of the default profiles. "
        "js-resolver: these and the resolver of @a2a-js/sdk. py-1.1: these and a2a-sdk before "
        "1.1.4.",
        into="target",
        type=click.Choice(list(TARGETS)),
    ),
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
        type=click.Choice(_SEVERITIES),
        default="warning",
        show_default=True,
    ),
    option(
        "--format",
        "sarif: for code scanning. junit: for test reports. github: annotations.",
        into="form",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
    ),
)


@command(example="cardsign lint card.json\ncardsign lint agents/ --format sarif > lint.sarif")
@click.argument("cards", nargs=-1, metavar="[CARD]...")
@_lint_options
@option("--explain RULE", "Explain a rule with its examples; or all, by id.")
@option("--fix", "Write a fixed copy to OUT; only what loses nothing is fixed.", into="fixing")
@option("-o --output OUT", "Where the fixed card goes; '-' for stdout.")
@dry_run_option
@loopback_option
def lint(
    cards: tuple[str, ...],
    options: LintOptions,
    explain: str | None,
    fixing: bool,
    output: str | None,
    insecure_loopback_http: bool,
) -> int:
    """Find what is wrong with cards, say why, and how to fix it.

    Each CARD is a file, a folder, a URL, REVISION:PATH in git, or '-' for stdin. In a folder,
    cards are found by their names and contents, and compared with one another; a folder without
    cards is refused. Nothing is verified.

    Exit status 0: no finding is as severe as --fail-on. 1: one is. If --fix changes
    the card, it removes the signatures. Settings and waivers are in cardsign.toml.
    """
    if explain is not None:
        _explain(explain)
        return EXIT_OK
    options = replace(options, form="json") if is_json() else options
    _check(cards, options, fixing, output)
    settings = options.settings()
    fixed: FixResult | None = None
    if fixing:
        fixed = fix(read_input(cards[0]), options.target)
        if output is not None and not (is_dry_run() and output == STDIO):
            write_output(output, fixed.document)
        _say_fixed(fixed)
        name = output or cards[0]  # whose lines the findings name
        reports: Sequence[CardReport] = [lint_card(fixed.document, settings, name=name)]
    elif cards == (STDIO,):
        reports = [lint_card(read_input(STDIO, max_bytes=MAX_CARD_BYTES), settings, name=STDIO)]
    else:
        from cardsign.projects import lint_sources

        reports = lint_sources(cards, settings, make_fetcher(moment, insecure_loopback_http))
    if options.form == "json":
        print_json(_to_json(reports, fixed))
    else:
        text = _PRINTERS[options.form](reports)
        click.echo(text, err=output == STDIO)
    heavy = _SEVERITIES[: _SEVERITIES.index(options.fail_on) + 1]
    failed = any(one.severity in heavy for report in reports for one in report.findings)
    return EXIT_NOT_TRUSTED if failed else EXIT_OK


def _check(cards: tuple[str, ...], options: LintOptions, fixing: bool, output: str | None) -> None:
    if not cards:
        raise UsageFault("usage.conflict", "no card is named", hint="cardsign lint card.json")
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
    for one in result.fixed if is_dry_run() else ():
        say(f"{fixed} {safe(one.pointer, limit=120)}: {safe(one.message)} ({one.rule.id})")
    if result.signatures_removed:
        say(
            f"{done('removed', 'remove')} the signatures, since the card has changed; sign it again"
        )


# ------------------------------------------------------------------ for programs


def _to_json(reports: Sequence[CardReport], fixed: FixResult | None) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "clean": not any(one.findings for one in reports),
        "cards": [
            {
                "name": one.name,
                "findings": [finding.to_json() for finding in one.findings],
                "waived": [
                    {**finding.to_json(), "reason": reason} for finding, reason in one.waived
                ],
            }
            for one in reports
        ],
    }
    if fixed is not None:
        answer["fixed"] = [finding.to_json() for finding in fixed.fixed]
        answer["signatures_removed"] = fixed.signatures_removed
    return answer


def _sarif(reports: Sequence[CardReport]) -> str:
    from cardsign.cli.sarif import findings_log

    named = [(one.name, finding, "") for one in reports for finding in one.findings]
    named += [(one.name, finding, why) for one in reports for finding, why in one.waived]
    return json.dumps(findings_log(named), indent=2)


def _junit(reports: Sequence[CardReport]) -> str:
    """One case for each card; notes are no failure."""
    from cardsign.cli.sarif import junit_document

    cases = []
    for report in reports:
        kind, why, text = "", ("", ""), ""
        if any(one.severity != "note" for one in report.findings):
            first = min(report.findings, key=lambda one: _SEVERITIES.index(one.severity))
            kind, why = "failure", (first.rule.id, first.message)
            text = "\n".join(_lines(report))
        cases.append((report.name, kind, why, text))
    return junit_document("cardsign lint", cases)


def _github(reports: Sequence[CardReport]) -> str:
    """Workflow commands; a card's words cannot end one or begin another."""
    lines = []
    for report in reports:
        for one in report.findings:
            place = f"file={_property(report.name)}"
            place += f",line={one.line},col={one.column}" if one.line else ""
            message = f"{one.pointer or 'the card'}: {one.message}. {one.rule.fix}"
            title = f"{one.rule.id}"
            text = _data(safe(message, limit=600))
            lines.append(f"::{_GITHUB[one.severity]} {place},title={title}::{text}")
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(safe(text, limit=1000)).replace(":", "%3A").replace(",", "%2C")


# ------------------------------------------------------------------ for a person


def _text(reports: Sequence[CardReport]) -> str:
    return "\n".join(line for report in reports for line in _lines(report))


def _lines(report: CardReport) -> Iterator[str]:
    """What was found in a card."""
    name, findings = safe(report.name), report.findings
    accepted = f"; {len(report.waived)} waived" if report.waived else ""
    if not findings:
        yield f"clean: {name}{accepted}"
        return
    counts = [(sum(one.severity == level for one in findings), level) for level in _SEVERITIES]
    weights = ", ".join(counted(number, level) for number, level in counts if number)
    fixable = sum(one.fixable for one in findings)
    offer = f"; --fix fixes {fixable}" if fixable else ""
    yield f"{weights}: {name}{offer}{accepted}"
    yield from finding_lines(findings)


def finding_lines(findings: Iterable[Finding], whole: str = "the card") -> Iterator[str]:
    """By weight and rule: the places in the `whole`, then why and what to do."""
    for places in _by_rule(findings):
        rule = places[0].rule
        yield f"  {places[0].severity}: {rule.id}"
        for one in places[:_MAX_PLACES]:
            where = safe(one.pointer, limit=120) or whole
            line = f" (line {one.line})" if one.line else ""
            yield f"    {where}{line}  {safe(one.message)}"
        if len(places) > _MAX_PLACES:
            yield f"    and {len(places) - _MAX_PLACES} more; see --json"
        yield _wrapped("why", rule.why)
        yield _wrapped("fix", rule.fix)


def _wrapped(label: str, text: str) -> str:
    first, rest = f"      {label:<4}  ", " " * 12
    return click.wrap_text(text, _WIDTH, initial_indent=first, subsequent_indent=rest)


def _by_rule(findings: Iterable[Finding]) -> list[list[Finding]]:
    groups: dict[tuple[int, str], list[Finding]] = {}
    for one in findings:
        key = (_SEVERITIES.index(one.severity), one.rule.id)
        groups.setdefault(key, []).append(one)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _explain(name: str) -> None:
    if name == "all":
        rules = ((rule.id, rule.severity, rule.summary) for rule in RULES.values())
        print_table({"rule": 30, "severity": 8, "summary": 0}, rules)
        return
    if name not in RULES:
        hint = "cardsign lint --explain all lists them."
        message = f"there is no rule {name!r}{closest(name, RULES)}"
        raise UsageFault("usage.conflict", message, hint=hint)
    click.echo("\n".join(_explained(RULES[name])))


def _explained(rule: Rule) -> Iterator[str]:
    yield f"{rule.id} ({rule.severity}): {rule.summary}"
    yield _wrapped("why", rule.why)
    yield _wrapped("fix", rule.fix)
    if rule.reference:
        yield _wrapped("see", rule.reference)
    for label, example in (("bad", rule.bad), ("good", rule.good)):
        if example is not None:
            yield _wrapped(label, shown_example(example))


def shown_example(example: Example) -> str:
    """What an example card is, in one line."""
    if example.written:
        return safe(example.written[:60].decode("utf-8", errors="replace"), limit=60)
    changes = [
        f"without {where}" if value is ... else f"{where}: {json.dumps(value, ensure_ascii=False)}"
        for where, value in example.changes.items()
    ]
    changes += [f"{name} = {value}" for name, value in example.settings.items()]
    return "; ".join(changes) or f"a sound card ({example.base})"


_PRINTERS: Final[dict[str, Callable[[Sequence[CardReport]], str]]] = {
    "text": _text,
    "sarif": _sarif,
    "junit": _junit,
    "github": _github,
}
