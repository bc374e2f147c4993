"""When the roots are wanted, and the one draft that waits for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cardsign.keys.drafts import (
    KeysetPlan,
    draft_if_due,
    draft_next,
    keyset_due,
    says_more,
    write_draft,
)
from cardsign.keys.history import has_ended
from cardsign.keys.model import KeyRecord, KeyTimes, StoreState
from cardsign.statements.envelope import TYP_KEYSET, StatementRefused
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.signing import sign_statement
from tests.keys.issuing import DAY, NOW, first, key, online, quorum, thumbprint

LATER = NOW + DAY
HOUR = timedelta(hours=1)


def record(name: str, state: Any = "active", *roles: Any, **changes: Any) -> KeyRecord:
    """A key as a store has it, an hour after the statement; `rel` and `card` were there before."""
    public = key(name).public
    custody = f"file:private/{public.thumbprint}.key"
    known = name in ("card", "rel")
    created = NOW if known else NOW + HOUR
    return KeyRecord(public, state, roles or ("card",), custody, created, **changes)


def store(*records: KeyRecord) -> StoreState:
    """A key store's state."""
    return StoreState(keys=records)


REVOKED = record("card", "revoked", revoked_because="ceased", times=KeyTimes(revoked=NOW + HOUR))
DUE: dict[str, tuple[tuple[KeyRecord, ...], timedelta, bool]] = {
    "nothing has changed": ((record("card"),), DAY, False),
    "two thirds of its time are not yet over": ((), timedelta(days=59, hours=23), False),
    "two thirds of its time are over": ((), 60 * DAY, True),
    "a key waits to be listed": ((record("card2", "generated"),), DAY, True),
    "a standby has come": ((record("card2", "prepublished"),), DAY, True),
    "a key has been retired": ((record("card", "retired"),), DAY, False),
    "a key has been retired, and another is about to": (
        (record("rel", "retired", "release"), record("card", "retiring")),
        DAY,
        False,
    ),
    "a key has been revoked, and another is about to retire": (
        (REVOKED, record("rel", "retiring", "release")),
        DAY,
        True,
    ),
    "a key waits to be listed, and another is about to retire": (
        (record("card2", "generated"), record("card", "retiring")),
        DAY,
        True,
    ),
    "a key has been retired, and another never is": (
        (record("rel", "retired", "release"), record("card", "retiring")),
        60 * DAY,
        True,
    ),
    "a key has been revoked": ((REVOKED,), DAY, True),
    "a root key has been revoked": (
        (record("ann", "revoked", "root", revoked_because="compromised"),),
        DAY,
        True,
    ),
    "a root key has come, which only people list": ((record("dan", "active", "root"),), DAY, False),
}


@pytest.mark.parametrize(("records", "after", "due"), DUE.values(), ids=DUE)
def test_the_roots_are_asked_only_when_there_is_something_to_say(
    records: tuple[KeyRecord, ...], after: timedelta, due: bool
) -> None:
    """So that a tick can write one draft, and none while nothing changes."""
    keyset = first()

    assert keyset_due(store(*records), keyset, now=NOW + after).is_due(NOW + after) is due
    assert (draft_if_due(store(*records), keyset, None, now=NOW + after) is not None) is due


def test_it_says_why_and_since_when() -> None:
    """The keys, or the end of the statement; and what ends if nobody signs."""
    keyset = first()

    quiet = keyset_due(store(), keyset, now=LATER)
    changed = keyset_due(store(record("card2", "generated"), REVOKED), keyset, now=LATER)

    assert (quiet.due, quiet.ends, quiet.number) == (NOW + 60 * DAY, NOW + 90 * DAY, "1.2")
    assert "keyset 1.1 ends at" in quiet.why
    assert changed.due == NOW + HOUR
    assert thumbprint("card") in changed.why
    assert thumbprint("card2") in changed.why


def test_hosts_come_to_the_same_draft() -> None:
    """Byte for byte, whenever they ask; so no lock is needed."""
    state, keyset = store(record("card2", "generated")), first()

    made = [draft_if_due(state, keyset, None, now=LATER + n * HOUR) for n in range(3)]

    drafts = {write_draft(one[0]) for one in made if one is not None}
    assert len(drafts) == 1
    assert made[0] is not None
    assert made[0][0].iat == int((NOW + HOUR).timestamp())


def draft_of(state: StoreState, keyset: KeysetStatement) -> KeysetStatement:
    """The draft that is due."""
    found = draft_if_due(state, keyset, None, now=LATER)
    assert found is not None
    return found[0]


