"""``cardsign lint``: for whom a card is fit, where it is not, and what can be mended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from cardsign.card.document import Card
from cardsign.cli.arguments import STDIO, json_option, read_input, write_output
from cardsign.cli.commands import command
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.lint.mend import Mending, fix
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
    help="Readers of the default profiles; besides them the client of @a2a-js/sdk; besides them "
    "a2a-sdk before 1.1.4.",
)
@click.option("--fix", "mend", is_flag=True, help="Mend what can be mended without loss; needs -o.")
@click.option("-o", "--output", metavar="OUT", help="Where the mended card goes; '-' for stdout.")
@json_option
def lint(card: str, target: str, mend: bool, output: str | None, as_json: bool) -> int:
    """Find what parts the readers of CARD ('-' for stdin), why, and how to mend it.

    Exit status 0 where nothing is found, 1 for findings; with --fix, for those that are left.
    Nothing is verified, and --fix takes signatures off when it changes the card.
    """
    if mend != (output is not None):
        raise UsageFault("usage.conflict", "--fix and -o OUT belong together")
    if output == STDIO and as_json:
        raise UsageFault("usage.conflict", "--json and -o - would both print on stdout")
    data = read_input(card)
    mending = fix(data, target) if mend else _as_it_is(data, target)
    if output is not None:
        write_output(output, mending.document)
        _say_mended(mending)
    if as_json:
        print_json(_to_json(target, mending, mend=mend))
    else:
        report = "\n".join(_lines(card, target, mending.left))
        click.echo(report, err=output == STDIO)
    return EXIT_NOT_TRUSTED if mending.left else EXIT_OK


def _as_it_is(data: bytes, target: str) -> Mending:
    return Mending(data, (), lint_document(Card.from_bytes(data).document, target), 0)


def _say_mended(mending: Mending) -> None:
    say(f"mended {_count(mending.mended)}")
    if mending.signatures_removed:
        say("the signatures were taken off, for the card has changed; sign it again")


def _to_json(target: str, mending: Mending, *, mend: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "for": target,
        "clean": not mending.left,
        "findings": [finding.to_json() for finding in mending.left],
    }
    if mend:
        answer["mended"] = [finding.to_json() for finding in mending.mended]
        answer["signatures_removed"] = mending.signatures_removed
    return answer


def _lines(name: str, target: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    """A card's findings for a person, by rule: the places, then why and what to do."""
    if not findings:
        yield f"clean: {safe(name)}, for {target}"
        return
    mendable = sum(finding.mendable for finding in findings)
    offer = f"; --fix mends {mendable}" if mendable else ""
    yield f"{_count(findings)}: {safe(name)}, for {target}{offer}"
    for places in _by_rule(findings):
        rule = places[0].rule
        yield f"  {rule.id}"
        for finding in places[:_MAX_PLACES]:
            yield f"    {safe(finding.pointer, limit=120)}  {safe(finding.message)}"
        if len(places) > _MAX_PLACES:
            yield f"    and {len(places) - _MAX_PLACES} more; see --json"
        yield _wrapped("why", rule.why)
        yield _wrapped("mend", rule.mend)


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
