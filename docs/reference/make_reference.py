"""Write what repeats the program: cli.md, lint.md, reasons.md and trust.schema.json, here.

python docs/reference/make_reference.py            write them
python docs/reference/make_reference.py --check    exit 1 where one differs from the program
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from textwrap import fill

import click

from cardsign.cli import command_line as cli
from cardsign.lint import RULES, TARGETS
from cardsign.reasons import REASONS
from cardsign.trust.policyfile import schema

DOCS = Path(__file__).parent
NOTE = "<!-- Written by `make reference`; change the program instead. -->"
WIDTH = 96  # columns of the help texts, whatever terminal this runs in
LINT_INTRODUCTION = (
    "`cardsign lint CARD --for TARGET` finds what parts the readers of a card: readers that sign "
    "and verify it by different [profiles](../concepts/profiles.md). The rules are exact. A card "
    "has no finding if and only if all readings that its target names make the same bytes of it; "
    "random cards test that in both directions. What the strict reader refuses anyway, such as a "
    "member that is there twice or 2^53, needs no rule. Whether a card is complete or true is "
    "not asked.",
    "`--fix -o OUT` mends what loses nothing: a null or default outside everything about who may "
    "call goes, a protobuf spelling becomes the camelCase one. The payloads of `prune-empty` and "
    "`prune-empty-upgraded` stay what they were where there is one, and that of "
    "`rule-1-as-written` but for members in protobuf spelling and nulls of 0.3. Unknown members, "
    "members of 0.3 that say something, "
    "empty REQUIRED members and every requirement are left to you. Signatures come off a card that "
    "is mended, for they were made over other bytes.",
)


def commands() -> str:
    """docs/reference/cli.md: the help of each command, groups before their members."""
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
    """docs/reference/reasons.md: a table for each group of codes."""
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


def wrapped(paragraph: str) -> str:
    """A paragraph in lines; names with hyphens stay whole."""
    return fill(paragraph, WIDTH, break_on_hyphens=False)


def lint() -> str:
    """docs/reference/lint.md: what each target promises, and a table of its own rules."""
    sections = [NOTE, "# Lint", *map(wrapped, LINT_INTRODUCTION)]
    for target in TARGETS.values():
        rules = [one for one in RULES.values() if one.id.startswith(f"{target.name}.")]
        rows = [
            f"| `{one.id}` | {_cell(one.summary)} | {_cell(one.why)} | {_cell(one.mend)} |"
            for one in rules
        ]
        table = ["| rule | what it finds | why | what to do |", "|---|---|---|---|", *rows]
        promise = f"A card without findings is {target.summary}."
        sections.append("\n\n".join([f"## {target.name}", promise, "\n".join(table)]))
    return "\n\n".join(sections) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def trust_schema() -> str:
    """docs/reference/trust.schema.json: the JSON Schema of `trust.toml`, for editors."""
    return json.dumps(schema(), indent=2) + "\n"


PAGES = {
    "cli.md": commands,
    "lint.md": lint,
    "reasons.md": reasons,
    "trust.schema.json": trust_schema,
}


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
            print(f"docs/reference/{name} is not what the program says; run `make reference`")
            stale += 1
        else:
            path.write_text(page, encoding="utf-8")
            print(f"docs/reference/{name} written")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
