"""What may be done with keys, when each step is due, and what it waits for until then."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from cardsign.keys import agenda
from cardsign.keys.agenda import Step, cards_to_sign, find_wait, steps, take
from cardsign.keys.ledger import TRANSITIONS, StoreState, custody_group, fold_all
from cardsign.times import stamp
from tests.keys.elsewhere import refusal
from tests.keys.states import (
    ELSEWHERE,
    EMPTY,
    NOON,
    PROGRAM,
    QUICK,
    SERIES,
    activated,
    after,
    change,
    due,
    enter,
    first_two,
    list_keys,
    public,
    published,
    record,
    relieved,
    resigned,
    retired,
    revoke,
    seen,
)

# Entering, and where the roots say which keys count.


def test_the_first_key_of_an_algorithm_and_role_signs_at_once() -> None:
    """There is no older one that caches could miss it beside; a later one waits."""
    state = enter(first_two(), public("rsa", "RS256"), now=NOON)
    state = enter(state, public("release"), now=NOON, roles=("release",))

    assert [key.state for key in state.keys] == ["active", "prepublished", "active", "active"]


def test_offline_keys_are_active_side_by_side_and_in_no_jwk_set() -> None:
    """They do not rotate, and must not verify cards; nor does a release key."""
    state = enter(EMPTY, public("one"), now=NOON, roles=("root",))
    state = enter(state, public("two"), now=NOON, roles=("root",))
    state = enter(state, public("release"), now=NOON, roles=("release",))
    assert [key.kid for key in state.active_keys("root")] == ["one", "two"]
    assert (state.published_keys(), state.active_keys()) == ((), ())


def rooted() -> StoreState:
    """`one` is active, and keyset 1.1 lists it."""
    return list_keys(enter(EMPTY, public("one"), now=NOON), 1, "one")


def test_a_key_waits_for_the_roots_to_list_it() -> None:
    """Until then it stands in no JWK Set, is no standby, and nothing makes it one."""
    state = enter(rooted(), public("two"), now=after(1))

    assert state.find("two").state == "generated"
    assert [key.kid for key in state.published_keys()] == ["one"]
    assert list_keys(state, 2, "one").find("two").state == "generated"
    assert revoke(state, "one", "superseded").find("two").state == "generated"
    listed = list_keys(state, 2, "one", "two", at=7)
    assert listed.find("two").times.prepublished == after(7)


def test_a_key_that_came_after_the_statement_that_lists_it_is_prepublished_too() -> None:
    """Others may have listed it before this store had it; the first of a line does not wait."""
    state = enter(list_keys(rooted(), 2, "one", "two"), public("two"), now=after(1))

    assert state.find("two").state == "generated"
    assert list_keys(state, 3, "one", "two", at=2).find("two").state == "prepublished"
    assert enter(state, public("rsa", "RS256"), now=after(1)).find("rsa").state == "active"


def test_a_key_for_cards_alone_gets_no_other_role() -> None:
    """Nobody would take a statement by EdDSA."""
    key = public("edwards", "EdDSA")
    assert enter(EMPTY, key, now=NOON).active_keys()
    for roles in (("release",), ("card", "release"), ("root",)):
        assert refusal(enter, EMPTY, key, now=NOON, roles=roles) == "key.unsupported"


# Signing.


def test_a_retiring_key_signs_for_a_while_and_first() -> None:
    """Some verifiers read only the first signature, and more of them know the old key."""
    state = activated()
    assert [key.state for key in state.keys] == ["retiring", "active"]
    assert [key.kid for key in state.signing_keys(after(469))] == ["one", "two"]
    assert [key.kid for key in state.signing_keys(after(470))] == ["two"]


def test_the_cards_that_hold_up_a_rotation_are_named() -> None:
    """Those that the new key has not signed, then those that still bear what the old one did."""

    def held_up(state: StoreState, second: int) -> list[str | None]:
        return [card.url for card in cards_to_sign(state, after(second))]

    assert held_up(seen(), 205) == []
    assert held_up(activated(), 215) == [SERIES]
    assert held_up(resigned(), 469) == []
    assert held_up(resigned(), 470) == [SERIES]
    assert held_up(relieved(), 10**6) == []
    assert held_up(revoke(seen(), "one", "superseded"), 2) == [SERIES]


# Revoking.


def test_the_card_keys_of_a_stolen_custody_end_and_a_standby_elsewhere_takes_over() -> None:
    """At once, whether or not it was seen; and no second time."""
    state = enter(first_two(), public("away"), now=NOON, custody=PROGRAM)
    state = revoke(state, "one", "compromised")

    assert [key.state for key in state.keys] == ["revoked", "revoked", "prepublished"]
    assert due(state, "activate", "away", 1)
    assert {key.revoked_because for key in state.keys} == {"compromised", None}
    assert revoke(state, "one", "compromised", 2) == state


P11, GCP = "pkcs11:token=", "gcpkms:p/keyRings/"
TOGETHER = [
    ("file:a", "file:a"),
    ("exec:/bin/a?kid=1", "exec:/bin/a?kid=2"),
    (f"{P11}a;object=1", "pkcs11:object=2;token=a"),
    ("awskms:///1", "awskms:///2"),
    (f"{GCP}r/cryptoKeys/1", f"{GCP}r/cryptoKeys/2"),
    ("azurekms://vault/1", "azurekms://vault/2"),
]
APART = [
    ("file:a", "file:b"),
    ("exec:/bin/a", "exec:/bin/b"),
    ("env:A", "env:B"),
    (f"{P11}a;object=1", f"{P11}b;object=1"),
    (f"{GCP}r/cryptoKeys/1", f"{GCP}s/cryptoKeys/1"),
    ("azurekms://vault/1", "azurekms://other/1"),
    ("file:a", "exec:/bin/a"),
]


def test_what_is_stolen_together() -> None:
    """A passphrase, a token, a program, a variable, a key ring, a vault, an account."""
    assert not [pair for pair in TOGETHER if len({*map(custody_group, pair)}) == 2]
    assert not [pair for pair in APART if len({*map(custody_group, pair)}) == 1]


def test_no_key_is_made_in_a_stolen_custody() -> None:
    """Until it has another passphrase or signer; roots that were there are not revoked."""
    state = enter(first_two(), public("root"), now=NOON, roles=("root",))
    state = revoke(state, "one", "compromised")

    assert refusal(enter, state, public("new"), now=after(2)) == "keystore.same_custody"
    assert enter(state, public("new"), now=after(2), **ELSEWHERE).find("new")
    root = state.find("root")
    assert (root.state, root.is_stolen) == ("active", True)
    sealed_anew = {"event": "resealed", "key": root.thumbprint, **ELSEWHERE}
    assert fold_all(state, [sealed_anew], after(3)).find("root").is_stolen


def test_a_stolen_release_key_ends_once_it_has_told_of_the_others() -> None:
    """One that has nobody to tell of ends at once."""
    alone = enter(first_two(), public("release"), now=NOON, roles=("release",), **ELSEWHERE)
    assert revoke(alone, "release", "compromised").find("release").state == "revoked"
    state = enter(first_two(), public("release"), now=NOON, roles=("release",))
    state = revoke(state, "one", "compromised")
    assert state.find("release").state == "active"
    told = [state.find("one").thumbprint]
    assert agenda.end_told_releases(state, told) == []
    told.append(state.find("two").thumbprint)
    ended = change(state, agenda.end_told_releases, told, now=after(2))
    assert ended.find("release").revoked_because == "compromised"


def test_a_stolen_key_counts_as_copied_until_what_others_have_lacks_it() -> None:
    """A publication; where there is none, a key set that is handed out."""
    stolen = revoke(seen(), "one", "compromised", 100)
    assert [key.kid for key in agenda.list_copied(stolen)] == ["one", "two"]
    assert agenda.record_key_set(stolen) == []
    assert agenda.list_copied(record(stolen, published(after(110), []))) == []
    unpublished = revoke(first_two(), "one", "compromised")
    written = change(unpublished, agenda.record_key_set, now=after(2))
    assert (len(agenda.list_copied(unpublished)), agenda.list_copied(written)) == (2, [])


def test_without_a_theft_any_standby_takes_over() -> None:
    """Its custody is as good as it was. A standby that is revoked changes nothing else."""
    assert due(revoke(first_two(), "one", "superseded"), "activate", "two", 1)
    assert due(revoke(first_two(), "one", "ceased"), "activate", "two", 1)
    states = [key.state for key in revoke(first_two(), "two", "ceased").keys]
    assert states == ["active", "revoked"]


@pytest.mark.parametrize("make", [first_two, activated, retired], ids=lambda make: make.__name__)
def test_revocation_is_open_from_every_state_and_final(make: Callable[[], StoreState]) -> None:
    """Also for what is retired; another reason changes nothing."""
    state = revoke(make(), "one", "superseded", 10**6)

    assert state.find("one").revoked_because == "superseded"
    assert state.find("one").private == ("destroyed" if make is retired else "held")
    assert revoke(state, "one", "ceased", 10**6) == state
    assert revoke(state, "one", "compromised", 10**6) == state


def test_no_way_leads_back() -> None:
    """Whoever writes the event; each state has its own ways, and a revoked key none."""
    ended = [ways for state, ways in TRANSITIONS.items() if state in ("retired", "revoked")]
    assert ended == [("revoked",), ()]
    for state in (seen(), activated(), retired(), revoke(seen(), "one", "ceased")):
        for key in state.keys:
            for to in set(TRANSITIONS) - {*TRANSITIONS[key.state]}:
                event = {**agenda.move(key, to, reason="ceased"), "stops": stamp(NOON)}
                code = refusal(fold_all, state, [event], after(2000))
                assert code == "keystore.illegal_transition"


def test_a_key_is_found_by_a_beginning_that_only_one_has() -> None:
    """Of four characters at least."""
    names = ("tide-1", "tide-2", "ebb")
    state = functools.reduce(lambda state, name: enter(state, public(name), now=NOON), names, EMPTY)
    assert [state.find(name).kid for name in ("tide-1", public("ebb").thumbprint[:6])] == [
        "tide-1",
        "ebb",
    ]
    for name in ("tide", "tide-3", "eb", ""):
        assert refusal(state.find, name) == "keystore.unknown_key"


# Publications.


def test_a_publication_that_is_recorded_or_older_changes_nothing() -> None:
    """A late host cannot turn the clock back."""
    state = seen()

    assert agenda.record_publication(state, state.publications[0]) == []
    older = published(NOON - timedelta(seconds=1), ["one"])
    assert agenda.record_publication(state, older) == []


def test_the_newest_publication_of_each_series_is_remembered() -> None:
    """Nothing grows without bound; of a card, since when it is shown."""
    state = record(first_two(), published(NOON, ["one"], series="https://b/"))
    for number in range(1, 40):
        state = record(state, published(after(number), ["one"], generation=number))

    assert [(each.series, each.generation) for each in state.publications] == [
        ("https://b/", 1),
        (SERIES, 39),
    ]
    assert [card.since for each in state.publications for card in each.cards] == [NOON, after(1)]


def test_a_person_begins_a_rotation_before_its_time() -> None:
    """Of active keys, and once."""
    state = seen()
    begun = change(state, agenda.replace_key, ["one"], now=after(20))

    assert begun.find("one").times.replaced == after(20)
    assert agenda.replace_key(begun, []) == []
    for name, code in (("two", "keystore.illegal_transition"), ("nobody", "keystore.unknown_key")):
        assert refusal(agenda.replace_key, state, [name]) == code


# When a step is due.

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
