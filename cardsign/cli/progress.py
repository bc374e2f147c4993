"""How far a command is, for a person who watches at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from cardsign.cli.talk import is_quiet

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """A bar on stderr, if that is a terminal and ``--quiet`` is not given; otherwise nothing."""

    def __init__(self, total: int, what: str) -> None:
        self._bar: Bar | None = None
        if total > 1 and is_watched() and not is_quiet():
            self._bar = _bar()
            self._task = self._bar.add_task(what, total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Take the bar away while a result is printed, then show one step more."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.advance(self._task)
            self._bar.start()


def is_watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, force_terminal=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
