"""States, publications and times in few words, for the tests of the lifecycle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cardsign.jose.algorithms import SigningAlg
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.audit import AuditEvent, extend
from cardsign.keys.lifecycle import NewState, TimelineSettings
from cardsign.keys.model import AuditHead, Publication, PublishedCard, StoreState, dump_state
from cardsign.keys.stores.directory import DirectoryStore

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EMPTY = StoreState(0, ())
#: Caches hold key sets for 200 s at worst, cards for 50 s; clocks differ by 10 s.
QUICK = TimelineSettings(max_age=100, worst_cache=200, card_max_age=50, skew=10, rotate_every=1000)
SERIES = "https://tides.example/a2a"


@functools.cache
def public(name: str, alg: SigningAlg = "ES256") -> PublicKey:
    """The public key of a key that is called `name`, the same one each time."""
    return PrivateKey.generate(alg, kid=name).public


def after(seconds: float) -> datetime:
    """A time that long after `NOON`."""
    return NOON + timedelta(seconds=seconds)


def published(
    at: datetime,
    kids: Iterable[str],
    signed_by: Iterable[str] | None = None,
    *,
    series: str = SERIES,
    generation: int = 1,
    max_age: int = 50,
) -> Publication:
    """A publication of one card, signed by all the keys that are published beside it."""
    kids = tuple(kids)
    signers = kids if signed_by is None else tuple(signed_by)
    card = PublishedCard("agent-card.json", "0" * 64, signers, series)
    return Publication(generation, at, max_age, kids, (card,))


def of(change: NewState) -> StoreState:
    """The state of a change."""
    return change[0]


def cut(log: bytes, lines: int) -> bytes:
    """The first lines of a log."""
    return b"".join(log.splitlines(keepends=True)[:lines])


def forge(store: DirectoryStore, edit: Callable[[StoreState], StoreState], kept: int = 0) -> None:
    """Write state and log anew, in agreement, as somebody can who can write both.

    Args:
        store: Whose files are written.
        edit: What is made of its state.
        kept: How many lines of the log stay as they are.
    """
    log = cut(store.read_audit(), kept)
    newest = log.splitlines()[-1:]
    head = AuditHead(kept, sha256(newest[0]).hexdigest()) if newest else AuditHead()
    state, more = extend(
        replace(edit(store.read()[0]), audit=head),
        [AuditEvent("key-entered", "x")],
        now=NOON,
        actor="ann@host",
    )
    (store.path / "audit.jsonl").write_bytes(log + more)
    (store.path / "keystore.json").write_bytes(dump_state(state))
