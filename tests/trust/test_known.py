"""What is remembered, what of it is a floor, and memories that no disk holds."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from cardsign.statements import KeysetId, read_keyset, read_release
from cardsign.trust import (
    MAX_CARDS,
    NO_MEMORY,
    Floor,
    JwksAnchor,
    Known,
    ReleaseFloor,
    TofuAnchor,
    TransientMemory,
    WithoutMemory,
    anchor_digest,
)
from tests.jose.statement_making import T0
from tests.trust.establishing import enrolled, pin_of
from tests.trust.histories import after, digest_of, keyset, release

TIDES = enrolled(TofuAnchor())
BLANK = Known(anchor_digest(TIDES.anchor))
PIN = KeysetId(1, 9, "9" * 64)
RELEASE = ReleaseFloor((1, 9, 80), "8" * 64)
FLOOR = Floor(PIN, RELEASE, T0)


@pytest.fixture(scope="module")
def two() -> bytes:
    """A second version."""
    return after(keyset("ann", "bob"))


def test_a_memory_is_the_floor_of_a_lock(two: bytes) -> None:
    """What is held goes into the lock, where it is higher than what the lock said."""
    five = release(two)
    known = replace(BLANK, keyset=read_keyset(two), release=read_release(five), newest_iat=T0 + 1)
    held = Floor(pin_of(two), ReleaseFloor((1, 2, 5), digest_of(five)), T0 + 1)
    low = Floor(KeysetId(1, 1, "1" * 64), ReleaseFloor((1, 1, 90), "2" * 64), T0)

    assert known.as_floor() == held
    assert replace(known, floor=low).as_floor() == held


def test_no_memory_lowers_a_lock(two: bytes) -> None:
    """Neither one that holds nothing, nor one that holds what is older, nor an older clock."""
    older = replace(
        BLANK,
        floor=FLOOR,
        keyset=read_keyset(two),
        release=read_release(release(two, seq=99)),
        newest_iat=T0 - 1,
    )

    assert BLANK.as_floor() == Floor()
    assert replace(BLANK, floor=FLOOR).as_floor() == FLOOR
    assert older.as_floor() == FLOOR


def test_a_transient_memory_lasts_from_one_verdict_to_the_next() -> None:
    """From the start it knows every issuer; of each it remembers his own."""
    memory, lamp = TransientMemory(), replace(TIDES, name="lamp")
    with memory.of(TIDES) as memo:
        assert memo.known == BLANK
        memo.keep(replace(BLANK, newest_iat=T0))

    with memory.of(TIDES) as memo, memory.of(lamp) as other:
        assert memo.known == replace(BLANK, newest_iat=T0)
        assert other.known == BLANK
        assert memo.notes == ()


def test_a_transient_memory_keeps_what_was_kept_before_a_failure() -> None:
    """A step that was kept is kept, whatever happens afterwards."""
    memory = TransientMemory({"tides": replace(BLANK, newest_iat=1)})

    def fail_after_a_step() -> None:
        with memory.of(TIDES) as memo:
            assert memo.known == replace(BLANK, newest_iat=1)
            memo.keep(replace(BLANK, newest_iat=2))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_a_step()
    with memory.of(TIDES) as memo:
        assert memo.known == replace(BLANK, newest_iat=2)


def test_without_memory_only_the_floors_are_known() -> None:
    """Of one issuer there are floors; of another nothing, so he is not remembered at all."""
    pinned = enrolled(JwksAnchor("https://tides.example/jwks.json"))
    memory = WithoutMemory({"tides": FLOOR})
    with memory.of(pinned) as memo:
        assert memo.known == Known(anchor_digest(pinned.anchor), floor=FLOOR)
    with memory.of(replace(pinned, name="lamp")) as memo:
        assert memo.known is None


def test_without_memory_no_contact_is_the_first() -> None:
    """Whatever a lock says: each would be, with whoever answers."""
    with WithoutMemory({"tides": FLOOR}).of(TIDES) as memo:
        assert memo.known is None


def test_a_memory_is_held_by_one_alone() -> None:
    """Who is late finds what the other has kept, and does not write it over."""
    memory, entered = TransientMemory(), threading.Event()

    def other() -> None:
        entered.set()
        with memory.of(TIDES) as memo:
            assert memo.known is not None
            memo.keep(replace(memo.known, signed_before=True))

    thread = threading.Thread(target=other)
    with memory.of(TIDES) as memo:
        thread.start()
        assert entered.wait(10)
        memo.keep(replace(BLANK, newest_iat=T0))
    thread.join(10)
    with memory.of(TIDES) as memo:
        assert memo.known == replace(BLANK, newest_iat=T0, signed_before=True)


def test_without_memory_nothing_is_kept_from_one_verdict_to_the_next() -> None:
    """Neither where there are floors, nor where there is nothing."""
    for memory in (NO_MEMORY, WithoutMemory({"tides": FLOOR})):
        with memory.of(TIDES) as memo:
            before = memo.known
            memo.keep(replace(BLANK, newest_iat=T0 + 5))
        with memory.of(TIDES) as memo:
            assert memo.known == before


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
