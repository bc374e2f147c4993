"""What a stranger's card of 256 KiB may cost whoever runs a command on it.

Each command is a process of its own. Asserted are memory and output; CPU has a limit only so that
work with the square of the card ends, on however slow a machine. ``make bench`` measures seconds,
and ``python bench/commands.py all`` takes every shape in every form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.local_site import Site, local_site
from tests.hostile_commands import COMMANDS, MIB, ONCE_TOO_MUCH, Cost, run_shape

#: The shapes that cost most commands most, and the commands that look at most of a card.
WORST = ("a wide card", "a long name over nulls")
DEEPEST = ("inspect", "lint", "diff, of two", "build", "contract check")
CASES = {
    shape: DEEPEST if shape in WORST else ("lint", "contract check") for shape in ONCE_TOO_MUCH
}
CASES["many modes of many skills"] = ("diff", "diff, of two", "diff, from it")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Where commands that take a URL find the card."""
    with local_site() as here:
        yield here


def complaints(site: Site, folder: Path, shape: str, names: tuple[str, ...]) -> list[str]:
    """What is wrong with some commands in their longest form; of healthy ones nothing."""
    commands = {name: (COMMANDS[name][0], COMMANDS[name][1][-1:]) for name in names}
    return [
        f"{' '.join(one.words)}: status {one.status}, {one.cpu:.1f} s, {one.peak / MIB:.0f} MiB, "
        f"{one.output:,} bytes ... {one.last[-200:]}"
        for one in run_shape(shape, folder, site, commands)
        if _is_dear(one)
    ]


def _is_dear(cost: Cost) -> bool:
    is_large = cost.peak > 100 * MIB or cost.output > MIB
    return cost.status not in (0, 1, 2, 3) or is_large or "internal.bug" in cost.last


@pytest.mark.parametrize(("shape", "names"), CASES.items(), ids=CASES)
def test_a_card_costs_a_command_little(
    site: Site, tmp_path: Path, shape: str, names: tuple[str, ...]
) -> None:
    """At most 100 MiB with Python itself, and 1 MiB of output."""
    assert complaints(site, tmp_path, shape, names) == []


@pytest.mark.thorough
@pytest.mark.parametrize("shape", WORST)
def test_the_worst_cards_cost_no_command_much(site: Site, tmp_path: Path, shape: str) -> None:
    """In every command that reads a stranger's bytes."""
    rest = tuple(name for name in COMMANDS if name not in DEEPEST)
    assert complaints(site, tmp_path, shape, rest) == []
