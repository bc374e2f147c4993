"""Simulate worlds until so many verifications have been made, and say what came of it.

``.venv/bin/python tests/simulation/run.py --verifications 1000000 --seed 1``. A failure prints the
seed and the history of its world, and ``--seed SEED --verifications 1`` shows it again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.simulation.checks import Checks  # noqa: E402
from tests.simulation.clockwork import Broken, Figures  # noqa: E402
from tests.simulation.world import simulate  # noqa: E402

WORKERS: Final = min(2, os.cpu_count() or 1)


@dataclass
class Outcome:
    """What all worlds of a run came to.

    Attributes:
        figures: Theirs, added up.
        first: The first seed.
        worlds: How many; their seeds follow one another.
        distinct: Signatures that were checked.
        asked: How often one was to be checked.
        seconds: How long it took.
    """

    first: int
    figures: Figures = field(default_factory=Figures)
    worlds: int = 0
    distinct: int = 0
    asked: int = 0
    seconds: float = 0.0

    def add(self, figures: Figures, checks: Checks) -> None:
        """Take in one world."""
        self.figures.add(figures)
        self.worlds += 1
        self.distinct += checks.distinct
        self.asked += checks.asked


def one(seed: int) -> tuple[Figures, Checks]:
    """One world, alone."""
    with Checks().everywhere() as checks:
        figures = simulate(seed, checks).figures
    checks.forget()
    return figures, checks


def run(
    verifications: int,
    first: int,
    *,
    workers: int = 1,
    world: Callable[[int], tuple[Figures, Checks]] = one,
) -> Outcome:
    """Simulate one world after another until so many verifications have been made.

    The same arguments give the same figures, with any number of workers. `world` is for a caller
    with a single worker who keeps the worlds that were simulated.

    Raises:
        Broken: A statement does not hold.
    """
    outcome, began = Outcome(first), time.monotonic()
    if workers == 1:
        for seed in count(first):
            outcome.add(*world(seed))
            if outcome.figures.total >= verifications:
                break
    else:
        _side_by_side(outcome, verifications, workers)
    outcome.seconds = time.monotonic() - began
    return outcome


def _side_by_side(outcome: Outcome, verifications: int, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        while True:
            following = outcome.first + outcome.worlds
            for figures, checks in pool.map(one, range(following, following + 8 * workers)):
                outcome.add(figures, checks)
                if outcome.figures.total >= verifications:
                    return


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verifications", type=int, default=20_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=1, help="of the first world")
    options = parser.parse_args()
    workers = 1 if options.verifications == 1 else WORKERS
    try:
        outcome = run(options.verifications, options.seed, workers=workers)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    figures = outcome.figures
    print(
        f"{figures.total} verifications in {outcome.worlds} worlds, seeds {outcome.first} to "
        f"{outcome.first + outcome.worlds - 1}, {outcome.distinct} signatures checked, "
        f"{outcome.seconds:.0f} s: all three statements hold"
    )
    for what, times in (*figures.verifications.items(), *figures.excluded.items()):
        print(f"  {times:9} {what}")
    for what, seconds in figures.longest.items():
        short = figures.short_of_bound.get(what)
        print(f"  {seconds:9} s {what}{'' if short is None else f', bound less {short} s'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
