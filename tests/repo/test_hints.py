"""Each command that a message, a hint or a help text names exists, with the options named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cardsign.cli import command_line as cli

#: From the name of the program to the end of what may still be of this command.
NAMED = re.compile(r"\bcardsign((?: +[^\s;.,:()`]+)+)")
OPTION = re.compile(r"(--?[a-z][a-z-]*)")
#: Where a sentence speaks of the program, and names no command.
PROSE = frozenset(
    {
        *("a", "alone", "and", "calls", "can", "cannot", "checks", "command", "counted", "counts"),
        *("did", "does", "first", "for", "handles", "has", "have", "is", "itself", "knows", "may"),
        *("never", "of", "or", "reads", "remembers", "reports", "saw", "says", "shows", "signs"),
        *("to", "writes", "wrote"),
    }
)
#: Where another program of the command line begins, or prose goes on.
END = frozenset({"and", "cardsign", "or", "then", "in", "on", "for", "with", "where", "if"})


def texts(path: Path) -> Iterator[str]:
    """Every text of a module but its docstrings; what is filled in becomes X."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [one.value if isinstance(one, ast.Constant) else "X" for one in node.values]
            yield "".join(map(str, parts))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in skipped:
            yield str(node.value)  # type: ignore[attr-defined]


def wrong(text: str) -> list[str]:
    """What a text calls a command and is none."""
    return [f"{named[0]}: {why}" for named in NAMED.finditer(text) if (why := fault(named[1]))]


def fault(words: str) -> str:
    """Why the words after the program's name are no command; empty if they are."""
    command: click.Command = cli
    context = click.Context(cli, info_name="cardsign")
    given = [word.strip("'\"") for word in words.split()]
    path = 0
    while isinstance(command, click.Group) and path < len(given):
        found = command.get_command(context, given[path])
        if found is None:
            is_prose = path == 0 and (given[0] in PROSE or not given[0].islower())
            rest = given[path] in END or not re.fullmatch(r"[a-z][a-z-]*", given[path])
            return "" if is_prose or (path and rest) else f"no command {given[path]!r}"
        command, path = found, path + 1
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    known |= {"--help", "-h", "--version"}
    for word in given[path:]:
        if word in END:
            break
        option = OPTION.match(word)
        if option and option[1] not in known:
            return f"no option {option[1]}"
    return ""


@pytest.fixture(scope="module")
def modules(root: Path) -> list[Path]:
    """The package's files."""
    return sorted((root / "cardsign").rglob("*.py"))


def test_every_command_that_is_named_exists(modules: list[Path], root: Path) -> None:
    """A hint that does not work is worse than none."""
    found = {
        str(path.relative_to(root)): faults
        for path in modules
        if (faults := [one for text in texts(path) for one in wrong(text)])
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "Make one: cardsign keys generate; or ask.",
        "cardsign keys revoke KID --reason ceased",
        "this cardsign knows 3",
        "First cardsign trust init, then cardsign trust add NAME --digest HEX.",
        "see cardsign keys",
    ],
)
def test_what_exists_passes(text: str) -> None:
    """Commands, groups, and sentences about the program."""
    assert wrong(text) == []


@pytest.mark.parametrize(
    "text",
    ["next: cardsign recover, with the key", "cardsign keys mend", "cardsign sign CARD --profil X"],
)
def test_what_does_not_exist_is_seen(text: str) -> None:
    """A command, a subcommand, an option."""
    assert len(wrong(text)) == 1
