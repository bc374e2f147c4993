"""What a trusted verdict does not depend on is found out when somebody asks for it."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import random
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from spoilt_cards import EXAMPLES, spoilt_card

from cardsign.card import Payloads, be_paranoid
from cardsign.errors import CardsignError
from cardsign.jose import PrivateKey, PublicKey
from cardsign.sign import SigningOptions, sign_with_notes
from cardsign.trust import Holder
from cardsign.verify import Report, VerdictCache, reach_verdict, trusted_card
from tests.support import NOW, WITH_DEFAULTS, dump, signed, trusting

KEYS = PrivateKey.generate("ES256", kid="old"), PrivateKey.generate("ES256", kid="new")


class Checks:
    """Counts the signatures that are checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        check = PublicKey.check

        def counted(key: PublicKey, *about: bytes) -> None:
            self.count += 1
            check(key, *about)

        monkeypatch.setattr(PublicKey, "check", counted)


def verdict_on(card: bytes, *, cache: VerdictCache | None = None, now: datetime = NOW) -> Report:
    """By both keys."""
    return reach_verdict(card, expect=Holder(), policy=trusting(*KEYS), now=now, cache=cache)


def by_the_plain_path(card: bytes) -> Report:
    """All at once."""
    be_paranoid()
    try:
        return verdict_on(card)
    finally:
        be_paranoid(False)


def test_a_verdict_asks_one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one holds the whole card; the others are looked at for the report."""
    card = dump(signed(WITH_DEFAULTS, KEYS[0]))
    checks = Checks(monkeypatch)
    report = verdict_on(card)

    assert trusted_card(report)["name"] == WITH_DEFAULTS["name"]
    assert checks.count == 1
    assert [one.counts for one in report.signatures] == [True, True]
    assert checks.count > 1


def _is_whole(card: dict[str, Any], entry: Any) -> bool:
    report = verdict_on(dump({**card, "signatures": [entry]}))
    return report.profile == "served-as-is"


def test_without_a_whole_signature_all_are_asked() -> None:
    """One over less than the card decides nothing as long as others were not looked at."""
    card = signed(WITH_DEFAULTS, *KEYS)
    card["signatures"] = [one for one in card["signatures"] if not _is_whole(card, one)]
    report = verdict_on(dump(card))

    assert [one.profile for one in report.signatures] == ["rule-1-as-written"] * 2
    assert report == by_the_plain_path(dump(card))


def test_a_report_is_the_one_of_the_plain_path() -> None:
    """Random cards; their signatures by one key or two, in any order, some lost, some spoilt."""
    seen = {"trusted": 0, "other": 0}
    for seed in range(min(EXAMPLES, 600)):
        draw = random.Random(seed)
        keys = draw.choice([KEYS, KEYS[:1], KEYS[1:]])
        try:
            made = sign_with_notes(dump(spoilt_card(seed)), keys, SigningOptions()).document
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
        report, plain = verdict_on(data), by_the_plain_path(data)
        assert report.verdict == plain.verdict, seed
        assert report == plain, seed
        assert report.to_json() == plain.to_json(), seed
        seen["trusted" if report.verdict == "trusted" else "other"] += 1
    assert min(seen.values()) > 0


def test_a_caller_may_change_the_card_first() -> None:
    """What is found out later is found out of the bytes."""
    card = dump(signed(WITH_DEFAULTS, KEYS[0]))
    report = verdict_on(card)
    document: dict[str, Any] = trusted_card(report).document  # type: ignore[assignment]
    document.clear()

    assert report.signatures == by_the_plain_path(card).signatures
    assert report.reasons == by_the_plain_path(card).reasons


def test_a_verdict_of_before_parses_no_card_and_checks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each caller's card is parsed when it is asked for, and is that caller's own."""
    card, cache = dump(signed(WITH_DEFAULTS, KEYS[0])), VerdictCache()
    first = verdict_on(card, cache=cache)
    assert first.card is not None
    first.card.clear()
    checks = Checks(monkeypatch)
    monkeypatch.setattr("cardsign.verify.verdict.json.loads", lambda _: pytest.fail("parsed"))
    assert verdict_on(card, cache=cache).verdict == "trusted"
    assert checks.count == 0
    monkeypatch.undo()
    second, third = verdict_on(card, cache=cache), verdict_on(card, cache=cache)
    assert second.card is not None
    second.card.clear()
    assert third.card == verdict_on(card).card
    assert third == verdict_on(card)


def test_a_verdict_of_before_keeps_no_reading_of_the_card() -> None:
    """The first reading is its caller's, who may change it; what is asked later is read anew."""
    card, cache = dump(signed(WITH_DEFAULTS, KEYS[0])), VerdictCache()

    def kept() -> list[Payloads]:
        gc.collect()
        found = [one for one in gc.get_objects() if type(one) is Payloads]
        return [one for one in found if not any(one is other for other in others)]

    others: list[Payloads] = []
    others = kept()
    verdict_on(card, cache=cache)
    assert kept() == []
    held = Payloads(WITH_DEFAULTS)
    assert kept() == [held]  # so one that was kept would have been found
    assert verdict_on(card, cache=cache) == by_the_plain_path(card)


def test_any_trusted_report_can_be_kept() -> None:
    """Also one that is whole, as a copy is."""
    card, cache = dump(signed(WITH_DEFAULTS, KEYS[0])), VerdictCache()
    report = replace(verdict_on(card), subject="ann")
    cache.put(("matter",), report)

    assert cache.get(("matter",), NOW) == report


def test_a_report_is_copied_and_printed_whole() -> None:
    """Also in the members that nobody has asked for."""
    card, cache = dump(signed(WITH_DEFAULTS, KEYS[0])), VerdictCache()
    plain = by_the_plain_path(card)
    verdict_on(card, cache=cache)
    for make in (verdict_on, lambda card: verdict_on(card, cache=cache)):
        assert pickle.loads(pickle.dumps(make(card))) == plain
        assert copy.deepcopy(make(card)) == plain
        assert repr(make(card)) == repr(plain)
        assert not hasattr(make(card), "verdicts")
