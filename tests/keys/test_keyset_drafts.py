"""Keyset statements as they are drafted: what a verifier would refuse is never written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cardsign.jose.keys import PublicKey
from cardsign.keys.drafts import (
    KeysetPlan,
    check_draft,
    differences,
    draft_next,
    quorum_signatures,
    read_draft,
    write_draft,
)
from cardsign.keys.model import KeyRecord, StoreState
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import (
    IssuerKey,
    KeysetStatement,
    check_recovery,
    check_step,
    check_successor,
)
from tests.keys.issuing import (
    DAY,
    NOW,
    T0,
    first,
    key,
    online,
    plan,
    quorum,
    signed,
    thumbprint,
)


def record(name: str, state: Any = "active", *roles: Any, **changes: Any) -> KeyRecord:
    """A key as a store has it."""
    public = key(name).public
    custody = f"file:private/{public.thumbprint}.key"
    return KeyRecord(public, state, roles or ("card",), custody, NOW, **changes)


def store(*records: KeyRecord) -> StoreState:
    """A key store's state."""
    return StoreState(1, keys=records)


def next_plan(before: KeysetStatement, *records: KeyRecord) -> KeysetPlan:
    """What follows from a store."""
    return KeysetPlan.of(before).following(store(*records), now=NOW, until=NOW + 90 * DAY)


def listed(told: KeysetPlan) -> set[str]:
    """The names of the listed keys."""
    names = {thumbprint(name): name for name in ("card", "card2", "rel", "rel2")}
    return {names[one.public.thumbprint] for one in told.keys}


FOLLOWING: dict[str, tuple[tuple[KeyRecord, ...], set[str], set[str]]] = {
    "an empty store changes nothing": ((), {"card", "rel"}, set()),
    "a standby is listed before it signs": (
        (record("card"), record("card2", "prepublished")),
        {"card", "card2", "rel"},
        set(),
    ),
    "a retiring key still is": (
        (record("card", "retiring"), record("card2")),
        {"card", "card2", "rel"},
        set(),
    ),
    "a retired key no longer is": (
        (record("card", "retired"), record("card2")),
        {"card2", "rel"},
        set(),
    ),
    "a revoked key is revoked": (
        (record("card", "revoked", revoked_because="compromised"), record("card2")),
        {"card2", "rel"},
        {"card"},
    ),
    "a key that waits for it is listed": (
        (record("card"), record("card2", "generated")),
        {"card", "card2", "rel"},
        set(),
    ),
    "a root key is no online key": (
        (record("card"), record("ann", "active", "root")),
        {"card", "rel"},
        set(),
    ),
}


@pytest.mark.parametrize(("records", "kept", "revoked"), FOLLOWING.values(), ids=FOLLOWING)
def test_the_next_statement_says_what_became_of_the_keys(
    records: tuple[KeyRecord, ...], kept: set[str], revoked: set[str]
) -> None:
    """From the store's states to the members `keys` and `revoked`."""
    told = next_plan(first(), *records)
    assert listed(told) == kept
    assert told.revoked == {thumbprint(name) for name in revoked}


def test_a_revoked_root_key_leaves_the_root() -> None:
    """Else the statement would list and revoke one key, and be refused."""
    lost = record("cat", "revoked", "root", revoked_because="compromised")
    told = next_plan(first(), lost)
    assert [one.holder for one in told.root.keys] == ["ann", "bob"]
    draft_next(told, first(), now=NOW)


def test_times_of_a_key_stay_while_they_outlast_the_statement() -> None:
    """A renewal changes no key, but for one that would end before the statement does."""
    before = first(keys=(online("card", "card", days=200), online("rel", "release", days=30)))
    told = next_plan(before, record("card"), record("rel", "active", "release"))
    ends = {one.public.thumbprint: one.exp for one in told.keys}
    assert ends[thumbprint("card")] == T0 + 200 * 86_400
    assert ends[thumbprint("rel")] == T0 + 400 * 86_400
    assert {one.nbf for one in told.keys} == {T0}


def test_a_revoked_key_is_not_listed_again_by_the_store() -> None:
    """A plan that revokes a key of the store lists it no longer, whatever its state."""
    told = KeysetPlan.of(first()).revoking([thumbprint("card")])
    assert "card" not in listed(told.following(store(record("card")), now=NOW, until=NOW))


# ------------------------------------------------------------------ what is never written


def changed(**changes: Any) -> Callable[[KeysetPlan], KeysetPlan]:
    """A plan with something else."""
    return lambda told: replace(told, **changes)


