"""A verdict by the first signature that makes the card trusted is that by all of them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from cardsign.errors import CardsignError
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.sign import SigningOptions, sign_document
from cardsign.verify.report import Report
from tests.spoilt_cards import EXAMPLES, spoilt_card
from tests.support import (
    NOW,
    WITH_DEFAULTS,
    Remembering,
    dump,
    holder_of,
    reach_verdict,
    signed,
    trusting,
)

KEYS = PrivateKey.generate("ES256", kid="old"), PrivateKey.generate("ES256", kid="new")
POLICY = trusting(*KEYS)


def verdict_on(card: bytes, **how: Any) -> Report:
    """By both keys."""
    return reach_verdict(card, expect=holder_of(POLICY), policy=POLICY, now=NOW, **how)


def test_a_verdict_alone_asks_one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one holds the whole card; a report of the card is of all."""
    card, checked, check = dump(signed(WITH_DEFAULTS, KEYS[0])), list[PublicKey](), PublicKey.check

    def counted(key: PublicKey, *about: bytes) -> None:
        checked.append(key)
        check(key, *about)

    monkeypatch.setattr(PublicKey, "check", counted)
    early = verdict_on(card, stop_early=True)
    assert (early.verdict, len(checked)) == ("trusted", 1)
    whole = verdict_on(card)
    assert len(checked) > 3
    assert [report.counts for report in whole.signatures] == [True, True]
    assert early.signatures == whole.signatures[:1]


def test_without_a_whole_signature_all_are_asked() -> None:
    """One over less than the card decides nothing as long as others were not looked at."""
    card = signed(WITH_DEFAULTS, *KEYS)
    alone = [verdict_on(dump({**card, "signatures": [entry]})) for entry in card["signatures"]]
    profiles = [report.profile for report in alone]
    entries = zip(card["signatures"], profiles, strict=True)
    card["signatures"] = [entry for entry, profile in entries if profile != "served-as-is"]
    report = verdict_on(dump(card), stop_early=True)
    assert [found.profile for found in report.signatures] == ["rule-1-as-written"] * 2
    assert report == verdict_on(dump(card))


def test_the_verdict_is_that_of_all_signatures() -> None:
    """Random cards; their signatures by one key or two, in any order, some lost, some spoilt."""
    seen = {"stopped": 0, "trusted": 0, "other": 0}
    for seed in range(min(EXAMPLES, 600)):
        draw = random.Random(seed)
        keys = draw.choice([KEYS, KEYS[:1], KEYS[1:]])
        try:
            card = json.loads(sign_document(dump(spoilt_card(seed)), keys, SigningOptions()))
        except CardsignError:
            continue
        entries = card["signatures"]
        draw.shuffle(entries)
        for entry in entries:
            if draw.random() < 0.2:
                entry["signature"] = entry["signature"][::-1]
        del entries[: draw.randrange(2)]
        data = json.dumps(card, ensure_ascii=False).encode()
        early, whole = verdict_on(data, stop_early=True), verdict_on(data)
        count = len(early.signatures)
        assert early.signatures == whole.signatures[:count], seed
        kind = "trusted" if whole.verdict == "trusted" else "other"
        if count < len(whole.signatures):
            assert whole.verdict == "trusted", seed
            kind = "stopped"
            early = replace(early, signatures=whole.signatures, reasons=whole.reasons)
        assert early == whole, seed
        seen[kind] += 1
    assert min(seen.values()) > 0


def test_what_one_caller_did_not_ask_for_is_not_kept_for_another() -> None:
    """A verdict alone and a report of all signatures are two."""
    card, memory = dump(signed(WITH_DEFAULTS, KEYS[0])), Remembering()
    early = verdict_on(card, memory=memory, stop_early=True)
    assert verdict_on(card, memory=memory) == verdict_on(card) != early
    assert verdict_on(card, memory=memory, stop_early=True) == early
