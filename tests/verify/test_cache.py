"""Verdicts of before: reused in the same matter alone, and never longer than they hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.files import read_bytes
from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import KeysAnchor, Subject
from cardsign.trust.session import read_cache
from cardsign.verify.report import Report
from cardsign.verify.verdict import judge_card
from tests.statements.making import DAY, T0, URL, entry, key, later, thumbprint
from tests.support import PORTABLE, Remembering, codes, dump
from tests.trust.establishing import ORIGIN, anchored
from tests.trust.histories import after, digest_of, keyset
from tests.verify.tides import Tides, card_of, current


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An element for each verdict that was reached anew."""
    reached: list[None] = []

    def counted(*about: Any, **how: Any) -> Report:
        reached.append(None)
        return judge_card(*about, **how)

    monkeypatch.setattr("cardsign.verify.verifier.judge_card", counted)
    return reached


def test_the_same_matter_gets_the_same_verdict(anew: list[None]) -> None:
    """As of now: nothing else differs."""
    tides = Tides()
    first, second = tides.says(), tides.says(now=later(60))
    assert len(anew) == 1
    assert second == replace(first, checked_at=later(60))
    assert second == Tides(tides.one).says(now=later(60))


OTHER_MATTERS: dict[str, Callable[[Tides], dict[str, Any]]] = {
    "other bytes": lambda tides: {"card": card_of() + b" "},
    "another subject, the issuer": lambda tides: {"expect": Subject(issuer="tides")},
    "another subject, elsewhere": lambda tides: {"expect": Subject(url=f"{ORIGIN}/b")},
    "another kind": lambda tides: {"expect": Subject(url=URL, audience="moor")},
    "a newer keyset": lambda tides: {"keysets": [after(tides.one)]},
    "a revocation": lambda tides: {
        "releases": [current(tides.one, seq=6, revoked=[thumbprint("card")])]
    },
    "something to be noted": lambda tides: {"keysets": [tides.one, b"junk"]},
    "a time of one's choice": lambda tides: {"historic": True},
}


@pytest.mark.parametrize("changed", OTHER_MATTERS.values(), ids=OTHER_MATTERS)
def test_another_matter_is_judged_anew(
    changed: Callable[[Tides], dict[str, Any]], anew: list[None]
) -> None:
    """Evil.example may serve somebody's genuine card (threat 3): a verdict of before is no help."""
    warm = Tides()
    cold = Tides(warm.one)
    for tides in (warm, cold):
        tides.says()
    verdicts_of(cold).clear()
    report = warm.says(**changed(warm))
    assert len(anew) == 3
    assert report == cold.says(**changed(cold))


def verdicts_of(tides: Tides) -> dict[Any, Any]:
    """The verdicts that are kept."""
    return tides.memory.session(tides.policy.issuers[0]).verdicts


def test_a_verdict_is_reused_until_its_deadline(anew: list[None]) -> None:
    """To the second; and not before the time at which it was reached."""
    tides = Tides()
    releases = [current(tides.one, exp=T0 + 3600)]
    for seconds, count, verdict in (
        (100, 1, "trusted"),
        (99, 2, "trusted"),
        (99, 2, "trusted"),
        (3599, 2, "trusted"),
        (3600, 3, "indeterminate"),
    ):
        report = tides.says(releases=releases, now=later(seconds))
        assert (len(anew), report.verdict) == (count, verdict)


def test_a_key_that_did_not_count_yet_does_not_count_by_a_later_verdict(anew: list[None]) -> None:
    """A clock that is set back finds no verdict of the time ahead."""
    keys = [entry("card", "card", nbf=T0), entry("rel", "release")]
    tides = Tides(keyset("ann", "bob", keys=keys))
    releases = [current(tides.one, iat=T0 - 2 * DAY, exp=T0 + DAY)]
    assert tides.says(releases=releases).verdict == "trusted"

    early = tides.says(releases=releases, now=later(-301))
    assert (early.verdict, codes(early)[0]) == ("untrusted", "key.not_yet_valid")
    assert len(anew) == 2


