"""Times that can be compared: taken in turns, of work that was seen to be done.

A time by itself says more about the machine and its other tenants than about a program. So
whoever is compared takes turns, A B C A B C, and only ratios within one round count: what
disturbs a round disturbs all who are in it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias
from unittest.mock import patch

from cardsign.card import serialize

Turn: TypeAlias = Callable[[], float]
"""Do one's work and return the seconds that one unit of it took."""

Times: TypeAlias = Mapping[str, list[float]]
"""The seconds of each contestant, round by round."""


CARDSIGN: Final = "cardsign"
FAST: Final = "cardsign[fast]"  # with orjson


class Broken(Exception):
    """What was to be measured did not happen: a verdict or a count is another one."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as long one takes as another.

    Attributes:
        median: The ratio of the medians.
        least: Of all rounds, each by itself.
        most: Likewise.
    """

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{figure(self.median)} ({figure(self.least)} to {figure(self.most)})"


def in_turns(contestants: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Let all do their work, round by round; who was first in one round is last in the next."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        for name in order:
            times[name].append(contestants[name]())
        order = [*order[1:], order[0]]
    return times


def ratio(times: Times, name: str, to: str) -> Ratio:
    """The times of one as multiples of another's."""
    each = [one / other for one, other in zip(times[name], times[to], strict=True)]
    median = statistics.median(times[name]) / statistics.median(times[to])
    return Ratio(median, min(each), max(each))


def cpu_seconds(work: Callable[[], object], *, of_about: float) -> Turn:
    """A turn of as many repetitions as take about so many seconds, by this process's CPU time.

    The number is found out now, so that all turns do the same; the first call warms up.
    """
    work()
    began = time.process_time()
    work()
    times = max(1, round(of_about / max(time.process_time() - began, 1e-6)))

    def turn() -> float:
        began = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - began) / times

    return turn


def by_encoder(name: str, work: Callable[[], object], *, of_about: float) -> Turn:
    """As :func:`cpu_seconds`: with orjson if it is for :data:`FAST`, else without."""
    with encoder(name):
        turn = cpu_seconds(work, of_about=of_about)

    def with_encoder() -> float:
        with encoder(name):
            return turn()

    return with_encoder


@contextmanager
def encoder(name: str) -> Iterator[None]:
    """For :data:`FAST` the encoder of this installation, else that of one without the extra."""
    with patch.dict(sys.modules, {} if name == FAST else {"orjson": None}):
        serialize._encoder.cache_clear()
        yield
    serialize._encoder.cache_clear()


def figure(number: float) -> str:
    """Two significant digits, or all before the point."""
    if number >= 9.95:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 0.95 else f"{number:.2g}"
