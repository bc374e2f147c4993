"""Statements of an issuer for the tests of what they draft: few words, real signatures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cardsign.issuer.keyset import draft_next
from cardsign.issuer.release import ReleasePlan, draft_following
from cardsign.keys.ledger import KeyRecord, StoreState
from cardsign.statements.keyset import (
    IssuerKey,
    KeysetStatement,
    Quorum,
    RootKey,
    read_keyset,
    sign_keyset,
)
from cardsign.statements.release import ReleaseStatement, read_release, sign_release
from cardsign.testing import FakeIssuer

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
T0 = int(NOW.timestamp())
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


TIDES = FakeIssuer(NOW)
URL, key, thumbprint = TIDES.url, TIDES.key, TIDES.thumbprint


def quorum(threshold: int, *names: str) -> Quorum:
    """Each holds the key of that name."""
    return Quorum(threshold, tuple(RootKey(key(name).public, name) for name in names))


def online(name: str, *roles: Any, days: int = 400) -> IssuerKey:
    """A listed key."""
    return IssuerKey(key(name).public, roles, "harbour", T0, T0 + days * 86_400)


def plan(**changes: Any) -> KeysetStatement:
    """Two of three roots, one recovery key, one key for each role."""
    members: dict[str, Any] = {
        "issuer": "tides.example",
        "origins": ("https://tides.example",),
        "root": quorum(2, "ann", "bob", "cat"),
        "recovery": quorum(1, "rita"),
        "keys": (online("card", "card"), online("rel", "release")),
    }
    return KeysetStatement(**{**members, **changes})


def record(name: str, state: Any = "active", role: Any = "card", **changes: Any) -> KeyRecord:
    """A key as a store has it: `card` and `rel` as old as the statement, others an hour younger."""
    created = NOW if name in ("card", "rel") else NOW + HOUR
    custody = f"file:private/{thumbprint(name)}.key"
    return KeyRecord(key(name).public, state, role, custody, created, **changes)


def store(*records: KeyRecord) -> StoreState:
    """A key store's state."""
    return StoreState(keys=records)


def signed(draft: KeysetStatement, *names: str) -> KeysetStatement:
    """A draft with these signatures."""
    payload = draft.envelope.payload
    return read_keyset(sign_keyset(payload, map(key, names)))


def first(*names: str, **changes: Any) -> KeysetStatement:
    """Version 1, by ann and bob if nobody is named."""
    lifetime = changes.pop("lifetime", 90 * DAY)
    draft = draft_next(plan(**changes), None, now=NOW, lifetime=lifetime)
    return signed(draft, *(names or ("ann", "bob")))


def released(
    keyset: KeysetStatement,
    previous: ReleaseStatement | None,
    told: ReleasePlan | None = None,
    *,
    now: datetime = NOW,
    by: str = "rel",
) -> ReleaseStatement:
    """The next release, signed."""
    seq = previous.seq + 1 if previous else 1
    draft = draft_following(told or ReleasePlan(), keyset, previous, seq=seq, now=now)
    return read_release(sign_release(draft.envelope.payload, [key(by)]))
