"""Write what repeats the program: cli.md, lint.md, python.md, reasons.md, the schema.

python docs/reference/make_reference.py            write them
python docs/reference/make_reference.py --check    exit 1 where one differs from the program
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from textwrap import fill, indent
from typing import Any, Literal, get_args, get_origin

import click
from typing_extensions import is_typeddict

import cardsign
from cardsign.cli import command_line as cli
from cardsign.cli.lint import shown_example
from cardsign.lint import GROUPS, RULES
from cardsign.reasons import REASONS, severity_of
from cardsign.testing import FakeIssuer
from cardsign.trust.policyfile import TrustFile

DOCS = Path(__file__).parent
NOTE = "<!-- Written by `make reference`; change the program instead. -->"
WIDTH = 96  # columns of the help texts, whatever terminal this runs in
LINT_INTRODUCTION = (
    "`cardsign lint CARD...` says what is wrong with cards, why, and how to fix it. A card is a "
    "file, a folder, a URL, or REVISION:PATH in git. Nothing is verified. The exit status is 1 if "
    "a finding is at least a warning; `--fail-on` names another severity.",
    "`--group` chooses groups. `[lint]` in "
    "[cardsign.toml](settings.md) sets severities, ignores rules and holds waivers. `cardsign lint "
    "--explain RULE` shows a rule with its two examples, which are also its tests.",
    "The rules of `portable` are exact: a card has none of their findings if and only if the four "
    "default [profiles](../concepts/profiles.md) make the same bytes of it. Random cards test that "
    "in both directions.",
    "`--fix -o OUT` fixes what can be fixed without loss. Nulls and defaults outside security "
    "members go, and a protobuf spelling becomes the camelCase one. The payloads of `prune-empty` "
    "and `prune-empty-upgraded` stay the same; that of `rule-1-as-written` changes only for "
    "protobuf spellings and nulls of 0.3. Unknown members, members of 0.3 that say something, "
    "empty REQUIRED members and every requirement are left to you. Signatures come off a fixed "
    "card, because they were made over other bytes.",
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
        rows = [
            f"| `{one.code}` | {severity_of(one.code)} | {_cell(one.meaning)} | {_cell(one.hint)} |"
            for one in codes
        ]
        table = ["| code | severity | what it says | what to do |", "|---|---|---|---|", *rows]
        sections.append(f"## {group}\n\n" + "\n".join(table))
    return "\n\n".join(sections) + "\n"


def wrapped(paragraph: str) -> str:
    """A paragraph in lines; names with hyphens stay whole."""
    return fill(paragraph, WIDTH, break_on_hyphens=False)


def lint() -> str:
    """docs/reference/lint.md: the groups, and a table of the rules of each."""
    sections = [NOTE, "# Lint", *map(wrapped, LINT_INTRODUCTION)]
    for name, about in GROUPS.items():
        rows = []
        for one in RULES.values():
            if one.group == name:
                bad = f"`{_cell(shown_example(one.bad))}`" if one.bad else ""
                texts = " | ".join(map(_cell, (one.summary, one.why, one.fix)))
                rows.append(f"| `{one.id}` | {one.severity} | {texts} | {bad} | {one.reference} |")
        head = "| rule | severity | what it finds | why | what to do | such as | from |"
        table = [head, "|---|---|---|---|---|---|---|", *rows]
        sections.append("\n\n".join([f"## {name}", f"Of {about}.", "\n".join(table)]))
    return "\n\n".join(sections) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def trust_schema() -> str:
    """docs/reference/trust.schema.json: the JSON Schema of `trust.toml`, for editors."""
    made: dict[str, Any] = _without_null(TrustFile.model_json_schema())
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
    return json.dumps(schema, indent=2) + "\n"


def _without_null(value: Any) -> Any:
    """TOML has no null: what may be left out has one type and no default."""
    if isinstance(value, list):
        return [_without_null(one) for one in value if one != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    kept = {name: _without_null(one) for name, one in value.items() if one is not None}
    alone = kept.pop("anyOf")[0] if len(kept.get("anyOf", ())) == 1 else {}
    return kept | alone


def python() -> str:
    """docs/reference/python.md: the public names, by their own docstrings."""
    sections = [
        NOTE,
        "# Python",
        "\n".join(
            [
                "The names of `cardsign` itself. Each room has more, such as `cardsign.trust`.",
                "[Verify in Python](../guides/verify-in-python.md) shows the common ones.",
            ]
        ),
    ]
    names = [name for name in cardsign.__all__ if not name.startswith("__")]
    found = {f"cardsign.{name}": getattr(cardsign, name) for name in names}
    found["cardsign.testing.FakeIssuer"] = FakeIssuer
    for kind in KINDS:
        sections.append(f"## {kind}")
        for name, value in found.items():
            if next(one for one, fits in KINDS.items() if fits(value)) == kind:
                sections.append(f"### {name}\n\n```text\n{described(name, value)}\n```")
    return "\n\n".join(sections) + "\n"


#: In the order of the page; a name is of the first kind that it fits.
KINDS: dict[str, Callable[[object], bool]] = {
    "Functions": inspect.isfunction,
    "Errors": lambda value: isinstance(value, type) and issubclass(value, Exception),
    "Classes": lambda value: isinstance(value, type),
    "Values": lambda value: True,
}


def described(name: str, value: object) -> str:
    """How a name is called, what it is for, and its public methods."""
    short = name.rpartition(".")[2]
    if get_origin(value) is Literal:
        return "\n".join([f"{short}, one of:", *(f"    {one}" for one in get_args(value))])
    if not isinstance(value, type):
        if not callable(value):
            return f"{short}: all reasons by their codes; see reasons.md"
        return f"{signature_of(short, value)}\n\n{indented(inspect.getdoc(value))}"
    if is_typeddict(value):
        members = [f"    {one}" for one in sorted(value.__annotations__)]
        return "\n".join([short, "", indented(inspect.getdoc(value)), "", "    Members:", *members])
    parts = [short, indented(inspect.getdoc(value))]
    for method, held in vars(value).items():
        if method.startswith("_") or not inspect.getdoc(getattr(value, method)):
            continue
        if isinstance(held, property):
            parts += [f"{short}.{method}", indented(inspect.getdoc(held))]
        elif callable(getattr(value, method)) and not isinstance(getattr(value, method), type):
            parts += [
                signature_of(f"{short}.{method}", getattr(value, method)),
                indented(inspect.getdoc(held)),
            ]
    return "\n\n".join(parts)


def signature_of(name: str, value: Callable[..., object]) -> str:
    """How it is called: the names, and the defaults that are plain values."""
    told = []
    star = False
    for one in inspect.signature(value).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            told.append("*")
        star = star or one.kind is one.VAR_POSITIONAL
        prefix = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        plain = one.default is None or isinstance(one.default, str | int)
        default = repr(one.default) if plain else "..."
        told.append(prefix + one.name + ("" if one.default is one.empty else f"={default}"))
    return fill(f"{name}({', '.join(told)})", WIDTH, subsequent_indent="    ")


def indented(text: str | None) -> str:
    """A docstring below its name, without the roles of cross-references."""
    return indent(re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text or ""), "    ")


PAGES = {
    "cli.md": commands,
    "lint.md": lint,
    "python.md": python,
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
