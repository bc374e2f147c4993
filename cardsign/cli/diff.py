"""``cardsign diff``: what changed between two cards, and the version that the new one needs."""

from __future__ import annotations

from typing import Final

import click

from cardsign.cli.arguments import moment, option
from cardsign.cli.commands import command
from cardsign.cli.talk import printed, safe
from cardsign.cli.verifier import loopback_option, make_fetcher
from cardsign.diff.cards import CardDiff, diff_cards
from cardsign.diff.schemas import Effect
from cardsign.errors import EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.loading import load_card

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
@loopback_option
def diff(old: str, new: str, github: bool, insecure_loopback_http: bool) -> int:
    """Say what changed from card OLD to NEW, and whether NEW's version says so.

    Each is a file, a URL, or REVISION:PATH in the git repository of this folder. Nothing is
    verified, and signatures are not compared.

    Exit status 0: the version is enough. 1: a higher one is needed. 3: it is enough unless a
    change that cannot be judged breaks a caller.
    """
    fetcher = make_fetcher(moment, insecure_loopback_http)
    found = diff_cards(load_card(old, fetcher), load_card(new, fetcher))
    if not printed({"old": old, "new": new, **found.to_json()}):
        click.echo(_markdown(found) if github else _text(old, new, found))
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


def _text(old: str, new: str, found: CardDiff) -> str:
    count = len(found.changes)
    lines = [f"{count or 'no'} {'change' if count == 1 else 'changes'}: {safe(old)} to {safe(new)}"]
    for effect, title in _TITLES.items():
        ours = [one for one in found.changes if one.effect == effect]
        if ours:
            lines += ["", f"  {title}:"]
            lines += [f"    {safe(one.path)}  {safe(one.message)}" for one in ours]
    return "\n".join([*lines, *([""] if count else []), _verdict(found)])


def _markdown(found: CardDiff) -> str:
    lines = ["### Agent Card", "", f"**{_quoted(_verdict(found))}**"]
    for effect, title in _TITLES.items():
        ours = [one for one in found.changes if one.effect == effect]
        if ours:
            lines += ["", f"{title}:", ""]
            lines += [f"- `{_code(one.path)}`: {_quoted(one.message)}" for one in ours]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """A card's text in Markdown: no markup, no mention of a person, no link."""
    marks = "\\`*_{}[]()#+!|<>&~@:"
    return "".join(f"&#{ord(char)};" if char in marks else char for char in safe(text, limit=400))


def _code(text: str) -> str:
    return safe(text, limit=200).replace("`", "'")
