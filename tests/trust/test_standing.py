"""What holds for one issuer at one time: whose key, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cardsign.findings import Finding
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import IssuerKey, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import KeysAnchor, Limits
from cardsign.trust.session import IssuerTrust, end_of
from tests.jose.statement_making import DAY, T0, key, thumbprint
from tests.trust.establishing import enrolled
from tests.trust.histories import keyset, release

ANN = IssuerKey(key("ann").public, holder="ann")
BOB = IssuerKey(key("bob").public, holder="bob")
ONE = keyset("ann", "bob")
KEYSET = read_keyset(ONE)
RELEASE = read_release(release(ONE))
PLAIN = IssuerTrust(enrolled(KeysAnchor(JwkSet.of([]))), Limits(), (ANN,))


def test_a_key_is_found_by_its_kid() -> None:
    """The first of a kid, or none."""
    standing = replace(PLAIN, keys=(ANN, BOB))

    assert standing.keys_by_kid[thumbprint("bob")] is BOB
    assert standing.keys_by_kid.keys().isdisjoint({thumbprint("eve"), ""})


def test_only_a_clock_behind_is_one() -> None:
    """Other blocks say nothing about the clock."""
    codes = ("time.historic", "time.clock_behind")
    behind = tuple(Finding(code, "x") for code in codes)

    assert replace(PLAIN, blocks=behind).clock_is_behind
    assert not replace(PLAIN, blocks=behind[:1]).clock_is_behind


@pytest.mark.parametrize(
    ("most", "ends"),
    [
        (None, RELEASE.exp),
        (1, RELEASE.iat + 1),
        (7 * DAY - 1, RELEASE.exp - 1),
        (7 * DAY, RELEASE.exp),
        (8 * DAY, RELEASE.exp),
    ],
)
def test_a_policy_shortens_and_never_lengthens(most: int | None, ends: int) -> None:
    """The end is the statement's, or an age that comes before it."""
    assert end_of(RELEASE, most) == ends


def test_deadlines_are_those_of_the_statements() -> None:
    """Each by the limit that is its own; none without statements."""
    limits = Limits(keyset_age=31 * DAY, release_age=DAY)
    both = replace(PLAIN, keyset=KEYSET, release=RELEASE)

    assert PLAIN.deadlines == ()
    assert replace(PLAIN, keyset=KEYSET).deadlines == (T0 + 60 * DAY,)
    assert both.deadlines == (T0 + 60 * DAY, T0 + 7 * DAY)
    assert replace(both, limits=limits).deadlines == (T0 + DAY, T0 + DAY)
