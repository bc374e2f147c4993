"""What ``cardsign --help`` says, what every command takes, and what commands load."""

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

HELP = "from cardsign.cli.main import command_line as cli; cli.main(['--help'], standalone_mode=0)"
VERIFY = "from cardsign.cli.main import run_words; run_words(sys.argv[1:])"
#: Programs, the module that each needs, and those for which nobody waits who runs it.
LOADS: dict[str, tuple[str, str, str]] = {
    "help": (
        *(HELP, "cli.frame"),
        ".api .card .cli.cards .config .files .issuer .jose .keys .lint .net .server .trust .urls "
        ".verify json difflib unicodedata cryptography pydantic flask",
    ),
    "a verdict by keys": (
        *(VERIFY, "verify.verdict"),
        ".keys .net .issuer .inspect .lint flask werkzeug granian httpx httpcore pydantic tomllib "
        "multiprocessing tempfile",
    ),
    "a look at a card": (
        "from cardsign.cli.main import run_words as run; [run([word, 'signed.json']) for word in"
        " ('lint', 'inspect')]; run(['diff', 'signed.json', 'signed.json'])",
        *("diff", ".net .keys .issuer .server flask httpx httpcore pydantic multiprocessing"),
    ),
    "a verifier": (
        "from cardsign.cli import cards, trust, verify",
        *("verify", ".issuer .keys .publish .server flask"),
    ),
    "a list of keys": ("import cardsign.cli.keys", "keys.store", ".issuer .server .trust flask"),
    "an issuer": ("import cardsign.cli.statements", "issuer.reconcile", ".server flask"),
}


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize(("program", "needed", "others"), LOADS.values(), ids=LOADS)
def test_a_command_loads_what_it_needs(program: str, needed: str, others: str) -> None:
    """Who only looks, or has no keys, does not wait for a key store or a server."""
    program = f"import sys\n{program}\nprint('\\nloaded', *sys.modules)"
    words = [sys.executable, "-c", program, "verify", "signed.json", "--jwks", "jwks.json"]
    done = subprocess.run(words, capture_output=True, text=True)
    loaded = done.stdout.rpartition("\nloaded")[2].replace("cardsign.", ".").split()
    assert f".{needed}" in loaded
    assert set(others.split()).isdisjoint(loaded)


# click keeps the help option that a command's first context asks for, so all ask for the same.
CONTEXT = click.Context(cli, info_name="cardsign", **{**cli.context_settings, "terminal_width": 80})


def walk(context: click.Context) -> Iterator[click.Context]:
    """The contexts of all groups and commands."""
    yield context
    if isinstance(group := context.command, click.Group):
        for name in group.list_commands(context):
            below = group.get_command(context, name)
            assert below is not None
            yield from walk(click.Context(below, context, name))


EVERY = {context.command_path: context for context in walk(CONTEXT)}
LEAVES = {p: one for p, one in EVERY.items() if not isinstance(one.command, click.Group)}
GROUPS = {path: context for path, context in EVERY.items() if path not in LEAVES}
each_leaf = pytest.mark.parametrize("path", LEAVES)


@pytest.mark.parametrize("path", GROUPS)
def test_every_command_is_listed_in_full(path: str) -> None:
    """Each line of help stands for a command, and none is cut off on a terminal."""
    group = GROUPS[path].command
    assert isinstance(group, click.Group)
    lines = group.get_help(GROUPS[path]).splitlines()
    for name in group.list_commands(GROUPS[path]):
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(".")
        assert not line.endswith("..")


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
    for path, context in LEAVES.items():
        assert isinstance(context.command, Command)
        names = {name for param in context.command.params for name in param.opts}
        assert context.command.advanced <= names, path
    pages = {path: context.command.get_help(context) for path, context in LEAVES.items()}
    verify = pages["cardsign verify"]
    assert verify.index("  --jwks") < verify.index("\nAdvanced:\n") < verify.index("  --cluster")
    assert "Advanced:" not in pages["cardsign diff"]
    for path in ("cardsign verify", "cardsign sign", "cardsign keys generate"):
        assert len(pages[path].partition("\nAdvanced:\n")[0].splitlines()) <= 40


@each_leaf
def test_every_command_takes_json_and_quiet(path: str, cardsign: Cardsign) -> None:
    """An error is one JSON object with code, message and what to do, and exit status 2."""
    ended = cardsign(*path.split()[1:], "--quiet", "--json", "--no-such-option")

    assert (ended.status, ended.json["error"]["code"]) == (2, "usage.invalid")
    assert "--no-such-option" in ended.json["error"]["message"]
    assert ended.json["error"]["hint"] == f"See {path} --help."


#: Commands that print, or write only what their user names.
READ_ONLY = """
build, call, canonicalize, completion, config check, config schema, conformance, contract check,
diff, fetch, help, init, inspect, keys doctor, keys export, keys generate, keys import, keys jwks,
keys list, keys log, keys move, keys passwd, keyset draft, keyset recover, keyset show, keyset sign,
lint, mcp, peers status, peers verify, release show, resign, serve, tokens create, tokens list,
tokens revoke, trust list, trust show, verify
"""


def test_every_command_that_changes_something_has_a_dry_run() -> None:
    """And each of the two that cannot be undone asks first, or takes ``--yes``."""
    taking = {
        option: {
            path.removeprefix("cardsign ")
            for path, context in LEAVES.items()
            if any(option in param.opts for param in context.command.params)
        }
        for option in ("--dry-run", "--yes")
    }
    names = {path.removeprefix("cardsign ") for path in LEAVES}
    assert names - taking["--dry-run"] == set(" ".join(READ_ONLY.split()).split(", "))
    assert taking["--yes"] >= {"keys revoke", "keyset recover"}


def test_a_crash_is_one_json_object(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads stdout is told of it as of any error."""
    monkeypatch.setattr("cardsign.cli.frame.read_input", lambda name: 1 // 0)
    ended = cardsign("inspect", "card.json", "--json")
    assert (ended.status, ended.json["error"]["code"]) == (2, "internal.bug")
    assert "CARDSIGN_DEBUG" in ended.err


@pytest.mark.parametrize("words", ["", "verify", "trust add"])
def test_help_is_a_command_too(cardsign: Cardsign, words: str) -> None:
    """It prints what --help prints."""
    assert cardsign("help", *words.split()).text == cardsign(*words.split(), "--help").text
