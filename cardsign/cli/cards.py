"""Commands about cards as they are: build, lint, diff, inspect and conformance.

They verify nothing.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign.card.values import MAX_TOKEN
from cardsign.cli import frame
from cardsign.cli.frame import STDIO, Answer, members, moment, safe, say, show
from cardsign.errors import UsageFault
from cardsign.files import CONFIG_FILE
from cardsign.findings import SEVERITIES, cap_findings, counted, cut
from cardsign.jose.keys import JwkSet
from cardsign.lint.cards import GROUPS, LAYERS, CardReport, LintReport, lint_card
from cardsign.lint.portability import FixResult, fix
from cardsign.lint.rules import DEFAULT_SETTINGS, LintSettings
from cardsign.urls import is_url

if TYPE_CHECKING:  # what the others do not need
    from cardsign.build.assemble import BuiltCard


# ``cardsign build``.

#: Members whose sources are listed; how many more there are is said.
_MAX_MEMBERS: Final = 1000


@frame.command(
    example="cardsign build skills/ --url https://agents.example.com/{name} -o card.json"
)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@frame.file_option(metavar="CARD", required=True, help="The card; '-' for stdout.")
@click.option(
    "--a2a",
    type=click.Choice(("0.2", "0.3", "1.0", "both")),
    help="The A2A version; both: also CARD.0.3.json [default: OpenFang 0.2, Forge 0.3, else 1.0].",
)
@click.option("--base-url", metavar="URL", help="Where the server is; the source's path follows.")
@click.option("--url", metavar="TEMPLATE", help="Where the agent is; {name} stands for its name.")
@click.option(
    "--set",
    metavar="MEMBER=VALUE",
    multiple=True,
    help="A member of the card, such as description or skills.ID.name; wins over every source.",
)
@click.option("--agent", metavar="NAME", help="The Orloj agent, if there are several.")
@click.option("--prompt-excerpt", is_flag=True, help="Describe it with a prompt's first sentence.")
@click.option(
    "--ask-mcp",
    metavar="URL",
    multiple=True,
    help="Ask a live MCP server, over streamable HTTP, without credentials; needs the extra mcp.",
)
@click.option(
    "--run-mcp", metavar="COMMAND", multiple=True, help="Run an MCP server, and ask it over stdio."
)
@frame.network_option
@click.option("--explain", is_flag=True, help="Show the source and line of each member.")
def build(
    sources: tuple[str, ...], output: str, explain: bool, insecure: bool, **options: Any
) -> None:
    """Build a card from each SOURCE: a file or a folder, or KIND:PATH.

    Kinds are forge, orloj, openfang, pyproject, mcp, card and skills. What an earlier source says
    stays; later ones fill gaps, and live MCP servers come last. No code of a source is run. A
    server that a source names is not asked. A card of another A2A version is converted, without
    its signatures.

    Exit status 0: built. 1: refused.
    """
    from cardsign.build.assemble import SET_HINT, build_card, recognise_source
    from cardsign.build.draft import BuildOptions
    from cardsign.build.sources import ORLOJ
    from cardsign.cli.issuer import project_config

    members = frame.read_pairs("--set", "MEMBER=VALUE", options["set"], hint=SET_HINT)
    chosen = frame.take(BuildOptions, options)
    chosen = replace(chosen, members=members, settings=project_config().build)
    if chosen.agent and ORLOJ not in [recognise_source(source)[0] for source in sources]:
        message = f"--agent {chosen.agent} chooses among agents of Orloj, and no source is one"
        raise UsageFault("usage.invalid", message, hint="Leave out --agent.")
    if options["ask_mcp"] or options["run_mcp"]:
        from cardsign.build.live import ask_servers

        settings = frame.fetch_settings(insecure)
        live = ask_servers(options["ask_mcp"], options["run_mcp"], settings, frame.say)
        chosen = replace(chosen, live=live)
    built = build_card(sources, chosen)
    (_, first), *others = built.documents.items()
    if others and output == STDIO:
        raise UsageFault("usage.conflict", "--a2a both writes two files, and stdout is one")
    written = {output: first}  # of two, the older has its version in its name
    for version, data in others:
        written[str(Path(output).with_suffix(f".{version}{Path(output).suffix}"))] = data
    for name, data in written.items():
        frame.write_output(name, data)
    frame.say_notes(built.reasons)
    lines = _fact_lines(built) if explain else ()
    notes = [f"wrote {name}" for name in written if name != STDIO]
    show(Answer(_to_json(built, list(written)), lines, notes), err=output == STDIO)


def _fact_lines(built: BuiltCard) -> Iterator[str]:
    """Yield each member with the place that it comes from."""
    members = [safe(".".join(target)) for target in islice(built.facts, _MAX_MEMBERS)]
    width = min(max(map(len, members), default=0), 48)
    for member, place in zip(members, built.facts.values(), strict=False):
        yield f"{member:<{width}}  {safe(str(place))}"
    if more := len(built.facts) - len(members):
        yield f"and {more:,} more members"


def _to_json(built: BuiltCard, files: list[str]) -> dict[str, object]:
    return {
        "files": files,
        "a2a": list(built.documents),
        "reasons": [fact.to_json() for fact in cap_findings(built.reasons)],
        "members": [
            {"member": [cut(token, MAX_TOKEN) for token in target], **members(place, "file line")}
            for target, place in islice(built.facts.items(), _MAX_MEMBERS)
        ],
        "members_left_out": max(0, len(built.facts) - _MAX_MEMBERS),
    }


# ``cardsign lint``.


def _settings(options: Mapping[str, Any]) -> LintSettings:
    """Return those of cardsign.toml, with the options; the settings never choose files."""
    own = DEFAULT_SETTINGS
    if os.path.lexists(CONFIG_FILE):
        from cardsign.cli.issuer import project_config  # and with it the model of a key store

        own = project_config().lint.settings()
    of_layers = (name for layer in options["layer"] for name in LAYERS[layer])
    return replace(
        own,
        groups=(*options["group"], *of_layers) or own.groups,
        ignore=own.ignore | set(options["ignore"]),
        strict=own.strict or options["strict"],
        today=moment().date(),
    )


def say_lint(name: str, card: bytes, settings: LintSettings) -> None:
    """Say what lint calls an error or a secret, and a login that is misspelt; it stops nothing."""
    findings = cap_findings(lint_card(card, settings, name=name).findings)
    chosen = [
        finding
        for finding in findings
        if finding.severity == "error"
        or finding.code.startswith("secrets.")
        or "did you mean 'security" in finding.message
    ]
    frame.say_with_hints(chosen, head=f"lint of {safe(name)}: ")


@frame.command(example="cardsign lint card.json\ncardsign lint agents/ --format sarif > lint.sarif")
@click.argument("cards", nargs=-1, required=True, metavar="CARD...")
@click.option(
    "--group",
    multiple=True,
    type=click.Choice(list(GROUPS)),
    help="Only these groups of rules [default: all; contract for contract cards].",
)
@click.option(
    "--layer",
    multiple=True,
    type=click.Choice(list(LAYERS)),
    help="Only these layers of a contract: 1 JSON Schema, 2 members, 3 schemas and names, 4 A2A.",
)
@click.option("--ignore", metavar="RULE", multiple=True, help="Leave out a rule or group.")
@click.option(
    "--strict", is_flag=True, help="Contract cards need description, spiffe_id and authentication."
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    help="The least severe finding that makes the exit status 1.",
)
@frame.format_option(
    type=click.Choice(("text", "json", "sarif", "github")),
    help="How results are printed [default: text]; sarif: for code scanning; github: annotations.",
)
@click.option("--fix", "fixing", is_flag=True, help="Write a copy to OUT, fixed without loss.")
@frame.file_option(metavar="OUT", help="Where the fixed card goes; '-' for stdout.")
@frame.network_option
def lint(
    cards: tuple[str, ...], fixing: bool, output: str | None, insecure: bool, **options: Any
) -> int:
    """Find what is wrong with cards, say why, and how to fix it.

    Each CARD is a file, a folder, a URL, or '-' for stdin. In a folder, cards are found by their
    names and contents, and compared with one another; a folder without cards is refused. Nothing
    is verified.

    Exit status 0: no finding is as severe as --fail-on. 1: one is. If --fix changes
    the card, it removes the signatures. Settings and waivers are in cardsign.toml.
    """
    if fixing != (output is not None):
        why = "--fix and -o OUT belong together: OUT is where the fixed card goes"
        hint = f"For a report in a file: cardsign lint {shlex.join(cards)} --format json > OUT"
        raise UsageFault("usage.conflict", why, hint=hint)
    if (fixing or STDIO in cards) and len(cards) > 1:
        raise UsageFault("usage.conflict", "--fix takes one card, and - stands alone")
    settings = _settings(options)
    fixed: FixResult | None = None
    if output is not None:
        fixed = fix(frame.read_input(cards[0]))
        frame.write_output(output, fixed.document)
        say(f"fixed {counted(len(fixed.fixed), 'finding')}")
        if fixed.signatures_removed:
            say("removed the signatures, since the card has changed; sign it again")
        # The findings name the lines of the copy.
        reports: Sequence[CardReport] = [lint_card(fixed.document, settings, name=output)]
    elif cards == (STDIO,):
        reports = [lint_card(frame.read_input(STDIO), settings, name=STDIO)]
    else:
        from cardsign.projects import lint_sources

        reports = lint_sources(cards, settings, partial(frame.read_input, insecure=insecure))
    return show(LintReport(reports, options["fail_on"], fixed), err=output == STDIO)


# ``cardsign diff``, ``inspect`` and ``conformance``.


@frame.command(
    example="cardsign diff old.json agent-card.json\n"
    "cardsign diff card.json https://agent.example/.well-known/agent-card.json --live"
)
@click.argument("old")
@click.argument("new", required=False)
@click.option("--live", is_flag=True, help="Say whether NEW is what was committed as OLD.")
@click.option("--tools", metavar="FILE", help="In place of NEW: a saved answer to tools/list.")
@frame.network_option
def diff(old: str, new: str | None, live: bool, tools: str | None, insecure: bool) -> int:
    """Say what changed from card OLD to NEW, and whether NEW's version is high enough.

    Each is a file, a URL, or '-' for stdin. Nothing is verified, and signatures are not compared.
    --live compares the signatures and the bytes too, unless only NEW is signed. --tools compares
    the skills' schemas with those of the tools.

    Exit status 0: the version is high enough; with --live or --tools: nothing differs. 1: a higher
    version is needed; something differs. 3: the version is high enough unless a change that cannot
    be judged breaks a caller.
    """
    from cardsign.diff import MAX_MANIFEST_BYTES, diff_cards, diff_live, diff_tools

    if (new is None) == (tools is None) or (live and new is None):
        why = "name either NEW, with or without --live, or --tools FILE"
        raise UsageFault("usage.conflict", why)
    read = partial(frame.read_input, insecure=insecure)
    names = (old, str(new or tools))
    if tools is not None:
        manifest = frame.read_input(tools, max_bytes=MAX_MANIFEST_BYTES)
        return show(diff_tools(read(old), manifest, names=names))
    compare = diff_live if live else diff_cards
    return show(compare(read(old), read(str(new)), names=names))


@frame.command(
    example="cardsign inspect card.json --jwks jwks.json\ncardsign inspect https://agent.example"
)
@click.argument("card")
@click.option("--jwks", metavar="FILE", help="The keys to check a file's signatures by.")
@click.option(
    "--html", "page", metavar="OUT", help="Write one page for people instead, as `serve` does at /."
)
@frame.format_option(
    type=click.Choice(("text", "json", "sarif")),
    help="How results are printed [default: text]; sarif: for code scanning.",
)
@frame.network_option
def inspect(card: str, jwks: str | None, page: str | None, insecure: bool) -> int:
    """Show what CARD is, what its signatures cover, and why one does not fit.

    CARD is a file, a URL, or '-' for stdin. For a URL only its origin is asked, without
    credentials: for the card, its key set, and whether anyone gets the extended card. The answers
    of SDKs are predicted. There is no verdict: for that, use verify.

    Exit status 1: the card cannot be read, a signature is malformed or fits nothing, or the
    service has an error (--html does not look for one).
    """
    from cardsign.inspect import fetch_with_keys, inspect_card, inspect_url

    if is_url(card) and jwks is not None:
        raise UsageFault("usage.conflict", "--jwks is for files; a URL's own keys are used")
    form = frame.asked_form()
    if page is not None and form != "text":
        raise UsageFault("usage.conflict", f"--html and --format {form} are two formats")
    for source in filter(os.path.exists, filter(None, (card, jwks))):
        if page and os.path.exists(page) and os.path.samefile(page, source):
            raise UsageFault("usage.conflict", "--html would replace a file that is read")
    keys = None if jwks is None else frame.read_jwks(jwks)
    if not is_url(card):
        untrusted_bytes = frame.read_input(card)
    else:
        settings = frame.fetch_settings(insecure)
        if page is None:
            return show(inspect_url(card, now=moment(), fetch=settings))
        answer, published = fetch_with_keys(card, settings)
        untrusted_bytes = answer.untrusted_body
        keys = published if isinstance(published, JwkSet) else None
    report = inspect_card(untrusted_bytes, jwks=keys, name=card)
    if page is None:
        return show(report)
    from cardsign.page import card_page

    frame.write_output(page, card_page(untrusted_bytes, jwks=keys, now=moment())[0].encode())
    if page != STDIO:
        say(f"wrote {page}")
    return report.exit_status


_OURS: Final = "-m cardsign verify - --quiet --jwks {keys} --origin {origin}"


@frame.command(
    example="cardsign conformance tests --verifier 'node my-verifier.mjs {keys} {origin}'"
)
@click.argument("folder", metavar="DIR", type=frame.PATH)
@click.option(
    "--verifier",
    metavar="CMD",
    help="The program to check, which gets each card on stdin; {keys} stands for a file with a JWK "
    "Set, {origin} for the issuer's origin [default: this program].",
)
def conformance(folder: Path, verifier: str | None) -> int:
    """Try attacks and honest cards on a verifier, and say what it gets wrong.

    DIR is the folder `tests` of a checkout of cardsign. CMD exits with 0 if it trusts the card, and
    with 1 or 3 if it does not; it is run without a shell. Cases that need statements, state
    from an earlier run or a network are left out, and counted; --json names them.

    Exit status: 0 all cases are right, 1 some are wrong.
    """
    from cardsign.testing.conformance import run_cases

    command = f"{shlex.quote(sys.executable)} {_OURS}" if verifier is None else verifier
    return show(run_cases(folder, command, say))
