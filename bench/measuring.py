"""Times that can be compared: taken in turns, of work that was seen to be done.

A time by itself says more about the machine and its other tenants than about a program. So
whoever is compared takes turns, A B C A B C, and only ratios count.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

Turn: TypeAlias = Callable[[], float]
"""Do one's work and return the seconds that one unit of it took."""

Times: TypeAlias = Mapping[str, Sequence[float]]
"""The seconds of each contestant, round by round."""

#: Of the interpreter that has a2a-sdk; None where there is none.
_JUDGE: Final = Path(__file__).resolve().parents[1] / ".nox/judges/bin/python"
JUDGE: Final = str(_JUDGE) if _JUDGE.exists() else None
_BLOCK: Final = 0.02  # seconds of one turn: far more than a clock's tick, far less than a pause


class Broken(Exception):
    """What was to be measured did not happen: a verdict or a count is another one."""


def in_turns(contestants: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """Let all do their work, round by round; who was first in one round is last in the next."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    for _ in range(rounds):
        for name in order:
            times[name].append(contestants[name]())
        order = [*order[1:], order[0]]
    return times


def cpu_seconds(work: Callable[[], object], *, of_about: float = _BLOCK) -> Turn:
    """Return a turn of as many repetitions as take about so many seconds of this process's CPU.

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


def timed_command(command: Sequence[str], expected: str = "") -> tuple[float, float]:
    """Run a command to its end and return its seconds on the wall and of CPU.

    Raises:
        Broken: It failed, or its output does not start with what was expected.
    """
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode or not printed.startswith(expected):
        raise Broken(f"{command} ended with {process.returncode}: {printed}")
    return wall, usage.ru_utime + usage.ru_stime


def least(times: Times, name: str, to: str) -> float:
    """Return the ratio of two contestants' least times: what else runs can only add to one."""
    return min(times[name]) / min(times[to])


def ratio(times: Times, name: str, to: str) -> str:
    """Return that ratio as text."""
    if name not in times or to not in times:
        return "-"
    return "1" if name == to else figure(least(times, name, to))


def figure(number: float) -> str:
    """Return two significant digits, or all before the point; three around 1."""
    if number >= 9.95:
        return f"{number:,.0f}"
    return f"{number:.2f}" if number < 4.995 else f"{number:.1f}"


def table(*rows: Iterable[str]) -> str:
    """Return a table of Markdown; the first row is its head."""
    return "\n".join(_lines([list(row) for row in rows]))


def _lines(rows: list[list[str]]) -> Iterator[str]:
    for at, row in enumerate(rows):
        yield "| " + " | ".join(row) + " |"
        if at == 0:
            yield "|---" + "|---:" * (len(row) - 1) + "|"
