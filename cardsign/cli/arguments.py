"""What many commands take alike: groups of options, files and stdin, the time, ``--dry-run``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar, cast

import click

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.talk import COPIES, ask_first, is_json, say
from cardsign.errors import FileFault, UsageFault
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


def moment() -> datetime:
    """The time of a command, to the second, as statements have it."""
    return datetime.now(UTC).replace(microsecond=0)


def read_input(name: str, *, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """A file's bytes, or standard input's for ``-``; one byte over the limit is read at most."""
    if name == STDIO:
        return sys.stdin.buffer.read(max_bytes + 1)
    return read_bytes(Path(name), max_bytes=max_bytes)


def write_output(name: str, data: bytes, *, plain: bool = False) -> None:
    """Write a file whole or not at all; ``-`` is standard output.

    With `plain` no link is followed: of names that the user did not type, a cloned folder may
    have made links.
    """
    if name == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomic(to_change(Path(name)), data, plain=plain)


def refuse_two_documents(output: str | None) -> None:
    """Standard output takes one document."""
    if output == STDIO and is_json():
        why = "the file and --json would both be written to standard output"
        raise UsageFault("usage.conflict", why, hint="Add -o FILE.")


# ``--dry-run``: the command runs on copies of what it would change, and they are thrown away. So a
# dry run meets every refusal that the real run would meet, and prints what it would print.

_FOLDER: Final = "cardsign.dry-run-folder"
# What ends a run, other than Ctrl-C: a supervisor, and a terminal that is closed.
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


def begin_dry_run(context: click.Context, _: click.Parameter, is_given: bool) -> bool:
    """What an option begins, if it is given, that makes the command a dry run."""
    if is_given and _FOLDER not in context.meta:
        context.meta[_FOLDER] = context.with_resource(_folder())
        context.meta[COPIES] = {}
        context.call_on_close(lambda: say("nothing was changed"))
    return is_given


#: ``--dry-run``: change nothing.
dry_run_option: Final = option(
    "--dry-run",
    "Change nothing: check everything, and say what would be done.",
    expose_value=False,
    callback=begin_dry_run,
)
#: ``--yes``, as `yes`: do what cannot be undone without asking.
yes_option: Final = option("--yes", "Do not ask: this cannot be undone.")


@contextmanager
def _folder() -> Iterator[Path]:
    """The folder of the copies; a signal that ends the run removes it: it may hold a key store."""
    from tempfile import TemporaryDirectory  # only a dry run needs what this loads

    ours: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ours = [one for one in _ENDING if signal.getsignal(one) is signal.SIG_DFL]
    for one in ours:
        signal.signal(one, _stop)
    try:
        with TemporaryDirectory(prefix="cardsign-dry-run-") as folder:
            yield Path(folder)
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    """End as Ctrl-C does; a second signal must not disturb the removal."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def is_dry_run() -> bool:
    """Whether ``--dry-run`` was given to the command that runs now."""
    context = click.get_current_context(silent=True)
    return context is not None and _FOLDER in context.meta


def done(past: str, verb: str) -> str:
    """What a command did, by its verb: `past`; in a dry run what it would do."""
    return f"would {verb}" if is_dry_run() else past


def to_change(path: Path, *, copy: Callable[[Path, Path], object] | None = None) -> Path:
    """The file or directory that a command may change: `path`, or in a dry run a copy of it.

    Args:
        path: What the user named; it need not exist.
        copy: How it is copied, where it is no file or directory.
    """
    import shutil

    context = click.get_current_context(silent=True)
    if context is None or _FOLDER not in context.meta:
        return path
    copies: dict[str, str] = context.meta[COPIES]
    for copied, original in copies.items():
        if original == str(path):
            return Path(copied)
    target = Path(context.meta[_FOLDER], str(len(copies)), path.name or "folder")
    try:
        target.parent.mkdir()
        if copy is not None:
            copy(path, target)
        elif path.is_dir():
            shutil.copytree(path, target)
        elif path.exists():
            shutil.copy2(path, target)
    except (OSError, shutil.Error) as error:
        raise FileFault("file.unreadable", f"cannot be copied: {error}", path=str(path)) from error
    copies[str(target)] = str(path)
    return target


def confirm(yes: bool, warning: str) -> None:
    """Ask before something that cannot be undone; a dry run undoes everything."""
    if not yes and not is_dry_run():
        ask_first(warning, hint="Add --yes if you are sure.")
