"""Sign, verify, attack: on random cards, and every edit of ten base cards (threats 1 and 7).

The editor holds no key. What he gets for single edits is decided by attacks 15, 62 to 65, 101,
104, 107, 400 and 411.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import pytest

from cardsign.card.document import Card, render, unsigned, with_signatures
from cardsign.card.profiles import FULL_PROFILES, canonicalize
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, append, split
from cardsign.errors import CanonicalizationError, CardRefused, CardsignError
from cardsign.jose.keys import PrivateKey
from cardsign.sign import SigningOptions, sign_document, sign_with_notes
from cardsign.verify.report import Report
from tests.spoilt_cards import SHARES, spoilt_card
from tests.support import (
    CARDS,
    PORTABLE,
    at,
    codes,
    dump,
    edited,
    examine,
    pointers,
    profiles_of,
    put,
    signed,
    without,
)

ENTRIES: Final[tuple[list[Json], ...]] = (
    [{"protected": "e30", "signature": "AA"}],
    [{"protected": "e30", "signature": "AA", "header": {"x": [1.0, -0.0, None, "é"]}}, 1e300],
)
#: Always as many: nine in ten are refused, and each share has to hold all kinds.
SEEDS: Final = 1000
LOSSY: Final = ("prune-empty", "prune-empty-upgraded")


@pytest.mark.parametrize("share", range(SHARES))
def test_what_is_signed_is_trusted_and_its_lossy_payloads_are_not(
    share: int, alice: PrivateKey
) -> None:
    """Sign then verify is trusted; a lossy payload served as the card is not, unless it is full."""
    seen: Counter[str] = Counter()
    for seed in range(share, SEEDS, SHARES):
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
    for seed in range(share, SEEDS, SHARES):
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


# ------------------------------------------------------------------ every path of the schema

#: A card with every member of both versions, as test_every_member sees; here without that of 0.3.
_EVERY_MEMBER: Final = Path(__file__).with_name("diff") / "every-member.card.json"
_OF_0_3 = ["url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"]


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
    **CARDS,
    "with every member": edited(
        json.loads(_EVERY_MEMBER.read_bytes()), [[f"/{name}"] for name in _OF_0_3]
    ),
    **dict(islice(_more_base_cards(), 4)),
}


def test_there_are_ten_base_cards() -> None:
    """Of both versions, portable and not."""
    assert len(BASE_CARDS) == 10
    versions = {Card.from_object(card).a2a_version for card in BASE_CARDS.values()}
    assert versions >= {"1.0", "0.3", "mixed"}


#: Members that no schema has, where they are added.
ADDED: Final = {
    "x-vendor": {"a": 1},
    "x-empty": {},
    "x-null": None,
    "security": [{"none": []}],
    "__proto__": {"url": "https://evil.example"},
}
EMPTY: Final[tuple[Any, ...]] = ("", None, [], {}, False)


def _respelled(name: str) -> str:
    """The name in a spelling that Go's and protobuf's readers also take, or a typist might."""
    snake = "".join("_" + char.lower() if char.isupper() else char for char in name)
    others = {name[:1].upper() + name[1:], name.upper(), snake, f"{name}_", f"_{name}"} - {name}
    return min(others)


def _renamed(card: dict[str, Any], pointer: str, name: str) -> dict[str, Any]:
    """The card with one member under another name, in its old place."""
    parent, _, _ = pointer.rpartition("/")
    owner = at(card, parent) if parent else card
    *_, old = split(pointer)
    changed = {name if member == old else member: value for member, value in owner.items()}
    return put(card, parent, changed) if parent else changed


def _edits(base: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every edit of a card: its kind, its place, and what comes of it."""
    for where in ["", *pointers(base)]:
        value = at(base, where) if where else base
        if isinstance(value, dict):
            for name in ADDED.keys() - value.keys():
                yield "added", append(where, name), put(base, append(where, name), ADDED[name])
        if isinstance(value, list):
            for empty in EMPTY:
                yield "first", f"{where}/0", put(base, where, [empty, *value])
            yield "last", f"{where}/{len(value)}", put(base, where, [*value, {}])
        if not where:
            continue
        *_, name = split(where)
        yield "removed", where, without(base, where)
        if not name.isdigit():
            for other in ("x-renamed", _respelled(name)):
                yield "renamed", where, _renamed(base, where, other)
        for empty in EMPTY:
            yield "emptied", where, put(base, where, empty)


def _is_noticed(report: Report, where: str) -> bool:
    """Whether the edit is refused, by its place where some signature still fits."""
    places = [*report.uncovered] if report.verdict == "untrusted" else [where]
    return report.card is None and any(f"{where}/".startswith(f"{place}/") for place in places)


@pytest.mark.parametrize("base", BASE_CARDS.values(), ids=BASE_CARDS)
def test_every_edit_of_a_base_card_is_noticed(base: dict[str, Any], alice: PrivateKey) -> None:
    """Members added, renamed, respelled, emptied and removed at every path, and empty elements.

    Never trusted, never silent; but where rule 1 reads nothing else in it (decisions C7).
    """
    signatures = signed(base, alice)["signatures"]
    assert examine({**base, "signatures": signatures}, alice).verdict == "trusted"
    full, tried = _full_payloads(base), Counter[str]()
    for kind, where, edit in _edits(base):
        report = examine({**edit, "signatures": signatures}, alice)
        if kind in ("emptied", "removed") and _full_payloads(edit) & full:
            assert report.verdict == "trusted" or "coverage.requirement_unsigned" in codes(report)
            continue
        assert report.verdict in ("invalid", "untrusted"), (kind, where)
        assert kind not in ("added", "first", "last") or _is_noticed(report, where), (kind, where)
        tried[kind] += 1
    assert min(tried[kind] for kind in ("added", "renamed", "emptied", "removed")) > 3
