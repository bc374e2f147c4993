"""``cardsign lint``: what makes SDKs disagree about a card, and what can be fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from cardsign.card.document import Card
from cardsign.cli.arguments import STDIO, json_option, read_input, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.lint.fixing import FixResult, fix
from cardsign.lint.rules import Finding
from cardsign.lint.targets import TARGETS, lint_document

_MAX_PLACES: Final = 6  # lines for one rule; --json has them all
_WIDTH: Final = 96  # columns, whatever the terminal has


@command(example="cardsign lint card.json --for portable")
@click.argument("card")
@click.option(
    "--for",
    "target",
    type=click.Choice(list(TARGETS)),
    default="portable",
    show_default=True,
    help="portable: the clients of the default profiles. js-resolver: these and the resolver of "
    "@a2a-js/sdk. py-1.1: these and a2a-sdk before 1.1.4.",
)
@click.option(
    "--fix",
    "fixing",
    is_flag=True,
    help="Write a fixed copy to OUT; only what loses nothing is fixed.",
)
@click.option("-o", "--output", metavar="OUT", help="Where the fixed card goes; '-' for stdout.")
@json_option
def lint(card: str, target: str, fixing: bool, output: str | None, as_json: bool) -> int:
    """Find what makes SDKs disagree about CARD ('-' for stdin), say why, and how to fix it.

    Exit status 0: nothing found. 1: there are findings; with --fix, findings that remain.
    Nothing is verified. If --fix changes the card, it removes the signatures.
    """
    if fixing != (output is not None):
        raise UsageFault("usage.conflict", "--fix and -o OUT belong together")
    if output == STDIO and as_json:
        raise UsageFault("usage.conflict", "--json and -o - would both print on stdout")
    data = read_input(card)
    result = fix(data, target) if fixing else _as_it_is(data, target)
    if output is not None:
        write_output(output, result.document)
        _say_fixed(result)
    if as_json:
        print_json(_to_json(target, result, fixing=fixing))
    else:
        report = "\n".join(_lines(card, target, result.left))
        click.echo(report, err=output == STDIO)
    return EXIT_NOT_TRUSTED if result.left else EXIT_OK


def _as_it_is(data: bytes, target: str) -> FixResult:
    return FixResult(data, (), lint_document(Card.from_bytes(data).document, target), 0)


def _say_fixed(result: FixResult) -> None:
    say(f"fixed {_count(result.fixed)}")
    if result.signatures_removed:
        say("the signatures were removed, because the card has changed; sign it again")


def _to_json(target: str, result: FixResult, *, fixing: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "for": target,
        "clean": not result.left,
        "findings": [finding.to_json() for finding in result.left],
    }
    if fixing:
        answer["fixed"] = [finding.to_json() for finding in result.fixed]
        answer["signatures_removed"] = result.signatures_removed
    return answer


def _lines(name: str, target: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    """A card's findings for a person, by rule: the places, then why and what to do."""
    if not findings:
        yield f"clean: {safe(name)}, for {target}"
        return
    fixable = sum(finding.fixable for finding in findings)
    offer = f"; --fix fixes {fixable}" if fixable else ""
    yield f"{_count(findings)}: {safe(name)}, for {target}{offer}"
    for places in _by_rule(findings):
        rule = places[0].rule
        yield f"  {rule.id}"
        for finding in places[:_MAX_PLACES]:
            yield f"    {safe(finding.pointer, limit=120)}  {safe(finding.message)}"
        if len(places) > _MAX_PLACES:
            yield f"    and {len(places) - _MAX_PLACES} more; see --json"
        yield _wrapped("why", rule.why)
        yield _wrapped("fix", rule.fix)


def _wrapped(label: str, text: str) -> str:
    first, rest = f"      {label:<4}  ", " " * 12
    return click.wrap_text(text, _WIDTH, initial_indent=first, subsequent_indent=rest)


def _by_rule(findings: Iterable[Finding]) -> list[list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.rule.id, []).append(finding)
    return list(groups.values())


def _count(findings: tuple[Finding, ...]) -> str:
    return f"{len(findings)} finding{'' if len(findings) == 1 else 's'}"
