"""What was resolved before is used again only where it says what resolving anew would say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Any

import pytest

from cardsign.findings import Finding
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.policy import KeysAnchor, Limits, Policy, RollbackFloor, TrustedIssuer
from cardsign.trust.resolve import _RESOLVED, IssuerTrust, resolve_issuer
from cardsign.trust.state import IssuerState
from cardsign.trust.supplied import SuppliedStatements
from cardsign.urls import may_stand_at, parse_place, parse_url
from tests.jose.statement_making import DAY, NOW, T0, entry, key
from tests.trust.establishing import anchored, enrolled
from tests.trust.histories import after, keyset, release

SKEW = 300
FIRST = keyset("ann", "bob")
KEYS = [
    entry("card", "card"),
    entry("online", "release", exp=T0 + 2 * DAY),
    entry("tomorrow", "release", nbf=T0 + DAY, exp=T0 + 300 * DAY),
]
NEWEST = after(FIRST, keys=KEYS, iat=T0 - DAY, exp=T0 + 30 * DAY)
RELEASE = release(NEWEST, "online", "tomorrow", exp=T0 + 6 * DAY)
TIMES = [
    T0,
    T0 + DAY - SKEW - 1,
    T0 + DAY - SKEW,
    T0 + 2 * DAY - 1,
    T0 + 2 * DAY,
    T0 + 6 * DAY - 1,
    T0 + 6 * DAY,
    T0 + 30 * DAY - 1,
    T0 + 30 * DAY,
]


@pytest.fixture
def issuer() -> TrustedIssuer:
    """One that no other test has asked about."""
    return enrolled(anchored(FIRST))


@pytest.fixture
def state(issuer: TrustedIssuer) -> IssuerState:
    """The newest keyset and its release are remembered."""
    begun = IssuerState.begin(issuer, read_keyset(FIRST))
    return replace(begun.with_keyset(read_keyset(NEWEST)), release=read_release(RELEASE))


def at(seconds: int) -> datetime:
    """As a time."""
    return datetime.fromtimestamp(seconds, UTC)


def resolved(
    issuer: TrustedIssuer, state: IssuerState | None, now: datetime, *keysets: bytes
) -> IssuerTrust:
    """What holds then."""
    supplied = SuppliedStatements(keysets, (RELEASE,))
    return resolve_issuer(issuer, Limits(skew=SKEW), supplied, state, now=now)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keyset statements that are read, in order."""
    read: list[bytes] = []

    def reading(data: bytes) -> object:
        read.append(data)
        return read_keyset(data)

    monkeypatch.setattr("cardsign.trust.keyset_choice.read_keyset", reading)
    return read


@pytest.mark.parametrize(("then", "now"), list(product(TIMES, TIMES)))
def test_at_any_later_or_earlier_time_it_is_what_resolving_anew_says(
    issuer: TrustedIssuer, state: IssuerState, then: int, now: int
) -> None:
    """Statements and the keys in them begin and end between the two times, or do not."""
    resolved(issuer, state, at(then), FIRST, NEWEST)

    again = resolved(issuer, state, at(now), FIRST, NEWEST)
    anew = resolved(replace(issuer), state, at(now), FIRST, NEWEST)
    assert again == anew
    assert again.fingerprint == anew.fingerprint
    assert again.deadlines == anew.deadlines
    assert [again.find(one.public.kid) for one in again.keys] == list(again.keys)


def test_what_is_found_once_is_the_same_at_every_time() -> None:
    """A copy for another time takes it along, so nothing of it may depend on the time."""
    once = [name for name, one in vars(IssuerTrust).items() if isinstance(one, cached_property)]
    newest = read_keyset(NEWEST)
    said: dict[str, Any] = {"keys": newest.keys, "keyset": newest, "release_ends": T0 + 2 * DAY}
    said["release"] = read_release(RELEASE)
    assert len(once) >= 5
    for then, now in product(TIMES, TIMES):
        trust = IssuerTrust(enrolled(anchored(FIRST)), at(then), Limits(skew=SKEW), **said)
        for name in once:
            getattr(trust, name)
        for name in once:
            assert getattr(trust.at(at(now)), name) == getattr(replace(trust, now=at(now)), name)


def test_what_is_remembered_is_not_read_again(
    issuer: TrustedIssuer, state: IssuerState, reads: list[bytes]
) -> None:
    """Neither a copy of the newest nor anything older; what is newer is read."""
    newer = after(NEWEST)
    resolved(issuer, state, NOW, FIRST, NEWEST)
    assert reads == []

    resolved(issuer, state, NOW, FIRST, NEWEST, newer)
    assert reads == [newer]


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"{}",
        b"[]",
        b'{"payload": 7}',
        b'{"payload": "="}',
        b'{"payload": "e30"}',
        b"x" * 70000,
    ],
    ids=lambda junk: str(junk[:20]),
)
def test_what_is_no_statement_is_reported_all_the_same(
    issuer: TrustedIssuer, state: IssuerState, junk: bytes
) -> None:
    """Only what says that it is older is left out in silence."""
    assert [one.code[:10] for one in resolved(issuer, state, NOW, junk).notes] == ["statement."]


