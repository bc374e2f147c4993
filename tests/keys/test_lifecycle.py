"""Each step of the lifecycle: when it is lawful, what it changes, and what it says when not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cardsign.errors import StoreFault
from cardsign.keys import lifecycle
from cardsign.keys.lifecycle import cards_to_sign
from cardsign.keys.log import fold_all
from cardsign.keys.model import MAX_PUBLICATIONS, HeldStatement, StoreState, suspects
from cardsign.keys.rotation import Step, steps, take
from tests.keys import changes
from tests.keys.states import BLOB, EMPTY, NOON, QUICK, SERIES, after, public, published

PROGRAM = "exec:/usr/local/bin/sign"


def first_two(**options: object) -> StoreState:
    """`one` is active, `two` prepublished; neither was ever published."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    return changes.enter(state, public("two"), now=NOON, **options)  # type: ignore[arg-type]


def seen() -> StoreState:
    """Both are in a publication of 12:00:00, the card of which `one` has signed."""
    return changes.record_publication(first_two(), published(NOON, ["one", "two"], ["one"]))


def activated() -> StoreState:
    """`two` was activated as soon as that was lawful; `one` retires."""
    return changes.activate(seen(), "two", now=after(210), settings=QUICK)


def resigned() -> StoreState:
    """And ten seconds later both have signed what is published."""
    return changes.record_publication(activated(), published(after(220), ["one", "two"]))


def relieved() -> StoreState:
    """`one` has stopped signing, and what is published is signed by `two` alone."""
    return changes.record_publication(resigned(), published(after(470), ["one", "two"], ["two"]))


def retired() -> StoreState:
    """`one` has left the key set at the first lawful moment."""
    return changes.retire(relieved(), "one", now=after(530), settings=QUICK)


def next_step(*arguments: Any, **named: Any) -> Step | None:
    """The first of the steps ahead."""
    return next(iter(steps(*arguments, **named)), None)


def refused(step: Callable[[], object]) -> StoreFault:
    """How a step is refused."""
    with pytest.raises(StoreFault) as caught:
        step()
    return caught.value


# --- entering -----------------------------------------------------------------------------


def test_the_first_key_of_an_algorithm_and_role_signs_at_once():
    """There is no older one that caches could miss it beside; a later one waits."""
    state = first_two()
    state = changes.enter(state, public("rsa", "RS256"), now=NOON)
    state = changes.enter(state, public("release"), now=NOON, roles=("release",))

    assert [key.state for key in state.keys] == ["active", "prepublished", "active", "active"]


def test_a_standby_waits_even_if_it_is_the_first():
    """It was made for the day on which it is needed."""
    state = changes.enter(EMPTY, public("one"), now=NOON, standby=True)

    assert state.keys[0].state == "prepublished"


@pytest.mark.parametrize("role", ["root", "recovery"])
def test_offline_keys_are_active_side_by_side_and_in_no_jwk_set(role):
    """They do not rotate, and must not verify cards."""
    state = changes.enter(EMPTY, public("one"), now=NOON, roles=(role,))
    state = changes.enter(state, public("two"), now=NOON, roles=(role,))

    assert [key.kid for key in state.active_keys(role)] == ["one", "two"]
    assert (state.published_keys(), state.active_keys()) == ((), ())
    assert changes.retire(state, "one", now=NOON, settings=QUICK).find("one").state == "retired"


def test_a_release_key_is_in_no_jwk_set():
    """Whoever reads one would let it sign cards."""
    state = changes.enter(EMPTY, public("one"), now=NOON, roles=("release",))

    assert state.published_keys() == ()


# --- where the roots say which keys count -------------------------------------------------


