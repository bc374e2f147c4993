"""What may be done with keys, when each step is due, and what it waits for until then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cardsign.keys import agenda
from cardsign.keys.agenda import Step, cards_to_sign, find_wait, record_publication, steps
from cardsign.keys.ledger import TRANSITIONS, StoreState, custody_group, fold_all
from cardsign.times import stamp
from tests.keys.elsewhere import refusal
from tests.keys.states import (
    BLOB,
    EMPTY,
    NOON,
    QUICK,
    SERIES,
    after,
    change,
    do,
    due,
    enter,
    list_keys,
    published,
    record,
    revoke,
)
from tests.support import each_case

ELSEWHERE: dict[str, Any] = {"custody": "file:two", "blob": BLOB}
EACH = partial(published, kids=["one", "two"])
# A rotation: both keys are published, then `two` is activated as soon as that is lawful, has signed
# what is published, signs it alone, and `one` has left the key set.
TWO = enter(EMPTY, "one", "two")
SEEN = record(TWO, EACH(NOON, signed_by=["one"]))
ACTIVATED = do(SEEN, "activate", "two", 210)
RESIGNED = record(ACTIVATED, EACH(after(220)))
RELIEVED = record(RESIGNED, EACH(after(470), signed_by=["two"]))
RETIRED = do(RELIEVED, "retire", "one", 530)
ROOT: dict[str, Any] = {"role": "root"}
RELEASE: dict[str, Any] = {"role": "release"}
AWAY: dict[str, Any] = {"custody": "exec:/usr/local/bin/sign"}
OTHER = "https://b/"
ONE = enter(EMPTY, "one")
OFFLINE = enter(enter(EMPTY, "one", "two", **ROOT), "release", **RELEASE)
ROOTED = list_keys(ONE, 1, "one")  # keyset 1.1 lists it
WAITING = enter(ROOTED, "two", at=1)
LISTED_BEFORE = enter(list_keys(ROOTED, 2, "one", "two"), "two", at=1)
STOLEN = revoke(enter(TWO, "away", **AWAY), "one", "compromised")
TELLING = revoke(enter(TWO, "release", **RELEASE), "one", "compromised")
ROOT_TOO = revoke(enter(TWO, "root", **ROOT), "one", "compromised")

#: What was done, and the states of the keys.
STATES: dict[str, tuple[StoreState, str]] = {
    "the first of a role signs at once": (enter(TWO, "r", **RELEASE), "active prepublished active"),
    "and the first of an algorithm": (enter(ONE, "rsa", alg="RS256"), "active active"),
    "one for EdDSA": (enter(EMPTY, "edwards", alg="EdDSA"), "active"),
    "offline keys are active side by side": (OFFLINE, "active active active"),
    "a later one waits for the roots": (WAITING, "active generated"),
    "while they list others": (list_keys(WAITING, 2, "one"), "active generated"),
    "also if the other ends": (revoke(WAITING, "one", "superseded"), "revoked generated"),
    "until they list it": (list_keys(WAITING, 2, "one", "two"), "active prepublished"),
    "one that they listed before": (LISTED_BEFORE, "active generated"),
    "until they do so again": (list_keys(LISTED_BEFORE, 3, "one", "two"), "active prepublished"),
    "the first of an algorithm never waits": (
        enter(WAITING, "rsa", alg="RS256"),
        "active generated active",
    ),
    "a successor": (ACTIVATED, "retiring active"),
    "all card keys of a stolen custody end": (STOLEN, "revoked revoked prepublished"),
    "but no root key": (ROOT_TOO, "revoked revoked active"),
    "nor a release key that has to tell of them": (TELLING, "revoked revoked active"),
    "one that has nobody to tell of ends": (
        revoke(enter(TWO, "r", **RELEASE, **ELSEWHERE), "r", "compromised"),
        "active prepublished revoked",
    ),
    "a standby that ends changes nothing else": (revoke(TWO, "two", "ceased"), "active revoked"),
}


@pytest.mark.parametrize(("state", "expected"), STATES.values(), ids=STATES)
def test_the_state_in_which_a_key_is(state: StoreState, expected: str) -> None:
    """One that caches could miss beside an older one waits."""
    assert [key.state for key in state.keys] == expected.split()


#: When, which keys stand in the JWK Set, and which sign, in their order.
SHOWN: dict[str, tuple[StoreState, int, str, str]] = {
    "offline keys must not verify cards": (OFFLINE, 0, "", ""),
    "nor those that no root has listed": (WAITING, 2, "one", "one"),
    "a retiring key signs, and first": (ACTIVATED, 469, "one two", "one two"),  # more know it
    "for a while": (ACTIVATED, 470, "one two", "two"),
}


@pytest.mark.parametrize(("state", "at", "shown", "signing"), SHOWN.values(), ids=SHOWN)
def test_which_keys_are_shown_and_sign(
    state: StoreState, at: int, shown: str, signing: str
) -> None:
    """Some verifiers read only the first signature."""
    assert [key.kid for key in state.published_keys()] == shown.split()
    assert [key.kid for key in state.signing_keys(after(at))] == signing.split()


EDWARDS = partial(enter, EMPTY, "edwards", alg="EdDSA")  # nobody would take a statement by it
TIDES = enter(EMPTY, "tide-1", "tide-2", "ebb")
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a release by EdDSA": (partial(EDWARDS, **RELEASE), "key.unsupported"),
    "a keyset by EdDSA": (partial(EDWARDS, **ROOT), "key.unsupported"),
    "a key in a stolen custody": (partial(enter, STOLEN, "new"), "keystore.same_custody"),
    "a rotation of one that waits": (
        partial(agenda.replace_key, SEEN, ["two"]),
        "keystore.illegal_transition",
    ),
    "of nobody": (partial(agenda.replace_key, SEEN, ["nobody"]), "keystore.unknown_key"),
    "a beginning of two": (partial(TIDES.find, "tide"), "keystore.unknown_key"),
    "of three characters": (partial(TIDES.find, "eb"), "keystore.unknown_key"),
    "of none": (partial(TIDES.find, ""), "keystore.unknown_key"),
}


@pytest.mark.parametrize(("attempt", "code"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_be_done(attempt: Callable[[], object], code: str) -> None:
    """The twins are a new custody, and a key's beginning that no other has."""
    assert refusal(attempt) == code
    assert enter(STOLEN, "new", **ELSEWHERE).find("new")
    assert TIDES.find(TIDES.find("ebb").thumbprint[:6]).kid == "ebb"