def test_another_statement_of_the_number_held_is_read(
    issuer: TrustedIssuer, state: IssuerState
) -> None:
    """It may be a fork."""
    other = after(FIRST, keys=KEYS[:2], iat=T0 - DAY, exp=T0 + 30 * DAY)

    assert "statement.fork" in {one.code for one in resolved(issuer, state, NOW, other).notes}


def test_other_statements_policies_and_states_are_resolved_anew(
    issuer: TrustedIssuer, state: IssuerState
) -> None:
    """Each has a result of its own."""
    before = resolved(issuer, state, NOW, NEWEST)
    strict = resolve_issuer(issuer, Limits(keyset_age=1), SuppliedStatements(), state, now=NOW)
    assert (before.blocks, [one.code for one in strict.blocks]) == ((), ["statement.expired"])

    assert resolved(issuer, None, NOW, NEWEST).blocks


def test_a_lock_that_was_raised_is_heeded(issuer: TrustedIssuer, state: IssuerState) -> None:
    """Issuers are equal whatever their floors, and a state that is read again may have notes."""
    assert resolved(issuer, state, NOW, NEWEST).blocks == ()
    newest = read_keyset(NEWEST)
    ahead = RollbackFloor(KeysetId(newest.epoch, newest.version + 1, "0" * 64))
    raised = replace(issuer, floor=ahead)
    assert raised == issuer
    blocks = resolved(raised, state, NOW, NEWEST).blocks
    assert [one.code for one in blocks] == ["statement.rollback"]

    note = Finding("state.created", "begun anew")
    assert note not in resolved(issuer, state, NOW, NEWEST).notes
    assert note in resolved(issuer, replace(state, notes=(note,)), NOW, NEWEST).notes


def test_a_step_that_a_dry_run_made_is_kept_when_it_is_made_in_earnest(
    issuer: TrustedIssuer,
) -> None:
    """A result that would have to keep something is never used again."""
    state = IssuerState.begin(issuer, read_keyset(FIRST))
    supplied = SuppliedStatements((NEWEST,), (RELEASE,))
    kept: list[IssuerState] = []
    resolve_issuer(issuer, Limits(), supplied, state, now=NOW)

    resolve_issuer(issuer, Limits(), supplied, state, now=NOW, keep=kept.append)
    assert [one.keyset and one.keyset.number for one in kept] == [(1, 2), (1, 2)]


def test_a_time_of_the_caller_s_choice_finds_and_leaves_nothing(
    issuer: TrustedIssuer, state: IssuerState
) -> None:
    """Neither does it use a result of today, nor does today use one of it."""
    supplied = SuppliedStatements((NEWEST,), (RELEASE,))
    for historic in (True, False, True):
        trust = resolve_issuer(
            issuer, Limits(), supplied, state, now=NOW + timedelta(1), historic=historic
        )
        assert ["time.historic"] * historic == [one.code for one in trust.blocks]


def test_O18_long_histories_take_a_bounded_room(
    issuer: TrustedIssuer, state: IssuerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large is resolved anew each time, and says the same."""
    monkeypatch.setattr("cardsign.trust.resolve.MAX_RESOLVED_BYTES", len(NEWEST))
    junk = b"x"

    first, second = (resolved(issuer, state, NOW, NEWEST, junk) for _ in range(2))
    assert first == second
    assert first.found is not second.found


@pytest.mark.parametrize(("most", "is_kept"), [(1, False), (2, True)], ids=["full", "with room"])
def test_O18_results_kept_are_bounded(
    issuer: TrustedIssuer,
    state: IssuerState,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    is_kept: bool,
) -> None:
    """When they are full, they begin anew."""
    monkeypatch.setattr("cardsign.trust.resolve.MAX_RESOLVED", most)
    _RESOLVED.clear()
    first = resolved(issuer, state, NOW, NEWEST, b"x")
    resolved(replace(issuer, name="another"), state, NOW, NEWEST)
    assert (resolved(issuer, state, NOW, NEWEST, b"x").found is first.found) is is_kept


PREFIXES = ("/", "/a/", "/A/", "/a/b/", "/ab/", "/a/B/c/")
URLS = ("/", "/a", "/A/b", "/a/b/c/d", "/ab", "/a/B/C", "/ac")


def policies() -> Iterator[tuple[Policy, TrustedIssuer, TrustedIssuer]]:
    """Two issuers at one host, each with a place or two."""
    pairs = [(one,) for one in PREFIXES] + [("/", "/a/b/"), ("/ab/", "/A/")]
    anchor = KeysAnchor(JwkSet.of([key("ann").public]))
    for own, others in product(pairs, pairs):
        issuers = [
            TrustedIssuer(name, anchor, tuple(parse_place(f"https://a.example{one}") for one in at))
            for name, at in (("own", own), ("other", others))
        ]
        elsewhere = TrustedIssuer("far", anchor, (parse_place("https://b.example"),))
        yield Policy((*issuers, elsewhere)), issuers[0], issuers[1]


def test_what_lies_outside_an_issuer_s_places_reserves_nothing_in_them() -> None:
    """The places of others that are looked at decide as all of them would."""
    for policy, own, other in policies():
        every = (*(other.places or ()), parse_place("https://b.example"))
        for path in URLS:
            url = parse_url(f"https://a.example{path}")
            reserved = policy.reserved_from(own)
            assert reserved is policy.reserved_from(own)
            expected = may_stand_at(url, own.places or (), every)
            assert may_stand_at(url, own.places or (), reserved) == expected
