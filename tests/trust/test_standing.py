"""What holds for one issuer at one time: whose key, until when, and the same as before or not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cardsign.findings import Finding
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import IssuerKey, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import KeysAnchor, Limits
from cardsign.trust.resolve import IssuerTrust, Weight, end_of
from tests.jose.statement_making import DAY, NOW, T0, key, thumbprint
from tests.trust.establishing import enrolled
from tests.trust.histories import after, keyset, release

ANN = IssuerKey(key("ann").public, holder="ann")
BOB = IssuerKey(key("bob").public, holder="bob")
ONE = keyset("ann", "bob")
KEYSET = read_keyset(ONE)
RELEASE = read_release(release(ONE))
PLAIN = IssuerTrust(enrolled(KeysAnchor(JwkSet.of([]))), NOW, Limits(), (ANN,))


def test_a_key_is_found_by_its_kid() -> None:
    """The first of a kid, or none."""
    standing = replace(PLAIN, keys=(ANN, BOB))

    assert standing.find(thumbprint("bob")) is BOB
    assert standing.find(thumbprint("eve")) is None
    assert standing.find("") is None


def test_only_a_clock_behind_is_one() -> None:
    """Other blocks say nothing about the clock."""
    codes = ("time.historic", "time.clock_behind")
    behind = tuple(("blocks", Finding(code, "x")) for code in codes)

    assert replace(PLAIN, found=behind).clock_is_behind
    assert not replace(PLAIN, found=behind[:1]).clock_is_behind


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


def weighed(weight: Weight, code: str, message: str = "x") -> dict[str, Any]:
    """One reason of this weight."""
    return {"found": ((weight, Finding(code, message)),)}


DIFFERENCES: dict[str, dict[str, Any]] = {
    "another issuer": {"issuer": replace(PLAIN.issuer, name="lamp")},
    "no source": {"has_source": False},
    "another key": {"keys": (BOB,)},
    "a key more": {"keys": (ANN, BOB)},
    "a key under another kid": {
        "keys": (replace(ANN, public=replace(ANN.public, kid="ann-2026")),)
    },
    "a key without the role card": {"keys": (replace(ANN, roles=("release",)),)},
    "a revocation": {"revoked": frozenset({thumbprint("ann")})},
    "a keyset": {"keyset": KEYSET},
    "another keyset": {"keyset": read_keyset(after(ONE))},
    "a release": {"release": RELEASE},
    "another release": {"release": read_release(release(ONE, seq=6))},
    "a hindrance": weighed("hinders", "state.none"),
    "a block": weighed("blocks", "time.historic"),
    "a note": weighed("notes", "statement.gap"),
    "another note": weighed("notes", "statement.gap", "y"),
}


def test_what_differs_has_different_fingerprints() -> None:
    """A verdict of before is not reused where something else is known."""
    prints = {name: replace(PLAIN, **change).fingerprint for name, change in DIFFERENCES.items()}

    assert len({PLAIN.fingerprint, *prints.values()}) == len(DIFFERENCES) + 1


def test_the_time_is_not_in_the_fingerprint() -> None:
    """Or no verdict would ever be reused; its deadlines see to that."""
    assert replace(PLAIN, now=NOW + timedelta(days=1)).fingerprint == PLAIN.fingerprint
