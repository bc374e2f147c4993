"""What ``cardsign --help`` says, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from cardsign.cli import command_line as cli


def modules_after(program: str) -> set[str]:
    """The modules that are loaded once an interpreter of its own has run a program."""
    asked = f"import sys\n{program}\nprint('\\nloaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    return set(done.stdout.rpartition("\nloaded")[2].split())


HELP = "from cardsign.cli import command_line; command_line.main(['--help'], standalone_mode=False)"
KEYS_HELP = HELP.replace("['--help']", "['keys', '--help']")


def test_help_loads_no_command() -> None:
    """Who only looks does not wait for what eighteen commands need."""
    rooms = {name for name in modules_after(HELP) if name.startswith("cardsign.cli.")}
    assert rooms == {"cardsign.cli.commands", "cardsign.cli.talk"}


def test_a_command_that_is_loaded_is_seen() -> None:
    """The probe can fail."""
    assert "cardsign.cli.keys" in modules_after(KEYS_HELP)


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
