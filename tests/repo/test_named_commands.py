"""Every command that a message, a hint or a page names is one that the command line takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

from cardsign.cli.main import command_line
from cardsign.findings import describe_code, list_codes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"\bcardsign ((?:--? )?[a-z][^\n`;,()|&\"]*)")
ENDS = re.compile(r"\.(?=\s|$)|:(?=\s|$)|'(?=\s|$|\.)")
PASTED_STOP = re.compile(r": cardsign [^.;`]+\.$")
CODE = re.compile(r"`([^`\n]+)`|^\$ (.+)$", re.MULTILINE)
# The program as a subject: "cardsign checks them".
SAID_OF_THE_PROGRAM = frozenset(
    {"accepts", "and", "beside", "can", "cannot", "checks", "command", "commands", "did", "does"}
    | {"for", "has", "holds", "is", "keeps", "knows", "knew", "made", "makes", "may", "never"}
    | {"process", "program", "reads", "remembers", "says", "see", "signs", "that", "tells", "to"}
    | {"used", "was", "what", "who", "whose", "will", "with", "wrote", "writes"}
)


def texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, an f-string as one with X for what is put in; no docstrings."""
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in inner or id(node) in docs:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
            yield "".join(str(part) for part in parts)


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command that a text names, without `cardsign`."""
    for found in NAMED.findall(text):
        words = ENDS.split(found)[0].split()
        if words and words[0] not in SAID_OF_THE_PROGRAM and "." not in words[0]:
            yield words


def fault(words: list[str]) -> str | None:
    """Why the command line does not take these words, or None if it does."""
    command: click.Command = command_line
    # With its settings: click keeps the help option of the first context that asks.
    context = click.Context(command, info_name="cardsign", **command.context_settings)
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        inner = command.get_command(context, rest[0])
        if inner is None:
            return f"cardsign {' '.join(words)}: {rest[0]!r} is no command of {context.info_name}"
        command, context = inner, click.Context(inner, context, info_name=rest.pop(0))
    try:
        command.make_parser(context).parse_args(rest)
    except click.UsageError as exc:
        return f"cardsign {' '.join(words)}: {exc.format_message()}"
    return None


def faults(text: str) -> list[str]:
    """What is wrong with the commands that a text names."""
    return [bad for words in commands_in(text) if (bad := fault(words)) is not None]


def test_messages_and_hints_name_commands_that_exist(trees: Mapping[str, ast.Module]) -> None:
    """In every room: the command with its options, as click parses them."""
    named = 0
    for module, tree in trees.items():
        for text in texts(tree):
            assert faults(text) == [], module
            named += len(list(commands_in(text)))
    assert named > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_that_exist(page: Path) -> None:
    """In its code, inline and in blocks."""
    for inline, line in CODE.findall(page.read_text(encoding="utf-8")):
        assert faults((inline or line).replace(" \\", "")) == []


def test_a_command_that_does_not_exist_is_seen() -> None:
    """A name, a subcommand and an option; what is said of the program is no command."""
    assert faults("Make one: cardsign keyz generate.") != []
    assert faults("See cardsign keys lists.") != []
    assert faults("Run `cardsign verify CARD --trusting FILE`") != []
    assert faults("Nothing to do: cardsign checks them. Else: cardsign keys list.") == []


def test_no_hint_points_into_the_source() -> None:
    """An installed package has no docs folder."""
    texts = {code: describe_code(code) for code in list_codes()}
    assert [code for code, text in texts.items() if "docs/" in text.title + text.fix] == []


def test_a_fix_ends_with_its_command() -> None:
    """A full stop after the last word would be pasted with it."""
    fixes = {code: describe_code(code).fix for code in list_codes()}
    assert [code for code, fix in fixes.items() if faults(fix)] == []
    assert [code for code, fix in fixes.items() if PASTED_STOP.search(fix)] == []
    assert PASTED_STOP.search("Publish first: cardsign publish CARD -o DIR.")
