"""A run over many cards: a counter on a terminal, and each fault is printed once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator

import click

from cardsign.cli.printer import counted, is_quiet, print_error, say
from cardsign.errors import LocalFault


class Progress:
    """A run over many cards: a counter on a terminal's stderr, and each fault is printed once.

    What keeps many cards from a verdict is told once, and at the end for how many more it holds.
    Under ``--quiet`` there is no counter.
    """

    def __init__(self, total: int) -> None:
        self._faults: Counter[str] = Counter()
        self._total, self._done = total, 0
        self._is_shown = total > 1 and is_watched() and not is_quiet()

    def __enter__(self) -> Progress:
        self._write(f"0/{self._total} cards")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._write("")
        more = self._faults.total() - len(self._faults)
        if kind is None and more:
            fault = "fault" if len(self._faults) == 1 else "faults"
            say(f"the same {fault} for {counted(more, 'more card')}")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the counter away while a result is printed, then show one card more."""
        self._write("")
        yield
        self._done += 1
        self._write(f"{self._done}/{self._total} cards")

    def print_error(self, fault: LocalFault) -> None:
        """Print a fault of one card, unless it has been printed for another."""
        key = f"{fault}\n{fault.finding.fix}"
        self._faults[key] += 1
        if self._faults[key] == 1:
            print_error(fault)

    def _write(self, text: str) -> None:
        if self._is_shown:
            with contextlib.suppress(OSError):
                click.echo(f"\r{text}\033[K", nl=False, err=True)


def is_watched() -> bool:
    """Whether stderr is a terminal that can take a line back."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
