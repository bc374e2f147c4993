"""Establishing who may speak: one anchor, one source, and what holds of it now (V4, V5, K8-K11)."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Anchor, KeysAnchor, KeysetAnchor
from cardsign.trust.session import IssuerTrust
from cardsign.urls import parse_url
from tests.statements.making import DAY, T0, entry, key, thumbprint
from tests.trust.establishing import ORIGIN, anchored, codes, number, session_of, stand
from tests.trust.histories import after, keyset, release

JWKS_URL = f"{ORIGIN}/jwks.json"


def jwks(*names: str) -> bytes:
    """A JWK Set of these keys."""
    return JwkSet.of(key(name).public for name in names).to_bytes()


def names(trust: IssuerTrust, *candidates: str) -> set[str]:
    """Which of these keys are accepted."""
    accepted = {accepted.public.thumbprint for accepted in trust.keys}
    return {name for name in candidates if thumbprint(name) in accepted}


@pytest.fixture(scope="module")
def one() -> bytes:
    """Version 1."""
    return keyset("ann", "bob")


@pytest.fixture(scope="module")
def two(one: bytes) -> bytes:
    """Version 2: the key `card` is revoked, `card2` has come."""
    keys = [entry("card2", "card"), entry("rel", "release")]
    return after(one, keys=keys, revoked=[thumbprint("card")])


@pytest.fixture(scope="module")
def anchor(one: bytes) -> KeysetAnchor:
    """The pin of version 1."""
    return anchored(one)


# ------------------------------------------------------------------ by the source of each anchor


def test_pinned_keys_are_all_there_is(one: bytes) -> None:
    """Whatever comes along besides is not even looked at."""
    pinned = KeysAnchor(JwkSet.of([key("ann").public, key("bob").public]), {thumbprint("ann"): "a"})
    along = {"untrusted_jwks": jwks("eve"), "jwks_url": JWKS_URL}
    laden = stand(pinned, [one, b"junk"], [release(one)], **along)
    assert laden == stand(pinned)
    held = [(found.public.thumbprint, found.holder, found.roles) for found in laden.keys]
    assert held == [(thumbprint("ann"), "a", ("card",)), (thumbprint("bob"), "", ("card",))]
    assert (laden.offered, laden.notes) == (None, [])


PRIVATE = b'{"keys":[{"kty":"oct","k":"AAAA"}]}'
FAILURES: dict[str, dict[str, Any]] = {
    "nothing came": {},
    "what came is no key set": {"untrusted_jwks": b"<html>", "jwks_url": JWKS_URL},
    "it holds a private key": {"untrusted_jwks": PRIVATE, "jwks_url": JWKS_URL},
    "it came from elsewhere": {"untrusted_jwks": jwks("eve"), "jwks_url": f"{ORIGIN}/jwks"},
    "it came from nowhere that is known": {"untrusted_jwks": jwks("eve")},
}


@pytest.mark.parametrize("came", FAILURES.values(), ids=FAILURES)
def test_a_failure_evicts_nothing(came: dict[str, Any]) -> None:
    """A key set comes from its own URL; else the set of before stays (threat 13)."""
    session, known = session_of(parse_url(JWKS_URL)), jwks("ann")
    trust = stand(session, untrusted_jwks=known, jwks_url=JWKS_URL)
    assert (names(trust, "ann"), trust.offered) == ({"ann"}, None)
    assert names(stand(session, **came), "ann", "eve") == {"ann"}
    trust = stand(parse_url(JWKS_URL), **came)
    assert not trust.keys
    assert trust.blocks[-1].code == "trust.no_keys"


def test_the_newest_statement_says_whose_keys_count(
    anchor: KeysetAnchor, one: bytes, two: bytes
) -> None:
    """Its keys with their roles, holders and times, its origins, and what it revokes."""
    trust = stand(anchor, [two, one], [release(two, revoked=[thumbprint("card2")])])
    assert number(trust) == (1, 2)
    assert trust.keys == read_keyset(two).keys
    assert [(found.roles, found.holder, found.nbf, found.exp) for found in trust.keys] == [
        (("card",), "harbour", T0 - DAY, T0 + 300 * DAY),
        (("release",), "harbour", T0 - DAY, T0 + 300 * DAY),
    ]
    assert [str(origin) for origin in trust.origins or ()] == [ORIGIN]
    assert trust.revoked == {thumbprint("card"), thumbprint("card2")}
    assert trust.release is not None
    assert (trust.hindrances, trust.blocks, trust.notes) == ([], [], [])


ANCHORS: dict[str, Anchor] = {
    "pinned keys": KeysAnchor(JwkSet.of([])),
    "a key set": parse_url(JWKS_URL),
    "a keyset": KeysetAnchor(KeysetId(1, 1, "0" * 64)),
}


@pytest.mark.parametrize("source", ANCHORS.values(), ids=ANCHORS)
def test_no_anchor_falls_back_upon_another(source: Anchor, one: bytes) -> None:
    """Everything that another anchor would take comes along, and no key is accepted."""
    along: dict[str, Any] = {"untrusted_jwks": jwks("ann"), "jwks_url": f"{ORIGIN}/other.json"}
    assert stand(source, [one], [release(one)], **along).keys == ()


# ------------------------------------------------------------------ memory and clock


def test_what_was_kept_needs_no_evidence(anchor: KeysetAnchor, one: bytes, two: bytes) -> None:
    """The next verdict stands upon the last one's steps, and upon nothing lower."""
    session = session_of(anchor)
    first, again = stand(session, [one, two], [release(two)]), stand(session)
    lower = stand(session, [one], [release(one, seq=99)])
    for trust in (again, lower):
        assert (trust.keyset, trust.release) == (first.keyset, first.release)
    assert codes(lower.notes) == ["statement.keyset"]


def test_nothing_is_kept_of_a_time_of_one_s_choice(
    anchor: KeysetAnchor, one: bytes, two: bytes
) -> None:
    """It is walked all the same, and nothing can be trusted by it."""
    session = session_of(anchor)
    trust = stand(session, [one, two], [release(two)], historic=True)
    assert (number(trust), session.keyset, session.passed) == ((1, 2), None, ())
    assert codes(trust.blocks) == ["time.historic"]


def test_a_release_below_the_lock_blocks_whatever_is_waived(
    anchor: KeysetAnchor, one: bytes
) -> None:
    """Also one that this session has held."""
    locked = Floor(release=(1, 1, 6), digest="0" * 64)
    session = session_of(anchor, locked)
    session.keyset, session.release = read_keyset(one), read_release(release(one, seq=5))
    assert codes(stand(session).blocks) == ["statement.rollback"]


def test_two_releases_of_one_number_leave_open_which_card_is_current(
    anchor: KeysetAnchor, one: bytes
) -> None:
    """Though an earlier one was accepted, until a higher one settles it."""
    six, other = release(one, seq=6), release(one, "rel2", seq=6, exp=T0 + DAY)
    releases = [release(one, seq=5), six, other]
    assert codes(stand(anchor, [one], releases).hindrances) == ["statement.fork"]
    assert codes(stand(anchor, [one], [*releases, release(one, seq=7)]).hindrances) == []
