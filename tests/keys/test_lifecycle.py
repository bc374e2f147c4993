"""What may be done with keys, and what becomes of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cardsign.keys import agenda
from cardsign.keys.agenda import cards_to_sign
from cardsign.keys.ledger import TRANSITIONS, HeldStatement, StoreState, custody_group, fold_all
from cardsign.times import stamp
from tests.keys.elsewhere import refusal
from tests.keys.states import (
    BLOB,
    EMPTY,
    NOON,
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

# Entering, and where the roots say which keys count.


def test_the_first_key_of_an_algorithm_and_role_signs_at_once() -> None:
    """There is no older one that caches could miss it beside; a later one waits."""
    state = enter(first_two(), public("rsa", "RS256"), now=NOON)
    state = enter(state, public("release"), now=NOON, roles=("release",))

    assert [key.state for key in state.keys] == ["active", "prepublished", "active", "active"]


@pytest.mark.parametrize("role", ["root", "recovery"])
def test_offline_keys_are_active_side_by_side_and_in_no_jwk_set(role: Any) -> None:
    """They do not rotate, and must not verify cards; nor does a release key."""
    state = enter(EMPTY, public("one"), now=NOON, roles=(role,))
    state = enter(state, public("two"), now=NOON, roles=(role,))
    state = enter(state, public("release"), now=NOON, roles=("release",))

    assert [key.kid for key in state.active_keys(role)] == ["one", "two"]
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
    assert list_keys(state, 2, "one", "two", at=2).find("two").state == "prepublished"
    assert enter(state, public("rsa", "RS256"), now=after(1)).find("rsa").state == "active"


def test_a_key_that_the_keyset_revokes_is_revoked_here() -> None:
    """Another holder may have revoked it, or a recovery; kept again, the keyset says nothing."""
    state = enter(list_keys(rooted(), 2, "one", "two"), public("two"), now=after(1))
    state = list_keys(state, 3, "one", "two", at=2)
    held = HeldStatement((1, 4), "4" * 64, BLOB)
    gone = [public("one").thumbprint, public("four").thumbprint]

    events = agenda.keep_keyset(state, held, [], revoked=gone)
    state = fold_all(state, events, after(7))

    assert [event["event"] for event in events] == ["keyset", "moved"]
    one, two = state.keys
    assert (one.state, one.revoked_because) == ("revoked", "superseded")
    assert due(state, "activate", two.kid, 7)
    assert agenda.keep_keyset(state, held, [], revoked=gone) == []


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


@pytest.mark.parametrize("reason", ["superseded", "ceased"])
def test_without_a_theft_any_standby_takes_over(reason: Any) -> None:
    """Its custody is as good as it was. A standby that is revoked changes nothing else."""
    assert due(revoke(first_two(), "one", reason), "activate", "two", 1)
    states = [key.state for key in revoke(first_two(), "two", reason).keys]
    assert states == ["active", "revoked"]


@pytest.mark.parametrize("make", [first_two, activated, retired], ids=lambda make: make.__name__)
def test_revocation_is_open_from_every_state_and_final(make: Callable[[], StoreState]) -> None:
    """Also for what is retired; another reason changes nothing."""
    state = revoke(make(), "one", "superseded", 10**6)

    assert state.find("one").revoked_because == "superseded"
    assert state.find("one").private == ("destroyed" if make is retired else "held")
    assert revoke(state, "one", "ceased", 10**6) == state


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
    assert [card.since for each in state.publications for card in each.cards] == [None, after(1)]


def test_a_person_begins_a_rotation_before_its_time() -> None:
    """Of active keys, and once."""
    state = seen()
    begun = change(state, agenda.replace_key, ["one"], now=after(20))

    assert begun.find("one").times.replaced == after(20)
    assert agenda.replace_key(begun, []) == []
    for name, code in (("two", "keystore.illegal_transition"), ("nobody", "keystore.unknown_key")):
        assert refusal(agenda.replace_key, state, [name]) == code
