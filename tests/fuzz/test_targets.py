"""What reads a stranger's documents, over good examples and mutations of them."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.fuzz.targets import TARGETS

#: Of each target; CARDSIGN_EXAMPLES makes more of them, as nightly does.
MUTATIONS = max(100, int(os.environ.get("CARDSIGN_EXAMPLES", "100")) // 4)
#: What mutated inputs must come to, lest a target be shallow: outcomes, and how many of them.
REACHED = {
    "jwks": ("accepted", "key.malformed", "jwks.malformed"),
    "keyset": ("accepted", "statement.members", "statement.bad_key", "statement.shape"),
    "release": ("accepted", "statement.members", "statement.shape"),
    "verify": ("trusted", "untrusted", "invalid"),
    "inspect": ("accepted",),
    "source": ("accepted", "build.syntax", "build.missing", "build.type"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_good_example_is_read(name: str) -> None:
    """What a target starts from gets past the first refusal."""
    first, *_ = TARGETS[name].inputs()
    assert TARGETS[name].run(first) in {"accepted", "trusted"}


@pytest.mark.parametrize("name", TARGETS)
def test_the_properties_hold_for_mutated_inputs(name: str) -> None:
    """No seed and no mutation of one breaks a property, and they reach what they should."""
    target, random = TARGETS[name], Random(1)
    pool = target.seeds(random)
    outcomes = {target.run(data) for data in pool}
    for _ in range(MUTATIONS):
        try:
            data = target.mutate(random.choice(pool), random)
        except RecursionError:  # the mutator's own: what it reads is laxly read
            continue
        if data is not None:
            pool.append(data)
            outcomes.add(target.run(data))
    assert set(REACHED[name]) <= outcomes