def test_the_cards_that_hold_up_a_rotation_are_named() -> None:
    """Those that the new key has not signed, then those that still bear what the old one did."""
    ended = revoke(SEEN, "one", "superseded")
    waiting = ((ACTIVATED, 215), (RESIGNED, 470), (ended, 2))
    for state, at in ((SEEN, 205), (RESIGNED, 469), (RELIEVED, 10**6), *waiting):
        cards = [card.url for card in cards_to_sign(state, after(at))]
        assert cards == [SERIES] * ((state, at) in waiting)


# Revoking.


@each_case(__file__, "custodies", "one", "other", "is_shared")
def test_what_a_thief_takes_together(one: str, other: str, is_shared: bool) -> None:
    assert (custody_group(one) == custody_group(other)) is is_shared


def test_a_theft_is_not_forgotten() -> None:
    """Nor reported twice; a root key stays stolen under another passphrase."""
    assert revoke(STOLEN, "one", "compromised", 2) == STOLEN
    assert {key.revoked_because for key in STOLEN.keys} == {"compromised", None}
    root = ROOT_TOO.find("root")
    sealed_anew = {"event": "resealed", "key": root.thumbprint, **ELSEWHERE}
    assert fold_all(ROOT_TOO, [sealed_anew], after(3)).find("root").is_stolen


def test_a_stolen_release_key_ends_once_it_has_told_of_the_others() -> None:
    told = [TELLING.find("one").thumbprint]
    assert agenda.end_told_releases(TELLING, told) == []
    told.append(TELLING.find("two").thumbprint)
    ended = change(TELLING, agenda.end_told_releases, told, now=after(2))
    assert ended.find("release").revoked_because == "compromised"