def test_a_draft_that_is_there_is_left_as_it_is() -> None:
    """With the signatures that it has got; it is no new one."""
    state, keyset = store(record("card2", "generated")), first()
    signed = sign_statement(draft_of(state, keyset).envelope.payload, [key("ann")], TYP_KEYSET)

    again = draft_if_due(state, keyset, signed, now=LATER + 20 * DAY)

    assert again == (read_keyset(signed), False)


def test_what_people_drafted_besides_is_left_too() -> None:
    """It follows, and says all that the store has to say."""
    state, keyset = store(record("card2", "generated")), first()
    plan = KeysetPlan.of(keyset).following(state, now=LATER, until=LATER)
    theirs = draft_next(replace(plan, root=quorum(2, "ann", "bob", "dan")), keyset, now=LATER)

    assert draft_if_due(state, keyset, write_draft(theirs), now=LATER) == (theirs, False)


STALE: dict[str, bytes] = {
    "it is no draft": b"{}",
    "it is no JSON": b"\xff",
    "it follows another statement": write_draft(
        draft_of(store(record("card2", "generated")), first(lifetime=80 * DAY))
    ),
    "it lacks a key": write_draft(draft_of(store(record("card2", "generated")), first())),
    "it is the newest statement itself": write_draft(first()),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE)
def test_a_draft_that_will_not_do_is_drafted_anew(stale: bytes) -> None:
    """What it said is said again, with the rest."""
    state = store(record("card2", "generated"), REVOKED)

    found = draft_if_due(state, first(), stale, now=LATER)

    assert found is not None
    statement, is_new = found
    assert is_new
    assert statement.revoked == {thumbprint("card")}
    assert thumbprint("card2") in {one.public.thumbprint for one in statement.keys}


def test_the_stores_own_draft_says_no_more_than_the_store() -> None:
    """However late somebody looks, and on whatever host it was made, also by a person."""
    state, keyset = store(record("card2", "generated"), REVOKED), first()
    theirs = KeysetPlan.of(keyset).following(state, now=LATER, until=LATER + 90 * DAY)

    for draft in (draft_of(state, keyset), draft_next(theirs, keyset, now=LATER)):
        assert says_more(state, keyset, draft, now=LATER + 20 * DAY) == ()


def test_a_key_that_retires_after_the_draft_makes_no_stranger_of_its_author() -> None:
    """Cron has drafted it while the key was still to be listed."""
    keyset = first()
    before = store(record("card", "retiring"), record("rel", "active", "release"))
    found = draft_if_due(before, keyset, None, now=NOW + 61 * DAY)
    assert found is not None
    after = store(record("card", "retired"), record("rel", "active", "release"))
    untrusted_draft = write_draft(found[0])
    anew = draft_if_due(after, keyset, untrusted_draft, now=NOW + 62 * DAY)
    assert anew is not None
    assert (anew[1], [key.roles for key in anew[0].keys]) == (True, [("release",)])
    assert says_more(after, keyset, found[0], now=NOW + 62 * DAY) == ()
    theirs = replace(KeysetPlan.of(found[0]), keys=(*found[0].keys, online("evil", "card")))
    draft = draft_next(theirs, keyset, now=NOW + 61 * DAY)
    assert any(
        "+ key ES256" in line for line in says_more(after, keyset, draft, now=NOW + 62 * DAY)
    )


MORE: dict[str, tuple[dict[str, Any], timedelta, str]] = {
    "a root": ({"root": quorum(2, "ann", "bob", "eve")}, DAY, "held by eve"),
    "the threshold": ({"root": quorum(1, "ann", "bob", "cat")}, DAY, "+ root: 1 of 3 must sign"),
    "an origin": (
        {"origins": ("https://tides.example", "https://evil.example")},
        DAY,
        "+ origin https://evil.example",
    ),
    "a card key": ({"keys": (online("card", "card"), online("evil", "card"))}, DAY, "+ key ES256"),
    "a key's role": ({"keys": (online("card", "card", "release"),)}, DAY, "+ key ES256"),
    "a key less": ({"keys": (online("card", "card"),)}, DAY, "- key ES256"),
    "no recovery": ({"recovery": None}, DAY, "- recovery: 1 of 1 must sign"),
    "a revocation": ({"revoked": frozenset({thumbprint("zoe")})}, DAY, "+ revoked"),
    "a longer lifetime": ({}, 100 * DAY, "~ valid from"),
}


