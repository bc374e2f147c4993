"""The lives of keys as they are drawn: every phase in its place, and what lies ahead."""

from __future__ import annotations

from cardsign.keys import life
from cardsign.keys.lives import extent, lives
from cardsign.keys.records import StoreState
from tests.keys.lives import EMPTY, NOON, QUICK, after, of, public, published


def rotated() -> StoreState:
    """`one` is retiring since 210, `two` active, `gone` was revoked at once."""
    state = of(life.enter(EMPTY, public("one"), now=NOON))
    state = of(life.enter(state, public("two"), now=after(10)))
    state = of(life.enter(state, public("gone"), now=after(20)))
    state = of(life.revoke(state, "gone", reason="ceased", now=after(30)))
    state = of(life.record_publication(state, published(NOON, ["one", "two"], ["one"])))
    state = of(life.activate(state, "two", now=after(210), settings=QUICK))
    return of(life.record_publication(state, published(after(220), ["one", "two"])))


def test_a_life_is_drawn_phase_by_phase():
    """Each begins where the one before ends; a forecast ends the last one."""
    one, two, gone = lives(rotated(), QUICK, after(300))

    assert [(span.phase, span.start, span.end) for span in one.spans] == [
        ("signs", NOON, after(210)),
        ("signs_on", after(210), after(470)),
    ]
    assert [(span.phase, span.start, span.end) for span in two.spans] == [
        ("waits", after(10), after(210)),
        ("signs", after(210), None),
    ]
    assert [(span.phase, span.end) for span in gone.spans] == [("waits", after(30))]
    assert (one.ended, two.ended, gone.ended) == (None, None, after(30))


def test_what_lies_ahead_is_marked_as_such():
    """A successor will sign when it is its turn, and its predecessor then signs on."""
    state = of(life.enter(rotated(), public("next"), now=after(300)))
    state = of(life.record_publication(state, published(after(310), ["one", "two", "next"])))

    _, two, _, following = lives(state, QUICK, after(320))

    assert two.spans[-1].end == after(1210)
    assert [(span.phase, span.start, span.ahead) for span in following.spans] == [
        ("waits", after(300), False),
        ("signs", after(1210), True),
    ]


def test_a_key_that_was_retired_has_verified_to_its_end():
    """And nothing after it."""
    state = of(life.retire(rotated(), "one", now=after(600), settings=QUICK))

    one = lives(state, QUICK, after(700))[0]

    assert [span.phase for span in one.spans] == ["signs", "signs_on", "verifies"]
    assert one.spans[-1].end == one.ended == after(600)


def test_there_is_always_room_to_draw():
    """Also for one key that was made a moment ago, and for none."""
    state = of(life.enter(EMPTY, public("one"), now=NOON))
    for drawn in (lives(state, QUICK, NOON), lives(EMPTY, QUICK, NOON)):
        start, end = extent(drawn, NOON)
        assert start <= NOON < end


def test_keys_that_do_not_rotate_are_not_drawn():
    """Roots have no timeline."""
    assert lives(of(life.enter(EMPTY, public("one"), now=NOON, roles=("root",))), QUICK, NOON) == ()