def test_a_stolen_key_counts_as_copied_until_what_others_have_lacks_it() -> None:
    """A publication; where there is none, a key set that is handed out."""
    stolen = revoke(SEEN, "one", "compromised", 100)
    assert [key.kid for key in agenda.list_copied(stolen)] == ["one", "two"]
    assert agenda.record_key_set(stolen) == []
    assert agenda.list_copied(record(stolen, published(after(110), []))) == []
    unpublished = revoke(TWO, "one", "compromised")
    written = change(unpublished, agenda.record_key_set, now=after(2))
    assert (len(agenda.list_copied(unpublished)), agenda.list_copied(written)) == (2, [])


@pytest.mark.parametrize(
    ("state", "private"), [(TWO, "held"), (ACTIVATED, "held"), (RETIRED, "destroyed")]
)
def test_revocation_is_open_from_every_state_and_final(state: StoreState, private: str) -> None:
    """Also for what is retired; another reason changes nothing."""
    state = revoke(state, "one", "superseded", 10**6)
    assert (state.find("one").revoked_because, state.find("one").private) == ("superseded", private)
    assert revoke(state, "one", "ceased", 10**6) == state
    assert revoke(state, "one", "compromised", 10**6) == state


@pytest.mark.parametrize("state", [SEEN, ACTIVATED, RETIRED, revoke(SEEN, "one", "ceased")])
def test_no_way_leads_back(state: StoreState) -> None:
    """Whoever writes the event; each state has its own ways, and a revoked key none."""
    assert (TRANSITIONS["retired"], TRANSITIONS["revoked"]) == (("revoked",), ())
    for key in state.keys:
        for to in set(TRANSITIONS) - {*TRANSITIONS[key.state]}:
            event = {**agenda.move(key, to, reason="ceased"), "stops": stamp(NOON)}
            assert refusal(fold_all, state, [event], after(2000)) == "keystore.illegal_transition"


# Publications.


def test_the_newest_publication_of_each_series_is_remembered() -> None:
    """Nothing grows without bound; of a card, since when it is shown."""
    state = record(TWO, published(NOON, ["one"], series="https://b/"))
    for number in range(1, 40):
        state = record(state, published(after(number), ["one"], generation=number))
    newest = [(each.series, each.generation) for each in state.publications]
    assert newest == [("https://b/", 1), (SERIES, 39)]
    assert [card.since for each in state.publications for card in each.cards] == [NOON, after(1)]
    for late in (state.publications[1], published(after(38), ["two"])):
        assert record_publication(state, late) == []


def test_an_endpoint_that_a_card_has_left_is_waited_for_no_more() -> None:
    """Else it would hold up everything for ever; of another card nothing is forgotten."""
    old = published(NOON, ["one"], series=OTHER)
    new = published(after(10), ["one", "two"], series="https://c/")
    state = record(SEEN, old)
    moved = change(state, record_publication, new, now=after(10), replaced=old)
    beside = change(state, record_publication, new, now=after(10))
    assert due(moved, "activate", "two", 320)
    assert not due(beside, "activate", "two", 320)


# When a step is due.

LONG = record(TWO, EACH(NOON, max_age=1000))
SHORT = record(LONG, EACH(after(1)))  # while caches hold the one before
LOST = record(SEEN, published(after(100), ["one"]))
FOUND = record(LOST, EACH(after(150)))
SOON, LATE = (record(ACTIVATED, EACH(after(at), signed_by=["two"])) for at in (220, 1000))
BACK = record(RELIEVED, EACH(after(480), signed_by=["one"]))
BESIDE = record(RELIEVED, EACH(after(480), series=OTHER))
IN_ONE_OF_TWO = record(SEEN, published(NOON, ["one"], series=OTHER))
#: The step, and the second in which it is due, which counts from the record of a publication; or
#: what it waits for, however long that takes: the clock of the state says nothing of caches.
DUE: dict[str, tuple[StoreState, Any, str, int | str]] = {
    "caches have the next key": (SEEN, "activate", "two", 210),
    "as long as publications told caches": (LONG, "activate", "two", 1010),
    "also one before the newest": (SHORT, "activate", "two", 1010),
    "from when it was found again": (FOUND, "activate", "two", 360),
    "no cache holds what it signed": (RELIEVED, "retire", "one", 530),
    "it signs on until its time": (SOON, "retire", "one", 470),
    "cards were signed again late": (LATE, "retire", "one", 1060),
    "a standby takes over at once": (revoke(TWO, "one", "superseded", 100), "activate", "two", 100),
    "also where keys were stolen": (STOLEN, "activate", "away", 1),
    "nothing is published": (TWO, "activate", "two", "not published"),
    "a later publication lacks it": (LOST, "activate", "two", "not published"),
    "one of two lacks it": (IN_ONE_OF_TWO, "activate", "two", "not published"),
    "its successor has not signed": (ACTIVATED, "retire", "one", SERIES),
    "it stands on a card": (RESIGNED, "retire", "one", SERIES),
    "and signs": (RESIGNED, "retire", "one", "until 2026-11-21 12:07:50"),
    "it stands on another card": (BESIDE, "retire", "one", OTHER),
    "an old card came back": (BACK, "retire", "one", SERIES),
}


