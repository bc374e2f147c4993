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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.simulation.checks import Checks  # noqa: E402
from tests.simulation.clockwork import Broken, Figures  # noqa: E402
from tests.simulation.world import simulate  # noqa: E402

WORKERS: Final = min(2, os.cpu_count() or 1)


def one(seed: int) -> Figures:
    """One world, alone."""
    with Checks().everywhere() as checks:
        figures = simulate(seed, checks).figures
    figures.distinct, figures.asked = checks.distinct, checks.asked
    return figures


def run(
    verifications: int,
    first: int,
    *,
    workers: int = 1,
    world: Callable[[int], Figures] = one,
) -> Figures:
    """Simulate one world after another until so many verifications have been made.

    The same arguments give the same figures, with any number of workers. `world` is for a caller
    with a single worker who keeps the worlds that were simulated.

    Raises:
        Broken: A statement does not hold.
    """
    figures = Figures(worlds=0)
    worlds = map(world, count(first)) if workers == 1 else _side_by_side(first, workers)
    for each in worlds:
        figures.add(each)
        if figures.total >= verifications:
            break
    return figures


def _side_by_side(first: int, workers: int) -> Iterator[Figures]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for begin in count(first, 8 * workers):
            yield from pool.map(one, range(begin, begin + 8 * workers))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verifications", type=int, default=20_000, help="at least so many")
    parser.add_argument("--seed", type=int, default=1, help="of the first world")
    options = parser.parse_args()
    workers = 1 if options.verifications == 1 else WORKERS
    began = time.monotonic()
    try:
        figures = run(options.verifications, options.seed, workers=workers)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    print(
        f"{figures.total} verifications in {figures.worlds} worlds, seeds {options.seed} to "
        f"{options.seed + figures.worlds - 1}, {figures.distinct} signatures checked, "
        f"{time.monotonic() - began:.0f} s: all three statements hold"
    )
    for what, times in (*figures.verifications.items(), *figures.excluded.items()):
        print(f"  {times:9} {what}")
    for what, seconds in figures.longest.items():
        short = figures.short_of_bound.get(what)
        print(f"  {seconds:9} s {what}{'' if short is None else f', bound less {short} s'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
