"""When each step is due, and what it waits for until then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cardsign.keys import agenda
from cardsign.keys.agenda import Step, find_wait, steps, take
from cardsign.keys.ledger import StoreState, fold_all
from tests.keys.states import (
    EMPTY,
    NOON,
    QUICK,
    SERIES,
    after,
    change,
    due,
    enter,
    list_keys,
    public,
    published,
    record,
    revoke,
)
from tests.keys.stories import (
    ELSEWHERE,
    PROGRAM,
    activated,
    first_two,
    relieved,
    resigned,
    retired,
    seen,
)

OTHER = "https://b/"
LONG = record(first_two(), published(NOON, ["one", "two"], max_age=1000))
SHORT = record(LONG, published(after(1), ["one", "two"]))  # while caches hold the one before
LOST = record(seen(), published(after(100), ["one"]))
FOUND = record(LOST, published(after(150), ["one", "two"]))
SOON = record(activated(), published(after(220), ["one", "two"], ["two"]))
LATE = record(activated(), published(after(1000), ["one", "two"], ["two"]))


@pytest.mark.parametrize(
    ("state", "action", "name", "second"),
    [
        pytest.param(seen(), "activate", "two", 210, id="caches have the next key"),
        pytest.param(LONG, "activate", "two", 1010, id="as long as publications told caches"),
        pytest.param(SHORT, "activate", "two", 1010, id="also one before the newest"),
        pytest.param(FOUND, "activate", "two", 360, id="from when it was found again"),
        pytest.param(relieved(), "retire", "one", 530, id="no cache holds what it signed"),
        pytest.param(SOON, "retire", "one", 470, id="it signs on until its time"),
        pytest.param(LATE, "retire", "one", 1060, id="cards were signed again late"),
    ],
)
def test_a_step_is_due_in_its_second_and_not_one_earlier(
    state: StoreState, action: str, name: str, second: int
) -> None:
    """Counted from the record of a publication."""
    assert due(state, action, name, second - 1) is None
    assert due(state, action, name, second) is not None


BACK = record(relieved(), published(after(480), ["one", "two"], ["one"]))
BESIDE = record(relieved(), published(after(480), ["one", "two"], series=OTHER))
IN_ONE_OF_TWO = record(seen(), published(NOON, ["one"], series=OTHER))


@pytest.mark.parametrize(
    ("state", "action", "name", "words"),
    [
        pytest.param(first_two(), "activate", "two", "not published", id="nothing is published"),
        pytest.param(LOST, "activate", "two", "not published", id="a later publication lacks it"),
        pytest.param(IN_ONE_OF_TWO, "activate", "two", "not published", id="one of two lacks it"),
        pytest.param(activated(), "retire", "one", SERIES, id="its successor has not signed"),
        pytest.param(resigned(), "retire", "one", SERIES, id="it stands on a card"),
        pytest.param(resigned(), "retire", "one", "until 2026-11-21 12:07:50", id="and signs"),
        pytest.param(BESIDE, "retire", "one", OTHER, id="it stands on another card"),
        pytest.param(BACK, "retire", "one", SERIES, id="an old card came back"),
    ],
)
def test_what_has_no_date_is_waited_for_however_long_it_takes(
    state: StoreState, action: str, name: str, words: str
) -> None:
    """The clock of the state says nothing of caches; the words say what to do."""
    assert due(state, action, name, 10**6) is None
    why, until = find_wait(state, state.find(name), action, QUICK)  # type: ignore[arg-type]
    assert (words in why, until) == (True, None)


def test_no_other_key_is_activated_or_retired() -> None:
    """Each has one step at most, by its state."""
    for state in (seen(), activated(), resigned(), relieved(), retired()):
        for key in state.keys:
            ways = [
                step.action
                for step in steps(state, QUICK, NOON)
                if step.key == key and step.action != "generate"
            ]
            lawful = {"prepublished": "activate", "retiring": "retire"}
            assert ways == ([lawful[key.state]] if key.state in lawful else [])


def test_an_activated_key_and_the_one_before_it_sign_together_for_a_while() -> None:
    """So that each card is good for whoever has either key."""
    one, two = activated().keys
    assert (one.state, two.state) == ("retiring", "active")
    assert one.times.stops_signing == after(210 + 200 + 50 + 10)


def test_an_endpoint_that_a_card_has_left_is_waited_for_no_more() -> None:
    """Else it would hold up everything for ever; of another card nothing is forgotten."""
    old = published(NOON, ["one"], series=OTHER)
    new = published(after(10), ["one", "two"], series="https://c/")
    state = record(seen(), old)

    moved = change(state, agenda.record_publication, new, now=after(10), replaced=old)
    beside = change(state, agenda.record_publication, new, now=after(10))

    assert due(moved, "activate", "two", 320)
    assert not due(beside, "activate", "two", 320)


# What comes next.


def next_step(state: StoreState, at: float, every: int = QUICK.rotate_every) -> Step | None:
    """The first of the steps ahead."""
    return next(iter(steps(state, replace(QUICK, rotate_every=every), after(at))), None)


def test_the_next_step_of_a_lone_key_is_its_successor() -> None:
    """A standby is always there; one in another custody is kept for the day it is needed."""
    state = enter(EMPTY, public("one"), now=NOON)
    step = next_step(state, 0)
    assert step is not None
    assert (step.action, step.key.kid, step.is_due(NOON)) == ("generate", "one", True)
    state = enter(state, public("away"), now=NOON, custody=PROGRAM)
    step = next_step(record(state, published(NOON, ["one", "away"])), 10**6)
    assert step is not None
    assert step.action == "generate"


def test_no_second_successor_is_made_while_the_first_waits_for_the_roots() -> None:
    """Nothing is due; once listed it takes its turn."""
    rooted = list_keys(enter(EMPTY, public("one"), now=NOON), 1, "one")
    state = enter(rooted, public("two"), now=after(1))

    assert steps(state, QUICK, after(10**6)) == ()
    listed = list_keys(state, 2, "one", "two", at=3)
    assert [step.action for step in steps(listed, QUICK, after(10))] == ["activate"]
    elsewhere = enter(rooted, public("away"), now=after(1), custody=PROGRAM)
    actions = {step.action for step in steps(elsewhere, QUICK, after(10**6))}
    assert actions == {"generate"}


def test_a_key_and_its_successor_are_made_in_the_place_of_a_stolen_one() -> None:
    """Both at once, since the roots list them together."""
    state = revoke(first_two(), "one", "compromised", 100)

    def made(state: StoreState) -> list[str]:
        ahead = steps(state, QUICK, after(200))
        return [step.action for step in ahead if step.action == "generate"]

    assert made(state) == ["generate"]
    state = enter(list_keys(state, 1), public("new"), now=after(200), **ELSEWHERE)
    assert (state.find("new").state, made(state)) == ("generated", ["generate"])
    state = enter(state, public("newer"), now=after(200), **ELSEWHERE)
    assert made(state) == []
    assert due(list_keys(state, 2, "new", "newer", at=300), "activate", "new", 300)


def test_a_stolen_release_key_neither_gets_nor_is_a_successor() -> None:
    """It only tells of the others; one that ends otherwise gets one from another custody."""
    state = first_two()
    for name in ("release", "release2"):
        state = enter(state, public(name), now=NOON, roles=("release",))
    state = revoke(state, "one", "compromised", 100)
    assert {step.role for step in steps(state, QUICK, after(10**6))} == {"card"}
    state = revoke(state, "release", "superseded", 200)
    ahead = [step for step in steps(state, QUICK, after(10**6)) if step.role == "release"]
    assert [step.action for step in ahead] == ["generate"]


def test_a_rotation_is_due_at_its_time_and_never_before_caches_have_the_new_key() -> None:
    """Also where keys are to change at once, and where a person has asked for it."""
    begun = change(seen(), agenda.replace_key, ["one"], now=after(20))
    planned, early, asked = next_step(seen(), 300), next_step(seen(), 300, 0), next_step(begun, 300)

    assert [step and step.due for step in (planned, early, asked)] == [
        after(1000),
        after(210),
        after(210),
    ]
    blind = next_step(first_two(), 300, 0)
    assert blind is not None
    assert blind.due is None


def test_a_rotation_runs_through_by_ticks_alone() -> None:
    """Each tick does one step; somebody signs and publishes all the time."""
    state, done = seen(), []
    for second in range(1000, 3000, 10):
        now = after(second)
        step = next_step(state, second)
        if step is not None and step.is_due(now):
            done.append(step.action)
            if step.action == "generate":
                state = enter(state, public(f"key {second}"), now=now)
            else:
                state = fold_all(state, take(state, step, QUICK, now), now)
        kids = [key.kid for key in state.published_keys()]
        signers = [key.kid for key in state.signing_keys(now)]
        state = record(state, published(now, kids, signers))

    assert done == ["activate", "generate", "retire"] * 2


def test_an_algorithm_that_was_given_up_does_not_come_back() -> None:
    """No active key, no standby: nothing to rotate. A root key is never rotated."""
    state = enter(EMPTY, public("one"), now=NOON)
    assert steps(revoke(state, "one", "ceased"), QUICK, after(10**6)) == ()
    root = enter(EMPTY, public("one"), now=NOON, roles=("root",))
    assert next_step(root, 10**6, 0) is None