def rooted() -> StoreState:
    """`one` is active, and keyset 1.1 lists it."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    return keyset(state, 1, "one")


def keyset(state: StoreState, version: int, *names: str, at: float = 0) -> StoreState:
    """A keyset statement of this version lists these keys."""
    held = HeldStatement((1, version), f"{version:064}", BLOB)
    listed = {public(name).thumbprint for name in names}
    return changes.keep_keyset(state, held, listed, now=after(at))


def test_a_key_waits_for_the_roots_to_list_it():
    """Until then it stands in no JWK Set, is no standby, and nothing makes it one."""
    state = changes.enter(rooted(), public("two"), now=after(1))

    assert (state.find("two").state, state.jwks_sequence()) == ("generated", 1)
    assert [key.kid for key in state.published_keys()] == ["one"]
    assert keyset(state, 2, "one").find("two").state == "generated"
    lost = changes.revoke(state, "one", reason="superseded", now=after(5))
    assert lost.find("two").state == "generated"


def test_the_statement_that_lists_a_key_prepublishes_it():
    """With both in the log; noted again, it says nothing new."""
    state = changes.enter(rooted(), public("two"), now=after(1))
    held, listed = HeldStatement((1, 2), "2" * 64, BLOB), [public("two").thumbprint]

    events = lifecycle.keep_keyset(state, held, listed, now=after(7))
    state = fold_all(state, events, after(7))

    assert [event["event"] for event in events] == ["keyset", "prepublished"]
    assert state.find("two").times.prepublished == after(7)
    assert lifecycle.keep_keyset(state, held, listed, now=after(8)) == []


def test_a_key_that_came_after_the_statement_that_lists_it_is_prepublished_too():
    """Others may have listed it before this store had it."""
    state = changes.enter(keyset(rooted(), 2, "one", "two"), public("two"), now=after(1))

    assert state.find("two").state == "generated"
    assert keyset(state, 2, "one", "two", at=2).find("two").state == "prepublished"


def test_a_key_that_the_keyset_revokes_is_revoked_here():
    """Another holder may have revoked it, or a recovery; nothing here can sign with it again."""
    state = changes.enter(keyset(rooted(), 2, "one", "two"), public("two"), now=after(1))
    state = keyset(state, 3, "one", "two", at=2)
    held, gone = (
        HeldStatement((1, 4), "4" * 64, BLOB),
        [public("one").thumbprint, public("four").thumbprint],
    )

    events = lifecycle.keep_keyset(state, held, [], now=after(7), revoked=gone)
    state = fold_all(state, events, after(7))

    assert [event["event"] for event in events] == ["keyset", "revoked", "activated"]
    one = state.find("one")
    assert (one.state, one.revoked_because, one.times.revoked) == (
        "revoked",
        "superseded",
        after(7),
    )
    assert state.find("two").state == "active"
    assert lifecycle.keep_keyset(state, held, [], now=after(8), revoked=gone) == []


def test_the_first_key_of_a_line_is_active_even_before_it_is_listed():
    """What signs asks the statement itself; no other key stands back for it."""
    state = changes.enter(rooted(), public("rsa", "RS256"), now=after(1))

    assert state.find("rsa").state == "active"


def test_a_tick_makes_no_second_successor_while_the_first_waits_for_the_roots():
    """It has no date, so nothing is due; once listed it takes its turn."""
    state = changes.enter(rooted(), public("two"), now=after(1))

    (step,) = steps(state, QUICK, after(10**6))

    assert (step.action, step.due, "does not list it" in step.why) == ("prepublish", None, True)
    listed = keyset(state, 2, "one", "two", at=3)
    assert [step.action for step in steps(listed, QUICK, after(10))] == ["activate"]
    elsewhere = changes.enter(rooted(), public("away"), now=after(1), custody=PROGRAM)
    actions = {step.action for step in steps(elsewhere, QUICK, after(10**6))}
    assert actions == {"prepublish", "generate"}


# --- activating ---------------------------------------------------------------------------


def test_a_key_is_activated_once_caches_have_it_and_not_a_second_earlier():
    """Counted from the record of its publication."""
    too_early = refused(lambda: lifecycle.activate(seen(), "two", now=after(209), settings=QUICK))

    assert too_early.code == "keystore.too_early"
    assert "12:03:30" in too_early.message
    state = activated()
    assert (state.find("one").state, state.find("two").state) == ("retiring", "active")
    assert state.find("one").times.stops_signing == after(210 + 200 + 50 + 10)


def test_the_waits_are_as_long_as_publications_told_caches():
    """Whatever the settings say."""
    long = published(NOON, ["one", "two"], max_age=1000)
    state = changes.record_publication(first_two(), long)

    fault = refused(lambda: lifecycle.activate(state, "two", now=after(1009), settings=QUICK))

    assert fault.code == "keystore.too_early"
    lifecycle.activate(state, "two", now=after(1010), settings=QUICK)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(first_two, id="nothing was published"),
        pytest.param(
            lambda: changes.record_publication(first_two(), published(NOON, ["one"])),
            id="it was not in the set",
        ),
        pytest.param(
            lambda: changes.record_publication(seen(), published(after(100), ["one"])),
            id="a later publication has lost it",
        ),
        pytest.param(
            lambda: changes.record_publication(
                seen(), published(NOON, ["one"], series="https://b/")
            ),
            id="it is in one of two series",
        ),
    ],
)
def test_a_key_that_was_not_seen_is_not_activated(state):
    """However long ago it was made: the state's clock says nothing of caches."""
    fault = refused(lambda: lifecycle.activate(state(), "two", now=after(10**6), settings=QUICK))

    assert fault.code == "keystore.not_seen"


