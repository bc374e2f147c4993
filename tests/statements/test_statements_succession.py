"""By what right statements speak (K5 to K8, K10, K11), beside what tests/vectors decide."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from cardsign.statements.keyset import (
    KeysetStatement,
    check_first,
    check_recovery,
    check_successor,
    read_keyset,
    sign_keyset,
)
from cardsign.statements.release import ReleaseStatement, check_release, effective_revoked
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

ROOTS = ("ann", "bob")
#: Version 1, with two of three roots.
FIRST = signed_keyset(*ROOTS, revoked=[thumbprint("lost")])


def second(*signers: str, **changes: Any) -> KeysetStatement:
    """The next version with these changes, signed by these, else by the roots ann and bob."""
    honest = {"version": 2, "prev": FIRST.digest, "iat": FIRST.iat + DAY, "exp": FIRST.exp + DAY}
    honest["revoked"] = sorted(FIRST.revoked)
    return signed_keyset(*(signers or ROOTS), **{**honest, **changes})


# --- K8: the first statement --------------------------------------------------------------


@pytest.mark.parametrize("part", [{"epoch": 2}, {"version": 2}, {"digest": "0" * 64}], ids=str)
def test_pin_has_all_three_parts(part: dict[str, Any]) -> None:
    """Epoch, version and digest must all fit."""
    pin = replace(FIRST.id, **part)
    assert refusal(lambda: check_first(FIRST, pin)) == "statement.anchor"


# --- K6: the successor --------------------------------------------------------------------

LOST_CARD = sorted([thumbprint("lost"), thumbprint("card")])
TWICE_ANN = {"root": quorum(2, "ann", "ann2:bob")}
RENAMED = {"recovery": quorum(1, "rita:rosa")}
#: Who signs, what the next version says, and the code; none where it passes.
SUCCESSORS: dict[str, tuple[tuple[str, ...], Members, str]] = {
    "issued in the same second": (ROOTS, {"iat": T0}, ""),
    "a card key revoked": (ROOTS, {"keys": [entry("card2", "card")], "revoked": LOST_CARD}, ""),
    "all trust withdrawn": (ROOTS, {"keys": []}, ""),
    "a higher epoch with the next version": (ROOTS, {"epoch": 2}, "gap"),
    "one revoked for another": (ROOTS, {"revoked": [thumbprint("x")]}, "unrevoked"),
    "a root's second key under a new name": (("ann", "ann2"), TWICE_ANN, "unsigned"),
    "recovery's holder renamed by the roots": ((*ROOTS, "cat"), RENAMED, "recovery"),
}


@pytest.mark.parametrize(("signers", "changes", "code"), SUCCESSORS.values(), ids=SUCCESSORS)
def test_successor(signers: tuple[str, ...], changes: Members, code: str) -> None:
    """K6: what the roots may do and may not, beside what the vectors of statements show."""
    check = partial(check_successor, FIRST, second(*signers, **changes))
    if code:
        assert refusal(check) == f"statement.{code}"
    else:
        check()


def test_same_payload_with_other_signatures_is_no_fork() -> None:
    """A statement is its payload; `prev` holds although a signature came later."""
    signed = sign_keyset(FIRST.envelope.payload, map(key, ROOTS))
    kept = read_keyset(signed).envelope.signatures
    more = read_keyset(sign_keyset(FIRST.envelope.payload, [key("cat")], kept))
    assert more.digest == FIRST.digest
    check_successor(more, second())


# --- K7: recovery -------------------------------------------------------------------------


def reopened(*signers: str, **changes: Any) -> KeysetStatement:
    """Epoch 2 with new roots."""
    opening = {"epoch": 2, "root": quorum(1, "dan"), "recovery": quorum(1, "rosa"), **changes}
    return signed_keyset(*signers, **opening)


SAME_EPOCH = {"epoch": 1, "version": 2, "prev": "0" * 64}
RECOVERIES: dict[str, tuple[tuple[str, ...], Members, str]] = {
    "by its own recovery": (("rosa", "dan"), {}, "statement.unsigned"),
    "in the same epoch": (("rita", "dan"), SAME_EPOCH, "statement.gap"),
    "as another version 1": (("rita", "dan"), {"epoch": 1}, "statement.fork"),
}


@pytest.mark.parametrize(("signers", "changes", "code"), RECOVERIES.values(), ids=RECOVERIES)
def test_recovery_is_refused(signers: tuple[str, ...], changes: Members, code: str) -> None:
    """K7: what no vector of statements breaks."""
    assert refusal(lambda: check_recovery(FIRST, reopened(*signers, **changes))) == code


def test_recovery_is_no_way_back() -> None:
    """A lower epoch is a rollback for recovery as well."""
    assert refusal(lambda: check_recovery(reopened("rita", "dan"), FIRST)) == "statement.rollback"


# --- K10, K11: releases -------------------------------------------------------------------


def check(
    release: ReleaseStatement, keyset: KeysetStatement, previous: ReleaseStatement | None = None
) -> frozenset[str]:
    """Check a release now."""
    return check_release(release, keyset, previous, now=NOW, skew=timedelta(seconds=300))


VALIDITY: dict[str, tuple[int, int, bool]] = {
    "from now, by a clock ahead": (300, DAY, True),
    "from later": (301, DAY, False),
    "to the next second": (-DAY, 1, True),
    "until now": (-DAY, 0, False),
}


@pytest.mark.parametrize(("nbf", "exp", "valid"), VALIDITY.values(), ids=VALIDITY)
def test_release_key_is_valid_now(nbf: int, exp: int, valid: bool) -> None:
    """K10: the key counts from nbf until before exp, whatever the release says of its time."""
    keyset = signed_keyset(*ROOTS, keys=[entry("rel", "release", nbf=T0 + nbf, exp=T0 + exp)])
    release = signed_release(keyset, "rel")
    if valid:
        assert check(release, keyset) == {thumbprint("rel")}
    else:
        assert refusal(lambda: check(release, keyset)) == "statement.unsigned"


def test_a_release_takes_no_revocation_back() -> None:
    """K11: what a release revoked, every later one of the same keyset version repeats."""
    card, newer = [thumbprint("card")], second()
    previous = signed_release(FIRST, "rel", revoked=card)
    forgetful = signed_release(FIRST, "rel", seq=6)
    faithful = signed_release(FIRST, "rel", seq=6, revoked=card)
    assert refusal(lambda: check(forgetful, FIRST, previous)) == "statement.unrevoked"
    assert check(faithful, FIRST, previous) == {thumbprint("rel")}
    assert check(signed_release(newer, "rel2", seq=6), newer, previous) == {thumbprint("rel2")}


def test_previous_release_is_of_the_same_issuer() -> None:
    """A release held for another issuer is no measure."""
    foreign = signed_keyset(*ROOTS, issuer="x.example")
    held = signed_release(foreign, "rel", issuer="x.example")
    assert refusal(lambda: check(signed_release(FIRST, "rel"), FIRST, held)) == "statement.issuer"


def test_revoked_by_a_release_of_another_keyset() -> None:
    """What is neither this keyset nor an older one is no reason to forget a revocation."""
    fork = signed_keyset("ann", "cat", exp=FIRST.exp - 1)
    foreign = signed_keyset("ann", issuer="x.example")
    for release in (
        signed_release(fork, "rel"),
        signed_release(second(), "rel"),
        signed_release(foreign, "rel", issuer="x.example"),
    ):
        assert refusal(partial(effective_revoked, FIRST, release)) == "statement.keyset"
