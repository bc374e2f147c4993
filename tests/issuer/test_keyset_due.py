"""When the roots are wanted, and the one draft that waits for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from cardsign.issuer.keyset import (
    KeysetPlan,
    draft_if_due,
    draft_next,
    keyset_due,
    says_more,
    write_draft,
)
from cardsign.keys.history import has_ended
from cardsign.keys.ledger import KeyRecord, KeyTimes, StoreState
from cardsign.statements.keyset import KeysetStatement
from tests.keys.elsewhere import refusal
from tests.keys.issuing import (
    DAY,
    HOUR,
    NOW,
    first,
    online,
    quorum,
    record,
    signed,
    store,
    thumbprint,
)

LATER = NOW + DAY

REVOKED = record("card", "revoked", revoked_because="ceased", times=KeyTimes(revoked=NOW + HOUR))
CARD2, RETIRING = record("card2", "generated"), record("card", "retiring")
RETIRED = record("rel", "retired", "release")
LOST_ROOT = record("ann", "revoked", "root", revoked_because="compromised")
DUE: dict[str, tuple[tuple[KeyRecord, ...], timedelta, bool]] = {
    "nothing has changed": ((record("card"),), DAY, False),
    "two thirds of its time are not yet over": ((), timedelta(days=59, hours=23), False),
    "two thirds of its time are over": ((), 60 * DAY, True),
    "a key waits to be listed": ((CARD2,), DAY, True),
    "a standby has come": ((record("card2", "prepublished"),), DAY, True),
    "a key has been retired": ((record("card", "retired"),), DAY, False),
    "a key has been retired, and another is about to": ((RETIRED, RETIRING), DAY, False),
    "and that one never is": ((RETIRED, RETIRING), 60 * DAY, True),
    "a key waits, and another is about to retire": ((CARD2, RETIRING), DAY, True),
    "a key has been revoked": ((REVOKED,), DAY, True),
    "and another is about to retire": (
        (REVOKED, record("rel", "retiring", "release")),
        DAY,
        True,
    ),
    "a root key has been revoked": ((LOST_ROOT,), DAY, True),
    "a root key has come, which only people list": ((record("dan", "active", "root"),), DAY, False),
}


@pytest.mark.parametrize(("records", "after", "due"), DUE.values(), ids=DUE)
def test_the_roots_are_asked_only_when_there_is_something_to_say(
    records: tuple[KeyRecord, ...], after: timedelta, due: bool
) -> None:
    """So that cron can write one draft, and none while nothing changes."""
    state, now = store(*records), NOW + after
    assert keyset_due(state, first(), now=now).is_due(now) is due
    assert (draft_if_due(state, first(), None, now=now) is not None) is due


def test_it_says_why_and_since_when() -> None:
    """The keys, or the end of the statement; and what ends if nobody signs."""
    keyset = first()

    quiet = keyset_due(store(), keyset, now=LATER)
    changed = keyset_due(store(CARD2, REVOKED), keyset, now=LATER)

    assert (quiet.due, quiet.ends, quiet.number) == (NOW + 60 * DAY, NOW + 90 * DAY, "1.2")
    assert "keyset 1.1 ends at" in quiet.why
    assert changed.due == NOW + HOUR
    assert thumbprint("card") in changed.why
    assert thumbprint("card2") in changed.why


def draft_of(
    state: StoreState,
    keyset: KeysetStatement,
    at: datetime = LATER,
    draft: KeysetStatement | None = None,
) -> KeysetStatement:
    """The draft that is due, which is a new one."""
    result = draft_if_due(state, keyset, draft, now=at)
    assert result is not None
    assert result[1]
    return result[0]


def test_hosts_come_to_the_same_draft() -> None:
    """Byte for byte, whenever they ask; so no lock is needed."""
    drafts = [draft_of(store(CARD2), first(), LATER + n * HOUR) for n in range(3)]
    assert len({write_draft(draft) for draft in drafts}) == 1
    assert drafts[0].iat == int((NOW + HOUR).timestamp())


def test_a_draft_that_is_there_is_left_as_it_is() -> None:
    """With the signatures that it has got; it is no new one."""
    state, keyset = store(CARD2), first()
    half = signed(draft_of(state, keyset), "ann")
    assert draft_if_due(state, keyset, half, now=LATER + 20 * DAY) == (half, False)


def test_what_people_drafted_besides_is_left_too() -> None:
    """It follows, and says all that the store has to say."""
    state, keyset = store(CARD2), first()
    plan = KeysetPlan.of(keyset).following(state, now=LATER, until=LATER)
    theirs = draft_next(replace(plan, root=quorum(2, "ann", "bob", "dan")), keyset, now=LATER)

    assert draft_if_due(state, keyset, theirs, now=LATER) == (theirs, False)


STALE: dict[str, KeysetStatement] = {
    "it follows another statement": draft_of(store(CARD2), first(lifetime=80 * DAY)),
    "it lacks a key": draft_of(store(CARD2), first()),
    "it is the newest statement itself": first(),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE)
def test_a_draft_that_will_not_do_is_drafted_anew(stale: KeysetStatement) -> None:
    """What it said is said again, with the rest."""
    statement = draft_of(store(CARD2, REVOKED), first(), draft=stale)
    assert statement.revoked == {thumbprint("card")}
    assert statement.lists(thumbprint("card2"), "card")


def test_the_stores_own_draft_says_no_more_than_the_store() -> None:
    """However late somebody looks, and on whatever host it was made, also by a person."""
    state, keyset = store(CARD2, REVOKED), first()
    theirs = KeysetPlan.of(keyset).following(state, now=LATER, until=LATER + 90 * DAY)

    for draft in (draft_of(state, keyset), draft_next(theirs, keyset, now=LATER)):
        assert says_more(state, keyset, draft, now=LATER + 20 * DAY) == ()


def test_a_key_that_retires_after_the_draft_makes_no_stranger_of_its_author() -> None:
    """Cron has drafted it while the key was still to be listed."""
    keyset = first()
    begun = store(RETIRING, record("rel", "active", "release"))
    drafted = draft_of(begun, keyset, NOW + 61 * DAY)
    after, now = store(record("card", "retired"), begun.keys[1]), NOW + 62 * DAY
    anew = draft_of(after, keyset, now, drafted)
    assert [key.roles for key in anew.keys] == [("release",)]
    assert says_more(after, keyset, drafted, now=now) == ()
    theirs = replace(KeysetPlan.of(drafted), keys=(*drafted.keys, online("evil", "card")))
    draft = draft_next(theirs, keyset, now=NOW + 61 * DAY)
    assert any("+ key ES256" in line for line in says_more(after, keyset, draft, now=now))


EVIL = ("https://tides.example", "https://evil.example")
CARD = online("card", "card")
MORE: dict[str, tuple[dict[str, Any], int, str]] = {
    "a root": ({"root": quorum(2, "ann", "bob", "eve")}, 90, "held by eve"),
    "the threshold": ({"root": quorum(1, "ann", "bob", "cat")}, 90, "+ root: 1 of 3 must sign"),
    "an origin": ({"origins": EVIL}, 90, "+ origin https://evil.example"),
    "a card key": ({"keys": (CARD, online("evil", "card"))}, 90, "+ key ES256"),
    "a key's role": ({"keys": (online("card", "card", "release"),)}, 90, "+ key ES256"),
    "a key less": ({"keys": (CARD,)}, 90, "- key ES256"),
    "no recovery": ({"recovery": None}, 90, "- recovery: 1 of 1 must sign"),
    "a revocation": ({"revoked": frozenset({thumbprint("zoe")})}, 90, "+ revoked"),
    "a longer lifetime": ({}, 100, "~ valid from"),
}


@pytest.mark.parametrize(("changes", "days", "line"), MORE.values(), ids=MORE)
def test_what_a_draft_says_besides_is_told(changes: dict[str, Any], days: int, line: str) -> None:
    """It lies in a repository, where a stranger may have put it (threat 22)."""
    keyset, now = first(), NOW + 61 * DAY
    changed = replace(KeysetPlan.of(keyset), **changes)
    draft = draft_next(changed, keyset, now=now, lifetime=days * DAY)
    more = says_more(store(), keyset, draft, now=now)
    assert any(line in change for change in more), more


def test_a_draft_from_the_future_is_told() -> None:
    """Made where a clock is ahead: once published, nothing could follow for that long."""
    state, keyset = store(CARD2), first()
    draft = draft_of(state, keyset)

    (only,) = says_more(state, keyset, draft, now=NOW)

    assert "valid from" in only


def test_a_draft_that_mends_what_the_store_cannot_is_told_whole() -> None:
    """Too few roots are left, so a person has drafted others; the store has nothing to compare."""
    lost = [record(name, "revoked", "root", revoked_because="ceased") for name in ("ann", "bob")]
    keyset = first()
    theirs = KeysetPlan.of(keyset).revoking([thumbprint("ann"), thumbprint("bob")])
    draft = draft_next(replace(theirs, root=quorum(1, "cat", "dan")), keyset, now=LATER)

    more = says_more(store(*lost), keyset, draft, now=LATER)
    assert any("held by dan" in change for change in more)
    assert f"+ revoked {thumbprint('ann')}" in more


def test_a_draft_that_nobody_has_signed_for_months_is_made_anew() -> None:
    """Else it would end as soon as it is published."""
    old, now = draft_of(store(CARD2), first()), NOW + 61 * DAY
    assert draft_of(store(CARD2), first(), now, old).iat == int(now.timestamp())


def test_a_root_that_cannot_sign_any_more_is_told() -> None:
    """Two of the three are gone: no draft of cron's can fix that."""
    lost = [record(name, "revoked", "root", revoked_because="ceased") for name in ("ann", "bob")]
    assert refusal(draft_if_due, store(*lost), first(), None, now=LATER) == "statement.threshold"


