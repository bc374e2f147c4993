"""What all commands are given alike: groups of options, ``--json``, files, stdin and the time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click

from cardsign.card.strictjson import MAX_CARD_BYTES, be_paranoid
from cardsign.cli.dry_run import to_change
from cardsign.cli.talk import is_json
from cardsign.errors import UsageFault
from cardsign.files import read_bytes, write_atomic

STDIO: Final = "-"
#: The type of an option or argument that is a file or a folder, which need not exist.
PATH: Final = click.Path(path_type=Path)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def option_group(
    made: type[Any], into: str, *options: Callable[[Any], Any]
) -> Callable[[_Command], _Command]:
    """Options that belong together: the command gets one frozen value made of them.

    Args:
        made: A dataclass, with a field for each option's parameter; others keep their defaults.
        into: The parameter of the command that takes it.
        options: What adds the options, in the order of the help text; a group may be among them,
            and is then the value of one field.
    """
    names = [one.name for one in fields(made) if one.init]

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def gathering(*args: Any, **given: Any) -> Any:
            given[into] = made(**{name: given.pop(name) for name in names if name in given})
            return command(*args, **given)

        decorated: Any = gathering
        for option in reversed(options):
            decorated = option(decorated)
        return cast("_Command", decorated)

    return decorate


def option(
    usage: str, told: str, *, into: str = "", **settings: Any
) -> Callable[[_Command], _Command]:
    """An option, as its help shows it: `-o --output FILE`; what takes no value is a flag.

    Args:
        usage: Its names and its value; three dots after them if it may be repeated.
        told: The text of the help.
        into: The parameter of the command, if it is not called as the option is.
        settings: As for :func:`click.option`; a `type` or a `default` takes a value as well.
    """
    words = usage.removesuffix("...").split()
    names = [word for word in words if word.startswith("-")]
    value = " ".join(words[len(names) :]) or None
    decorate: Callable[[_Command], _Command] = click.option(
        *names,
        *filter(None, (into,)),
        metavar=value,
        # False would let click take the option without its value, so it is None.
        is_flag=(value is None and settings.keys().isdisjoint({"type", "default"})) or None,
        multiple=usage.endswith("..."),
        help=told,
        **settings,
    )
    return decorate


def paranoid_option(command: _Command) -> _Command:
    """``--paranoid``, while the command runs; options that are refused leave nothing behind."""

    @wraps(command)
    def running(*args: Any, paranoid: bool, **given: Any) -> Any:
        be_paranoid(paranoid)
        try:
            return command(*args, **given)
        finally:
            be_paranoid(False)

    told = (
        "Take no fast path: read, canonicalize and check by the definitions alone. Ten times "
        "slower, with the same answers unless cardsign has a bug."
    )
    return cast("_Command", option("--paranoid", told)(running))


def moment() -> datetime:
    """The time of a command, to the second, as statements have it."""
    return datetime.now(UTC).replace(microsecond=0)


def read_input(name: str, *, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """A file's bytes, or standard input's for ``-``; one byte over the limit is read at most."""
    if name == STDIO:
        return sys.stdin.buffer.read(max_bytes + 1)
    return read_bytes(Path(name), max_bytes=max_bytes)


def write_output(name: str, data: bytes) -> None:
    """Write a file whole or not at all; ``-`` is standard output."""
    if name == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomic(to_change(Path(name)), data)


def refuse_two_documents(output: str | None) -> None:
    """Standard output takes one document."""
    if output == STDIO and is_json():
        why = "the file and --json would both be written to standard output"
        raise UsageFault("usage.conflict", why, hint="Add -o FILE.")
