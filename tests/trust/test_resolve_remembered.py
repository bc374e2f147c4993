"""How an issuer stands by memory alone, and what will need a person soon."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import KeysetId
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Limits, TrustedIssuer
from cardsign.trust.resolve import KEYSET_NOTICE, resolve_remembered
from cardsign.trust.state import IssuerState
from cardsign.urls import parse_place
from tests.jose.statement_making import DAY, NOW, T0, signed_keyset, signed_release
from tests.trust.establishing import codes

KEYSET = signed_keyset("ann", "bob")
RELEASE = signed_release(KEYSET, "rel")
LATER = signed_release(KEYSET, "rel", iat=T0 + 80 * DAY, exp=T0 + 87 * DAY, seq=6)


def anchor() -> KeysetAnchor:
    """The anchor that is the statement."""
    return KeysetAnchor(KeysetId(1, 1, KEYSET.digest))


CASES: dict[str, tuple[Any, float, dict[str, str], list[str]]] = {
    "just met": (RELEASE, 0, {}, []),
    "before half of the release's time": (RELEASE, 3.4, {}, []),
    "after half of it": (RELEASE, 3.5, {}, ["peer.statement_ends"]),
    "after all of it": (RELEASE, 7, {}, ["statement.expired"]),
    "the same where freshness is waived": (RELEASE, 7, {"freshness": "waived"}, []),
    "no release": (None, 0, {}, ["trust.freshness_unknown"]),
    "a clock behind": (RELEASE, -1, {}, ["time.clock_behind", "statement.not_yet"]),
    "a keyset that ends soon": (LATER, 80, {}, ["peer.statement_ends"]),
    "a keyset that has ended": (LATER, 90, {}, ["statement.expired"]),
}


@pytest.mark.parametrize(("release", "days", "changes", "expected"), CASES.values(), ids=CASES)
def test_what_needs_a_person(
    release: Any, days: float, changes: dict[str, Any], expected: list[str]
) -> None:
    """What keeps cards from being trusted comes first, then what soon will."""
    enrolled = TrustedIssuer("tides", anchor(), (parse_place("https://tides.example"),), **changes)
    newest = T0 if release is RELEASE else 0
    known = replace(IssuerState.begin(enrolled, KEYSET, release), newest_iat=newest)
    _, alarms = resolve_remembered(enrolled, Limits(), known, now=NOW + timedelta(days=days))
    assert codes(alarms)[: len(expected)] == expected
    assert bool(alarms) is bool(expected)


def test_until_when() -> None:
    """The least of all deadlines, of which a policy may set an earlier one."""
    enrolled = TrustedIssuer("tides", anchor(), None)
    known = IssuerState.begin(enrolled, KEYSET, RELEASE)
    assert min(resolve_remembered(enrolled, Limits(), known, now=NOW)[0].deadlines) == RELEASE.exp
    strict = Limits(keyset_age=DAY)
    trust, alarms = resolve_remembered(enrolled, strict, known, now=NOW)
    assert (min(trust.deadlines), codes(alarms)) == (T0 + DAY, ["peer.statement_ends"])
    assert DAY < KEYSET_NOTICE


def test_who_was_never_met() -> None:
    """Nothing is known of him, and that is said; of pinned keys there is nothing to know."""
    enrolled = TrustedIssuer("tides", anchor(), ())
    trust, alarms = resolve_remembered(enrolled, Limits(), IssuerState.begin(enrolled), now=NOW)
    assert (codes(alarms), trust.deadlines) == (["trust.no_keys"], ())
    keys = KeysAnchor(JwkSet.of([KEYSET.keys[0].public]))
    pinned = TrustedIssuer("tides", keys, (), freshness="waived")
    assert resolve_remembered(pinned, Limits(), IssuerState.begin(pinned), now=NOW)[1] == ()