def test_a_key_that_was_lost_meanwhile_waits_anew():
    """From the publication that has it again."""
    state = changes.record_publication(seen(), published(after(100), ["one"]))
    state = changes.record_publication(state, published(after(150), ["one", "two"]))

    fault = refused(lambda: lifecycle.activate(state, "two", now=after(359), settings=QUICK))

    assert fault.code == "keystore.too_early"
    lifecycle.activate(state, "two", now=after(360), settings=QUICK)


def test_a_series_that_is_no_longer_served_can_be_forgotten():
    """Else it would hold up everything for ever."""
    state = changes.record_publication(seen(), published(NOON, ["one"], series="https://b/"))
    state = changes.withdraw(state, "https://b/", now=after(10))

    lifecycle.activate(state, "two", now=after(220), settings=QUICK)
    unknown = refused(lambda: lifecycle.withdraw(state, "https://b/", now=after(20)))
    assert (unknown.code, SERIES in unknown.message) == ("keystore.not_seen", True)


@pytest.mark.parametrize("name", ["one", "retired", "revoked"])
def test_no_other_key_is_activated(name):
    """The error names the ways that are open."""
    state = retired()
    state = changes.enter(state, public("revoked"), now=NOON)
    state = changes.revoke(state, "revoked", reason="ceased", now=NOON)

    name = "two" if name == "one" else "one" if name == "retired" else name
    fault = refused(lambda: lifecycle.activate(state, name, now=after(10**6), settings=QUICK))

    assert fault.code == "keystore.illegal_transition"


# --- signing and retiring -----------------------------------------------------------------


def test_a_retiring_key_signs_for_a_while_and_first():
    """Some verifiers read only the first signature, and more of them know the old key."""
    state = activated()

    assert [key.kid for key in state.signing_keys(after(469))] == ["one", "two"]
    assert [key.kid for key in state.signing_keys(after(470))] == ["two"]


def test_a_key_retires_when_nobody_needs_it():
    """It has stopped signing, and no cache can hold a card that it has signed."""
    early = refused(lambda: lifecycle.retire(relieved(), "one", now=after(529), settings=QUICK))

    assert early.code == "keystore.too_early"
    state = retired()
    assert [key.kid for key in state.published_keys()] == ["two"]
    assert [key.kid for key in state.keys] == ["one", "two"]


def test_a_key_does_not_retire_before_the_cards_are_signed_again():
    """They are named."""
    fault = refused(lambda: lifecycle.retire(activated(), "one", now=after(10**6), settings=QUICK))

    assert (fault.code, SERIES in fault.message) == ("keystore.cards_unsigned", True)


def test_a_key_does_not_retire_before_its_signature_is_gone_from_the_cards():
    """Some verifiers give up at a signature whose key they cannot find."""
    fault = refused(lambda: lifecycle.retire(resigned(), "one", now=after(10**6), settings=QUICK))

    assert (fault.code, SERIES in fault.message) == ("keystore.cards_unsigned", True)
    assert "it signs until 2026-11-21 12:07:50 UTC" in fault.message
    other = published(after(480), ["one", "two"], series="https://b/")
    state = changes.record_publication(relieved(), other)
    fault = refused(lambda: lifecycle.retire(state, "one", now=after(10**6), settings=QUICK))
    assert (fault.code, SERIES in fault.message) == ("keystore.cards_unsigned", False)


