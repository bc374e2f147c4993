"""``--watch``: a command that goes on, looks again each so many seconds, and follows."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click

from cardsign.cli.arguments import option, option_group
from cardsign.cli.talk import safe, say
from cardsign.errors import CardsignError
from cardsign.records import dataclass


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Whether a command goes on, and how often it looks: each field is the option of its name."""

    watch: bool
    every: int

    def repeat(self, look: Callable[[], int]) -> int:
        """Look once, or again and again.

        An error of the first look is raised. Later ones are said, each once while it lasts.
        """
        status, is_first, said = 0, True, ""
        while is_first or self.watch:
            try:
                status, said = look(), ""
            except CardsignError as error:
                if is_first:
                    raise
                if str(error) != said:
                    said = str(error)
                    say(safe(said, limit=600))
            is_first = False
            if self.watch:
                threading.Event().wait(self.every)
        return status


def watch_options(every: int, follows: str) -> Callable[..., Callable[..., object]]:
    """``--watch`` and ``--every``, as `watching`."""
    return option_group(
        WatchOptions,
        "watching",
        option("--watch", f"Go on, and follow {follows}."),
        option(
            "--every SECONDS",
            "How often --watch looks.",
            type=click.IntRange(1, 86_400),
            default=every,
            show_default=True,
        ),
    )
