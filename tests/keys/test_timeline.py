"""Keys as the timeline draws them: every phase in its place, and what lies ahead."""

from __future__ import annotations

from dataclasses import replace

from cardsign.keys import Span, StoreState, extent, key_rows, lifecycle, statement_rows
from cardsign.statements import KeysetId
from tests.keys.issuing import DAY, NOW, first, released
from tests.keys.states import EMPTY, NOON, QUICK, after, of, public, published


def rotated() -> StoreState:
    """`one` is retiring since 210, relieved at 470, `two` active, `gone` was revoked at once."""
    state = of(lifecycle.enter(EMPTY, public("one"), now=NOON))
    state = of(lifecycle.enter(state, public("two"), now=after(10)))
    state = of(lifecycle.enter(state, public("gone"), now=after(20)))
    state = of(lifecycle.revoke(state, "gone", reason="ceased", now=after(30)))
    state = of(lifecycle.record_publication(state, published(NOON, ["one", "two"], ["one"])))
    state = of(lifecycle.activate(state, "two", now=after(210), settings=QUICK))
    return of(lifecycle.record_publication(state, published(after(470), ["one", "two"], ["two"])))


def test_a_life_is_drawn_phase_by_phase():
    """Each begins where the one before ends; a forecast ends the last one."""
    one, two, gone = key_rows(rotated(), QUICK, after(300))

    assert [(span.phase, span.start, span.end) for span in one.spans] == [
        ("signs", NOON, after(210)),
        ("signs_on", after(210), after(470)),
        ("verifies", after(470), after(530)),
    ]
    assert [(span.phase, span.start, span.end) for span in two.spans] == [
        ("waits", after(10), after(210)),
        ("signs", after(210), None),
    ]
    assert [(span.phase, span.end) for span in gone.spans] == [("waits", after(30))]
    assert (one.ended, two.ended, gone.ended) == (None, None, after(30))


def test_what_lies_ahead_is_marked_as_such():
    """A successor will sign when it is its turn, its predecessor then signs on, others wait."""
    state = of(lifecycle.enter(rotated(), public("next"), now=after(300)))
    state = of(lifecycle.enter(state, public("spare"), now=after(300)))
    kids = ["one", "two", "next", "spare"]
    state = of(lifecycle.record_publication(state, published(after(480), kids)))

    _, two, _, following, spare = key_rows(state, QUICK, after(490))

    assert two.spans[-1].end == after(1210)
    assert [(span.phase, span.start, span.ahead) for span in following.spans] == [
        ("waits", after(300), False),
        ("signs", after(1210), True),
    ]
    assert [(span.phase, span.end) for span in spare.spans] == [("waits", None)]


def test_a_key_that_was_retired_has_verified_to_its_end():
    """And nothing after it."""
    state = of(lifecycle.retire(rotated(), "one", now=after(600), settings=QUICK))

    one = key_rows(state, QUICK, after(700))[0]

    assert [span.phase for span in one.spans] == ["signs", "signs_on", "verifies"]
    assert one.spans[-1].end == one.ended == after(600)


def test_there_is_always_room_to_draw():
    """Also for one key that was made a moment ago, and for none."""
    state = of(lifecycle.enter(EMPTY, public("one"), now=NOON))
    for drawn in (key_rows(state, QUICK, NOON), key_rows(EMPTY, QUICK, NOON)):
        start, end = extent(drawn, NOON)
        assert start <= NOON < end


def test_a_key_that_ended_in_the_second_in_which_it_was_made_has_no_span():
    """As of a script that makes a key and revokes it; its row still says when it ended."""
    state = of(lifecycle.enter(EMPTY, public("one"), now=NOON))
    state = of(lifecycle.revoke(state, "one", reason="ceased", now=NOON))

    one = key_rows(state, QUICK, after(10))[0]

    assert (one.spans, one.ended) == ((), NOON)


def test_a_root_key_is_drawn_first_and_signs_until_it_ends():
    """It does not rotate, so nothing is ever due."""
    state = of(lifecycle.enter(EMPTY, public("one"), now=NOON))
    state = of(lifecycle.enter(state, public("root"), now=after(5), roles=("root",)))

    root, _ = key_rows(state, QUICK, after(10))

    assert [(span.phase, span.start, span.end) for span in root.spans] == [
        ("signs", after(5), None)
    ]
    assert (root.what, root.due) == ("ES256 root", None)
    ended = of(lifecycle.retire(state, "root", now=after(20), settings=QUICK))
    assert key_rows(ended, QUICK, after(30))[0].spans[-1].end == after(20)


def test_a_key_that_waits_for_the_roots_is_drawn_so():
    """And as waiting for its turn from when they have listed it."""
    state = of(lifecycle.enter(EMPTY, public("one"), now=NOON))
    held = KeysetId(1, 1, "1" * 64)
    state = of(lifecycle.keep_keyset(state, held, [], now=NOON))
    state = of(lifecycle.enter(state, public("two"), now=after(5)))
    listed = of(
        lifecycle.keep_keyset(
            state, replace(held, version=2), [public("two").thumbprint], now=after(9)
        )
    )

    assert [span.phase for span in key_rows(state, QUICK, after(10))[1].spans] == ["unlisted"]
    spans = key_rows(listed, QUICK, after(10))[1].spans
    assert [(span.phase, span.start) for span in spans] == [
        ("unlisted", after(5)),
        ("waits", after(9)),
    ]


def test_statements_are_drawn_until_they_end():
    """With when they are to be renewed: a third of a keyset's time, half of a release's."""
    keyset = first()

    one, other = statement_rows(keyset, released(keyset, None))

    assert (one.name, one.what, one.due) == ("1.1", "keyset", NOW + 60 * DAY)
    assert one.spans == (Span("stands", NOW, NOW + 90 * DAY),)
    assert (other.what, other.due) == ("release", NOW + 3.5 * DAY)
    assert statement_rows(None, None) == ()
