"""What the lint says of a portable card, the SDKs do: the bytes that they make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from judges import Judge
from spoilt_cards import SHARES, spoilt_cards
from support import dump

from cardsign.card.canonical import canonicalize
from tests.unportable import unportable

in_shares = pytest.mark.parametrize("share", range(SHARES))


def portable_cards(share: int) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Cards that are clean, with the one payload that they have."""
    for seed, card in spoilt_cards(share):
        if not unportable(card):
            yield seed, card, canonicalize(card, "served-as-is").data.decode()


@in_shares
@pytest.mark.needs_judges("py")
def test_a2a_sdk_agrees_on_portable_cards(share: int, sdk: Judge) -> None:
    """On every one of them."""
    parted = [
        seed
        for seed, card, payload in portable_cards(share)
        if sdk.payload(dump(card), path="resolver") != payload
    ]
    assert parted == []


@in_shares
@pytest.mark.needs_judges("js")
def test_a2a_js_agrees_on_plain_json(share: int, js: Judge) -> None:
    """But for members named ``__proto__``, which JavaScript loses."""
    for seed, card, payload in portable_cards(share):
        agrees = js.payload(dump(card)) == payload
        assert agrees is ('"__proto__":' not in payload), seed
