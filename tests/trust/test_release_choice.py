"""Which release speaks, where keys revoke one another and a thief holds one of them (K10, K11)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

import pytest

from cardsign.findings import Finding
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.trust.lock import Floor
from cardsign.trust.walk import choose_release
from tests.statements.making import DAY, NOW, T0, thumbprint
from tests.trust.establishing import codes
from tests.trust.histories import keyset, release


@pytest.fixture(scope="module")
def one() -> bytes:
    """A keyset with the release keys `rel` and `rel2`, the second of them stolen."""
    return keyset("ann", "bob")


NOTHING_LOCKED = Floor()


class Choice(NamedTuple):
    """What was chosen, and why others were left out."""

    release: ReleaseStatement | None
    revoked: frozenset[str]
    contested: Finding | None
    notes: list[Finding]


def choose(
    under: bytes,
    offered: list[ReleaseStatement],
    held: bytes | None = None,
    locked: Floor = NOTHING_LOCKED,
) -> Choice:
    """What comes of releases in this order."""
    notes: list[Finding] = []
    known = None if held is None else read_release(held)
    chosen = choose_release(
        known, offered, read_keyset(under), locked, notes, now=NOW, skew=timedelta(0)
    )
    return Choice(*chosen, notes)


def chosen(under: bytes, releases: Iterable[bytes], held: bytes | None = None) -> Choice:
    """What comes of releases, in whatever order."""
    orders = itertools.permutations(map(read_release, releases))
    choices = [choose(under, list(order), held) for order in orders]
    assert len({choice[:3] for choice in choices}) == 1, "the order of arrival decides"
    return choices[0]


def number(choice: Choice) -> int | None:
    """The number of the release that was chosen."""
    return None if choice.release is None else choice.release.seq


def test_a_revoked_key_does_not_unsay_its_revocation(one: bytes) -> None:
    """Neither by a release of the same number nor by a higher one, known before or not."""
    honest = release(one, seq=6, revoked=[thumbprint("rel2")])
    thiefs = [release(one, "rel2", seq=seq) for seq in (6, 7)]
    five = release(one, seq=5)

    for held in (None, five):
        for others in (thiefs[:1], thiefs[1:], thiefs):
            choice = chosen(one, [honest, *others], held)
            assert (number(choice), choice.contested) == (6, None)
            assert choice.revoked == {thumbprint("rel2")}
            assert "statement.revoked" in codes(choice.notes)
    assert number(chosen(one, thiefs, honest)) == 6
    assert number(chosen(one, thiefs[1:], five)) == 7  # who has not heard of it believes him


def test_who_revoke_one_another_both_deny(one: bytes) -> None:
    """Neither speaks, and what both revoke is revoked: only the roots can tell them apart."""
    honest = release(one, seq=6, revoked=sorted([thumbprint("rel2")]))
    thiefs = release(one, "rel2", seq=7, revoked=sorted([thumbprint("rel"), thumbprint("card")]))

    choice = chosen(one, [honest, thiefs])
    assert number(choice) is None
    assert choice.revoked == {thumbprint(name) for name in ("rel", "rel2", "card")}
    assert number(chosen(one, [thiefs], honest)) == 6  # his word is worth nothing from then on
    assert chosen(one, [thiefs], honest).revoked == {thumbprint("rel2")}


def test_of_two_of_one_number_neither_is_believed(one: bytes) -> None:
    """And nobody knows what is current, until there is a higher one that settles it."""
    five, six, other = (
        release(one, seq=5),
        release(one, seq=6),
        release(one, "rel2", seq=6, exp=T0 + DAY),
    )
    choice = chosen(one, [six, other], five)
    assert number(choice) == 5
    assert choice.contested is not None
    assert choice.contested.code == "statement.fork"

    settled = chosen(one, [six, other, release(one, seq=7)])
    assert (number(settled), settled.contested) == (7, None)


def test_the_lock_decides_between_two_releases_of_its_number(one: bytes) -> None:
    """The other one was never seen by whoever raised the lock; without a lock neither counts."""
    ours = read_release(release(one, seq=6))
    other = read_release(release(one, "rel2", seq=6, exp=T0 + DAY))
    locked = Floor(release=ours.order, digest=ours.digest)
    for floor, accepted in ((locked, ours), (NOTHING_LOCKED, None)):
        choice = choose(one, [other, ours], locked=floor)
        assert choice.release == accepted
        assert codes(choice.notes) == ["statement.fork"]
