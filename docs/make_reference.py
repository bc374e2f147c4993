"""Write the pages that repeat the program: docs/cli.md and docs/reasons.md.

python docs/make_reference.py            write them
python docs/make_reference.py --check    exit 1 where one differs from the program
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from cardsign.cli import cli
from cardsign.reasons import REASONS

DOCS = Path(__file__).parent
NOTE = "<!-- Written by `make reference`; change the program instead. -->"
WIDTH = 96  # columns of the help texts, whatever terminal this runs in


def commands() -> str:
    """docs/cli.md: the help of each command, groups before their members."""
    sections = [NOTE, "# Commands"]
    settings = {**cli.context_settings, "terminal_width": WIDTH}
    for context in walk(click.Context(cli, info_name="cardsign", **settings)):
        text = context.command.get_help(context)
        sections.append(f"## {context.command_path}\n\n```text\n{text}\n```")
    return "\n\n".join(sections) + "\n"


def walk(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, then those of its subcommands."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None and not command.hidden:
                yield from walk(click.Context(command, context, name))


def reasons() -> str:
    """docs/reasons.md: a table for each group of codes."""
    sections = [
        NOTE,
        "# Reason codes",
        "Every error, verdict and HTTP refusal carries one of these. A code keeps its meaning "
        "for ever; none is removed.",
    ]
    for group, codes in groupby(REASONS.values(), key=lambda one: one.code.partition(".")[0]):
        rows = [f"| `{one.code}` | {_cell(one.meaning)} | {_cell(one.hint)} |" for one in codes]
        table = ["| code | what it says | what to do |", "|---|---|---|", *rows]
        sections.append(f"## {group}\n\n" + "\n".join(table))
    return "\n\n".join(sections) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {"cli.md": commands, "reasons.md": reasons}


def main(arguments: list[str]) -> int:
    """Write or check the pages; the number of those that differ from the program is the status."""
    check = arguments == ["--check"]
    if arguments and not check:
        sys.exit(__doc__)
    stale = 0
    for name, make in PAGES.items():
        path, page = DOCS / name, make()
        if path.is_file() and path.read_text(encoding="utf-8") == page:
            continue
        if check:
            print(f"docs/{name} is not what the program says; run `make reference`")
            stale += 1
        else:
            path.write_text(page, encoding="utf-8")
            print(f"docs/{name} written")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