def test_the_cards_that_hold_up_a_rotation_are_named():
    """Those that the new key has not signed, then those that still bear what the old one did."""

    def held_up(state: StoreState, second: int) -> list[str | None]:
        return [card.url for card in cards_to_sign(state, after(second))]

    assert held_up(seen(), 205) == []
    assert held_up(activated(), 215) == [SERIES]
    assert held_up(resigned(), 469) == []
    assert held_up(resigned(), 470) == [SERIES]
    assert held_up(relieved(), 10**6) == []
    revoked = changes.revoke(seen(), "one", reason="superseded", now=after(1))
    assert held_up(revoked, 2) == [SERIES]


def test_cards_that_were_signed_by_the_new_key_alone_still_wait_for_the_old_one_to_stop():
    """It signs on until then, and whoever signs may put it on a card again."""
    soon = published(after(220), ["one", "two"], ["two"])
    state = changes.record_publication(activated(), soon)

    fault = refused(lambda: lifecycle.retire(state, "one", now=after(469), settings=QUICK))

    assert fault.code == "keystore.too_early"
    lifecycle.retire(state, "one", now=after(470), settings=QUICK)


def test_cards_that_were_signed_again_late_are_waited_for():
    """Until no cache holds the old ones."""
    late = published(after(1000), ["one", "two"], ["two"])
    state = changes.record_publication(activated(), late)

    fault = refused(lambda: lifecycle.retire(state, "one", now=after(1059), settings=QUICK))

    assert fault.code == "keystore.too_early"
    lifecycle.retire(state, "one", now=after(1060), settings=QUICK)


def test_a_card_of_the_old_key_alone_that_comes_back_is_seen():
    """Somebody has published an old file."""
    back = published(after(480), ["one", "two"], ["one"])
    state = changes.record_publication(relieved(), back)

    fault = refused(lambda: lifecycle.retire(state, "one", now=after(10**6), settings=QUICK))

    assert fault.code == "keystore.cards_unsigned"


def test_an_active_key_is_not_retired():
    """Its successor has to be activated first."""
    fault = refused(lambda: lifecycle.retire(seen(), "one", now=after(10**6), settings=QUICK))

    assert (fault.code, "retiring" in fault.message) == ("keystore.illegal_transition", True)


# --- revoking -----------------------------------------------------------------------------


def endangered(state: StoreState) -> set[str]:
    """The kids of the keys that may be stolen with one that is known to be."""
    names = suspects(state)
    return {key.kid for key in state.keys if key.thumbprint in names}


def test_a_key_made_after_a_theft_stays_clean_when_the_next_old_one_is_revoked() -> None:
    """Otherwise each replacement would have to be replaced when its neighbour is."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(1))
    state = changes.enter(state, public("new"), now=after(2))
    state = changes.revoke(state, "two", reason="compromised", now=after(9))
    assert endangered(state) == {"one", "two"}


def test_the_theft_of_a_clean_key_is_another_theft() -> None:
    """Whatever lay there by then may be gone too."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(1))
    state = changes.enter(state, public("new"), now=after(2))
    state = changes.enter(state, public("newer"), now=after(3))
    state = changes.revoke(state, "new", reason="compromised", now=after(9))
    assert endangered(state) == {"one", "two", "new", "newer"}


def test_a_compromised_key_is_revoked_and_a_standby_of_another_custody_takes_over():
    """At once, whether or not it was seen: an older one in the same custody is passed over."""
    state = changes.enter(first_two(), public("away"), now=NOON, custody=PROGRAM)

    events = lifecycle.revoke(state, "one", reason="compromised", now=after(1))
    state = fold_all(state, events, after(1))

    assert [key.state for key in state.keys] == ["revoked", "prepublished", "active"]
    assert [event["event"] for event in events] == ["revoked", "activated"]
    assert events[0]["reason"] == "compromised"


def test_a_standby_of_the_same_custody_takes_over_only_if_that_is_accepted():
    """The thief may have it. The revocation goes through in any case."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(1))

    assert [key.state for key in state.keys] == ["revoked", "prepublished"]
    fault = refused(lambda: lifecycle.activate(state, "two", now=after(10**6), settings=QUICK))
    assert fault.code == "keystore.same_custody"
    accepted = changes.activate(
        state, "two", now=after(2), settings=QUICK, same_custody_accepted=True
    )
    assert accepted.find("two").state == "active"
    at_once = changes.revoke(
        first_two(), "one", reason="compromised", now=after(1), same_custody_accepted=True
    )
    assert at_once.find("two").state == "active"


def test_a_key_that_was_made_after_the_theft_is_not_suspect():
    """Whatever the thief took, it was not there yet."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(1))
    state = changes.enter(state, public("new"), now=after(60))

    assert changes.activate(state, "new", now=after(61), settings=QUICK).find("new").signs_at(NOON)