@pytest.mark.parametrize(("state", "action", "name", "when"), DUE.values(), ids=DUE)
def test_a_step_is_due_in_its_second_and_not_one_earlier(
    state: StoreState, action: Any, name: str, when: int | str
) -> None:
    """Where nobody is left who signs, that is at once."""
    if isinstance(when, str):
        why, until = find_wait(state, state.find(name), action, QUICK)
        assert (when in why, until, due(state, action, name, 10**6)) == (True, None, None)
    else:
        assert bool(due(state, action, name, when - 1)) is not bool(state.active_keys())
        assert due(state, action, name, when) is not None


# What comes next.


def thieved(*names: str) -> StoreState:
    """A stolen key, a keyset that lists no key, and new keys elsewhere."""
    state = list_keys(revoke(TWO, "one", "compromised", 100), 1)
    return enter(state, *names, at=200, **ELSEWHERE)


TOLD = revoke(enter(TWO, "r", "r2", **RELEASE), "one", "compromised", 100)
#: When, and the steps ahead by action and key.
AHEAD: dict[str, tuple[StoreState, int, str]] = {
    "a successor": (ONE, 0, "generate one"),
    "beside one in another custody": (
        record(enter(ONE, "away", **AWAY), published(NOON, ["one", "away"])),
        10**6,
        "generate one",
    ),
    "none while the first waits for the roots": (WAITING, 10**6, ""),
    "it takes its turn": (list_keys(WAITING, 2, "one", "two"), 10, "activate two"),
    "one elsewhere is no successor": (enter(ROOTED, "away", at=1, **AWAY), 10**6, "generate one"),
    "in the place of a stolen key": (revoke(TWO, "one", "compromised", 100), 200, "generate one"),
    "its successor, too": (thieved("new"), 200, "generate one"),  # the roots list them together
    "and no third": (thieved("new", "newer"), 200, ""),
    "until they are listed": (
        list_keys(thieved("new", "newer"), 2, "new", "newer", at=300),
        300,
        "activate new",
    ),
    "a stolen release key, which the next keyset ends": (TOLD, 10**6, "generate one, generate r"),
    "unless it ends otherwise": (
        revoke(TOLD, "r", "superseded", 200),
        10**6,
        "generate one, generate r",
    ),
    "an algorithm that was given up": (revoke(ONE, "one", "ceased"), 10**6, ""),
    "a root key": (enter(EMPTY, "one", **ROOT), 10**6, ""),
}


@pytest.mark.parametrize(("state", "at", "expected"), AHEAD.values(), ids=AHEAD)
def test_what_is_ahead(state: StoreState, at: int, expected: str) -> None:
    """A standby is always there; one in another custody is kept for the day it is needed."""
    ahead = steps(state, QUICK, after(at))
    assert ", ".join(f"{step.action} {step.key.kid}" for step in ahead) == expected


def next_step(state: StoreState, at: float, every: int = QUICK.rotate_every) -> Step:
    """The first of the steps ahead."""
    return steps(state, replace(QUICK, rotate_every=every), after(at))[0]


def test_a_rotation_is_due_at_its_time_and_never_before_caches_have_the_new_key() -> None:
    """Also where keys are to change at once, and where a person has asked for it, once."""
    begun = change(SEEN, agenda.replace_key, ["one"], now=after(20))
    assert (begun.find("one").times.replaced, agenda.replace_key(begun, [])) == (after(20), [])
    ahead = (next_step(SEEN, 300), next_step(SEEN, 300, 0), next_step(begun, 300))
    assert [step.due for step in ahead] == [after(1000), after(210), after(210)]
    assert next_step(TWO, 300, 0).due is None
