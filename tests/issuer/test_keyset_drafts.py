"""Keyset statements as they are drafted: what a verifier would refuse is never written."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cardsign.issuer.keyset import (
    KeysetPlan,
    check_draft,
    differences,
    draft_next,
    quorum_signatures,
    read_draft,
    write_draft,
)
from cardsign.jose.keys import PublicKey
from cardsign.keys.ledger import KeyRecord
from cardsign.statements.keyset import (
    IssuerKey,
    KeysetStatement,
    check_step,
    read_keyset,
)
from tests.keys.elsewhere import refusal
from tests.keys.issuing import (
    DAY,
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


def next_plan(before: KeysetStatement, *records: KeyRecord) -> KeysetPlan:
    """What follows from a store."""
    return KeysetPlan.of(before).following(store(*records), now=NOW, until=NOW + 90 * DAY)


def listed(draft: KeysetPlan) -> set[str]:
    """The names of the listed keys."""
    names = {thumbprint(name): name for name in ("card", "card2", "rel", "rel2")}
    return {names[entry.public.thumbprint] for entry in draft.keys}


STOLEN = record("card", "revoked", revoked_because="compromised")
#: The states of `card` and `card2` in the store, and which keys the next statement lists.
FOLLOWING: dict[str, tuple[tuple[KeyRecord, ...], str]] = {
    "an empty store changes nothing": ((), "card rel"),
    "a standby is listed": ((record("card"), record("card2", "prepublished")), "card card2 rel"),
    "a retiring key still is": ((record("card", "retiring"), record("card2")), "card card2 rel"),
    "a retired key no longer is": ((record("card", "retired"), record("card2")), "card2 rel"),
    "a revoked key is revoked": ((STOLEN, record("card2")), "card2 rel"),
    "one that waits is listed": ((record("card2", "generated"),), "card card2 rel"),
    "a root key is no online key": ((record("ann", "active", "root"),), "card rel"),
}


@pytest.mark.parametrize(("records", "kept"), FOLLOWING.values(), ids=FOLLOWING)
def test_the_next_statement_says_what_became_of_the_keys(
    records: tuple[KeyRecord, ...], kept: str
) -> None:
    """From the store's states to the members `keys` and `revoked`."""
    draft = next_plan(first(), *records)
    assert listed(draft) == {*kept.split()}
    assert draft.revoked == {key.thumbprint for key in records if key.state == "revoked"}


def test_a_revoked_root_key_leaves_the_root() -> None:
    """Else the statement would list and revoke one key, and be refused."""
    lost = record("cat", "revoked", "root", revoked_because="compromised")
    draft = next_plan(first(), lost)
    assert [root.holder for root in draft.root.keys] == ["ann", "bob"]
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
    draft = KeysetPlan.of(first()).revoking([thumbprint("card")])
    assert "card" not in listed(draft.following(store(record("card")), now=NOW, until=NOW))


# ------------------------------------------------------------------ what is never written


#: A few of those that `test_statements.py` and `test_statements_succession.py` decide.
REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "a lifetime beyond 400 days": ({}, 401, "time_span"),
    "an origin with a path": ({"origins": ("https://a.example/x",)}, 90, "members"),
    "a root key that signs cards": ({"keys": (online("ann", "card"),)}, 90, "bad_key"),
    "another issuer": ({"issuer": "ebb.example"}, 90, "issuer"),
    "a key that is no longer revoked": ({"revoked": frozenset()}, 90, "unrevoked"),
    "a clock that went back": ({}, -1, "rollback"),
}


@pytest.mark.parametrize(("changes", "days", "code"), REFUSED.values(), ids=REFUSED)
def test_what_a_verifier_would_refuse_is_no_draft(
    changes: dict[str, Any], days: int, code: str
) -> None:
    """Checked with the verifier's own rules, before anybody is asked to sign; 400 days pass."""
    earlier = first(revoked=frozenset({thumbprint("old")}))
    same = KeysetPlan.of(earlier)
    draft = draft_next(same, earlier, now=NOW, lifetime=400 * DAY)
    assert (draft.epoch, draft.version, draft.prev) == (1, 2, earlier.digest)
    now, lifetime = (NOW, days * DAY) if days > 0 else (NOW + days * DAY, 90 * DAY)
    attempt = partial(draft_next, replace(same, **changes), earlier, now=now, lifetime=lifetime)
    assert refusal(attempt) == f"statement.{code}"


@pytest.mark.parametrize("recovery", [False, True])
def test_recovery_that_was_given_up_cannot_be_set(recovery: bool) -> None:
    """Nor can an epoch be opened then."""
    attempt = partial(draft_next, plan(), first(recovery=None), now=NOW, recovery=recovery)
    assert refusal(attempt) == "statement.recovery"


# ------------------------------------------------------------------ who has to sign


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


# ------------------------------------------------------------------ files and sentences


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


def test_a_change_is_told_from_the_signers_own_statement() -> None:
    """What comes, goes and changes, each on a line."""
    before = first()
    told = replace(
        KeysetPlan.of(before).revoking([thumbprint("card")]),
        root=quorum(1, "ann", "eve"),
        origins=("https://tides.example", "https://evil.example"),
    )
    lines = [*differences(before, draft_next(told, before, now=NOW))]
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
    lines = differences(before, draft_next(told, before, now=NOW))
    (line,) = [one for one in lines if one.startswith("+ key")]
    assert line.startswith(f"+ key ES256 {evil.thumbprint} for card, held by eve, 2026-")
    assert line.endswith(f", kid {json.dumps(kid)}")


def test_a_changed_key_stands_on_two_lines() -> None:
    """As it was, and as it is to be; a renewal's times too."""
    before = first()
    changed = (online("card", "card", "release"), *before.keys[1:])
    told = replace(KeysetPlan.of(before), keys=changed)
    lines = differences(before, draft_next(told, before, now=NOW))
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
