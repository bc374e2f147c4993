"""What a stranger's card of 256 KiB may cost whoever runs a command on it.

Each command is a process of its own. Asserted are memory and output; CPU has a limit only so that
work with the square of the card ends, on however slow a machine. ``make bench`` measures seconds,
and ``python bench/commands.py all`` takes every shape in every form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile_commands import COMMANDS, MIB, ONCE_TOO_MUCH, run_shape
from tests.server.identity import Counterpart, counterpart

#: The shapes that cost most commands most, and the commands that look at most of a card.
WORST = ("a wide card", "a long name over nulls")
DEEPEST = ("inspect", "lint", "diff, of two", "build", "contract check")
REST = tuple(name for name in COMMANDS if name not in DEEPEST)
CASES = [
    *[
        (shape, DEEPEST if shape in WORST else ("lint", "contract check"))
        for shape in ONCE_TOO_MUCH
    ],
    ("many modes of many skills", ("diff", "diff, of two", "diff, from it")),
    *[pytest.param(shape, REST, marks=pytest.mark.thorough) for shape in WORST],
]


@pytest.fixture(scope="module")
def site() -> Iterator[Counterpart]:
    """Where commands that take a URL find the card."""
    with counterpart() as here:
        yield here


@pytest.mark.parametrize(("shape", "names"), CASES)
def test_a_card_costs_a_command_little(
    site: Counterpart, tmp_path: Path, shape: str, names: tuple[str, ...]
) -> None:
    """At most 100 MiB with Python itself, and 1 MiB of output, in the longest form."""
    commands = {name: (COMMANDS[name][0], COMMANDS[name][-1]) for name in names}
    for cost in run_shape(shape, tmp_path, site, commands):
        assert cost.status in (0, 1, 2, 3), cost
        assert "internal.bug" not in cost.last, cost
        assert max(cost.peak / 100, cost.output) <= MIB, cost
