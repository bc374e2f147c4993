"""What ``cardsign --help`` says, and what it costs."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from cardsign.cli.frame import Command
from cardsign.cli.main import command_line as cli
from tests.cli.conftest import Cardsign, parse

HELP = (
    "from cardsign.cli.main import command_line; "
    "command_line.main(['--help'], standalone_mode=False)"
)
#: Programs, the module that each needs, and those for which nobody waits who runs it.
LOADS: dict[str, tuple[str, str, str]] = {
    "help": (
        *(HELP, "cli.frame"),
        ".api .card .cli.cards .config .files .issuer .jose .keys .lint .net .server .trust .urls "
        ".verify json difflib unicodedata cryptography pydantic flask",
    ),
    "a verifier": (
        "from cardsign.cli import cards, fetch, trust, verify",
        *("verify", ".issuer .keys .publish .server flask"),
    ),
    "a list of keys": (
        "import cardsign.cli.keys",
        *("keys.store", ".issuer .server .trust flask"),
    ),
    "an issuer": ("import cardsign.cli.statements", "issuer.reconcile", ".server flask"),
}


@pytest.mark.parametrize(("program", "needed", "others"), LOADS.values(), ids=LOADS)
def test_a_command_loads_what_it_needs(program: str, needed: str, others: str) -> None:
    """Who only looks, or has no keys, does not wait for a key store or a server."""
    program = f"import sys\n{program}\nprint('\\nloaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    loaded = done.stdout.rpartition("\nloaded")[2].replace("cardsign.", ".").split()
    assert f".{needed}" in loaded
    assert set(others.split()).isdisjoint(loaded)


# click keeps the help option that a command's first context asks for, so all ask for the same.
CONTEXT = click.Context(cli, info_name="cardsign", **{**cli.context_settings, "terminal_width": 80})


@pytest.mark.parametrize("name", cli.list_commands(CONTEXT))
def test_every_command_is_there_and_is_listed_in_full(name: str) -> None:
    """Each line of help stands for a command, and none is cut off on a terminal."""
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    assert command.name == name
    pages = [(cli.get_help(CONTEXT), [name])]
    if isinstance(command, click.Group):
        page = command.get_help(click.Context(command, CONTEXT, name))
        pages.append((page, [*command.commands]))
    for page, names in pages:
        for listed in names:
            (line,) = [line for line in page.splitlines() if line.startswith(f"  {listed} ")]
            assert line.endswith(".")
            assert not line.endswith("..")


def walk(context: click.Context) -> Iterator[click.Context]:
    """The contexts of all commands that are no groups."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from walk(click.Context(below, context, name))


LEAVES = {context.command_path: context for context in walk(CONTEXT)}
each_leaf = pytest.mark.parametrize("path", LEAVES)


@each_leaf
def test_every_command_has_examples_that_it_understands(path: str) -> None:
    """A user who copies an example gets no usage error, and none that writes a lock is refused."""
    _, title, shown = LEAVES[path].command.get_help(LEAVES[path]).partition("\nExample:\n")
    assert title
    for line in map(str.strip, shown.strip().splitlines()):
        program, *words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
        assert (program, parse(words)) == ("cardsign", path)
        # A policy that is only found in this folder raises no lock.
        raises_lock = "--update" in words or path == "cardsign trust update"
        assert not raises_lock or "--trust" in words


def test_advanced_options_are_listed_last() -> None:
    """What most people need fits one screen; a short command has no such section."""
    pages = {path: context.command.get_help(context) for path, context in LEAVES.items()}
    for path, context in LEAVES.items():
        assert isinstance(context.command, Command)
        names = {name for param in context.command.params for name in param.opts}
        assert context.command.advanced <= names, path
    verify = pages["cardsign verify"]
    assert verify.index("  --jwks") < verify.index("\nAdvanced:\n") < verify.index("  --cluster")
    assert "Advanced:" not in pages["cardsign diff"]
    for path in ("cardsign verify", "cardsign sign", "cardsign keys generate"):
        assert len(pages[path].partition("\nAdvanced:\n")[0].splitlines()) <= 40


@each_leaf
def test_every_command_takes_json_and_quiet(path: str, cardsign: Cardsign) -> None:
    """An error is one JSON object with code, message and what to do, and exit status 2."""
    ended = cardsign(*path.split()[1:], "--quiet", "--json", "--no-such-option")

    assert ended.status == 2
    assert ended.json["error"]["code"] == "usage.invalid"
    assert "--no-such-option" in ended.json["error"]["message"]
    assert ended.json["error"]["hint"] == f"See {path} --help."


def test_a_crash_is_one_json_object(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads stdout is told of it as of any error."""
    monkeypatch.setattr("cardsign.cli.frame.read_input", lambda name: 1 // 0)

    ended = cardsign("inspect", "card.json", "--json")

    assert (ended.status, ended.json["error"]["code"]) == (2, "internal.bug")
    assert "CARDSIGN_DEBUG" in ended.err


def test_a_shell_gets_completions(cardsign: Cardsign) -> None:
    """Of commands and of options; asking for them is no fault."""
    for words, completion in (("cardsign ve", "verify"), ("cardsign verify --jw", "--jwks")):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        ended = cardsign(_CARDSIGN_COMPLETE="bash_complete", **asked)
        assert (ended.status, ended.text) == (0, f"plain,{completion}\n")


@pytest.mark.parametrize("words", [(), ("verify",), ("trust", "add")], ids=" ".join)
def test_help_is_a_command_too(cardsign: Cardsign, words: tuple[str, ...]) -> None:
    """It prints what --help prints."""
    assert cardsign("help", *words).text.split() == cardsign(*words, "--help").text.split()
