"""Establishing who may speak: one anchor, one source, and what holds of it now (V4, V5, K8-K11)."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.times import MAX_TIME
from cardsign.trust.lock import Floor
from cardsign.trust.policy import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, Limits
from cardsign.trust.session import IssuerTrust
from tests.statements.making import DAY, T0, entry, key, later, thumbprint
from tests.trust.establishing import ORIGIN, anchored, codes, number, session_of, stand
from tests.trust.histories import after, keyset, release

JWKS_URL = f"{ORIGIN}/jwks.json"


def jwks(*names: str) -> bytes:
    """A JWK Set of these keys."""
    return JwkSet.of(key(name).public for name in names).to_bytes()


def names(standing: IssuerTrust, *candidates: str) -> set[str]:
    """Which of these keys are accepted."""
    accepted = {one.public.thumbprint for one in standing.keys}
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


# ------------------------------------------------------------------ pinned keys


def test_pinned_keys_are_all_there_is(one: bytes) -> None:
    """Whatever comes along besides is not even looked at."""
    pinned = KeysAnchor(JwkSet.of([key("ann").public, key("bob").public]), {thumbprint("ann"): "a"})
    plain = stand(pinned)
    laden = stand(
        pinned, [one, b"junk"], [release(one)],
        untrusted_jwks=jwks("eve"), jwks_url=JWKS_URL,
    )  # fmt: skip
    assert laden == plain
    assert [(k.public.thumbprint, k.holder, "card" in k.roles) for k in laden.keys] == [
        (thumbprint("ann"), "a", True),
        (thumbprint("bob"), "", True),
    ]
    assert (laden.offered, laden.notes) == (None, ())


# ------------------------------------------------------------------ a key set at a url


def test_a_key_set_comes_from_its_own_url() -> None:
    """From another url, or from nowhere that is known, it is not read."""
    for url, accepted in ((JWKS_URL, {"ann"}), (f"{ORIGIN}/jwks", set()), (None, set())):
        standing = stand(JwksAnchor(JWKS_URL), untrusted_jwks=jwks("ann"), jwks_url=url)
        assert names(standing, "ann") == accepted
        assert standing.has_source == bool(accepted)
        for reason in standing.blocks:
            assert reason.code == "trust.no_keys"
            assert "cardsign trust remove tides, then cardsign trust add URL" in reason.hint
        assert standing.offered is None


FAILURES: dict[str, dict[str, Any]] = {
    "nothing came": {},
    "what came is no key set": {"untrusted_jwks": b"<html>", "jwks_url": JWKS_URL},
    "it holds a private key": {
        "untrusted_jwks": b'{"keys":[{"kty":"oct","k":"AAAA"}]}',
        "jwks_url": JWKS_URL,
    },
    "it came from elsewhere": {"untrusted_jwks": jwks("eve"), "jwks_url": "https://evil.example/"},
}


@pytest.mark.parametrize("came", FAILURES.values(), ids=FAILURES)
def test_a_failure_evicts_nothing(came: dict[str, Any]) -> None:
    """The set of before stays (threat 13)."""
    source = JwksAnchor(JWKS_URL)
    known = JwkSet.of([key("ann").public])
    session = session_of(source)
    session.jwks = known

    standing = stand(session, **came)
    assert names(standing, "ann", "eve") == {"ann"}
    assert session.jwks is known
    assert not stand(source, **came).has_source


# ------------------------------------------------------------------ keyset statements


def test_the_newest_statement_says_whose_keys_count(
    anchor: KeysetAnchor, one: bytes, two: bytes
) -> None:
    """Its keys with their roles, holders and times, its origins, and what it revokes."""
    standing = stand(anchor, [two, one], [release(two, revoked=[thumbprint("card2")])])

    assert number(standing) == (1, 2)
    assert [
        (k.public.thumbprint, k.holder, "card" in k.roles, k.nbf, k.exp) for k in standing.keys
    ] == [
        (thumbprint("card2"), "harbour", True, T0 - DAY, T0 + 300 * DAY),
        (thumbprint("rel"), "harbour", False, T0 - DAY, T0 + 300 * DAY),
    ]
    assert [str(origin) for origin in standing.origins or ()] == [ORIGIN]
    assert standing.revoked == {thumbprint("card"), thumbprint("card2")}
    assert standing.release is not None
    assert (standing.hindrances, standing.blocks, standing.notes) == ((), (), ())


# ------------------------------------------------------------------ memory


def test_what_was_kept_needs_no_evidence(anchor: KeysetAnchor, one: bytes, two: bytes) -> None:
    """The next verdict stands upon the last one's steps, and upon nothing lower."""
    session = session_of(anchor)
    first = stand(session, [one, two], [release(two)])

    again = stand(session)
    assert (again.keyset, again.release) == (first.keyset, first.release)
    lower = stand(session, [one], [release(one, seq=99)])
    assert (lower.keyset, lower.release) == (first.keyset, first.release)
    assert codes(lower.notes) == ["statement.keyset"]


