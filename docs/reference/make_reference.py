"""Write what repeats the program: cli.md, lint.md, python.md, reasons.md, requirements.md.

python docs/reference/make_reference.py            write them
python docs/reference/make_reference.py --check    exit 1 where one differs from the program
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Literal, get_args, get_origin, is_typeddict

import click

import cardsign
from cardsign.cli.main import command_line as cli
from cardsign.findings import describe_code, list_codes, severity_of
from cardsign.lint.cards import GROUPS, RULES
from cardsign.lint.rules import group_of

DOCS = Path(__file__).parent
SEEDS = DOCS.parents[1] / "tests/seeds"
NOTE = "<!-- Written by `make reference`; change the program instead. -->"
WIDTH = 96  # columns of the pages
#: An option of so many commands is described once.
MANY = 3
COMMANDS_INTRODUCTION = (
    "What each command does, and what its options are for. `cardsign COMMAND --help` says the "
    "rest: defaults, limits, exit statuses and an example.",
    "Options of many commands stand first, and are not repeated. Every command has `--json`, "
    "`--quiet` and `--help`.",
)
LINT_INTRODUCTION = (
    "`cardsign lint CARD...` says what is wrong with cards, why, and how to fix it. A card is a "
    "file, a folder or a URL. No signature is verified. The exit status is "
    "1 if a finding is at least a warning; `--fail-on` names another severity. Of one card, 50 "
    "findings of a rule are listed, and 200 in all.",
    "`cardsign help RULE` says why a rule matters and how to fix what it finds, and has an "
    "example of a good and a bad card. Each finding is an error unless a severity follows its "
    "rule. `--group` chooses groups of rules. `[lint]` in "
    "[cardsign.toml](settings.md) sets severities, ignores rules and holds waivers.",
    "The rules of `portable` are exact: a card has none of their findings if and only if the four "
    "default [profiles](../concepts/profiles.md) make the same bytes of it. Without `--group` "
    "some are left out that say nothing new, such as `portable.legacy-member` of a card of A2A "
    "0.3, or of both versions.",
    "`--fix -o OUT` fixes what can be fixed without loss: nulls and defaults outside security "
    "members go, and protobuf spellings become camelCase. Everything else is left to you. A "
    "fixed card has no signatures, because they were made over other bytes.",
)


def commands() -> str:
    """docs/reference/cli.md: what each command does, and what its options are for."""
    settings = {**cli.context_settings, "terminal_width": WIDTH}
    contexts = list(walk(click.Context(cli, info_name="cardsign", **settings)))[1:]
    times = Counter(record for context in contexts for record in options(context).values())
    shared = [record for record, count in times.most_common() if count >= MANY]
    statuses = re.sub(r" +([0-9])  ", r"* \1: ", str(cli.help).partition("Exit status:\n")[2])
    sections = [NOTE, "# Commands", *map(wrapped, COMMANDS_INTRODUCTION)]
    sections += ["The exit status of every command:", statuses.strip()]
    sections += ["## Options of many commands", *option_list(shared, whole=True)]
    sections += [describe_command(context, shared) for context in contexts]
    return "\n\n".join(sections) + "\n"


def options(context: click.Context) -> dict[str, tuple[str, str]]:
    """The options of a command by their parameters' names, as its help shows them."""
    return {
        str(param.name): record
        for param in context.command.params
        if isinstance(param, click.Option) and (record := param.get_help_record(context))
    }


def describe_command(context: click.Context, shared: Collection[tuple[str, str]]) -> str:
    """The first paragraph of a command's help, and the first sentence of each of its options."""
    command = context.command
    arguments = [
        param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)
    ]
    path = context.command_path.removeprefix("cardsign ")
    title = " ".join(["###" if " " in path else "##", path, *arguments])
    about = " ".join((command.help or "").partition("\n\n")[0].split())
    records = {
        record: not getattr(command, "advanced", frozenset()).isdisjoint(param.opts)
        for param in command.params
        if (record := options(context).get(str(param.name)))
    }
    own = [record for record, advanced in records.items() if record not in shared and not advanced]
    expert = [name_of(record) for record, advanced in records.items() if advanced]
    parts = [title, wrapped(about), *option_list(own)]
    parts += [wrapped(f"Advanced: {', '.join(expert)}.")] if expert else []
    return "\n\n".join(parts)


