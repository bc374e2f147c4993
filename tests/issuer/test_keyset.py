"""Keyset statements as they are drafted, who has to sign them, and when the roots are wanted."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from cardsign.issuer.keyset import (
    check_draft,
    differences,
    draft_if_due,
    draft_next,
    following,
    keyset_due,
    quorum_signatures,
    read_draft,
    says_more,
    write_draft,
)
from cardsign.jose.keys import PublicKey
from cardsign.keys.history import has_ended
from cardsign.keys.ledger import KeyRecord, KeyTimes, StoreState
from cardsign.statements.keyset import IssuerKey, KeysetStatement, check_step, read_keyset
from tests.keys.elsewhere import refusal
from tests.keys.issuing import (
    DAY,
    HOUR,
    NOW,
    T0,
    first,
    key,
    online,
    plan,
    quorum,
    record,
    signed,
    store,
    thumbprint,
)

LATER = NOW + DAY
RETIRING, CARD2 = record("card", "retiring"), record("card2", "generated")
RETIRED = record("rel", "retired", "release")
STANDBY = record("card2", "prepublished")
REVOKED = record("card", "revoked", revoked_because="ceased", times=KeyTimes(revoked=NOW + HOUR))
LOST_ROOT, *LOST_TWO = (
    record(name, "revoked", "root", revoked_because="compromised") for name in ("cat", "ann", "bob")
)

# What the next statement says.


def next_plan(before: KeysetStatement, *records: KeyRecord) -> KeysetStatement:
    """What follows from a store."""
    return following(before, store(*records), now=NOW, until=NOW + 90 * DAY)


def listed(draft: KeysetStatement) -> set[str]:
    """The names of the listed keys."""
    names = {thumbprint(name): name for name in ("card", "card2", "rel", "rel2")}
    return {names[entry.public.thumbprint] for entry in draft.keys}


#: The states of the keys in the store, and which ones the next statement lists.
FOLLOWING: dict[str, tuple[tuple[KeyRecord, ...], str]] = {
    "an empty store changes nothing": ((), "card rel"),
    "a standby is listed": ((record("card"), STANDBY), "card card2 rel"),
    "a retiring key still is": ((RETIRING, record("card2")), "card card2 rel"),
    "a retired key no longer is": ((record("card", "retired"), record("card2")), "card2 rel"),
    "a revoked key is revoked": ((REVOKED, record("card2")), "card2 rel"),
    "one that waits is listed": ((CARD2,), "card card2 rel"),
    "a root key is no online key": ((record("ann", "active", "root"),), "card rel"),
    "a revoked root leaves the root": ((LOST_ROOT,), "card rel"),
}


@pytest.mark.parametrize(("records", "kept"), FOLLOWING.values(), ids=FOLLOWING)
def test_the_next_statement_says_what_became_of_the_keys(
    records: tuple[KeyRecord, ...], kept: str
) -> None:
    """From the store's states to keys, revocations and roots, of which none is revoked too."""
    draft = next_plan(first(), *records)
    assert listed(draft) == {*kept.split()}
    assert draft.revoked == {key.thumbprint for key in records if key.state == "revoked"}
    lost = {"cat"} if LOST_ROOT in records else set()
    assert {root.holder for root in draft.root.keys} == {"ann", "bob", "cat"} - lost
    draft_next(draft, first(), now=NOW)


def test_times_of_a_key_stay_while_they_outlast_the_statement() -> None:
    """A renewal changes no key, but for one that would end before the statement does."""
    earlier = first(keys=(online("card", "card", days=200), online("rel", "release", days=30)))
    draft = next_plan(earlier, record("card"), record("rel", "active", "release"))
    ends = {entry.public.thumbprint: entry.exp for entry in draft.keys}
    assert ends[thumbprint("card")] == T0 + 200 * 86_400
    assert ends[thumbprint("rel")] == T0 + 400 * 86_400
    assert {entry.nbf for entry in draft.keys} == {T0}


def test_a_revoked_key_is_not_listed_again_by_the_store() -> None:
    """A plan that revokes a key of the store lists it no longer, whatever its state."""
    draft = replace(first(), revoked=frozenset({thumbprint("card")}))
    assert "card" not in listed(following(draft, store(record("card")), now=NOW, until=NOW))


