"""Establishing who may speak: one anchor, one source, and what holds of it now (V4, V5, K8-K11)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.times import MAX_TIME
from cardsign.trust.lock import Floor, LockedRelease
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, Limits
from cardsign.trust.session import IssuerTrust
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from tests.statements.making import DAY, T0, entry, key, later, thumbprint
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


def test_statements_of_two_places_are_joined() -> None:
    """In the order given; the key set of the second goes first, and keeps its URL."""
    fetched = SuppliedStatements((b"k1",), (b"r1",), b"jwks", JWKS_URL)
    both = fetched.joined(SuppliedStatements((b"k2",), (b"r2",)))
    assert both == SuppliedStatements((b"k1", b"k2"), (b"r1", b"r2"), b"jwks", JWKS_URL)
    other = fetched.joined(SuppliedStatements(untrusted_jwks=b"other"))
    assert (other.untrusted_jwks, other.jwks_url) == (b"other", None)
    assert fetched.joined(NO_STATEMENTS) == NO_STATEMENTS.joined(fetched) == fetched


# ------------------------------------------------------------------ by the source of each anchor


def test_pinned_keys_are_all_there_is(one: bytes) -> None:
    """Whatever comes along besides is not even looked at."""
    pinned = KeysAnchor(JwkSet.of([key("ann").public, key("bob").public]), {thumbprint("ann"): "a"})
    along = {"untrusted_jwks": jwks("eve"), "jwks_url": JWKS_URL}
    laden = stand(pinned, [one, b"junk"], [release(one)], **along)
    assert laden == stand(pinned)
    held = [(found.public.thumbprint, found.holder, found.roles) for found in laden.keys]
    assert held == [(thumbprint("ann"), "a", ("card",)), (thumbprint("bob"), "", ("card",))]
    assert (laden.offered, laden.notes) == (None, ())


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
    session, known = session_of(JwksAnchor(JWKS_URL)), jwks("ann")
    trust = stand(session, untrusted_jwks=known, jwks_url=JWKS_URL)
    assert (names(trust, "ann"), trust.offered) == ({"ann"}, None)
    assert names(stand(session, **came), "ann", "eve") == {"ann"}
    trust = stand(JwksAnchor(JWKS_URL), **came)
    assert not trust.has_source
    assert trust.blocks[-1].code == "trust.no_keys"
    assert "cardsign trust remove tides, then cardsign trust add URL" in trust.blocks[-1].hint


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
    assert (trust.hindrances, trust.blocks, trust.notes) == ((), (), ())


ANCHORS: dict[str, Anchor] = {
    "pinned keys": KeysAnchor(JwkSet.of([])),
    "a key set": JwksAnchor(JWKS_URL),
    "a keyset": KeysetAnchor(KeysetId(1, 1, "0" * 64)),
}


@pytest.mark.parametrize("source", ANCHORS.values(), ids=ANCHORS)
def test_no_anchor_falls_back_upon_another(source: Anchor, one: bytes) -> None:
    """Everything that another anchor would take comes along, and no key is accepted."""
    along = {"untrusted_jwks": jwks("ann"), "jwks_url": f"{ORIGIN}/other.json"}
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


def test_a_lock_that_is_ahead_of_every_clock_is_accused(anchor: KeysetAnchor, one: bytes) -> None:
    """No clock comes to the year 9999: setting the clock may not be what helps."""
    (reason,) = stand(session_of(anchor, floor=Floor(newest_iat=MAX_TIME)), [one]).blocks
    assert reason.code == "time.clock_behind"
    assert "9999-12-31" in reason.message
    assert "the lock is wrong" in reason.hint


def test_a_clock_that_is_behind_is_accused_and_no_key(anchor: KeysetAnchor, one: bytes) -> None:
    """Both times are said, and nobody is told to waive freshness."""
    session = session_of(anchor, floor=Floor(newest_iat=T0))
    first, *others = stand(session, [one], now=later(-DAY)).blocks
    assert first.code == "time.clock_behind"
    minute = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
    message = f"a statement of {minute} was seen before, and this clock says {minute}"
    assert re.fullmatch(message, first.message)
    assert not any("waive" in reason.hint for reason in (first, *others))


MOMENTS: dict[str, tuple[float, Limits, list[str]]] = {
    "now": (0, Limits(), []),
    "a moment before the release expires": (7 * DAY - 0.5, Limits(), []),
    "when the release expires": (7 * DAY, Limits(), ["statement.expired"]),
    "when both have expired": (60 * DAY, Limits(), ["statement.expired"]),
    "before the release's highest age": (99, Limits(release_age=100), []),
    "at the release's highest age": (100, Limits(release_age=100), ["statement.expired"]),
    "before the keyset's highest age": (-1, Limits(keyset_age=30 * DAY), []),
    "at the keyset's highest age": (0, Limits(keyset_age=30 * DAY), ["statement.expired"]),
    "an age beyond the end": (7 * DAY, Limits(release_age=14 * DAY), ["statement.expired"]),
}


@pytest.mark.parametrize(("after_now", "limits", "why"), MOMENTS.values(), ids=MOMENTS)
def test_statements_hold_until_they_end(
    anchor: KeysetAnchor, one: bytes, after_now: float, limits: Limits, why: list[str]
) -> None:
    """At their own end, or at the age that the policy allows; then nobody knows what is current."""
    session = session_of(anchor, limits)
    stand(session, [one], [release(one)])
    trust = stand(session, now=later(after_now))
    reasons = (*trust.blocks, *trust.hindrances)
    assert codes(reasons) == why
    assert (trust.release is None) == bool(why)
    assert trust.keys != ()
    keyset_ended = after_now >= (60 * DAY if limits.keyset_age is None else 0)
    assert bool(trust.blocks) == keyset_ended  # which nobody can waive
    what = "the newest keyset statement" if keyset_ended else "the newest release"
    assert all(reason.message.startswith(f"{what} expired ") for reason in reasons)


def test_a_release_below_the_lock_blocks_whatever_is_waived(
    anchor: KeysetAnchor, one: bytes
) -> None:
    """Also one that this session has held."""
    locked = LockedRelease((1, 1, 6), "0" * 64)
    session = session_of(anchor, floor=Floor(release=locked))
    session.keyset, session.release = read_keyset(one), read_release(release(one, seq=5))
    assert codes(stand(session).blocks) == ["statement.rollback"]
