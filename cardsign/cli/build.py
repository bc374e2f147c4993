"""``cardsign build``: a card from the manifests of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from cardsign.build.assemble import SET_HINT, BuiltCard, build_card
from cardsign.build.draft import BuildOptions
from cardsign.card.values import MAX_TOKEN
from cardsign.cli.frame import Command
from cardsign.cli.keystore import project_config
from cardsign.cli.options import (
    STDIO,
    fetch_settings,
    network_option,
    read_pairs,
    refuse_two_documents,
    take,
    write_output,
)
from cardsign.cli.printer import Answer, safe, say, say_notes, show
from cardsign.errors import UsageFault
from cardsign.findings import cap_findings, cut


def _members(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    return read_pairs("--set", "MEMBER=VALUE", texts, hint=SET_HINT)


#: Members whose sources are listed; how many more there are is said.
_MAX_MEMBERS: Final = 1000


@click.command(
    cls=Command,
    example="cardsign build skills/ --url https://agents.example.com/{name} -o card.json",
)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("-o", "--output", metavar="CARD", required=True, help="The card; '-' for stdout.")
@click.option(
    "--a2a",
    type=click.Choice(("0.2", "0.3", "1.0", "both")),
    help="The A2A version of the card; both: 1.0, and 0.3 next to it as CARD with .0.3 before its "
    "suffix [default: 0.3 from Forge, else 1.0].",
)
@click.option("--base-url", metavar="URL", help="Where the server is; the source's path follows.")
@click.option("--url", metavar="TEMPLATE", help="Where the agent is; {name} stands for its name.")
@click.option(
    "--set",
    "members",
    metavar="MEMBER=VALUE",
    multiple=True,
    callback=_members,
    help="A member of the card, such as description or skills.ID.name; wins over every source.",
)
@click.option(
    "--agent", metavar="NAME", help="Which agent of Orloj, where the sources define several."
)
@click.option(
    "--prompt-excerpt",
    is_flag=True,
    help="Take a missing description from a prompt's first sentence.",
)
@click.option(
    "--ask-mcp",
    "asked",
    metavar="URL",
    multiple=True,
    help="Ask a live MCP server for its tools, over streamable HTTP, without credentials; needs "
    "the extra mcp.",
)
@click.option(
    "--run-mcp",
    "run",
    metavar="COMMAND",
    multiple=True,
    help="Run this program, an MCP server, and ask it for its tools over stdio.",
)
@network_option
@click.option("--explain", is_flag=True, help="Show the source and line of each member.")
def build(
    sources: tuple[str, ...],
    output: str,
    asked: tuple[str, ...],
    run: tuple[str, ...],
    explain: bool,
    insecure: bool,
    **options: Any,
) -> None:
    """Build a card from each SOURCE: a file or a folder, or KIND:PATH.

    Kinds are forge, orloj, openfang, pyproject, mcp, card and skills. What an earlier source says
    stays; later ones fill gaps, and live MCP servers come last. No code of a source is run. A
    server that a source names is not asked. A card of another A2A version is converted, without
    its signatures.

    Exit status 0: built. 1: refused.
    """
    chosen = take(BuildOptions, options)
    refuse_two_documents(output)
    chosen = chosen.with_settings(project_config().build)
    if asked or run:
        from cardsign.build.live import ask_servers

        chosen = replace(chosen, live=ask_servers(asked, run, fetch_settings(insecure)))
    built = build_card(sources, chosen)
    written = dict(_outputs(output, built))
    for name, data in written.items():
        write_output(name, data)
    say_notes(built.reasons)
    lines = _fact_lines(built) if explain else ()
    show(Answer(_to_json(built, list(written)), lines), err=output == STDIO)
    for name in written:
        if name != STDIO:
            say(f"wrote {name}")


def _outputs(output: str, built: BuiltCard) -> Iterator[tuple[str, bytes]]:
    """Yield where each document goes; of two, the older has its version in its name."""
    (_, first), *others = built.documents.items()
    yield output, first
    for version, data in others:
        if output == STDIO:
            raise UsageFault(
                "usage.conflict", "--a2a both writes two files, so they cannot go to stdout"
            )
        path = Path(output)
        yield str(path.with_suffix(f".{version}{path.suffix}")), data


def _fact_lines(built: BuiltCard) -> Iterator[str]:
    """Yield each member with the place that it comes from."""
    members = [safe(".".join(fact.target)) for fact in built.facts[:_MAX_MEMBERS]]
    width = min(max(map(len, members), default=0), 48)
    for member, fact in zip(members, built.facts, strict=False):
        yield f"{member:<{width}}  {safe(str(fact.place))}"
    if more := len(built.facts) - len(members):
        yield f"and {more:,} more members"


def _to_json(built: BuiltCard, files: list[str]) -> dict[str, object]:
    return {
        "files": files,
        "a2a": list(built.documents),
        "reasons": [fact.to_json() for fact in cap_findings(built.reasons)],
        "members": [
            {
                "member": [cut(token, MAX_TOKEN) for token in fact.target],
                "file": fact.place.file,
                "line": fact.place.line or None,
            }
            for fact in built.facts[:_MAX_MEMBERS]
        ],
        "members_left_out": len(built.facts[_MAX_MEMBERS:]),
    }
