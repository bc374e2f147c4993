"""By what right statements speak: K5 to K8 for keysets, K10 and K11 for releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from statement_making import (
    DAY,
    NOW,
    T0,
    URL,
    Members,
    entry,
    forged_entry,
    key,
    quorum,
    refusal,
    signed_keyset,
    signed_release,
    thumbprint,
)

from cardsign.jose import base64url
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    RootAnchor,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
)
from cardsign.statements.release import (
    ReleaseStatement,
    check_release,
    effective_revoked,
    read_release,
)
from cardsign.statements.signing import add_signatures, sign_statement

SKEW = timedelta(seconds=300)


@pytest.fixture(scope="module")
def first() -> KeysetStatement:
    """Version 1, with two of three roots."""
    return signed_keyset("ann", "bob", revoked=[thumbprint("lost")])


def second(first: KeysetStatement, *signers: str, **changes: Any) -> KeysetStatement:
    """The next version with these changes, signed by these, else by the roots ann and bob."""
    honest = {
        "version": first.version + 1,
        "prev": first.digest,
        "iat": first.iat + DAY,
        "exp": first.exp + DAY,
        "revoked": sorted(first.revoked),
    }
    return signed_keyset(*(signers or ("ann", "bob")), **{**honest, **changes})


def with_entries(statement: KeysetStatement, entries: Iterable[object]) -> KeysetStatement:
    """The same payload under other signatures."""
    payload = base64url.encode(statement.envelope.payload)
    return read_keyset(json.dumps({"payload": payload, "signatures": list(entries)}).encode())


def first_pin(first: KeysetStatement) -> KeysetId:
    """The pin of a statement."""
    return first.id


# --- K8: the first statement --------------------------------------------------------------


def test_both_anchors_accept_the_first(first: KeysetStatement) -> None:
    """A statement is accepted by its digest, or by its whole root set."""
    for anchor in (first_pin(first), RootAnchor.of(first.root)):
        assert first.root.holders(check_first(first, anchor)) == {"ann", "bob"}


def test_lone_thumbprint_is_a_whole_root_set() -> None:
    """One pinned thumbprint means the statement of that one root, and no larger set."""
    pin = RootAnchor(1, frozenset({(thumbprint("ann"), "ann")}))
    alone = signed_keyset("ann", root=quorum(1, "ann"))
    assert check_first(alone, pin) == {thumbprint("ann")}
    assert refusal(lambda: check_first(signed_keyset("ann", "bob"), pin)) == "statement.anchor"
    one_of_two = signed_keyset("ann", root=quorum(1, "ann", "eve"))
    assert refusal(lambda: check_first(one_of_two, pin)) == "statement.anchor"


FORGED_FIRSTS: dict[str, Callable[[], KeysetStatement]] = {
    "by one of three, as sole root": lambda: signed_keyset("cat", root=quorum(1, "cat")),
    "by one of three, with threshold 1": lambda: signed_keyset(
        "cat", root=quorum(1, "ann", "bob", "cat")
    ),
    "with a root more": lambda: signed_keyset(
        "ann", "bob", root=quorum(2, "ann", "bob", "cat", "x")
    ),
    "with a holder renamed": lambda: signed_keyset(
        "ann", "bob", root=quorum(2, "ann:eve", "bob", "cat")
    ),
}


@pytest.mark.parametrize("forged", FORGED_FIRSTS.values(), ids=FORGED_FIRSTS)
def test_forged_first(first: KeysetStatement, forged: Callable[[], KeysetStatement]) -> None:
    """K8: k of n stays k of n for who meets the issuer first."""
    for anchor in (first_pin(first), RootAnchor.of(first.root)):
        assert refusal(lambda anchor=anchor: check_first(forged(), anchor)) == "statement.anchor"


def test_pin_has_all_three_parts(first: KeysetStatement) -> None:
    """Epoch, version and digest must all fit."""
    for pin in (
        KeysetId(2, 1, first.digest),
        KeysetId(1, 2, first.digest),
        KeysetId(1, 1, "0" * 64),
    ):
        assert refusal(lambda pin=pin: check_first(first, pin)) == "statement.anchor"


@pytest.mark.parametrize("signers", [("ann",), ("ann", "eve"), ("ann", "rita")], ids=" and ".join)
def test_first_needs_its_threshold(signers: tuple[str, ...]) -> None:
    """Strangers and recovery never count for root."""
    few = signed_keyset(*signers)
    for anchor in (first_pin(few), RootAnchor.of(few.root)):
        assert refusal(lambda anchor=anchor: check_first(few, anchor)) == "statement.unsigned"


# --- K5: counting -------------------------------------------------------------------------


def test_one_key_counts_once(first: KeysetStatement) -> None:
    """The same key twice, and once more under an alias, is one signature."""
    payload = first.envelope.payload
    entries = [forged_entry(payload, "ann", thumbprint("ann"))] * 3
    entries.append(forged_entry(payload, "ann", "ann again"))
    alone = with_entries(first, entries)
    assert refusal(lambda: check_first(alone, first_pin(first))) == "statement.unsigned"
    enough = with_entries(first, [*entries, forged_entry(payload, "bob", thumbprint("bob"))])
    assert check_first(enough, first_pin(first)) == {thumbprint("ann"), thumbprint("bob")}


def test_one_holder_counts_once() -> None:
    """Two keys of one holder are one vote."""
    root = quorum(2, "ann", "ann2:ann", "bob")
    twice = signed_keyset("ann", "ann2", root=root)
    assert refusal(lambda: check_first(twice, first_pin(twice))) == "statement.unsigned"
    pair = signed_keyset("ann2", "bob", root=root)
    assert root["threshold"] == len(pair.root.holders(check_first(pair, first_pin(pair))))


def test_bad_signature_is_reported_and_blocks_nothing(first: KeysetStatement) -> None:
    """A bad signature by a known key stands in the result, and in the refusal."""
    payload = first.envelope.payload
    bad = forged_entry(payload, "eve", thumbprint("cat"))
    good = [forged_entry(payload, name, thumbprint(name)) for name in ("ann", "bob")]
    signers = check_first(with_entries(first, [bad, *good]), first_pin(first))
    assert signers == {thumbprint("ann"), thumbprint("bob")}
    few = with_entries(first, [bad, good[0]])
    assert refusal(lambda: check_first(few, first_pin(first))) == "statement.unsigned"


# --- K6: the successor --------------------------------------------------------------------

HONEST_SUCCESSORS: dict[str, tuple[tuple[str, ...], Callable[[], Members]]] = {
    "a renewal": (("ann", "cat"), lambda: {}),
    "issued in the same second": (("ann", "bob"), lambda: {"iat": T0}),
    "more is revoked": (
        ("ann", "bob"),
        lambda: {"revoked": sorted([thumbprint("lost"), thumbprint("x")])},
    ),
    "a card key revoked": (
        ("ann", "bob"),
        lambda: {
            "keys": [entry("card2", "card")],
            "revoked": sorted([thumbprint("lost"), thumbprint("card")]),
        },
    ),
    "a root replaced": (("ann", "bob"), lambda: {"root": quorum(2, "ann", "bob", "dan")}),
    "all roots replaced": (
        ("ann", "bob", "dan", "eli"),
        lambda: {"root": quorum(2, "dan", "eli")},
    ),
    "recovery changed by itself": (
        ("ann", "bob", "rita"),
        lambda: {"recovery": quorum(1, "rosa")},
    ),
    "recovery given up by itself": (("ann", "bob", "rita"), lambda: {"recovery": None}),
    "all trust withdrawn": (("ann", "bob"), lambda: {"keys": []}),
}


@pytest.mark.parametrize(("signers", "changes"), HONEST_SUCCESSORS.values(), ids=HONEST_SUCCESSORS)
def test_successor_passes(
    first: KeysetStatement, signers: tuple[str, ...], changes: Callable[[], Members]
) -> None:
    """K6: what the roots may do."""
    following = second(first, *signers, **changes())
    assert check_successor(first, following) == {thumbprint(name) for name in signers}


REFUSED_SUCCESSORS: dict[str, tuple[tuple[str, ...], Callable[[], Members], str]] = {
    "another issuer": (("ann", "bob"), lambda: {"issuer": "x.example"}, "statement.issuer"),
    "the same number": (("ann", "bob"), lambda: {"version": 1, "prev": None}, "statement.fork"),
    "a version left out": (("ann", "bob"), lambda: {"version": 3}, "statement.gap"),
    "a higher epoch": (
        ("ann", "bob", "rita"),
        lambda: {"epoch": 2, "version": 1, "prev": None},
        "statement.recovery",
    ),
    "a higher epoch with the next version": (
        ("ann", "bob"),
        lambda: {"epoch": 2},
        "statement.recovery",
    ),
    "prev of another": (("ann", "bob"), lambda: {"prev": "0" * 64}, "statement.prev"),
    "issued earlier": (("ann", "bob"), lambda: {"iat": T0 - 1}, "statement.rollback"),
    "a key no longer revoked": (("ann", "bob"), lambda: {"revoked": []}, "statement.unrevoked"),
    "one revoked for another": (
        ("ann", "bob"),
        lambda: {"revoked": [thumbprint("x")]},
        "statement.unrevoked",
    ),
    "one root of two": (("ann",), lambda: {}, "statement.unsigned"),
    "recovery instead of a root": (("ann", "rita"), lambda: {}, "statement.unsigned"),
    "the new roots alone": (
        ("dan", "eli"),
        lambda: {"root": quorum(2, "dan", "eli")},
        "statement.unsigned",
    ),
    "the old roots alone": (
        ("ann", "bob"),
        lambda: {"root": quorum(2, "dan", "eli")},
        "statement.unsigned",
    ),
    "a threshold lowered by one": (
        ("ann",),
        lambda: {"root": quorum(1, "ann", "bob", "cat")},
        "statement.unsigned",
    ),
    "a root's second key under a new name": (
        ("ann", "ann2"),
        lambda: {"root": quorum(2, "ann", "ann2:bob")},
        "statement.unsigned",
    ),
    "recovery changed by the roots": (
        ("ann", "bob", "cat", "rosa"),
        lambda: {"recovery": quorum(1, "rosa")},
        "statement.recovery",
    ),
    "recovery dropped by the roots": (
        ("ann", "bob", "cat"),
        lambda: {"recovery": None},
        "statement.recovery",
    ),
    "recovery's holder renamed by the roots": (
        ("ann", "bob", "cat"),
        lambda: {"recovery": quorum(1, "rita:rosa")},
        "statement.recovery",
    ),
}


@pytest.mark.parametrize(
    ("signers", "changes", "code"), REFUSED_SUCCESSORS.values(), ids=REFUSED_SUCCESSORS
)
def test_successor_is_refused(
    first: KeysetStatement, signers: tuple[str, ...], changes: Callable[[], Members], code: str
) -> None:
    """K6: every rule broken once."""
    following = second(first, *signers, **changes())
    assert refusal(lambda: check_successor(first, following)) == code


def test_what_is_not_newer_is_refused(first: KeysetStatement) -> None:
    """Neither the statement held, nor one before, nor one of a lower epoch."""
    following = second(first)
    assert refusal(lambda: check_successor(first, first)) == "statement.rollback"
    assert refusal(lambda: check_successor(following, first)) == "statement.rollback"
    recovered = signed_keyset("ann", "bob", "rita", epoch=2)
    assert refusal(lambda: check_successor(recovered, following)) == "statement.rollback"


def test_recovery_once_given_up_cannot_be_set() -> None:
    """K3: under --no-recovery no successor may set it, whoever signs."""
    held = signed_keyset("ann", "bob", recovery=None)
    following = second(held, "ann", "bob", "cat", "rita")
    assert refusal(lambda: check_successor(held, following)) == "statement.recovery"
    assert check_successor(held, second(held, recovery=None))


def test_same_payload_with_other_signatures_is_no_fork(first: KeysetStatement) -> None:
    """A statement is its payload; `prev` holds although a signature came later."""
    more = read_keyset(
        add_signatures(
            sign_statement(first.envelope.payload, [key("ann"), key("bob")], TYP_KEYSET),
            [key("cat")],
            TYP_KEYSET,
        )
    )
    assert more.digest == first.digest
    assert check_successor(more, second(first))


# --- K7: recovery -------------------------------------------------------------------------


def reopened(*signers: str, **changes: Any) -> KeysetStatement:
    """Epoch 2 with new roots."""
    opening = {"epoch": 2, "root": quorum(1, "dan"), "recovery": quorum(1, "rosa"), **changes}
    return signed_keyset(*signers, **opening)


def test_recovery_beats_every_version(first: KeysetStatement) -> None:
    """K7: a thief of all roots rotates ten times, far into the future; recovery still wins."""
    held = first
    for _ in range(10):
        revoked = sorted(held.revoked | {thumbprint(f"victim{held.version}")})
        stolen = second(held, "ann", "bob", revoked=revoked)
        check_successor(held, stolen)
        held = stolen
    recovered = reopened("rita", "dan")
    assert recovered.iat < held.iat
    for loser in (first, held):
        assert check_recovery(loser, recovered) == {thumbprint("rita"), thumbprint("dan")}
        assert refusal(lambda loser=loser: check_successor(recovered, loser)) == (
            "statement.rollback"
        )


REFUSED_RECOVERIES: dict[str, tuple[tuple[str, ...], Callable[[], Members], str]] = {
    "without recovery": (("ann", "bob", "dan"), lambda: {}, "statement.unsigned"),
    "without the new root": (("rita",), lambda: {}, "statement.unsigned"),
    "by its own recovery": (("rosa", "dan"), lambda: {}, "statement.unsigned"),
    "two epochs on": (("rita", "dan"), lambda: {"epoch": 3}, "statement.gap"),
    "not version 1": (
        ("rita", "dan"),
        lambda: {"version": 2, "prev": "0" * 64},
        "statement.gap",
    ),
    "in the same epoch": (
        ("rita", "dan"),
        lambda: {"epoch": 1, "version": 2, "prev": "0" * 64},
        "statement.gap",
    ),
    "as another version 1": (("rita", "dan"), lambda: {"epoch": 1}, "statement.fork"),
    "of another issuer": (("rita", "dan"), lambda: {"issuer": "x.example"}, "statement.issuer"),
}


@pytest.mark.parametrize(
    ("signers", "changes", "code"), REFUSED_RECOVERIES.values(), ids=REFUSED_RECOVERIES
)
def test_recovery_is_refused(
    first: KeysetStatement, signers: tuple[str, ...], changes: Callable[[], Members], code: str
) -> None:
    """K7: every rule broken once."""
    assert refusal(lambda: check_recovery(first, reopened(*signers, **changes()))) == code


def test_nobody_recovers_without_recovery_keys() -> None:
    """K3: under --no-recovery no epoch can follow."""
    held = signed_keyset("ann", "bob", recovery=None)
    assert refusal(lambda: check_recovery(held, reopened("ann", "bob", "rita", "dan"))) == (
        "statement.recovery"
    )


def test_recovery_is_no_way_back(first: KeysetStatement) -> None:
    """A lower epoch is a rollback for recovery as well."""
    assert refusal(lambda: check_recovery(reopened("rita", "dan"), first)) == "statement.rollback"


# --- K10, K11: releases -------------------------------------------------------------------


def check(
    release: ReleaseStatement, keyset: KeysetStatement, previous: ReleaseStatement | None = None
) -> frozenset[str]:
    """Check a release now."""
    return check_release(release, keyset, previous, now=NOW, skew=SKEW)


def test_release_passes(first: KeysetStatement) -> None:
    """K10: one release key of the keyset that it names."""
    release = signed_release(first, "rel")
    assert check(release, first) == {thumbprint("rel")}
    assert check(release, first, release)


REFUSED_SIGNERS: dict[str, tuple[str, ...]] = {
    "a card key": ("card",),
    "the roots": ("ann", "bob"),
    "recovery": ("rita",),
    "a stranger": ("eve",),
}


@pytest.mark.parametrize("signers", REFUSED_SIGNERS.values(), ids=REFUSED_SIGNERS)
def test_release_needs_a_release_key(first: KeysetStatement, signers: tuple[str, ...]) -> None:
    """K10: no other role will do, and besides a release key none does harm."""
    assert refusal(lambda: check(signed_release(first, *signers), first)) == "statement.unsigned"
    assert check(signed_release(first, *signers, "rel"), first) == {thumbprint("rel")}


VALIDITY: dict[str, tuple[int, int, bool]] = {
    "from now, by a clock ahead": (300, DAY, True),
    "from later": (301, DAY, False),
    "to the next second": (-DAY, 1, True),
    "until now": (-DAY, 0, False),
}


@pytest.mark.parametrize(("nbf", "exp", "valid"), VALIDITY.values(), ids=VALIDITY)
def test_release_key_is_valid_now(nbf: int, exp: int, valid: bool) -> None:
    """K10: the key counts from nbf until before exp, whatever the release says of its time."""
    keyset = signed_keyset("ann", "bob", keys=[entry("rel", "release", nbf=T0 + nbf, exp=T0 + exp)])
    release = signed_release(keyset, "rel")
    if valid:
        assert check(release, keyset) == {thumbprint("rel")}
    else:
        assert refusal(lambda: check(release, keyset)) == "statement.unsigned"


def test_release_names_exactly_its_keyset(first: KeysetStatement) -> None:
    """K10: another version, another epoch, a fork or another issuer is another keyset."""
    following = second(first)
    named = {"epoch": 1, "version": 1, "digest": first.digest}
    for changes in ({"epoch": 2}, {"version": 2}, {"digest": "0" * 64}):
        release = signed_release(first, "rel", keyset={**named, **changes})
        assert refusal(lambda release=release: check(release, first)) == "statement.keyset"
    stale = signed_release(first, "rel")
    assert refusal(lambda: check(stale, following)) == "statement.keyset"
    foreign = signed_release(first, "rel", issuer="x.example")
    assert refusal(lambda: check(foreign, first)) == "statement.issuer"


PREVIOUS: dict[str, tuple[Members, str]] = {
    "the next number": ({"seq": 6}, ""),
    "a floor that rises": ({"seq": 6, "floor": {URL: 5, "extended": 2}}, ""),
    "a floor more": ({"seq": 6, "floor": {URL: 3, "extended": 2, URL + "/x": 1}}, ""),
    "a lower number": ({"seq": 4}, "statement.rollback"),
    "the same number": ({"exp": T0 + DAY}, "statement.fork"),
    "a floor that falls": ({"seq": 6, "floor": {URL: 2, "extended": 2}}, "statement.floor"),
    "a floor of extended cards that falls": (
        {"seq": 6, "floor": {URL: 3, "extended": 1}},
        "statement.floor",
    ),
    "a floor that vanishes": ({"seq": 6, "floor": {"extended": 2}}, "statement.floor"),
}


@pytest.mark.parametrize(("changes", "code"), PREVIOUS.values(), ids=PREVIOUS)
def test_release_after_another(first: KeysetStatement, changes: Members, code: str) -> None:
    """K10: order, forks and floors within one keyset version."""
    previous, release = signed_release(first, "rel"), signed_release(first, "rel", **changes)
    if code:
        assert refusal(lambda: check(release, first, previous)) == code
    else:
        assert check(release, first, previous) == {thumbprint("rel")}


def test_a_release_takes_no_revocation_back(first: KeysetStatement) -> None:
    """K11: what a release revoked, every later one of the same keyset version repeats."""
    card = sorted([thumbprint("card")])
    previous = signed_release(first, "rel", revoked=card)
    forgetful = signed_release(first, "rel", seq=6)
    faithful = signed_release(first, "rel", seq=6, revoked=card)

    assert refusal(lambda: check(forgetful, first, previous)) == "statement.unrevoked"
    assert check(faithful, first, previous) == {thumbprint("rel")}
    under_the_next = signed_release(second(first), "rel2", seq=6)
    assert check(under_the_next, second(first), previous) == {thumbprint("rel2")}


def test_new_keyset_ends_a_fast_forward(first: KeysetStatement) -> None:
    """K10: a thief counts to 2^53-1; the next keyset version starts again, floors included."""
    most = 2**53 - 1
    thief = signed_release(first, "rel", seq=most, floor={URL: most})
    assert check(thief, first)
    following = second(first)
    honest = signed_release(following, "rel2")
    assert check(honest, following, thief) == {thumbprint("rel2")}
    assert refusal(lambda: check(thief, first, honest)) == "statement.rollback"
    same = signed_release(first, "rel2")
    assert refusal(lambda: check(same, first, thief)) == "statement.rollback"


def test_previous_release_is_of_the_same_issuer(first: KeysetStatement) -> None:
    """A release held for another issuer is no measure."""
    foreign = signed_keyset("ann", "bob", issuer="x.example")
    held = signed_release(foreign, "rel", issuer="x.example")
    assert refusal(lambda: check(signed_release(first, "rel"), first, held)) == "statement.issuer"


REVOKING: dict[str, tuple[str, str]] = {
    "a card key": ("card", ""),
    "another release key": ("rel2", ""),
    "its own signer": ("rel", "statement.revoked"),
    "a root": ("ann", "statement.revoked"),
    "a recovery key": ("rita", "statement.revoked"),
    "a stranger": ("eve", "statement.revoked"),
    "what the keyset revokes already": ("lost", "statement.revoked"),
}


@pytest.mark.parametrize(("name", "code"), REVOKING.values(), ids=REVOKING)
def test_release_revokes(first: KeysetStatement, name: str, code: str) -> None:
    """K11: any other card or release key, and nothing else."""
    release = signed_release(first, "rel", revoked=[thumbprint(name)])
    if code:
        assert refusal(lambda: check(release, first)) == code
    else:
        assert check(release, first) == {thumbprint("rel")}
        assert effective_revoked(first, release) == first.revoked | {thumbprint(name)}


def test_thief_cannot_spoil_his_own_revocation(first: KeysetStatement) -> None:
    """The signature of the key revoked, added in transit, neither counts nor harms."""
    payload = signed_release(first, "rel", revoked=[thumbprint("rel2")]).envelope.payload
    both = read_release(sign_statement(payload, [key("rel2"), key("rel")], TYP_RELEASE))
    assert check(both, first) == {thumbprint("rel"), thumbprint("rel2")}
    alone = read_release(sign_statement(payload, [key("rel2")], TYP_RELEASE))
    assert refusal(lambda: check(alone, first)) == "statement.revoked"


def test_revoked_is_the_union_until_the_next_keyset(first: KeysetStatement) -> None:
    """K11: a higher keyset version, or a new epoch, confirms or drops what a release revoked."""
    release = signed_release(first, "rel", revoked=[thumbprint("card")])
    assert effective_revoked(first, None) == {thumbprint("lost")}
    assert effective_revoked(first, release) == {thumbprint("lost"), thumbprint("card")}
    assert effective_revoked(second(first), release) == {thumbprint("lost")}
    assert effective_revoked(reopened("rita", "dan"), release) == frozenset()


def test_revoked_by_a_release_of_another_keyset(first: KeysetStatement) -> None:
    """What is neither this keyset nor an older one is no reason to forget a revocation."""
    fork = signed_keyset("ann", "cat", exp=first.exp - 1)
    newer = second(first)
    foreign = signed_keyset("ann", issuer="x.example")
    for release in (
        signed_release(fork, "rel"),
        signed_release(newer, "rel"),
        signed_release(foreign, "rel", issuer="x.example"),
    ):
        assert refusal(lambda release=release: effective_revoked(first, release)) == (
            "statement.keyset"
        )
