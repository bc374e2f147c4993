"""The issuer Tide tables, whose statements hold now, for tests by the true clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import card_digest, digest_of
from tests.statements.making import TIDES

T0 = int(time.time()) - 3600
#: The same people with the same keys, speaking as of now.
PEER = FakeIssuer(datetime.fromtimestamp(T0, UTC))
PEER.keys = TIDES.keys
digest = card_digest


def keyset(version: int = 1, previous: bytes | None = None, **changes: Any) -> bytes:
    """A keyset statement that holds now."""
    keys = [PEER.entry("card", "card"), PEER.entry("rel", "release")]
    prev = digest_of(previous) if previous else None
    return PEER.keyset(**{"version": version, "prev": prev, "keys": keys, **changes})


def release(under: bytes, *cards: dict[str, Any], seq: int = 42, **changes: Any) -> bytes:
    """A release under a keyset statement that lists these cards, and holds now."""
    return PEER.release(under, **{**PEER.listing(*cards, seq=seq), **changes})