#: Two of those that `test_statements.py` and `test_statements_succession.py` decide, and recovery.
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a lifetime beyond 400 days": ({}, {"lifetime": 401 * DAY}, "time_span"),
    "a key that is no longer revoked": ({"revoked": frozenset()}, {}, "unrevoked"),
    "an epoch that nobody can open": ({}, {"recovery": True}, "recovery"),
    "recovery that was given up": ({"recovery": quorum(1, "rita")}, {}, "recovery"),
}


@pytest.mark.parametrize(("changes", "how", "code"), REFUSED.values(), ids=REFUSED)
def test_what_a_verifier_would_refuse_is_no_draft(
    changes: dict[str, Any], how: dict[str, Any], code: str
) -> None:
    """Checked with the verifier's own rules, before anybody is asked to sign; 400 days pass."""
    earlier = first(revoked=frozenset({thumbprint("old")}), recovery=None)
    same = earlier
    draft = draft_next(same, earlier, now=NOW, lifetime=400 * DAY)
    assert (draft.epoch, draft.version, draft.prev) == (1, 2, earlier.digest)
    attempt = partial(draft_next, replace(same, **changes), earlier, now=NOW, **how)
    assert refusal(attempt) == f"statement.{code}"


# Who has to sign.


DAN, ROSA = {"root": quorum(1, "dan")}, {"recovery": quorum(1, "rosa")}
OWN, ROOT, RECOVERY = "its own root", "the root before", "the recovery keys before"
SIGNING: dict[str, tuple[dict[str, Any], str, dict[str, int]]] = {
    "nobody yet": ({}, "", {OWN: 2}),
    "one of two": ({}, "ann", {OWN: 1}),
    "two of two": ({}, "ann cat", {OWN: 0}),
    "strangers do not count": ({}, "ann eve", {OWN: 1}),
    "both roots, when the root changes": (DAN, "ann bob", {ROOT: 0, OWN: 1}),
    "recovery too, when recovery changes": (ROSA, "ann bob", {RECOVERY: 1, OWN: 0}),
}


@pytest.mark.parametrize(("changes", "names", "missing"), SIGNING.values(), ids=SIGNING)
def test_it_is_said_who_is_missing(
    changes: dict[str, Any], names: str, missing: dict[str, int]
) -> None:
    """And the check agrees: it passes just when nobody is missing."""
    earlier = first()
    draft = draft_next(plan(**changes), earlier, now=NOW)
    statement = signed(draft, *names.split()) if names else draft
    quorums = quorum_signatures(statement, earlier)
    assert {signatures.name: signatures.missing for signatures in quorums} == missing
    check_draft(statement, earlier)
    if any(missing.values()):
        assert refusal(check_step, statement, earlier)
    else:
        check_step(statement, earlier)


def test_recovery_is_signed_by_recovery_and_its_own_root() -> None:
    """The next epoch: 2.1, after nothing, by rita and the new root."""
    earlier = first()
    draft = draft_next(plan(**DAN), earlier, now=NOW, recovery=True)
    assert (draft.epoch, draft.version, draft.prev) == (2, 1, None)
    quorums = quorum_signatures(draft, earlier)
    assert [signatures.name for signatures in quorums] == ["the recovery keys", OWN]
    check_step(signed(draft, "rita", "dan"), earlier)
    assert refusal(check_step, signed(draft, "ann", "bob", "dan"), earlier) == "statement.unsigned"


def test_a_draft_travels_as_the_statement_that_it_will_be() -> None:
    """Unsigned, signed once, signed twice: one payload, one digest."""
    draft = draft_next(plan(), None, now=NOW)
    for statement in (draft, signed(draft, "ann"), signed(draft, "ann", "bob")):
        again = read_draft(write_draft(statement))
        assert again == statement
        assert again.digest == draft.digest
    assert refusal(read_keyset, write_draft(draft)) == "statement.shape"


JUNK = ["", "[]", '{"payload": 7, "signatures": []}', '{"payload": "!!", "signatures": []}']
JUNK += ['{"payload": "e30", "signatures": []}', '{"payload": "e30", "signatures": [], "x": 1}']


@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_draft_is_refused(junk: str) -> None:
    """Read as strictly as a statement; nothing may stand beside it that nobody signs."""
    assert refusal(read_draft, junk.encode()).startswith("statement.")


# What a draft changes, for those who sign it.


