"""``--dry-run``: the command runs on copies of what it would change, and they are thrown away.

So a dry run meets every refusal that the real run would meet, and prints what it would print.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import click

from cardsign.cli.printer import COPIES, safe, say
from cardsign.errors import FileFault, UsageFault

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
dry_run_option: Final = click.option(
    "--dry-run",
    is_flag=True,
    expose_value=False,
    callback=begin_dry_run,
    help="Change nothing: check everything, and say what would be done.",
)


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


def confirm(yes: bool, warning: str, *, hint: str = "Add --yes if you are sure.") -> None:
    """Ask before something final or unverified is done, unless ``--yes`` has answered.

    A dry run undoes everything, so it does not ask.
    """
    if yes or is_dry_run():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        message = f"this needs a yes, and there is no terminal: {warning}"
        raise UsageFault("usage.unanswered", message, hint=hint)
    if not click.confirm(f"cardsign: {safe(warning, limit=600)}. Go on?", err=True):
        raise UsageFault("usage.unanswered", f"the answer was no: {warning}")
