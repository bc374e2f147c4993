"""Sign, verify, attack: on random cards, and every edit of ten base cards (threats 1 and 7)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Final

import pytest

from cardsign.card.document import Card, render, unsigned, with_signatures
from cardsign.card.profiles import FULL_PROFILES, canonicalize
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, append, split
from cardsign.errors import CanonicalizationError, CardRefused, CardsignError
from cardsign.jose.keys import PrivateKey
from cardsign.sign import SigningOptions, sign_document, sign_with_notes
from tests.spoilt_cards import SHARES, spoilt_card
from tests.support import (
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    at,
    dump,
    examine,
    pointers,
    profiles_of,
    put,
    signed,
)
from tests.test_attacks_in_transit import EVERY_PATH_LAX, assert_noticed, renamed, respellings

ENTRIES: Final[tuple[list[Json], ...]] = (
    [{"protected": "e30", "signature": "AA"}],
    [{"protected": "e30", "signature": "AA", "header": {"x": [1.0, -0.0, None, "é"]}}, 1e300],
)
#: Always as many: nine in ten are refused, and each share has to hold all kinds.
CARDS: Final = 1000
LOSSY: Final = ("prune-empty", "prune-empty-upgraded")


@pytest.mark.parametrize("share", range(SHARES))
def test_what_is_signed_is_trusted_and_its_lossy_payloads_are_not(
    share: int, alice: PrivateKey
) -> None:
    """Sign then verify is trusted; a lossy payload served as the card is not, unless it is full."""
    seen: Counter[str] = Counter()
    for seed in range(share, CARDS, SHARES):
        card = spoilt_card(seed)
        try:
            document = sign_document(dump(card), [alice], SigningOptions())
        except CardsignError:
            seen["refused"] += 1
            continue
        assert examine(document, alice).verdict == "trusted", seed
        seen["trusted"] += 1
        signatures = json.loads(document)["signatures"]
        for served, is_full in _lossy_payloads(card):
            report = examine({**served, "signatures": signatures}, alice)
            assert (report.verdict == "trusted") is is_full, seed
            seen["served, full" if is_full else "served, lossy"] += 1
    assert min(seen[kind] for kind in ("trusted", "served, full", "served, lossy")) > 0


@pytest.mark.parametrize("share", range(SHARES))
def test_a_card_keeps_its_members_when_it_gets_signatures(share: int) -> None:
    """Whatever else stands in it, and however it was written."""
    seen = 0
    for seed in range(share, CARDS, SHARES):
        try:
            card = Card.from_bytes(dump(spoilt_card(seed)))
        except CardsignError:
            continue
        seen += 1
        for entries in ENTRIES:
            wanted = json.dumps(unsigned(card.document) | {"signatures": entries}, sort_keys=True)
            for written in (dump(card.document), render(card.document)):
                signed = with_signatures(card.document, entries, written)
                assert json.dumps(parse_object(signed), sort_keys=True) == wanted, seed
    assert seen


@pytest.mark.parametrize("name", ["Signatures", "SIGNATURES", "signatures_"])
def test_another_spelling_beside_our_signatures_is_refused(name: str) -> None:
    """It makes the card one that can be read in two ways."""
    card = {**PORTABLE, name: []}
    with pytest.raises(CardRefused) as caught:
        Card.from_bytes(with_signatures(card, ENTRIES[0], dump(card)))
    assert caught.value.code == "card.two_spellings"


def _full_payloads(card: dict[str, Any]) -> set[bytes]:
    return {canonicalize(card, profile).data for profile in FULL_PROFILES}


def _lossy_payloads(card: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    full = _full_payloads(card)
    for profile in LOSSY:
        try:
            payload = canonicalize(card, profile)
        except CanonicalizationError:
            continue
        yield payload.value, payload.data in full


def _more_base_cards() -> Iterator[tuple[str, dict[str, Any]]]:
    """Random cards that can be signed and are not portable."""
    key = PrivateKey.generate("ES256")
    for seed in count():
        card = spoilt_card(seed)
        try:
            signing = sign_with_notes(dump(card), [key], SigningOptions())
        except CardsignError:
            continue
        if len(profiles_of(signing)) > 1:
            yield f"random card {seed}", card


BASE_CARDS: Final = {
    "portable": PORTABLE,
    "with defaults": WITH_DEFAULTS,
    "lax": LAX,
    "of A2A 0.3": OLD,
    "for both versions": DUAL,
    "with every path of the schema": EVERY_PATH_LAX,
    **dict(islice(_more_base_cards(), 4)),
}


def test_there_are_ten_base_cards() -> None:
    """Of both versions, portable and not."""
    assert len(BASE_CARDS) == 10
    versions = {Card.from_object(card).a2a_version for card in BASE_CARDS.values()}
    assert versions >= {"1.0", "0.3", "mixed"}


@pytest.mark.parametrize("base", BASE_CARDS.values(), ids=BASE_CARDS)
def test_every_edit_of_a_base_card_is_noticed(base: dict[str, Any], alice: PrivateKey) -> None:
    """Members added, renamed, respelled and emptied at every path: never trusted, never silent."""
    card = signed(base, alice)
    assert examine(card, alice).verdict == "trusted"
    tried: Counter[str] = Counter()
    for where in pointers(base):
        value = at(base, where)
        *_, name = split(where)
        if isinstance(value, dict):
            added = append(where, "x-added")
            assert_noticed(examine(put(card, added, 1), alice), added)
            tried["added"] += 1
        if not name.isdigit():
            for other in ["x-renamed", *sorted(respellings(name) if name else ())[:1]]:
                assert examine(renamed(card, where, other), alice).verdict != "trusted", where
                tried["renamed"] += 1
        for empty in ("", None, [], {}, False):
            edited = put(base, where, empty)
            if _full_payloads(edited) & _full_payloads(base):
                continue  # rule 1 reads nothing else in it (decisions C7)
            report = examine({**edited, "signatures": card["signatures"]}, alice)
            assert report.verdict != "trusted", (where, empty)
            tried["emptied"] += 1
    assert min(tried[kind] for kind in ("added", "renamed", "emptied")) > 3
