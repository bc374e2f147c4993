"""What each command costs on hostile cards of 256 KiB, beside what it may cost.

``make bench``; ``python bench/commands.py all`` takes every shape and every form, for an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the shapes, which tests use too

from tests.hostile import SHAPES
from tests.hostile_commands import COMMANDS, MIB, ONCE_TOO_MUCH, Cost, run_shape
from tests.server.identity import counterpart

SECONDS: Final = 3


def main(*, is_whole: bool) -> int:
    """Print the worst of each command, and fail where one costs too much."""
    shapes = tuple(SHAPES) if is_whole else ONCE_TOO_MUCH
    commands = {
        name: (command, *(forms if is_whole else forms[-1:]))
        for name, (command, *forms) in COMMANDS.items()
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    with counterpart() as site:
        for shape in shapes:
            with TemporaryDirectory(prefix="cardsign-bench-") as folder:
                names = (name for name, (_, *forms) in commands.items() for _ in forms)
                done = run_shape(shape, Path(folder), site, commands)
                for name, cost in zip(names, done, strict=True):
                    costs[name].append(cost)
    is_bad = False
    print(f"{'command':<22} {'CPU s':>6} {'MiB':>5} {'output':>10}")
    for name, found in costs.items():
        cpu, peak, output = (
            max(getattr(one, what) for one in found) for what in ("cpu", "peak", "output")
        )
        over = cpu > SECONDS or peak > 100 * MIB or output > MIB
        is_bad |= over
        mark = "  too much" if over else ""
        print(f"{name:<22} {cpu:>6.2f} {peak / MIB:>5.0f} {output:>10,}{mark}")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(is_whole="all" in sys.argv[1:]))
