"""Every command that a message, a hint or a page names is one that the command line takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from cardsign.cli.main import command_line

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: A command to the end of its sentence, and code of a page: inline, typed, or of a crontab.
NAMED = re.compile(r"\bcardsign ((?:--? )?[a-z][^\n`;,()|&\"]*)")
END = re.compile(r"[.:'](?=\s|$)|'\.")
CODE = re.compile(r"`(cardsign [^`\n]+)`|^(?:\$|[\d*/ ]+ cd .*&&) (.+)$", re.MULTILINE)


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module but its docstrings, an f-string as one with X for what is put in."""
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield "".join(map(str, values))
        elif isinstance(node, ast.Constant) and id(node) not in parts:
            yield str(node.value)


def fault(text: str) -> str:
    """Why the command line does not take a command, without `cardsign`; empty if it does."""
    command: click.Command = command_line
    # With its settings: click keeps the help option of the first context that asks.
    context = click.Context(command, info_name="cardsign", **command.context_settings)
    rest = END.split(text)[0].split()
    while isinstance(command, click.Group) and rest:
        inner = command.get_command(context, rest[0])
        if inner is None:
            return f"{text}: {rest[0]!r} is no command of {context.info_name}"
        command, context = inner, click.Context(inner, context, info_name=rest.pop(0))
    try:
        command.make_parser(context).parse_args(rest)
    except click.UsageError as error:
        return f"{text}: {error.format_message()}"
    return ""


def test_messages_and_hints_name_commands_that_exist(trees: Mapping[str, ast.Module]) -> None:
    """In every room: the command with its options; "cardsign checks them" names none."""
    names = command_line.list_commands(click.Context(command_line))
    named = [
        command
        for tree in trees.values()
        for text in texts(tree)
        for command in NAMED.findall(text)
        if command.split()[0] in names
    ]
    assert len(named) > 100
    assert [bad for command in named if (bad := fault(command))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_that_exist(page: Path) -> None:
    """In its code, inline and in blocks."""
    for inline, line in CODE.findall(page.read_text(encoding="utf-8")):
        for command in NAMED.findall((inline or line).replace(" \\", "")):
            assert not fault(command)


@pytest.mark.parametrize("command", ["keyz list", "keys lists", "verify CARD --trusting FILE"])
def test_a_command_that_does_not_exist_is_seen(command: str) -> None:
    """A name, a subcommand and an option."""
    assert fault(command)
