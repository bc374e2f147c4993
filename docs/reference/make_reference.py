"""Write what repeats the program: cli.md, lint.md, python.md, reasons.md, the schema.

python docs/reference/make_reference.py            write them
python docs/reference/make_reference.py --check    exit 1 where one differs from the program
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from textwrap import fill, indent
from typing import Any, Literal, get_args, get_origin

import click
from typing_extensions import is_typeddict

import cardsign
from cardsign.cli.main import command_line as cli
from cardsign.findings import describe_code, list_codes, severity_of
from cardsign.lint.cards import GROUPS, RULES
from cardsign.lint.rules import group_of
from cardsign.testing import FakeIssuer
from cardsign.trust.policyfile import TrustFile

DOCS = Path(__file__).parent
NOTE = "<!-- Written by `make reference`; change the program instead. -->"
WIDTH = 96  # columns of the help texts, whatever terminal this runs in
#: An option of so many commands is described once.
MANY = 5
COMMON = "A command that takes one of these names it below its own options. All take `--help`."
LINT_INTRODUCTION = (
    "`cardsign lint CARD...` says what is wrong with cards, why, and how to fix it. A card is a "
    "file, a folder, a URL, or REVISION:PATH in git. Nothing is verified. The exit status is 1 if "
    "a finding is at least a warning; `--fail-on` names another severity. Of one card 50 findings "
    "of a rule are listed, and 200 in all; the number of the others follows.",
    "`--group` chooses groups. `[lint]` in "
    "[cardsign.toml](settings.md) sets severities, ignores rules and holds waivers. `cardsign help "
    "RULE` shows a rule with its two examples, which are also its tests.",
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
    """docs/reference/cli.md: the help of each command; options of many commands stand once."""
    settings = {**cli.context_settings, "terminal_width": WIDTH}
    contexts = list(walk(click.Context(cli, info_name="cardsign", **settings)))
    times = Counter(record for context in contexts for record in options(context).values())
    common = [record for record, count in times.most_common() if count >= MANY]
    formatter = click.HelpFormatter(width=WIDTH)
    formatter.write_dl([*common, ("-h, --help", "Show this message and exit.")])
    shared = f"```text\n{formatter.getvalue()}```"
    sections = [NOTE, "# Commands", "## Options of many commands", COMMON, shared]
    for context in contexts:
        sections.append(f"## {context.command_path}\n\n```text\n{help_of(context, common)}\n```")
    return "\n\n".join(sections) + "\n"


def options(context: click.Context) -> dict[str, tuple[str, str]]:
    """The options of a command by their parameters' names, as its help shows them."""
    return {
        str(param.name): record
        for param in context.command.params
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    }


def help_of(context: click.Context, common: list[tuple[str, str]]) -> str:
    """The help of a command, with the names alone of what it shares with many others."""
    command = copy(context.command)
    records = options(context)
    shared = {name: record[0] for name, record in records.items() if record in common}
    command.params = [param for param in command.params if param.name not in shared]
    command.add_help_option = False
    command.epilog = None
    text = command.get_help(context)
    names = [name.split(",")[-1].split()[0] for name in shared.values()]
    return text + (f"\n\nAlso: {', '.join(names)}" if names else "")


def walk(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, then those of its subcommands."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None and not command.hidden:
                yield from walk(click.Context(command, context, name))


def reasons() -> str:
    """docs/reference/reasons.md: each code, in its group."""
    sections = [
        NOTE,
        "# Finding codes",
        "Every error, verdict and HTTP refusal carries one of these. A code keeps its meaning "
        "for ever; none is removed. Each is an error unless it says otherwise.",
    ]
    groups: dict[str, list[str]] = {}
    for code in list_codes():
        if (code in RULES and not code.startswith("json.")) or "." not in code:
            continue
        severity, text = severity_of(code), describe_code(code)
        weight = f" ({severity})" if severity != "error" else ""
        line = f"- `{code}`{weight}: {text.title} {text.fix}"
        groups.setdefault(code.partition(".")[0], []).append(line)
    for group, lines in groups.items():
        sections.append(f"## {group}\n\n" + "\n".join(lines))
    return "\n\n".join(sections) + "\n"


def wrapped(paragraph: str) -> str:
    """A paragraph in lines; names with hyphens stay whole."""
    return fill(paragraph, WIDTH, break_on_hyphens=False)


def lint() -> str:
    """docs/reference/lint.md: the rules of each group."""
    sections = [NOTE, "# Lint", *map(wrapped, LINT_INTRODUCTION)]
    for name, about in GROUPS.items():
        rules = [one for one in RULES.values() if group_of(one.code) == name]
        why, count = Counter(describe_code(one.code).why for one in rules).most_common(1)[0]
        shared = why if count > 1 else ""
        lines = []
        for one in rules:
            text = describe_code(one.code)
            words = " ".join(part for part in (text.title, text.why, text.fix) if part != shared)
            bad = f" Such as `{'; '.join(text.bad)}`." if text.bad else ""
            source = f" From {text.reference}." if text.reference else ""
            lines.append(f"- `{one.code}` ({one.severity}): {words}{bad}{source}")
        why = f" Unless a rule gives another reason: {shared}" if shared else ""
        sections.append("\n\n".join([f"## {name}", f"Of {about}.{why}", "\n".join(lines)]))
    return "\n\n".join(sections) + "\n"


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
            return short
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