def test_nothing_is_kept_of_a_time_of_one_s_choice(
    anchor: KeysetAnchor, one: bytes, two: bytes
) -> None:
    """It is walked all the same, and nothing can be trusted by it."""
    session = session_of(anchor)

    standing = stand(session, [one, two], [release(two)], historic=True)
    assert (number(standing), session.keyset, session.passed) == ((1, 2), None, ())
    assert codes(standing.blocks) == ["time.historic"]


# ------------------------------------------------------------------ the clock


def test_a_lock_that_is_ahead_of_every_clock_is_accused(anchor: KeysetAnchor, one: bytes) -> None:
    """No clock comes to the year 9999: setting the clock may not be what helps."""
    session = session_of(anchor, floor=Floor(newest_iat=MAX_TIME))
    (reason,) = stand(session, [one]).blocks

    assert reason.code == "time.clock_behind"
    assert "9999-12-31" in reason.message
    assert "the lock is wrong" in reason.hint


# ------------------------------------------------------------------ what holds now

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

    standing = stand(session, now=later(after_now))
    assert codes((*standing.blocks, *standing.hindrances)) == why
    assert (standing.release is None) == bool(why)
    assert standing.keys != ()
    keyset_ended = after_now >= (60 * DAY if limits.keyset_age is None else 0)
    assert bool(standing.blocks) == keyset_ended  # which nobody can waive
    what = "the newest keyset statement" if keyset_ended else "the newest release"
    for reason in (*standing.blocks, *standing.hindrances):
        assert reason.message.startswith(f"{what} expired ")


def test_a_release_of_no_keyset_that_is_held(anchor: KeysetAnchor, one: bytes, two: bytes) -> None:
    """A memory that contradicts itself is no ground to trust anything."""

    session = session_of(anchor)
    session.keyset, session.release = read_keyset(one), read_release(release(two))
    standing = stand(session)
    assert codes(standing.blocks) == ["statement.keyset"]
    assert standing.revoked == frozenset()


# ------------------------------------------------------------------ no anchor weakens

ANCHORS: dict[str, Anchor] = {
    "pinned keys": KeysAnchor(JwkSet.of([])),
    "a key set": JwksAnchor(JWKS_URL),
    "a keyset": KeysetAnchor(KeysetId(1, 1, "0" * 64)),
}


@pytest.mark.parametrize("source", ANCHORS.values(), ids=ANCHORS)
def test_no_anchor_falls_back_upon_another(source: Anchor, one: bytes) -> None:
    """Everything that another anchor would take comes along, and no key is accepted."""
    standing = stand(
        source, [one], [release(one)], untrusted_jwks=jwks("ann"),
        jwks_url=f"{ORIGIN}/other.json",
    )  # fmt: skip

    assert standing.keys == ()
