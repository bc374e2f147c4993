"""A run over many cards: a bar on a terminal, and each fault is printed once."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cardsign.cli.printer import complain, counted, is_quiet, say
from cardsign.errors import LocalFault, StateFault

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """A run over many cards: a bar on a terminal's stderr, and each fault is printed once.

    What keeps many cards from a verdict is told once, and at the end for how many more it holds.
    Under ``--quiet`` there is no bar.
    """

    def __init__(self, total: int) -> None:
        self._said: Counter[str] = Counter()
        self._bar: Bar | None = None
        if total > 1 and is_watched() and not is_quiet():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._bar = RichProgress(
                TextColumn("cards"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True, force_terminal=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._task = self._bar.add_task("cards", total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        more = self._said.total() - len(self._said)
        if kind is None and more:
            fault = "fault" if len(self._said) == 1 else "faults"
            say(f"the same {fault} for {counted(more, 'more card')}")

    @contextlib.contextmanager
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

    def complain(self, fault: LocalFault) -> None:
        """Print a fault of one card, unless it has been printed for another."""
        # A lost folder of issuer states is one fault, whatever issuer it is missed by.
        key = fault.code if isinstance(fault, StateFault) else f"{fault}\n{fault.hint}"
        self._said[key] += 1
        if self._said[key] == 1:
            complain(fault)


def is_watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()
