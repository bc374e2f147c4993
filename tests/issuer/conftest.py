"""What the tests of an issuer share."""

from __future__ import annotations

import pytest

from cardsign.keys import ScryptCost, UnsafeScryptCost
from cardsign.keys.stores import KeyStore


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Envelopes that cost nothing to open."""
    cost = UnsafeScryptCost(n=2, r=1, p=1)
    defaults = {**(KeyStore.add_key.__kwdefaults__ or {}), "cost": cost}
    monkeypatch.setattr(KeyStore.add_key, "__kwdefaults__", defaults)
    monkeypatch.setattr("cardsign.issuer.keyset.DEFAULT_COST", cost)
    monkeypatch.setattr(ScryptCost, "min_n", 2)