@pytest.mark.parametrize("ahead", [1, 90, 63_072_000])
def test_a_key_that_was_made_by_a_clock_ahead_is_suspect_all_the_same(ahead):
    """It lay beside the stolen one, and its time of making cannot be true."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    state = changes.enter(state, public("two"), now=after(10 + ahead))
    state = changes.revoke(state, "one", reason="compromised", now=after(10))

    assert suspects(state) == {key.thumbprint for key in state.keys}
    assert [key.state for key in state.keys] == ["revoked", "prepublished"]

    later = changes.enter(state, public("three"), now=after(11))
    assert later.find("three").thumbprint not in suspects(later)


def test_a_second_report_of_one_theft_puts_no_later_key_under_suspicion():
    """Also where it is recorded by a clock behind the one that made the key."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(10))
    state = changes.enter(state, public("new"), now=after(60))
    state = changes.revoke(state, "two", reason="compromised", now=after(20))

    assert state.find("new").thumbprint not in suspects(state)
    assert state.find("new").created == after(60)


@pytest.mark.parametrize("reason", ["superseded", "ceased"])
def test_without_a_theft_any_standby_takes_over(reason):
    """Its custody is as good as it was."""
    state = changes.revoke(first_two(), "one", reason=reason, now=after(1))

    assert [key.state for key in state.keys] == ["revoked", "active"]


@pytest.mark.parametrize("make", [first_two, activated, retired], ids=lambda make: make.__name__)
def test_revocation_is_open_from_every_state_and_final(make):
    """Also for what is retired; nothing is revoked twice."""
    state = changes.revoke(make(), "one", reason="compromised", now=after(10**6))

    assert state.find("one").revoked_because == "compromised"
    again = refused(lambda: lifecycle.revoke(state, "one", reason="ceased", now=after(10**6)))
    assert again.code == "keystore.illegal_transition"


def test_revoking_a_standby_changes_nothing_else():
    """The active key stays active."""
    state = changes.revoke(first_two(), "two", reason="compromised", now=after(1))

    assert [key.state for key in state.keys] == ["active", "revoked"]


# --- destroying ---------------------------------------------------------------------------


def test_a_private_half_is_destroyed_once_the_drop_is_everywhere():
    """And stays on record."""
    state = changes.record_publication(retired(), published(after(540), ["two"]))

    fault = refused(lambda: lifecycle.destroy(state, "one", now=after(749), settings=QUICK))

    assert fault.code == "keystore.too_early"
    state = changes.destroy(state, "one", now=after(750), settings=QUICK)
    assert (state.find("one").private, state.find("one").state) == ("destroyed", "retired")
    revoked = changes.revoke(state, "one", reason="compromised", now=after(760))
    assert revoked.find("one").private == "destroyed"


def test_a_private_half_of_a_key_that_is_still_published_stays():
    """The newest publication has it."""
    fault = refused(lambda: lifecycle.destroy(retired(), "one", now=after(10**6), settings=QUICK))

    assert fault.code == "keystore.not_seen"


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_private_half_that_may_be_needed_is_not_destroyed(name):
    """A retiring key's, an active one's."""
    fault = refused(lambda: lifecycle.destroy(resigned(), name, now=after(10**6), settings=QUICK))

    assert fault.code == "keystore.illegal_transition"


def test_a_private_half_is_destroyed_once():
    """There is nothing left."""
    state = changes.revoke(first_two(), "two", reason="ceased", now=NOON)
    state = changes.destroy(state, "two", now=after(210), settings=QUICK)

    again = refused(lambda: lifecycle.destroy(state, "two", now=after(220), settings=QUICK))
    assert again.code == "keystore.illegal_transition"


# --- publications -------------------------------------------------------------------------


def test_a_publication_that_is_recorded_or_older_changes_nothing():
    """A late host cannot turn the clock back."""
    state = seen()

    assert lifecycle.record_publication(state, state.publications[0]) == []
    older = published(NOON - timedelta(seconds=1), ["one"])
    assert lifecycle.record_publication(state, older) == []