def option_list(records: Iterable[tuple[str, str]], *, whole: bool = False) -> list[str]:
    """A list of options with their help: the whole of it, or the first sentence."""
    items = [
        fill(
            f"* `{name}`: {text if whole else first_sentence(text)}",
            WIDTH,
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        for name, text in records
    ]
    return ["\n".join(items)] if items else []


def name_of(record: tuple[str, str]) -> str:
    """The long name of an option."""
    return f"`{record[0].split(', ')[-1].split()[0]}`"


def first_sentence(text: str) -> str:
    """A text up to the end of its first sentence, without the default."""
    sentence = re.match(r"(.*?[.])(?:\s+(?=[A-Z'\[])|$)", text)
    plain = sentence.group(1) if sentence else text
    return re.sub(r"\s+\[(default|required|[\d]+<=)[^]]*\]\.?$", "", plain).rstrip(".") + "."


def walk(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, then those of its subcommands."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None and not command.hidden:
                yield from walk(click.Context(command, context, name))


def code_line(code: str) -> str:
    """What a code means, and its severity unless that is an error."""
    severity = severity_of(code)
    weight = f" ({severity})" if severity != "error" else ""
    return f"* `{code}`{weight}: {describe_code(code).title}"


def reasons() -> str:
    """docs/reference/reasons.md: each code in its group, and what it means."""
    sections = [
        NOTE,
        "# Finding codes",
        wrapped(
            "Every error, verdict and HTTP refusal carries one of these codes, or one of "
            "[lint](lint.md). `cardsign help CODE` says what to do about it. A code keeps its "
            "meaning for ever; none is removed. Each is an error unless a severity follows "
            "it."
        ),
    ]
    groups: dict[str, list[str]] = {}
    for code in list_codes():
        if code in RULES or "." not in code:
            continue
        groups.setdefault(code.partition(".")[0], []).append(code_line(code))
    for group, lines in groups.items():
        sections.append(f"## {group}\n\n" + "\n".join(lines))
    return "\n\n".join(sections) + "\n"


def wrapped(paragraph: str) -> str:
    """A paragraph in lines; names with hyphens stay whole."""
    return fill(paragraph, WIDTH, break_on_hyphens=False)


def lint() -> str:
    """docs/reference/lint.md: the rules of each group, and what each finds."""
    sections = [NOTE, "# Lint", *map(wrapped, LINT_INTRODUCTION)]
    for name, about in GROUPS.items():
        lines = [code_line(code) for code in RULES if group_of(code) == name]
        sections.append(f"## {name}\n\nOf {about}.\n\n" + "\n".join(lines))
    return "\n\n".join(sections) + "\n"


def python() -> str:
    """docs/reference/python.md: the public names, by the first paragraphs of their docstrings."""
    sections = [
        NOTE,
        "# Python",
        wrapped(
            "`help()` says more of each name. "
            "[Verify in Python](../guides/python.md) shows the common ones."
        ),
    ]
    public = {name: getattr(cardsign, name) for name in cardsign.__all__}
    public |= {f"{room}.{name}": vars(import_module(room))[name] for name, room in HANDED.items()}
    for kind in KINDS:
        entries = [
            describe_name(name, value)
            for name, value in public.items()
            if next(other for other, fits in KINDS.items() if fits(value)) == kind
        ]
        sections.append("\n\n".join([f"## {kind}", *entries]))
    return "\n\n".join(sections) + "\n"


#: What the functions take and return besides, with its room.
HANDED = {
    "Payload": "cardsign.card.profiles",
    "Inspection": "cardsign.inspect",
    "CardDiff": "cardsign.diff",
    "BuiltCard": "cardsign.build.assemble",
    "CodeText": "cardsign.findings",
    "FetchSettings": "cardsign.net.fetch",
}


#: In the order of the page; a name is of the first kind that it fits.
KINDS: dict[str, Callable[[object], bool]] = {
    "Functions": inspect.isfunction,
    "Errors": lambda value: isinstance(value, type) and issubclass(value, Exception),
    "Classes": lambda value: isinstance(value, type),
    "Values": lambda value: True,
}


def describe_name(name: str, value: object) -> str:
    """How a name is called and what it is for; of a class, the calls of its public methods too."""
    if get_origin(value) is Literal:
        return wrapped(f"`{name}`: one of {', '.join(f'`{word}`' for word in get_args(value))}.")
    if not isinstance(value, type):
        return entry(signature_of(name, value), value) if callable(value) else f"`{name}`"
    members = []
    if is_dataclass(value):
        members += [f"`{field.name}`" for field in fields(value) if not field.name.startswith("_")]
    members += [f"`{name}`" for name in getattr(value, "_fields", ())]
    if not is_typeddict(value):
        for member in vars(value):
            attribute = getattr(value, member)
            if (
                member.startswith("_")
                or isinstance(attribute, type)
                or not inspect.getdoc(attribute)
                or f"`{member}`" in members
            ):
                continue
            if isinstance(vars(value)[member], property):
                members.append(f"`{member}`")
            elif callable(attribute) and name in cardsign.__all__:
                members.append(f"`{signature_of(member, attribute)}`")
    shown = entry(name, value)
    return wrapped(f"{shown} Members: {', '.join(members)}.") if members else shown


def entry(shown: str, value: object) -> str:
    """A name with the first paragraph of its docstring, without the roles of cross-references."""
    paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    plain = re.sub(r":[a-z]+:`~?([^`]+)`", r"`\1`", paragraph)
    return wrapped(f"`{shown}`: {plain.replace('``', '`')}")


def signature_of(name: str, value: Callable[..., object]) -> str:
    """How it is called: the names, types and defaults that are plain values; what it returns."""
    parts = []
    star = False
    for one in inspect.signature(value).parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        star = star or one.kind is one.VAR_POSITIONAL
        prefix = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        plain = one.default is None or isinstance(one.default, str | int)
        default = repr(one.default) if plain else "..."
        shown = "" if one.default is one.empty else f"={default}"
        parts.append(f"{prefix}{one.name}{type_of(one.annotation)}{shown}")
    returned = type_of(inspect.signature(value).return_annotation).replace(":", "->", 1)
    return f"{name}({', '.join(parts)}){returned}"


def type_of(annotation: object) -> str:
    """A type behind its colon, without blanks, so that a line is not broken within it."""
    if annotation is inspect.Parameter.empty:
        return ""
    plain = str(annotation).replace("Unpack[SubjectNames]", "str|None")
    return ":" + plain.replace(" | ", "|").replace(", ", ",")


#: The systems that cardsign serves, by the letter of their requirements.
SYSTEMS = {
    "F": "Forge",
    "G": "Generic reference",
    "O": "OpenFang",
    "B": "bobs-brain",
    "L": "Orloj",
}
REQUIREMENTS_INTRODUCTION = (
    "What five systems ask of a card. `tests/seeds/NAME.toml` names each statement of a system's "
    "document, its lines, and the commands or tests that check it. `pytest "
    "tests/cli/test_seed_statements.py` runs the commands, and fails where a line is left out.",
)


def requirements() -> str:
    """docs/reference/requirements.md: what is checked of five systems, and what is out of scope."""
    seeds = [tomllib.loads(path.read_text()) for path in sorted(SEEDS.glob("*.toml"))]
    statements = [(seed["seed"], entry) for seed in seeds for entry in seed["statement"]]
    outside = [f"* {seed}: {entry['out']}" for seed, entry in statements if "out" in entry]
    outside = [line for line in outside if ": headings" not in line]
    checked = [
        row for _, entry in statements if "out" not in entry for row in entry["rows"].split()
    ]
    lines = []
    for letter, system in SYSTEMS.items():
        numbers = sorted({int(row[1:]) for row in checked if row[0] == letter})
        first = [number for number in numbers if number - 1 not in numbers]
        last = [number for number in numbers if number + 1 not in numbers]
        ranges = (f"{letter}{a} to {letter}{b}" for a, b in zip(first, last, strict=True))
        lines.append(f"* {system}: {', '.join(ranges)}")
    sections = [NOTE, "# Requirements", *map(wrapped, REQUIREMENTS_INTRODUCTION)]
    sections += ["## Checked", "\n".join(lines), "## Out of scope", "\n".join(outside)]
    return "\n\n".join(sections) + "\n"


PAGES = {
    "requirements.md": requirements,
    "cli.md": commands,
    "lint.md": lint,
    "python.md": python,
    "reasons.md": reasons,
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
