"""Each step of the lifecycle: when it is lawful, what it changes, and what it says when not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cardsign.errors import StoreFault
from cardsign.keys import lifecycle
from cardsign.keys.lifecycle import cards_to_sign
from cardsign.keys.log import fold_all
from cardsign.keys.model import MAX_PUBLICATIONS, HeldStatement, StoreState, custody_group
from cardsign.keys.rotation import Step, steps, take
from tests.keys import changes
from tests.keys.states import BLOB, EMPTY, NOON, QUICK, SERIES, after, change, public, published

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


def test_an_endpoint_that_a_card_has_left_is_waited_for_no_more():
    """Else it would hold up everything for ever; of another card nothing is forgotten."""
    old = published(NOON, ["one"], series="https://b/")
    new = published(after(10), ["one", "two"], series="https://c/")
    state = changes.record_publication(seen(), old)

    moved = change(state, lifecycle.record_publication, new, now=after(10), replaced=old)
    beside = change(state, lifecycle.record_publication, new, now=after(10))

    lifecycle.activate(moved, "two", now=after(320), settings=QUICK)
    waits = refused(lambda: lifecycle.activate(beside, "two", now=after(320), settings=QUICK))
    assert waits.code == "keystore.not_seen"


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


ELSEWHERE = {"custody": "file:two", "blob": BLOB}


def test_the_card_keys_of_a_stolen_custody_end_and_a_standby_elsewhere_takes_over():
    """At once, whether or not it was seen."""
    state = changes.enter(first_two(), public("away"), now=NOON, custody=PROGRAM)

    events = lifecycle.revoke_custody(state, "one", now=after(1))
    state = fold_all(state, events, after(1))

    assert [key.state for key in state.keys] == ["revoked", "revoked", "active"]
    assert [event["event"] for event in events] == ["stolen", "revoked", "revoked", "activated"]
    assert {key.revoked_because for key in state.keys} == {"compromised", None}
    assert lifecycle.revoke_custody(state, "one", now=after(2)) == []


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("file:a", "file:a", True),
        ("file:a", "file:b", False),
        ("exec:/bin/a?kid=1", "exec:/bin/a?kid=2", True),
        ("exec:/bin/a", "exec:/bin/b", False),
        ("env:A", "env:B", False),
        ("pkcs11:token=a;object=1", "pkcs11:object=2;token=a", True),
        ("pkcs11:token=a;object=1", "pkcs11:token=b;object=1", False),
        ("awskms:///1", "awskms:///2", True),
        ("gcpkms:p/keyRings/r/cryptoKeys/1", "gcpkms:p/keyRings/r/cryptoKeys/2", True),
        ("gcpkms:p/keyRings/r/cryptoKeys/1", "gcpkms:p/keyRings/s/cryptoKeys/1", False),
        ("azurekms://vault/1", "azurekms://vault/2", True),
        ("azurekms://vault/1", "azurekms://other/1", False),
        ("file:a", "exec:/bin/a", False),
    ],
)
def test_what_is_stolen_together(one: str, other: str, together: bool) -> None:
    """A passphrase, a token, a program, a variable, a key ring, a vault, an account."""
    assert (custody_group(one) == custody_group(other)) is together


def test_no_key_is_made_in_a_stolen_custody():
    """Until it has another passphrase or signer; a key that was there is never activated."""
    state = changes.enter(first_two(), public("root"), now=NOON, roles=("root",))
    state = changes.revoke_custody(state, "one", now=after(1))

    fault = refused(lambda: changes.enter(state, public("new"), now=after(2)))
    assert fault.code == "keystore.same_custody"
    assert changes.enter(state, public("new"), now=after(2), **ELSEWHERE).find("new")
    root = state.find("root")
    assert (root.state, root.is_stolen) == ("active", True)
    sealed_anew = {"event": "resealed", "key": root.thumbprint, **ELSEWHERE}
    assert fold_all(state, [sealed_anew], after(3)).find("root").is_stolen


def test_a_stolen_release_key_ends_once_it_has_told_of_the_others():
    """One that has nobody to tell of ends at once."""
    state = changes.enter(first_two(), public("release"), now=NOON, roles=("release",))
    alone = changes.enter(first_two(), public("release"), now=NOON, roles=("release",), **ELSEWHERE)
    assert changes.revoke_custody(alone, "release", now=after(1)).find("release").state == "revoked"
    state = changes.revoke_custody(state, "one", now=after(1))
    assert state.find("release").state == "active"
    told = [state.find("one").thumbprint]
    assert lifecycle.end_told_releases(state, told, now=after(2)) == []
    told.append(state.find("two").thumbprint)
    ended = changes.end_told_releases(state, told, now=after(2))
    assert ended.find("release").revoked_because == "compromised"


@pytest.mark.parametrize("reason", ["superseded", "ceased"])
def test_without_a_theft_any_standby_takes_over(reason):
    """Its custody is as good as it was."""
    state = changes.revoke(first_two(), "one", reason=reason, now=after(1))

    assert [key.state for key in state.keys] == ["revoked", "active"]


@pytest.mark.parametrize("make", [first_two, activated, retired], ids=lambda make: make.__name__)
def test_revocation_is_open_from_every_state_and_final(make):
    """Also for what is retired; nothing is revoked twice."""
    state = changes.revoke(make(), "one", reason="superseded", now=after(10**6))

    assert state.find("one").revoked_because == "superseded"
    again = refused(lambda: lifecycle.revoke(state, "one", reason="ceased", now=after(10**6)))
    assert again.code == "keystore.illegal_transition"


def test_revoking_a_standby_changes_nothing_else():
    """The active key stays active."""
    state = changes.revoke(first_two(), "two", reason="superseded", now=after(1))

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


def test_a_key_and_its_successor_are_made_in_the_place_of_a_stolen_one():
    """Both at once, since the roots list them together."""
    state = changes.revoke_custody(first_two(), "one", now=after(100))

    def made(state: StoreState) -> list[str]:
        return [step.action for step in steps(state, QUICK, after(200)) if step.key is None]

    assert made(state) == ["generate"]
    state = changes.enter(keyset(state, 1), public("new"), now=after(200), **ELSEWHERE)
    assert (state.find("new").state, made(state)) == ("generated", ["generate"])
    state = changes.enter(state, public("newer"), now=after(200), **ELSEWHERE)
    assert made(state) == []
    state = keyset(state, 2, "new", "newer", at=300)
    (activation,) = [step for step in steps(state, QUICK, after(300)) if step.action == "activate"]
    assert (activation.key and activation.key.kid, activation.is_due(after(300))) == ("new", True)


def test_a_person_begins_a_rotation_before_its_time():
    """It still waits until caches have the new key."""
    state = seen()
    begun = changes.replace_key(state, ["one"], now=after(20))

    (step,) = [step for step in steps(begun, QUICK, after(300)) if step.action == "activate"]
    assert step.due == after(210)
    assert lifecycle.replace_key(begun, [], now=after(21)) == []
    for name, code in (("two", "keystore.illegal_transition"), ("nobody", "keystore.unknown_key")):
        fault = refused(lambda name=name: lifecycle.replace_key(state, [name], now=NOON))
        assert fault.code == code


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


def test_an_algorithm_that_was_given_up_does_not_come_back():
    """No active key, no standby: nothing to rotate."""
    state = changes.enter(EMPTY, public("one"), now=NOON)
    state = changes.revoke(state, "one", reason="ceased", now=after(1))

    assert {step.action for step in steps(state, QUICK, after(10**6))} == {"destroy"}


def test_a_root_key_is_never_rotated():
    """It needs its holder."""
    state = changes.enter(EMPTY, public("one"), now=NOON, roles=("root",))

    assert steps(state, replace(QUICK, rotate_every=0), after(10**6)) == ()