def over(name: str, why: Any, hours: int, *roles: Any) -> KeyRecord:
    """A key that was revoked so many hours later."""
    times = KeyTimes(revoked=NOW + hours * HOUR)
    return record(name, "revoked", *roles, revoked_because=why, times=times)


CEASED, CARD_CEASED = over("rel", "ceased", 5, "release"), over("card", "ceased", 5)
STOLEN = over("card", "compromised", 5)
ENDED: dict[str, tuple[tuple[KeyRecord, ...], bool]] = {
    "every key has ceased": ((CARD_CEASED, CEASED), True),
    "a root remains": ((CARD_CEASED, CEASED, record("ann", "active", "root")), True),
    "a theft before": ((over("card", "compromised", 1), over("card2", "ceased", 5), CEASED), True),
    "one retired before": ((record("card2", "retired"), CARD_CEASED, CEASED), True),
    "a theft was the last": ((over("card2", "ceased", 1), STOLEN, CEASED), False),
    "a theft of the same second": ((over("card2", "ceased", 5), STOLEN, CEASED), False),
    "a key that is to be replaced": ((over("card", "superseded", 5), CEASED), False),
    "the release key signs": ((CARD_CEASED, record("rel", "active", "release")), False),
    "another holder's keys go on": ((CARD_CEASED,), False),
    "nothing but roots": ((record("ann", "active", "root"),), False),
    "an empty store": ((), False),
}


@pytest.mark.parametrize(("records", "ended"), ENDED.values(), ids=ENDED)
def test_an_issuer_has_ended(records: tuple[KeyRecord, ...], ended: bool) -> None:
    """Only where its last keys were ended on purpose, and no other holder's are listed."""
    assert has_ended(store(*records), first()) is ended
