"""Three statements about rotation, over random worlds; and each wrong rotation is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Final

import pytest

from tests.simulation import mutations
from tests.simulation.checks import Checks
from tests.simulation.clockwork import Broken
from tests.simulation.run import one
from tests.simulation.run import run as run_anew
from tests.simulation.world import simulate

#: Without a fault a world is simulated once, whichever test asks for it.
run: Final = partial(run_anew, world=cache(one))
#: 20,000 verifications in all under CARDSIGN_EXAMPLES=2000, as `.ci/run` sets it.
VERIFICATIONS: Final = min(20_000, 10 * int(os.environ.get("CARDSIGN_EXAMPLES", "400")))
PARTS: Final = (1_000, 2_000, 3_000, 4_000)  # first seeds; two processes share them

TO_THE_SECOND: Final = (
    "a thief of a card key, by who keeps a JWK Set for the longest",
    "a thief of a card key, by who gets no newer statements",
    "a thief of a card and a release key, by who gets no newer statements",
)
#: Whatever is wrong, the seeds of the worlds in which it has to be found, and which statement.
FOUND: Final[dict[str, tuple[Callable[[], AbstractContextManager[None]], tuple[int, ...], int]]] = {
    "no pre-publication": (mutations.no_prepublication, (1, 2), 1),
    "trusting the state's clock": (mutations.the_clock_of_the_state, (1, 2), 1),
    "no overlap": (mutations.no_overlap, (1, 2), 1),
    "dropped too early": (mutations.dropped_too_early, (13, 14), 1),
    "retired while it stands on cards": (mutations.retired_while_it_stands_on_cards, (3, 5), 1),
    "taking a revoked key back": (mutations.unrevoked, (3, 4), 2),
    "the floor raised too early": (mutations.floor_too_early, (1, 2), 1),
    "a keyset before its release": (mutations.keyset_before_its_release, (1, 2), 1),
}


@pytest.mark.parametrize("first", PARTS)
def test_the_three_statements_hold(first: int) -> None:
    """No honest card refused, no revoked key believed, no thief believed beyond the bound."""
    outcome = run(VERIFICATIONS // len(PARTS), first)
    assert outcome.figures.total >= VERIFICATIONS // len(PARTS)
    assert 0 < outcome.distinct < outcome.asked
    excluded = sum(outcome.figures.excluded.values())
    assert excluded < outcome.figures.total / 20, "the assumptions exclude next to nothing"


@pytest.mark.thorough
@pytest.mark.parametrize("what", TO_THE_SECOND)
def test_a_thief_is_believed_just_as_long_as_documented(what: str) -> None:
    """Measured in the last second of the bound, and in the next."""
    likely = {TO_THE_SECOND[0]: 3, TO_THE_SECOND[1]: 3, TO_THE_SECOND[2]: 12}
    for seed in (likely[what], *range(1_000, 1_008)):
        figures = run(1, seed).figures
        if what in figures.short_of_bound:
            assert figures.short_of_bound[what] == 0
            assert figures.longest[what] > 0
            return
    raise AssertionError(f"no world has {what}")


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", FOUND)
def test_a_wrong_rotation_is_found(wrong: str) -> None:
    """Each makes a statement fail in one of a few worlds, which hold without it."""
    mutant, seeds, statement = FOUND[wrong]
    found = []
    for seed in seeds:
        try:
            with mutant(), Checks().everywhere() as checks:
                simulate(seed, checks)
        except Broken as broken:
            found.append(str(broken))
            break
    assert found, f"{wrong} went unseen in the worlds of seeds {seeds}"
    assert found[0].startswith(f"statement {statement} does not hold in the world of seed {seed}")
    assert found[0].count("\n") > 10, "the history is told"
    run(1, seed)


def test_a_world_follows_from_its_seed() -> None:
    """History and figures, to the byte."""
    with Checks().everywhere() as checks:
        worlds = [simulate(5, checks) for _ in range(2)]
    assert worlds[0].clockwork.history == worlds[1].clockwork.history
    assert worlds[0].figures == worlds[1].figures
    assert worlds[0].issuer.signers_of == worlds[1].issuer.signers_of