@pytest.mark.parametrize(("changes", "longer", "line"), MORE.values(), ids=MORE)
def test_what_a_draft_says_besides_is_told(
    changes: dict[str, Any], longer: timedelta, line: str
) -> None:
    """It lies in a repository, where a stranger may have put it (threat 22)."""
    state, keyset = store(), first()
    lifetime = longer if longer > DAY else 90 * DAY
    told = replace(KeysetPlan.of(keyset), **changes)
    draft = draft_next(told, keyset, now=NOW + 61 * DAY, lifetime=lifetime)

    more = [str(one) for one in says_more(state, keyset, draft, now=NOW + 61 * DAY)]

    assert any(line in one for one in more), more


def test_a_draft_from_the_future_is_told() -> None:
    """Made where a clock is ahead: once published, nothing could follow for that long."""
    state, keyset = store(record("card2", "generated")), first()
    draft = draft_of(state, keyset)

    (only,) = says_more(state, keyset, draft, now=NOW)

    assert "valid from" in only


def test_a_draft_that_mends_what_the_store_cannot_is_told_whole() -> None:
    """Too few roots are left, so a person has drafted others; the store has nothing to compare."""
    lost = [record(name, "revoked", "root", revoked_because="ceased") for name in ("ann", "bob")]
    keyset = first()
    theirs = KeysetPlan.of(keyset).revoking([thumbprint("ann"), thumbprint("bob")])
    draft = draft_next(replace(theirs, root=quorum(1, "cat", "dan")), keyset, now=LATER)

    more = [str(one) for one in says_more(store(*lost), keyset, draft, now=LATER)]

    assert any("held by dan" in one for one in more)
    assert f"+ revoked {thumbprint('ann')}" in more


def test_a_draft_that_nobody_has_signed_for_months_is_made_anew() -> None:
    """Else it would end as soon as it is published."""
    state, keyset = store(record("card2", "generated")), first()
    old = write_draft(draft_of(state, keyset))

    found = draft_if_due(state, keyset, old, now=NOW + 61 * DAY)

    assert found is not None
    assert found[1]
    assert found[0].iat == int((NOW + 61 * DAY).timestamp())


def test_a_root_that_cannot_sign_any_more_is_told() -> None:
    """Two of the three are gone: no draft of the tick's can fix that."""
    lost = [record(name, "revoked", "root", revoked_because="ceased") for name in ("ann", "bob")]
    with pytest.raises(StatementRefused) as caught:
        draft_if_due(store(*lost), first(), None, now=LATER)
    assert caught.value.code == "statement.threshold"


def over(name: str, why: Any, hours: int, *roles: Any) -> KeyRecord:
    """A key that was revoked so many hours later."""
    times = KeyTimes(revoked=NOW + hours * HOUR)
    return record(name, "revoked", *roles, revoked_because=why, times=times)


CEASED = over("rel", "ceased", 5, "release")
ENDED: dict[str, tuple[tuple[KeyRecord, ...], bool]] = {
    "every key has ceased": ((over("card", "ceased", 5), CEASED), True),
    "a root remains": ((over("card", "ceased", 5), CEASED, record("ann", "active", "root")), True),
    "an earlier theft": (
        (over("card", "compromised", 1), over("card2", "ceased", 5), CEASED),
        True,
    ),
    "a key that was retired before": (
        (record("card2", "retired"), over("card", "ceased", 5), CEASED),
        True,
    ),
    "a theft was the last": (
        (over("card2", "ceased", 1), over("card", "compromised", 5), CEASED),
        False,
    ),
    "a theft of the same second": (
        (over("card2", "ceased", 5), over("card", "compromised", 5), CEASED),
        False,
    ),
    "a key that is to be replaced": ((over("card", "superseded", 5), CEASED), False),
    "the release key still signs": (
        (over("card", "ceased", 5), record("rel", "active", "release")),
        False,
    ),
    "another holder's keys go on": ((over("card", "ceased", 5),), False),
    "nothing but roots": ((record("ann", "active", "root"),), False),
    "an empty store": ((), False),
}


@pytest.mark.parametrize(("records", "ended"), ENDED.values(), ids=ENDED)
def test_an_issuer_has_ended(records: tuple[KeyRecord, ...], ended: bool) -> None:
    """Only where its last keys were ended on purpose, and no other holder's are listed."""
    assert has_ended(store(*records), first()) is ended
