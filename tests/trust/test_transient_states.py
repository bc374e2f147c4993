"""What is remembered, what of it is a rollback floor, and stores that no disk holds."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from cardsign.errors import StateFault
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import MAX_CARDS, JwksAnchor, Policy, ReleaseFloor, RollbackFloor
from cardsign.trust.state import NO_STATES, IssuerState, TransientStates
from cardsign.urls import parse_place
from tests.jose.statement_making import T0
from tests.trust.establishing import enrolled, pin_of
from tests.trust.histories import after, digest_of, keyset, release

TIDES = enrolled(JwksAnchor("https://tides.example/jwks.json"))
BLANK = IssuerState.begin(TIDES)


def test_state_is_the_floor_of_a_lock() -> None:
    """What is held, and was verified here, goes into the lock; and nothing else."""
    two = after(keyset("ann", "bob"))
    five = release(two)
    state = replace(BLANK, keyset=read_keyset(two), release=read_release(five), newest_iat=T0 + 1)

    assert state.as_floor() == RollbackFloor(
        pin_of(two), ReleaseFloor((1, 2, 5), digest_of(five)), T0 + 1
    )
    assert BLANK.as_floor() == RollbackFloor()


def test_transient_states_last_from_one_verdict_to_the_next() -> None:
    """From the start they know every issuer; of each they remember its own."""
    states, lamp = TransientStates(), replace(TIDES, name="lamp")
    with states.of(TIDES) as state:
        assert state == BLANK
        states.keep(TIDES, replace(BLANK, newest_iat=T0))

    with states.of(TIDES) as state, states.of(lamp) as other:
        assert state == replace(BLANK, newest_iat=T0)
        assert other == BLANK
        assert state.notes == ()


def test_transient_states_keep_what_was_kept_before_a_failure() -> None:
    """A step that was kept is kept, whatever happens afterwards."""
    states = TransientStates({"tides": replace(BLANK, newest_iat=1)})

    def fail_after_a_step() -> None:
        with states.of(TIDES) as state:
            assert state == replace(BLANK, newest_iat=1)
            states.keep(TIDES, replace(BLANK, newest_iat=2))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_a_step()
    with states.of(TIDES) as state:
        assert state == replace(BLANK, newest_iat=2)


def test_transient_state_is_of_one_policy_anchor_and_origin() -> None:
    """Another policy has state of its own; other origins under one policy are a fault (S1)."""
    states = TransientStates()
    states.keep(TIDES, replace(BLANK, newest_iat=T0))
    (elsewhere,) = Policy((TIDES,)).known_as("another").issuers
    with states.of(elsewhere) as state:
        assert not state.newest_iat

    moved = replace(TIDES, places=(parse_place("https://evil.example"),))
    with pytest.raises(StateFault, match=r"state\.other_anchor"), states.of(moved):
        pass
    with states.of(TIDES) as state:
        assert state.newest_iat


def test_no_states_remember_nothing() -> None:
    """Neither from one verdict to the next nor within one."""
    with NO_STATES.of(TIDES) as state:
        assert state is None
        NO_STATES.keep(TIDES, replace(BLANK, newest_iat=T0 + 5))
    with NO_STATES.of(TIDES) as state:
        assert state is None


def test_state_is_held_by_one_alone() -> None:
    """Who is late finds what the other has kept, and does not write it over."""
    states, entered = TransientStates(), threading.Event()

    def other() -> None:
        entered.set()
        with states.of(TIDES) as state:
            states.keep(TIDES, replace(state, cards=("https://tides.example/",)))

    thread = threading.Thread(target=other)
    with states.of(TIDES):
        thread.start()
        assert entered.wait(10)
        states.keep(TIDES, replace(BLANK, newest_iat=T0))
    thread.join(10)
    with states.of(TIDES) as state:
        assert state == replace(BLANK, newest_iat=T0, cards=("https://tides.example/",))


def test_where_cards_were_seen_is_bounded() -> None:
    """The newest place last; the one seen longest ago goes first, and none stands there twice."""
    known = BLANK
    for number in range(MAX_CARDS):
        known = known.with_card(f"https://tides.example/{number}")
    assert known.with_card("https://tides.example/0").cards[-1] == "https://tides.example/0"
    assert len(known.with_card("https://tides.example/0").cards) == MAX_CARDS
    more = known.with_card("https://tides.example/new").cards
    assert (more[0], more[-1]) == ("https://tides.example/1", "https://tides.example/new")
    assert len(more) == MAX_CARDS


def test_where_listed_cards_were_seen_is_not_forgotten_for_others() -> None:
    """Of too many the policy's own stay; where all are its own, the new place is not noted."""
    listed = [f"https://tides.example/{number}" for number in range(MAX_CARDS)]
    known = BLANK
    for url in (listed[0], "https://tides.example/old", *listed[1:]):
        known = known.with_card(url, listed)
    assert list(known.cards) == listed
    assert known.with_card("https://tides.example/new", listed) == known