EVIL = ("https://tides.example", "https://evil.example")
CARD, ES256 = online("card", "card"), f"key ES256 {thumbprint('card')} for card"
DATES = "held by harbour, 2026-11-22 to 2027-12-27"
MORE: dict[str, tuple[dict[str, Any], int, tuple[str, ...]]] = {
    "roots": (
        {"root": quorum(1, "ann", "eve")},
        90,
        (
            "- root: 2 of 3 must sign",
            "+ root: 1 of 2 must sign",
            f"- root ES256 {thumbprint('bob')} held by bob",
            f"+ root ES256 {thumbprint('eve')} held by eve",
        ),
    ),
    "an origin": ({"origins": EVIL}, 90, ("+ origin https://evil.example",)),
    "a card key": ({"keys": (CARD, online("evil", "card"))}, 90, ("+ key ES256",)),
    "a key's role": (
        {"keys": (online("card", "card", "release"),)},
        90,
        (f"- {ES256}, {DATES}", f"+ {ES256} and release, {DATES}"),
    ),
    "a key less": ({"keys": (CARD,)}, 90, ("- key ES256",)),
    "no recovery": ({"recovery": None}, 90, ("- recovery: 1 of 1 must sign",)),
    "a revocation": (
        {"revoked": frozenset({thumbprint("zoe")})},
        90,
        (f"+ revoked {thumbprint('zoe')}",),
    ),
    "a longer lifetime": ({}, 100, ("~ valid from",)),
}


@pytest.mark.parametrize(("changes", "days", "lines"), MORE.values(), ids=MORE)
def test_what_a_draft_says_besides_is_told(
    changes: dict[str, Any], days: int, lines: tuple[str, ...]
) -> None:
    """It lies in a repository, where a stranger may have put it (threat 22)."""
    keyset, now = first(), NOW + 61 * DAY
    changed = replace(keyset, **changes)
    draft = draft_next(changed, keyset, now=now, lifetime=days * DAY)
    for told in (says_more(store(), keyset, draft, now=now), [*differences(keyset, draft)]):
        for line in lines:
            assert any(change.startswith(line) for change in told), told


def test_a_renewal_changes_nothing_but_its_time() -> None:
    """The negative twin: two lines, and none of them adds or removes."""
    before = first()
    lines = differences(before, draft_next(before, before, now=LATER))
    assert [line[0] for line in lines] == ["=", "~"]


def test_a_kid_cannot_pass_for_something_else() -> None:
    """Its owner chooses it: it goes last, in quotes, and nothing after it."""
    before = first()
    kid = f'x" ES256 {thumbprint("card")} for card, held by harbour'
    evil = PublicKey.from_jwk(key("evil").public.jwk(), kid=kid)
    keys = (*before.keys, IssuerKey(evil, ("card",), "eve", T0, T0 + 9))
    draft = draft_next(replace(before, keys=keys), before, now=NOW)
    (line,) = [line for line in differences(before, draft) if line.startswith("+ key")]
    assert line.startswith(f"+ key ES256 {evil.thumbprint} for card, held by eve, 2026-")
    assert line.endswith(f", kid {json.dumps(kid)}")


# When the roots are wanted, and the one draft that waits for them.