def test_a_verdict_by_pinned_keys_ends_with_its_key() -> None:
    """Nothing else about them ever changes, so no newer matter ends it."""
    jwk = {**key("card").public.jwk(), "exp": T0 + 60}
    tides = Tides(anchor=KeysAnchor(JwkSet.from_bytes(dump({"keys": [jwk]}))), freshness="waived")
    for seconds, verdict in ((0, "trusted"), (59, "trusted"), (60, "untrusted")):
        assert tides.says(keysets=[], releases=[], now=later(seconds)).verdict == verdict


def test_only_trusted_verdicts_are_kept() -> None:
    """What was missing may have come meanwhile."""
    for circumstances in ({"card": card_of("eve")}, {"card": b"{"}, {"releases": []}):
        tides = Tides()
        assert tides.says(**circumstances).verdict != "trusted"
        assert verdicts_of(tides) == {}


def test_what_a_caller_does_to_a_report_does_not_reach_the_next(anew: list[None]) -> None:
    """Neither to the first one nor to a later one."""
    tides = Tides()
    for _ in range(3):
        report = tides.says()
        assert report.card == PORTABLE
        report.card["supportedInterfaces"][0]["url"] = "https://evil.example/"
        report.card["skills"].clear()
    assert len(anew) == 1


def test_the_verdicts_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may choose URLs fills no memory."""
    monkeypatch.setattr("cardsign.verify.verifier.MAX_VERDICTS", 2)
    tides = Tides(anchor=KeysAnchor(JwkSet.of([key("card").public])), freshness="waived")
    for number, count in enumerate((1, 2, 1, 2)):
        assert tides.says(expect=Subject(url=f"{ORIGIN}/{number}")).verdict == "trusted"
        assert len(verdicts_of(tides)) == count


def test_threads_share_a_verifier() -> None:
    """Each gets the verdict on his own card."""
    keys = KeysAnchor(JwkSet.of([key("card").public]))
    tides = Tides(anchor=keys, freshness="waived")
    cards = [card_of(card={**PORTABLE, "version": str(number)}) for number in range(6)]
    together = threading.Barrier(8)

    def judge(thread: int) -> None:
        together.wait(timeout=60)
        for turn in range(10):
            number = (thread + turn) % len(cards)
            card = tides.says(cards[number]).card or {}
            assert card["version"] == str(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(judge, range(8)))


# ------------------------------------------------------------------ statements in a folder


def remembering(folder: Path) -> Remembering:
    """A process that shares this cache with others."""
    return Remembering(cache=folder)


def test_a_process_that_knows_less_takes_nothing_back(tmp_path: Path) -> None:
    """What the cache holds is verified like the rest, by one that runs as by the next."""
    tides = Tides()
    two = after(tides.one, keys=[entry("rel", "release")])
    older, newer = remembering(tmp_path), remembering(tmp_path)
    assert tides.says(memory=older).verdict == "trusted"
    assert tides.says(keysets=[tides.one, two], memory=newer).verdict == "untrusted"

    renewed = [current(tides.one, seq=6)]
    for process in (older, remembering(tmp_path)):
        assert tides.says(releases=renewed, memory=process).verdict == "untrusted"


@pytest.mark.parametrize("behind", [True, False], ids=["clock behind", "contested"])
def test_what_a_process_cannot_accept_stays_in_the_cache(tmp_path: Path, behind: bool) -> None:
    """Its clock is behind, or two releases claim one number: others accept it."""
    tides = Tides()
    newest = current(tides.one, seq=6, iat=T0 + 3000, revoked=[thumbprint("card")])
    tides.says(releases=[newest], now=later(3600), memory=remembering(tmp_path))
    rival = current(tides.one, seq=6, iat=T0 + 2999)
    offered = [current(tides.one)] if behind else [rival]
    tides.says(releases=offered, now=later(0 if behind else 3600), memory=remembering(tmp_path))

    report = tides.says(now=later(3600), memory=remembering(tmp_path))
    assert (report.verdict, report.release and report.release.seq) == ("untrusted", 6)


def test_a_keyset_of_which_a_slow_clock_knows_nothing_stays_in_the_cache(tmp_path: Path) -> None:
    """A process whose clock is behind keeps what it has seen itself beside it."""
    tides = Tides()
    two = after(tides.one, keys=[entry("rel", "release")], iat=T0 + 3000, exp=T0 + 9 * DAY)
    tides.says(keysets=[tides.one, two], now=later(3600), memory=remembering(tmp_path))
    assert tides.says(memory=remembering(tmp_path)).verdict == "trusted"

    report = tides.says(now=later(3600), memory=remembering(tmp_path))
    assert (report.verdict, report.keyset and report.keyset.label) == ("untrusted", "1.2")


def test_verifiers_that_share_a_cache_never_take_it_back(tmp_path: Path) -> None:
    """At once, each being shown another part of the history (attack 60)."""
    tides = Tides()
    history = [tides.one]
    for version in range(5):
        history.append(after(history[-1], iat=T0 - DAY + version, exp=T0 + 9 * DAY))

    def look(last: int) -> None:
        releases = [current(history[last], seq=10 + last)]
        tides.says(keysets=history[: last + 1], releases=releases, memory=remembering(tmp_path))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(look, [3, 0, 5, 1, 4, 2] * 3))
    report = tides.says(keysets=[], releases=[], memory=remembering(tmp_path))
    assert report.verdict == "trusted"
    assert report.keyset is not None
    assert report.release is not None
    assert (report.keyset.label, report.release.seq) == ("1.6", 15)


def test_a_spoilt_cache_is_overwritten(tmp_path: Path) -> None:
    """A keyset of a higher number that no root has signed counts for nothing."""
    tides = Tides()
    process = remembering(tmp_path)
    tides.says(memory=process)
    (kept,) = (path for path in tmp_path.glob("*/*.json") if "-" not in path.name)
    forged = after(tides.one, "eve").decode()
    kept.write_text(json.dumps([forged]))

    tides.says(releases=[current(tides.one, seq=6)], memory=process)
    (text,) = json.loads(kept.read_text())
    assert digest_of(text.encode()) == digest_of(tides.one) == kept.stem.rpartition(".")[2]
    assert len([*tmp_path.glob("*/*-*.json")]) == 1


def test_a_link_in_the_cache_leads_to_no_other_folder(tmp_path: Path) -> None:
    """Nothing is written there, and what lies there under such a name is not taken for ours."""
    tides, victim, cache = Tides(), tmp_path / "victim", tmp_path / "cache"
    for folder in (victim, cache):
        folder.mkdir()
    (victim / "-notes-2025.json").write_text("mine")
    (cache / digest_of(tides.one)).symlink_to(victim)
    assert tides.says(memory=remembering(cache)).verdict == "trusted"
    assert [path.name for path in victim.iterdir()] == ["-notes-2025.json"]


def test_a_huge_folder_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has filled it; what comes first is still read."""
    tides = Tides()
    assert tides.says(memory=remembering(tmp_path)).verdict == "trusted"
    (folder,) = tmp_path.iterdir()
    for number in range(20):
        (folder / f"x{number}.json").write_text(json.dumps(["x" * 1000]))
    monkeypatch.setattr("cardsign.trust.session.MAX_CACHE_BYTES", 8 * 1024)
    kept = read_cache(tmp_path, anchored(tides.one))
    assert sum(map(len, kept.untrusted_keysets)) < 8 * 1024
    assert tides.says(keysets=[], releases=[], memory=remembering(tmp_path)).verdict == "trusted"


def test_a_verdict_reads_of_a_long_history_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each is reached anew, since the newest statement is over."""
    tides, history = Tides(), [keyset("ann", "bob")]
    for version in range(4):
        history.append(after(history[-1], iat=T0 - DAY + version, exp=T0 + 60))
    for last in range(1, 4):
        tides.says(keysets=history[:last], memory=remembering(tmp_path))
    running = remembering(tmp_path)
    assert tides.says(memory=running, now=later(60)).verdict == "indeterminate"

    read: list[str] = []

    def noted(path: Path, **how: Any) -> bytes:
        read.append(path.name)
        return read_bytes(path, **how)

    monkeypatch.setattr("cardsign.files.read_bytes", noted)
    report = tides.says(memory=running, now=later(60))
    assert codes(report)[0] == "statement.expired"
    assert [name for name in read if "-" not in name] == []
    tides.says(keysets=history[3:4], memory=remembering(tmp_path))
    report = tides.says(memory=running, now=later(60))
    assert report.keyset is not None
    assert report.keyset.label == "1.4"
