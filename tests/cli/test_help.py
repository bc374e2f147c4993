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
from cardsign.errors import CardsignError
from tests.cli.conftest import Cardsign, parse


def modules_after(program: str) -> set[str]:
    """The modules that are loaded once an interpreter of its own has run a program."""
    asked = f"import sys\n{program}\nprint('\\nloaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("\nloaded")[2].split())


HELP = (
    "from cardsign.cli.main import command_line; "
    "command_line.main(['--help'], standalone_mode=False)"
)


def test_help_loads_no_command() -> None:
    """Who only looks does not wait for what eighteen commands need."""
    loaded = modules_after(HELP)
    assert {name for name in loaded if name.startswith("cardsign")} == {
        "cardsign",
        "cardsign.cli",
        "cardsign.cli.frame",
        "cardsign.cli.main",
        "cardsign.errors",
        "cardsign.findings",
    }
    assert not loaded & {"json", "difflib", "unicodedata", "cryptography"}


VERIFIER = ("cards", "fetch", "trust", "verify")


def test_a_command_of_a_verifier_loads_nothing_of_an_issuer() -> None:
    """Who has no keys does not wait for a key store."""
    loaded = modules_after(f"import {', '.join(f'cardsign.cli.{name}' for name in VERIFIER)}")
    assert "cardsign.verify" in loaded
    issuers = ("cardsign.issuer", "cardsign.keys", "cardsign.publish")
    assert [name for name in loaded if name.startswith(issuers)] == []


def test_a_list_of_keys_loads_nothing_of_an_issuer() -> None:
    """Nor a server or a verifier; what is due is another matter."""
    loaded = modules_after("import cardsign.cli.keys")
    assert "cardsign.keys.store" in loaded
    others = ("cardsign.issuer", "cardsign.server", "cardsign.trust", "flask")
    assert [name for name in loaded if name.startswith(others)] == []
    assert "cardsign.issuer.reconcile" in modules_after("import cardsign.cli.statements")


# click keeps the help option that a command's first context asks for, so all ask for the same.
CONTEXT = click.Context(cli, info_name="cardsign", **{**cli.context_settings, "terminal_width": 80})


@pytest.mark.parametrize("name", cli.list_commands(CONTEXT))
def test_every_command_is_there_and_is_listed_in_full(name: str) -> None:
    """Each line of help stands for a command, and none is cut off on a terminal."""
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    assert command.name == name
    (line,) = [line for line in cli.get_help(CONTEXT).splitlines() if line.startswith(f"  {name} ")]
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


LEAVES = {one.command_path: one for one in walk(CONTEXT)}


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_has_examples_that_it_understands(path: str) -> None:
    """A user who copies an example gets no usage error."""
    context = LEAVES[path]
    _, found, shown = context.command.get_help(context).partition("\nExample:\n")
    assert found
    for line in map(str.strip, shown.strip().splitlines()):
        program, *words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
        assert (program, parse(words)) == ("cardsign", path)


def test_what_writes_the_lock_names_the_policy() -> None:
    """One that is only found in this folder raises no lock: the example would be refused."""
    for path in ("cardsign trust update", "cardsign peers verify --update"):
        context = LEAVES[path.removesuffix(" --update")]
        assert f"{path} --trust trust.toml" in context.command.get_help(context)


@pytest.mark.parametrize("path", LEAVES)
def test_no_option_of_a_command_takes_the_last_of_two_values(path: str) -> None:
    """It is named; what may be repeated, and a flag that says the same twice, is no mistake."""
    command = LEAVES[path].command
    for one in command.params:
        if not isinstance(one, click.Option):
            continue
        takes_one = not one.multiple and (not one.is_flag or bool(one.secondary_opts))
        names = [one.opts[-1], (one.secondary_opts or one.opts)[0]]
        words = [word for name in names for word in ((name,) if one.is_flag else (name, "x"))]
        try:
            command.make_context(path, words, **cli.context_settings)
        except (click.ClickException, CardsignError, click.exceptions.Exit) as error:
            said = str(error)
        else:
            said = ""
        assert (f"'{one.opts[-1]}' is given twice" in said) == takes_one, one.opts


def test_advanced_options_are_listed_last() -> None:
    """Those that there are, below the others; a short command has no such section."""
    for path, context in LEAVES.items():
        names = {name for param in context.command.params for name in param.opts}
        assert isinstance(context.command, Command)
        assert context.command.advanced <= names, path
    text = {path: context.command.get_help(context) for path, context in LEAVES.items()}
    verify = text["cardsign verify"]
    assert verify.index("  --jwks") < verify.index("\nAdvanced:\n") < verify.index("  --cluster")
    assert "Advanced:" not in text["cardsign diff"]


@pytest.mark.parametrize("words", ["verify", "sign", "keys"])
def test_what_most_people_need_fits_one_screen(cardsign: Cardsign, words: str) -> None:
    """What experts need stands below."""
    shown = cardsign(words, "--help").text.partition("\nAdvanced:\n")[0]
    assert len(shown.splitlines()) <= 40


@pytest.mark.parametrize("path", LEAVES)
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
    asked = {"_CARDSIGN_COMPLETE": "bash_complete"}
    commands = cardsign(COMP_WORDS="cardsign ve", COMP_CWORD="1", **asked)
    options = cardsign(COMP_WORDS="cardsign verify --jw", COMP_CWORD="2", **asked)

    assert (commands.status, commands.text) == (0, "plain,verify\n")
    assert (options.status, options.text) == (0, "plain,--jwks\n")


@pytest.mark.parametrize("words", [(), ("verify",), ("trust", "add")], ids=" ".join)
def test_help_is_a_command_too(cardsign: Cardsign, words: tuple[str, ...]) -> None:
    """It prints what --help prints."""
    assert cardsign("help", *words).text.split() == cardsign(*words, "--help").text.split()