REFUSED: dict[str, tuple[Callable[[KeysetPlan], KeysetPlan], timedelta, str]] = {
    "a lifetime beyond 400 days": (changed(), 401 * DAY, "statement.time_span"),
    "more signatures than holders": (
        changed(root=quorum(4, "ann", "bob", "cat")),
        90 * DAY,
        "statement.threshold",
    ),
    "no origin": (changed(origins=()), 90 * DAY, "statement.members"),
    "an origin with a path": (
        changed(origins=("https://a.example/x",)),
        90 * DAY,
        "statement.members",
    ),
    "a root key that signs cards": (
        changed(keys=(online("ann", "card"),)),
        90 * DAY,
        "statement.bad_key",
    ),
    "a recovery key among the roots": (
        changed(recovery=quorum(1, "bob")),
        90 * DAY,
        "statement.bad_key",
    ),
    "a key that is listed and revoked": (
        changed(revoked=frozenset({thumbprint("card")})),
        90 * DAY,
        "statement.bad_key",
    ),
    "another issuer": (changed(issuer="ebb.example"), 90 * DAY, "statement.issuer"),
    "a key that is no longer revoked": (
        changed(revoked=frozenset()),
        90 * DAY,
        "statement.unrevoked",
    ),
}


@pytest.mark.parametrize(("change", "lifetime", "code"), REFUSED.values(), ids=REFUSED)
def test_what_a_verifier_would_refuse_is_no_draft(
    change: Callable[[KeysetPlan], KeysetPlan], lifetime: timedelta, code: str
) -> None:
    """Checked with the verifier's own rules, before anybody is asked to sign."""
    before = first(revoked=frozenset({thumbprint("old")}))
    with pytest.raises(StatementRefused) as refused:
        draft_next(change(KeysetPlan.of(before)), before, now=NOW, lifetime=lifetime)
    assert refused.value.code == code


def test_recovery_that_was_given_up_cannot_be_set() -> None:
    """Nor can an epoch be opened then."""
    before = first(recovery=None)
    for draft in (
        lambda: draft_next(plan(), before, now=NOW),
        lambda: draft_next(plan(), before, now=NOW, recovery=True),
    ):
        with pytest.raises(StatementRefused) as refused:
            draft()
        assert refused.value.code in ("statement.recovery", "statement.unsigned")


def test_a_clock_that_went_back_is_no_draft() -> None:
    """A statement issued before the one it follows would be a rollback."""
    with pytest.raises(StatementRefused) as refused:
        draft_next(plan(), first(), now=NOW - DAY)
    assert refused.value.code == "statement.rollback"


def test_the_longest_life_is_a_draft() -> None:
    """The twin of the refusals: 400 days pass."""
    before = first(revoked=frozenset({thumbprint("old")}))
    draft = draft_next(KeysetPlan.of(before), before, now=NOW, lifetime=400 * DAY)
    assert (draft.epoch, draft.version, draft.prev) == (1, 2, before.digest)


# ------------------------------------------------------------------ who has to sign


SIGNING: dict[str, tuple[dict[str, Any], tuple[str, ...], dict[str, int]]] = {
    "nobody yet": ({}, (), {"its own root": 2}),
    "one of two": ({}, ("ann",), {"its own root": 1}),
    "two of two": ({}, ("ann", "cat"), {"its own root": 0}),
    "strangers do not count": ({}, ("ann", "eve"), {"its own root": 1}),
    "both roots, when the root changes": (
        {"root": quorum(1, "dan")},
        ("ann", "bob"),
        {"the root before": 0, "its own root": 1},
    ),
    "recovery too, when recovery changes": (
        {"recovery": quorum(1, "rosa")},
        ("ann", "bob"),
        {"the recovery keys before": 1, "its own root": 0},
    ),
}


@pytest.mark.parametrize(("changes", "names", "missing"), SIGNING.values(), ids=SIGNING)
def test_it_is_said_who_is_missing(
    changes: dict[str, Any], names: tuple[str, ...], missing: dict[str, int]
) -> None:
    """And the check agrees: it passes just when nobody is missing."""
    before = first()
    draft = draft_next(plan(**changes), before, now=NOW)
    statement = signed(draft, *names) if names else draft
    assert {one.whose: one.missing for one in quorum_signatures(statement, before)} == missing
    check_draft(statement, before)
    if any(missing.values()):
        with pytest.raises(StatementRefused):
            check_step(statement, before)
    else:
        check_step(statement, before)


def test_recovery_is_signed_by_recovery_and_its_own_root() -> None:
    """The next epoch: 2.1, after nothing, by rita and the new root."""
    before = first()
    draft = draft_next(plan(root=quorum(1, "dan")), before, now=NOW, recovery=True)
    assert (draft.epoch, draft.version, draft.prev) == (2, 1, None)
    assert [one.whose for one in quorum_signatures(draft, before)] == [
        "the recovery keys",
        "its own root",
    ]
    check_step(signed(draft, "rita", "dan"), before)
    with pytest.raises(StatementRefused):
        check_step(signed(draft, "ann", "bob", "dan"), before)


