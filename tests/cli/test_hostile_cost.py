"""What a stranger's card of 256 KiB may cost whoever runs a command on it.

Each command is a process of its own. Asserted are memory and output; CPU has a limit only so that
work with the square of the card ends, on however slow a machine. ``make bench`` measures seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_site import Site, local_site

from tests.hostile import SHAPES
from tests.hostile_commands import COMMANDS, MIB, ONCE_TOO_MUCH, Cost, run_shape

#: Every command, in its longest form.
LONGEST = {name: (words, forms[-1:]) for name, (words, forms) in COMMANDS.items()}
#: Those that look at more of a card than others do.
DEEPEST = {
    name: LONGEST[name] for name in ("inspect", "lint", "diff, of two", "build", "contract check")
}
#: The shapes that cost most commands most.
WORST = ("a wide card", "a long name over nulls")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Where commands that take a URL find the card."""
    with local_site() as here:
        yield here


def complaints(costs: list[Cost]) -> list[str]:
    """What is wrong with some commands: nothing of a healthy one."""
    return [
        f"{' '.join(one.words)}: status {one.status}, {one.cpu:.1f} s, {one.peak / MIB:.0f} MiB, "
        f"{one.output:,} bytes ... {one.last[-200:]}"
        for one in costs
        if one.status not in (0, 1, 2, 3)
        or one.peak > 100 * MIB
        or one.output > MIB
        or "internal.bug" in one.last
    ]


@pytest.mark.parametrize("shape", ONCE_TOO_MUCH)
def test_a_card_costs_a_command_little(site: Site, tmp_path: Path, shape: str) -> None:
    """At most 100 MiB with Python itself, and 1 MiB of output."""
    commands = LONGEST if shape in WORST else DEEPEST
    assert complaints(list(run_shape(shape, tmp_path, site, commands))) == []


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_no_card_costs_any_command_much(site: Site, tmp_path: Path, shape: str) -> None:
    """Every shape, in every command that reads a stranger's bytes, in all of its forms."""
    assert complaints(list(run_shape(shape, tmp_path, site))) == []
