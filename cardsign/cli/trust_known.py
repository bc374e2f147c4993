"""``cardsign trust known``: what this user's memory holds, whatever the policy says now."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.cli.options import json_option
from cardsign.cli.policy import directory_memory, state_option
from cardsign.cli.talk import print_json, say
from cardsign.cli.trust_showing import known_lines, known_members
from cardsign.errors import StateFault
from cardsign.trust.known import Known
from cardsign.trust.state import DirectoryMemory


@click.group()
def known() -> None:
    """Look at what is remembered of issuers, and forget it."""


@known.command("list")
@state_option
@json_option
def list_(state_dir: Path | None, as_json: bool) -> None:
    """List the issuers of whom something is remembered."""
    memory = directory_memory(state_dir, {})
    if as_json:
        print_json(
            [{"name": name, **known_members(_known(memory, name))} for name in memory.names()]
        )
        return
    for name in memory.names():
        keyset = _known(memory, name).keyset
        shown = "no keyset" if keyset is None else f"keyset {keyset.epoch}.{keyset.version}"
        click.echo(f"{name:<16}  {shown}")
    if not memory.names():
        say(f"nobody is remembered in {memory.path}")


@known.command()
@click.argument("name")
@state_option
@json_option
def show(name: str, state_dir: Path | None, as_json: bool) -> None:
    """Show what is remembered of NAME."""
    remembered = _known(directory_memory(state_dir, {}), name)
    if as_json:
        print_json({"name": name, **known_members(remembered)})
    else:
        click.echo("\n".join(known_lines(remembered)))


@known.command()
@click.argument("name")
@state_option
@json_option
def forget(name: str, state_dir: Path | None, as_json: bool) -> None:
    """Forget NAME. What is seen next can then be older than what was seen before.

    The floors of trust.lock stay; `cardsign trust init` begins the memory anew with them.
    """
    memory = directory_memory(state_dir, {})
    if not memory.forget(name):
        raise _missing(memory, name)
    if as_json:
        print_json({"forgotten": name})
    else:
        say(f"forgot {name}")


def _known(memory: DirectoryMemory, name: str) -> Known:
    found = memory.find(name)
    if found is None:
        raise _missing(memory, name)
    return found


def _missing(memory: DirectoryMemory, name: str) -> StateFault:
    return StateFault(
        "state.missing",
        f"nothing is remembered of {name!r}",
        path=str(memory.path),
        hint="See cardsign trust known list.",
    )