def test_publications_are_forgotten_but_not_the_newest_of_a_series():
    """Nothing grows without bound."""
    state = changes.record_publication(first_two(), published(NOON, ["one"], series="https://b/"))
    for number in range(MAX_PUBLICATIONS + 5):
        one = published(after(number), ["one"], generation=number)
        state = changes.record_publication(state, one)

    assert len(state.publications) == MAX_PUBLICATIONS
    assert {one.series for one in state.newest_publications()} == {SERIES, "https://b/"}
    assert state.publications[-1].generation == MAX_PUBLICATIONS + 4


def test_the_sequence_of_the_jwk_set_counts_its_changes():
    """And nothing else: publishing again must not make a new set."""
    chain = [first_two(), seen(), activated(), resigned(), relieved(), retired()]

    assert [state.jwks_sequence() for state in chain] == [2, 2, 2, 2, 2, 3]


# --- what comes next ----------------------------------------------------------------------


def test_the_next_step_of_a_lone_key_is_its_successor():
    """A standby is always there."""
    state = changes.enter(EMPTY, public("one"), now=NOON)

    step = next_step(state, QUICK, NOON)

    assert step is not None
    assert (step.action, step.key, step.is_due(NOON)) == ("generate", None, True)
    assert refused(lambda: take(state, step, QUICK, NOON)).code == "keystore.changed"


def test_no_successor_is_made_by_a_clock_behind_the_one_that_saw_a_theft():
    """It would be suspect at once, and the next one too, without end."""
    state = changes.enter(first_two(), public("release"), now=NOON, roles=("release",))
    state = changes.revoke(state, "one", reason="compromised", now=after(100))

    def made(now: datetime) -> StoreState:
        return changes.enter(state, public("new"), now=now, roles=("release",))

    (step,) = [one for one in steps(state, QUICK, after(50)) if one.action == "generate"]
    assert (step.role, step.due) == ("release", after(101))
    assert "new" in endangered(made(after(100)))
    assert "new" not in endangered(made(after(101)))


def test_a_rotation_is_due_at_its_time_and_never_before_caches_have_the_new_key():
    """Also where keys are to change at once."""
    at_once = replace(QUICK, rotate_every=0)
    state = seen()

    step = next_step(state, QUICK, after(300))
    early = next_step(state, at_once, after(300))

    assert (step and step.due, early and early.due) == (after(1000), after(210))
    blind = next_step(first_two(), at_once, after(300))
    assert blind is not None
    assert blind.due is None


def test_a_rotation_runs_through_by_ticks_alone():
    """Each tick does one step; somebody signs and publishes all the time."""
    state, done = seen(), []
    for second in range(1000, 3000, 10):
        now = after(second)
        step = next_step(state, QUICK, now)
        if step is not None and step.is_due(now):
            done.append(step.action)
            if step.action == "generate":
                state = changes.enter(state, public(f"key {second}"), now=now)
            else:
                state = changes.take(state, step, QUICK, now)
        kids = [key.kid for key in state.published_keys()]
        signers = [key.kid for key in state.signing_keys(now)]
        state = changes.record_publication(state, published(now, kids, signers))

    assert done == ["activate", "generate", "retire", "destroy"] * 2


def test_a_key_in_another_custody_is_kept_for_the_day_it_is_needed():
    """A rotation takes its successor from beside the active key."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    state = changes.enter(state, public("away"), now=NOON, custody=PROGRAM)
    state = changes.record_publication(state, published(NOON, ["one", "away"]))

    step = next_step(state, QUICK, after(10**6))

    assert step is not None
    assert step.action == "generate"


def test_a_standby_that_is_suspect_waits_for_a_person():
    """The tick says so, and does not activate it."""
    state = changes.revoke(first_two(), "one", reason="compromised", now=after(1))

    (activation,) = [step for step in steps(state, QUICK, after(10)) if step.action == "activate"]

    assert (activation.due, "compromised" in activation.why) == (None, True)


def test_an_algorithm_that_was_given_up_does_not_come_back():
    """No active key, no standby: nothing to rotate."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    state = changes.revoke(state, "one", reason="ceased", now=after(1))

    assert {step.action for step in steps(state, QUICK, after(10**6))} == {"destroy"}


def test_a_root_key_is_never_rotated():
    """It needs its holder."""
    state = changes.enter(EMPTY, public("one"), now=NOON, roles=("root",))

    assert steps(state, replace(QUICK, rotate_every=0), after(10**6)) == ()
