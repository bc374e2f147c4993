"""By what right statements speak (K5 to K8, K10, K11), beside what tests/vectors decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cardsign.statements.envelope import TYP_KEYSET
from cardsign.statements.keyset import (
    KeysetId,
    KeysetStatement,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
)
from cardsign.statements.release import ReleaseStatement, check_release, effective_revoked
from cardsign.statements.signing import add_signatures, sign_statement
from tests.statements.making import (
    DAY,
    NOW,
    T0,
    Members,
    entry,
    key,
    quorum,
    refusal,
    signed_keyset,
    signed_release,
    thumbprint,
)

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


# --- K8: the first statement --------------------------------------------------------------


def test_pin_has_all_three_parts(first: KeysetStatement) -> None:
    """Epoch, version and digest must all fit."""
    for pin in (
        KeysetId(2, 1, first.digest),
        KeysetId(1, 2, first.digest),
        KeysetId(1, 1, "0" * 64),
    ):
        assert refusal(lambda pin=pin: check_first(first, pin)) == "statement.anchor"


# --- K6: the successor --------------------------------------------------------------------

HONEST_SUCCESSORS: dict[str, tuple[tuple[str, ...], Callable[[], Members]]] = {
    "issued in the same second": (("ann", "bob"), lambda: {"iat": T0}),
    "a card key revoked": (
        ("ann", "bob"),
        lambda: {
            "keys": [entry("card2", "card")],
            "revoked": sorted([thumbprint("lost"), thumbprint("card")]),
        },
    ),
    "all trust withdrawn": (("ann", "bob"), lambda: {"keys": []}),
}


@pytest.mark.parametrize(("signers", "changes"), HONEST_SUCCESSORS.values(), ids=HONEST_SUCCESSORS)
def test_successor_passes(
    first: KeysetStatement, signers: tuple[str, ...], changes: Callable[[], Members]
) -> None:
    """K6: what the roots may do, beside what the vectors of statements show."""
    check_successor(first, second(first, *signers, **changes()))


REFUSED_SUCCESSORS: dict[str, tuple[tuple[str, ...], Callable[[], Members], str]] = {
    "a higher epoch with the next version": (("ann", "bob"), lambda: {"epoch": 2}, "statement.gap"),
    "one revoked for another": (
        ("ann", "bob"),
        lambda: {"revoked": [thumbprint("x")]},
        "statement.unrevoked",
    ),
    "a root's second key under a new name": (
        ("ann", "ann2"),
        lambda: {"root": quorum(2, "ann", "ann2:bob")},
        "statement.unsigned",
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
    """K6: what no vector of statements breaks."""
    following = second(first, *signers, **changes())
    assert refusal(lambda: check_successor(first, following)) == code


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
    check_successor(more, second(first))


# --- K7: recovery -------------------------------------------------------------------------


def reopened(*signers: str, **changes: Any) -> KeysetStatement:
    """Epoch 2 with new roots."""
    opening = {"epoch": 2, "root": quorum(1, "dan"), "recovery": quorum(1, "rosa"), **changes}
    return signed_keyset(*signers, **opening)


REFUSED_RECOVERIES: dict[str, tuple[tuple[str, ...], Callable[[], Members], str]] = {
    "by its own recovery": (("rosa", "dan"), lambda: {}, "statement.unsigned"),
    "in the same epoch": (
        ("rita", "dan"),
        lambda: {"epoch": 1, "version": 2, "prev": "0" * 64},
        "statement.gap",
    ),
    "as another version 1": (("rita", "dan"), lambda: {"epoch": 1}, "statement.fork"),
}


@pytest.mark.parametrize(
    ("signers", "changes", "code"), REFUSED_RECOVERIES.values(), ids=REFUSED_RECOVERIES
)
def test_recovery_is_refused(
    first: KeysetStatement, signers: tuple[str, ...], changes: Callable[[], Members], code: str
) -> None:
    """K7: what no vector of statements breaks."""
    assert refusal(lambda: check_recovery(first, reopened(*signers, **changes()))) == code


def test_recovery_is_no_way_back(first: KeysetStatement) -> None:
    """A lower epoch is a rollback for recovery as well."""
    assert refusal(lambda: check_recovery(reopened("rita", "dan"), first)) == "statement.rollback"


# --- K10, K11: releases -------------------------------------------------------------------


def check(
    release: ReleaseStatement, keyset: KeysetStatement, previous: ReleaseStatement | None = None
) -> frozenset[str]:
    """Check a release now."""
    return check_release(release, keyset, previous, now=NOW, skew=SKEW)


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


def test_previous_release_is_of_the_same_issuer(first: KeysetStatement) -> None:
    """A release held for another issuer is no measure."""
    foreign = signed_keyset("ann", "bob", issuer="x.example")
    held = signed_release(foreign, "rel", issuer="x.example")
    assert refusal(lambda: check(signed_release(first, "rel"), first, held)) == "statement.issuer"


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
