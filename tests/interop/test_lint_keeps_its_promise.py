"""What the lint says of a portable card, the SDKs do: the bytes that they make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from judges import Judge, a2a_sdk
from spoilt_cards import SHARES, spoilt_cards
from support import dump

from cardsign.card import canonicalize
from cardsign.lint import lint_portability

in_shares = pytest.mark.parametrize("share", range(SHARES))


@pytest.fixture(scope="module")
def old_sdk() -> Iterator[Judge]:
    """a2a-sdk 1.1.3."""
    with a2a_sdk("CARDSIGN_JUDGE_PY11") as judge:
        yield judge


def portable_cards(share: int) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Cards that are clean, with the one payload that they have."""
    for seed, card in spoilt_cards(share):
        if not lint_portability(card):
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
    """But for members named ``__proto__``, which the lint for its resolver finds."""
    for seed, card, payload in portable_cards(share):
        rules = {finding.rule.id for finding in lint_portability(card, "js-resolver")}
        agrees = js.payload(dump(card)) == payload
        assert agrees is ("js-resolver.proto-name" not in rules), seed


@in_shares
@pytest.mark.needs_judges("js")
def test_a2a_js_resolver_agrees_exactly_where_lint_says_so(share: int, js: Judge) -> None:
    """Both ways: a portable card that is found fault with for it has other bytes there."""
    for seed, card, payload in portable_cards(share):
        agrees = js.payload(dump(card), path="resolver") == payload
        assert agrees is (not lint_portability(card, "js-resolver")), seed


@in_shares
@pytest.mark.needs_judges("py11")
def test_a2a_sdk_1_1_agrees_exactly_where_lint_says_so(share: int, old_sdk: Judge) -> None:
    """Both ways, for the last release that knew no RFC 8785."""
    for seed, card, payload in portable_cards(share):
        agrees = old_sdk.payload(dump(card), path="resolver") == payload
        assert agrees is (not lint_portability(card, "py-1.1")), seed
