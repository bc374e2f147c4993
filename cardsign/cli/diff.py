"""``cardsign diff`` and ``cardsign drift``: two cards compared."""

from __future__ import annotations

from typing import Final

import click

from cardsign.cli.arguments import option, read_input
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, safe
from cardsign.cli.verifier import NetworkOptions, network_options
from cardsign.diff.cards import CardDiff, diff_cards
from cardsign.diff.schemas import Effect
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.inputs import load_card

_TITLES: Final[dict[Effect, str]] = {
    "breaking": "Breaks a caller",
    "unclear": "Cannot be told from the cards: decide yourself",
    "additive": "New for a caller",
    "wording": "Words only",
}
_STATUS: Final = {"enough": EXIT_OK, "too-low": EXIT_NOT_TRUSTED, "unclear": EXIT_NO_VERDICT}


@command(example="cardsign diff HEAD~1:agent-card.json agent-card.json")
@click.argument("old")
@click.argument("new")
@option("--github", "Print Markdown, for a comment on a pull request.")
@network_options
def diff(old: str, new: str, github: bool, network: NetworkOptions) -> int:
    """Say what changed from card OLD to NEW, and whether NEW's version says so.

    Each is a file, a URL, or REVISION:PATH in the git repository of this folder. Nothing is
    verified, and signatures are not compared.

    Exit status 0: the version is enough. 1: a higher one is needed. 3: it is enough unless a
    change that cannot be judged breaks a caller.
    """
    fetcher = network.fetcher()
    found = diff_cards(load_card(old, fetcher), load_card(new, fetcher))
    if printed({"old": old, "new": new, **found.to_json()}):
        return _STATUS[found.version_verdict]
    by_effect = {
        title: ours
        for effect, title in _TITLES.items()
        if (ours := [one for one in found.changes if one.effect == effect])
    }
    if github:
        lines = ["### Agent Card", "", f"**{_quoted(_verdict(found))}**"]
        for title, ours in by_effect.items():
            lines += ["", f"{title}:", ""]
            for one in ours:
                path = safe(one.path, limit=200).replace("`", "'")
                lines.append(f"- `{path}`: {_quoted(one.message)}")
    else:
        count = sum(one.count for one in found.changes)
        lines = [f"{count or 'no'} change{'' if count == 1 else 's'}: {safe(old)} to {safe(new)}"]
        for title, ours in by_effect.items():
            lines += ["", f"  {title}:"]
            lines += [f"    {safe(one.path)}  {safe(one.message)}" for one in ours]
        lines += [*([""] if count else []), _verdict(found)]
    click.echo("\n".join(lines))
    return _STATUS[found.version_verdict]


def _verdict(found: CardDiff) -> str:
    old, new = safe(str(found.old_version)), safe(str(found.new_version))
    if found.version_verdict == "enough":
        return f"version {old} to {new}: enough"
    if found.version_verdict == "unclear":
        return f"version {old} to {new}: enough, unless an undecided change breaks a caller"
    if found.least_version is None:
        return f"version {old} to {new}: no semantic version, so nothing can be said of it"
    return f"version {old} to {new}: too low; {found.least_version} or higher is needed"


def _quoted(text: str) -> str:
    """A card's text in Markdown: no markup, no mention of a person, no link."""
    marks = "\\`*_{}[]()#+!|<>&~@:"
    return "".join(f"&#{ord(char)};" if char in marks else char for char in safe(text, limit=400))


@command(example="cardsign drift card.json https://agent.example/.well-known/agent-card.json")
@click.argument("committed")
@click.argument("live", required=False)
@option(
    "--tools FILE",
    "A recorded answer to tools/list, in place of LIVE. No server is asked: save its answer first.",
)
@network_options
def drift(committed: str, live: str | None, tools: str | None, network: NetworkOptions) -> int:
    """Compare the COMMITTED card with the LIVE one by digest, and say what differs.

    Each is a file, a URL, or REVISION:PATH in git. With --tools the skills' schemas are compared
    with the tools that an agent really has. If only LIVE is signed, its signatures are not
    compared. Nothing is verified.

    Exit status 0: they are the same. 1: they are not.
    """
    from cardsign.contract import MAX_MANIFEST_BYTES, card_drift, tools_drift

    if (live is None) == (tools is None):
        raise UsageFault("usage.conflict", "name either LIVE or --tools FILE")
    fetcher = network.fetcher()
    card = load_card(committed, fetcher)
    if tools is not None:
        found = tools_drift(card, read_input(tools, max_bytes=MAX_MANIFEST_BYTES))
    else:
        found = card_drift(card, load_card(str(live), fetcher))
    if not printed(found.to_json()):
        click.echo(f"committed {found.committed_sha256}")
        if found.live_sha256 is not None:
            click.echo(f"live      {found.live_sha256}")
        for where, what in found.differences:
            click.echo(f"  {safe(where, limit=120)}  {safe(what)}")
        if found.only_live_is_signed:
            click.echo("the committed card is unsigned: the live signatures do not count")
        click.echo("it has drifted" if found.has_drifted else "no drift")
    return EXIT_NOT_TRUSTED if found.has_drifted else EXIT_OK
