"""A verdict by the first signature that makes the card trusted is that by all of them."""

from __future__ import annotations

import copy
import json
import pickle
import random
from dataclasses import fields
from typing import Any

import pytest

from cardsign.errors import CardsignError
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.sign import SigningOptions, sign_document
from cardsign.trust.policy import Subject
from cardsign.verify.report import Report
from tests.spoilt_cards import EXAMPLES, spoilt_card
from tests.support import NOW, WITH_DEFAULTS, Remembering, dump, reach_verdict, signed, trusting

KEYS = PrivateKey.generate("ES256", kid="old"), PrivateKey.generate("ES256", kid="new")
POLICY = trusting(*KEYS)


class Checks:
    """Counts the signatures that are checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        check = PublicKey.check

        def counted(key: PublicKey, *about: bytes) -> None:
            self.count += 1
            check(key, *about)

        monkeypatch.setattr(PublicKey, "check", counted)


def verdict_on(
    card: bytes, *, stop_early: bool = False, memory: Remembering | None = None
) -> Report:
    """By both keys."""
    how: dict[str, Any] = {"memory": memory, "stop_early": stop_early}
    return reach_verdict(
        card, expect=Subject(issuer=POLICY.issuers[0].name), policy=POLICY, now=NOW, **how
    )


def verdict_alone(report: Report) -> dict[str, Any]:
    """A report but for what hangs on the signatures that were not examined."""
    members = {one.name: getattr(report, one.name) for one in fields(report)}
    del members["signatures"], members["reasons"]
    return members


def test_a_verdict_alone_asks_one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one holds the whole card; a report of the card is of all."""
    card = dump(signed(WITH_DEFAULTS, KEYS[0]))
    checks = Checks(monkeypatch)
    early = verdict_on(card, stop_early=True)
    assert (early.verdict, checks.count) == ("trusted", 1)

    whole = verdict_on(card)
    assert checks.count > 2
    assert [one.counts for one in whole.signatures] == [True, True]
    assert early.signatures == whole.signatures[:1]


def _is_whole(card: dict[str, Any], entry: Any) -> bool:
    report = verdict_on(dump({**card, "signatures": [entry]}))
    return report.profile == "served-as-is"


def test_without_a_whole_signature_all_are_asked() -> None:
    """One over less than the card decides nothing as long as others were not looked at."""
    card = signed(WITH_DEFAULTS, *KEYS)
    card["signatures"] = [one for one in card["signatures"] if not _is_whole(card, one)]
    report = verdict_on(dump(card), stop_early=True)

    assert [one.profile for one in report.signatures] == ["rule-1-as-written"] * 2
    assert report == verdict_on(dump(card))


def test_the_verdict_is_that_of_all_signatures() -> None:
    """Random cards; their signatures by one key or two, in any order, some lost, some spoilt."""
    seen = {"stopped": 0, "trusted": 0, "other": 0}
    for seed in range(min(EXAMPLES, 600)):
        draw = random.Random(seed)
        keys = draw.choice([KEYS, KEYS[:1], KEYS[1:]])
        try:
            made = sign_document(dump(spoilt_card(seed)), keys, SigningOptions())
        except CardsignError:
            continue
        card = json.loads(made)
        entries = card["signatures"]
        draw.shuffle(entries)
        for entry in entries:
            if draw.random() < 0.2:
                entry["signature"] = entry["signature"][::-1]
        del entries[: draw.randrange(2)]
        data = json.dumps(card, ensure_ascii=False).encode()
        early, whole = verdict_on(data, stop_early=True), verdict_on(data)
        assert verdict_alone(early) == verdict_alone(whole), seed
        count = len(early.signatures)
        assert early.signatures == whole.signatures[:count], seed
        if count < len(whole.signatures):
            assert whole.verdict == "trusted", seed
            seen["stopped"] += 1
        else:
            assert early.reasons == whole.reasons, seed
            seen["trusted" if whole.verdict == "trusted" else "other"] += 1
    assert min(seen.values()) > 0


def test_what_one_caller_did_not_ask_for_is_not_kept_for_another() -> None:
    """A verdict alone and a report of all signatures are two."""
    card, memory = dump(signed(WITH_DEFAULTS, KEYS[0])), Remembering()
    early = verdict_on(card, memory=memory, stop_early=True)
    assert verdict_on(card, memory=memory) == verdict_on(card) != early
    assert verdict_on(card, memory=memory, stop_early=True) == early


def test_a_report_is_copied_and_printed_whole() -> None:
    """Also one of before."""
    card, memory = dump(signed(WITH_DEFAULTS, KEYS[0])), Remembering()
    whole = verdict_on(card, memory=memory)
    for report in (whole, verdict_on(card, memory=memory)):
        assert pickle.loads(pickle.dumps(report)) == whole
        assert copy.deepcopy(report) == whole
        assert repr(report) == repr(whole)