def test_recovery_beats_a_thief_who_rotated_ten_times() -> None:
    """By the thief's last statement and by each one before: they cannot drop the recovery key."""
    genuine = first("ann", "bob", root=quorum(2, "ann", "bob"))
    held = genuine
    for number in range(10):
        told = replace(KeysetPlan.of(held), root=quorum(1, f"thief{number}"))
        step = draft_next(told, held, now=NOW)
        by = ("ann", "bob") if number == 0 else (f"thief{number - 1}",)
        following = signed(step, *by, f"thief{number}")
        check_successor(held, following)
        held = following
    won = signed(
        draft_next(plan(root=quorum(1, "dan")), genuine, now=NOW, recovery=True), "rita", "dan"
    )
    check_recovery(held, won)
    check_recovery(genuine, won)
    rid = draft_next(replace(KeysetPlan.of(held), recovery=quorum(1, "mallory")), held, now=NOW)
    with pytest.raises(StatementRefused):
        check_successor(held, signed(rid, "thief9", "mallory"))


# ------------------------------------------------------------------ files and sentences


def test_a_draft_travels_as_the_statement_that_it_will_be() -> None:
    """Unsigned, signed once, signed twice: one payload, one digest."""
    draft = draft_next(plan(), None, now=NOW)
    for statement in (draft, signed(draft, "ann"), signed(draft, "ann", "bob")):
        again = read_draft(write_draft(statement))
        assert again == statement
        assert again.digest == draft.digest


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"[]",
        b'{"payload": 7, "signatures": []}',
        b'{"payload": "!!", "signatures": []}',
        b'{"payload": "e30", "signatures": []}',
        b'{"payload": "e30", "signatures": [], "change": "harmless"}',
    ],
)
def test_what_is_no_draft_is_refused(junk: bytes) -> None:
    """Read as strictly as a statement; nothing may stand beside it that nobody signs."""
    with pytest.raises(StatementRefused):
        read_draft(junk)


def test_a_change_is_told_from_the_signers_own_statement() -> None:
    """What comes, goes and changes, each on a line."""
    before = first()
    told = replace(
        KeysetPlan.of(before).revoking([thumbprint("card")]),
        root=quorum(1, "ann", "eve"),
        origins=("https://tides.example", "https://evil.example"),
    )
    lines = [str(one) for one in differences(before, draft_next(told, before, now=NOW))]
    for start in (
        "- root: 2 of 3 must sign",
        "+ root: 1 of 2 must sign",
        f"- root ES256 {thumbprint('bob')} held by bob",
        f"+ root ES256 {thumbprint('eve')} held by eve",
        "+ origin https://evil.example",
        f"- key ES256 {thumbprint('card')}",
        f"+ revoked {thumbprint('card')}",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_a_kid_cannot_pass_for_something_else() -> None:
    """Its owner chooses it: it goes last, in quotes, and nothing after it."""
    before = first()
    numbers = key("evil").public.jwk()
    kid = f'x" ES256 {thumbprint("card")} for card, held by harbour'
    evil = PublicKey.from_jwk(numbers, kid=kid)
    told = replace(
        KeysetPlan.of(before), keys=(*before.keys, IssuerKey(evil, ("card",), "eve", T0, T0 + 9))
    )

    lines = [str(one) for one in differences(before, draft_next(told, before, now=NOW))]

    (line,) = [one for one in lines if one.startswith("+ key")]
    assert line.startswith(f"+ key ES256 {evil.thumbprint} for card, held by eve, 2026-")
    assert line.endswith(f", kid {json.dumps(kid)}")


def test_a_changed_key_stands_on_two_lines() -> None:
    """As it was, and as it is to be; a renewal's times too."""
    before = first()
    changed = (online("card", "card", "release"), *before.keys[1:])
    told = replace(KeysetPlan.of(before), keys=changed)

    lines = [str(one) for one in differences(before, draft_next(told, before, now=NOW))]

    start = f"ES256 {thumbprint('card')} for"
    assert [one for one in lines if one[2:].startswith("key ")] == [
        f"- key {start} card, held by harbour, 2026-11-22 to 2027-12-27",
        f"+ key {start} card and release, held by harbour, 2026-11-22 to 2027-12-27",
    ]


def test_a_renewal_changes_nothing_but_its_time() -> None:
    """The negative twin: two lines, and none of them adds or removes."""
    before = first()
    lines = differences(before, draft_next(KeysetPlan.of(before), before, now=NOW + DAY))
    assert [one[0] for one in lines] == ["=", "~"]
