"""The lifecycle of a key goes forward only."""

from __future__ import annotations

import itertools

import pytest

from cardsign.errors import StoreFault
from cardsign.keys.model import PUBLISHED, TRANSITIONS, check_transition

STEPS = ["generated", "prepublished", "active", "retiring", "retired"]
LEGAL = {*itertools.pairwise(STEPS), *((state, "revoked") for state in STEPS)}


@pytest.mark.parametrize(("old", "new"), sorted(LEGAL))
def test_a_key_goes_one_step_forward_or_is_revoked(old, new):
    """Each way of the lifecycle is open."""
    check_transition(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    sorted(pair for pair in itertools.product(TRANSITIONS, TRANSITIONS) if pair not in LEGAL),
)
def test_every_other_way_is_closed(old, new):
    """No staying, no skipping, no coming back; the error names what is open."""
    with pytest.raises(StoreFault) as caught:
        check_transition(old, new)

    assert caught.value.code == "keystore.illegal_transition"
    assert all(way in caught.value.message for way in TRANSITIONS[old])


def test_what_is_published_is_what_signs_now_or_soon_or_did_lately():
    """A retired key has left the set, and a revoked one too."""
    assert {"prepublished", "active", "retiring"} == PUBLISHED