DUE: dict[str, tuple[tuple[KeyRecord, ...], timedelta, bool]] = {
    "nothing has changed": ((record("card"),), DAY, False),
    "two thirds of its time are not yet over": ((), timedelta(days=59, hours=23), False),
    "two thirds of its time are over": ((), 60 * DAY, True),
    "a key waits to be listed": ((CARD2,), DAY, True),
    "a standby has come": ((STANDBY,), DAY, True),
    "a key has been retired": ((record("card", "retired"),), DAY, False),
    "a key has been retired, and another is about to": ((RETIRED, RETIRING), DAY, False),
    "and that one never is": ((RETIRED, RETIRING), 60 * DAY, True),
    "a key waits, and another is about to retire": ((CARD2, RETIRING), DAY, True),
    "a key has been revoked": ((REVOKED,), DAY, True),
    "and another is about to retire": ((REVOKED, record("rel", "retiring", "release")), DAY, True),
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
    quiet = keyset_due(store(), first(), now=LATER)
    changed = keyset_due(store(CARD2, REVOKED), first(), now=LATER)
    assert (quiet.due, quiet.ends, quiet.number) == (NOW + 60 * DAY, NOW + 90 * DAY, "1.2")
    assert "keyset 1.1 ends at" in quiet.why
    assert changed.due == NOW + HOUR
    assert all(thumbprint(name) in changed.why for name in ("card", "card2"))


def draft_of(
    state: StoreState, at: datetime = LATER, draft: KeysetStatement | None = None, **changes: Any
) -> KeysetStatement:
    """The draft that is due, which is a new one."""
    result = draft_if_due(state, first(**changes), draft, now=at)
    assert result is not None
    assert result is not draft
    return result


def test_hosts_come_to_the_same_draft() -> None:
    """Byte for byte, whenever they ask; so no lock is needed."""
    drafts = [draft_of(store(CARD2), LATER + n * HOUR) for n in range(3)]
    assert len({write_draft(draft) for draft in drafts}) == 1
    assert drafts[0].iat == int((NOW + HOUR).timestamp())


def test_a_draft_that_is_there_is_left_as_it_is() -> None:
    """With its signatures, and with what people drafted besides: it says all that is to be said."""
    state, keyset = store(CARD2), first()
    half = signed(draft_of(state), "ann")
    theirs = following(keyset, state, now=LATER, until=LATER)
    theirs = replace(theirs, root=quorum(2, "ann", "bob", "dan"))
    for draft in (half, draft_next(theirs, keyset, now=LATER)):
        assert draft_if_due(state, keyset, draft, now=LATER + 20 * DAY) is draft


STALE: dict[str, KeysetStatement] = {
    "it follows another statement": draft_of(store(CARD2, REVOKED), lifetime=80 * DAY),
    "it lacks a key": draft_of(store(CARD2)),
    "it is the newest statement itself": first(),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE)
def test_a_draft_that_will_not_do_is_drafted_anew(stale: KeysetStatement) -> None:
    """What it said is said again, with the rest; also what nobody has signed for months."""
    statement = draft_of(store(CARD2, REVOKED), draft=stale)
    assert statement.revoked == {thumbprint("card")}
    assert statement.lists(thumbprint("card2"), "card")
    late = NOW + 61 * DAY
    assert draft_of(store(CARD2), late, stale).iat == int(late.timestamp())


def test_the_stores_own_draft_says_no_more_than_the_store() -> None:
    """However late somebody looks, and on whatever host it was made; but for one of the future."""
    state, keyset = store(CARD2, REVOKED), first()
    theirs = following(keyset, state, now=LATER, until=LATER + 90 * DAY)
    for draft in (draft_of(state), draft_next(theirs, keyset, now=LATER)):
        assert says_more(state, keyset, draft, now=LATER + 20 * DAY) == ()
    (only,) = says_more(state, keyset, draft_of(state), now=NOW)
    assert "valid from" in only, "once published, nothing could follow for that long"


def test_a_key_that_retires_after_the_draft_makes_no_stranger_of_its_author() -> None:
    """Cron has drafted it while the key was still to be listed."""
    keyset = first()
    begun = store(RETIRING, record("rel", "active", "release"))
    drafted = draft_of(begun, NOW + 61 * DAY)
    after, now = store(record("card", "retired"), begun.keys[1]), NOW + 62 * DAY
    assert draft_if_due(after, keyset, drafted, now=now) is drafted
    assert says_more(after, keyset, drafted, now=now) == ()
    theirs = replace(drafted, keys=(*drafted.keys, online("evil", "card")))
    draft = draft_next(theirs, keyset, now=NOW + 61 * DAY)
    assert any("+ key ES256" in line for line in says_more(after, keyset, draft, now=now))


def test_too_few_roots_are_mended_by_people_alone() -> None:
    """No draft of cron's can fix that; theirs is told whole, as the store has nothing like it."""
    state, keyset = store(*LOST_TWO), first()
    assert refusal(draft_if_due, state, keyset, None, now=LATER) == "statement.threshold"
    revoked = frozenset({thumbprint("ann"), thumbprint("bob")})
    theirs = replace(keyset, root=quorum(1, "cat", "dan"), revoked=revoked)
    draft = draft_next(theirs, keyset, now=LATER)
    more = says_more(state, keyset, draft, now=LATER)
    assert any("held by dan" in change for change in more)
    assert f"+ revoked {thumbprint('ann')}" in more


# When there is nothing more to say.


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
