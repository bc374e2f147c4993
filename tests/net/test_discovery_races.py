"""Many at once, in threads and in processes: nothing is asked twice, lost, or taken back."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from authorities import Authority
from sites import CANONICAL, HOST, Site, pinned, plain_site, site, verifier

from cardsign.statements.keyset import KeysetId
from cardsign.trust.supplied import StatementCache
from cardsign.urls import KEYSET_PATH
from cardsign.verify.verifier import Verifier as Judge
from tests.cli import peer
from tests.support import PORTABLE

ROOT = Path(__file__).resolve().parents[2]
THREADS = 50


@pytest.fixture
def tides(authority: Authority) -> Iterator[Site]:
    """The live peer."""
    with site(authority) as served:
        yield served


def test_fifty_threads_ask_once(tides: Site) -> None:
    """One flight for each URL, one refresh, one verdict."""
    one = verifier(tides)
    with ThreadPoolExecutor(THREADS) as pool:
        reports = list(pool.map(lambda _: one.examine(HOST), range(THREADS)))
    assert {report.verdict for report in reports} == {"trusted"}
    asked = tides.paths()
    assert len(asked) == len(set(asked)) == 5
    assert one.known().cards == {HOST + CANONICAL}


def test_fifty_verifiers_of_one_cache_never_go_back(tides: Site, tmp_path: Path) -> None:
    """The issuer moves on while they look; each sees at least what it fetched itself."""
    first = tides.documents[KEYSET_PATH.format(epoch=1, version=1)]
    cache = StatementCache(tmp_path / "cache")
    history = chain(first, 6)

    def look(turn: int) -> str:
        if turn % 8 == 0:
            publish(tides, history[turn // 8], seq=43 + turn)
        report = verifier(tides, pinned(first), cache=cache).examine(HOST)
        assert report.keyset is not None
        return report.keyset.number

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(look, range(THREADS)))
    assert look(1) == "1.7"


def chain(first: bytes, length: int) -> list[bytes]:
    """So many statements, each the successor of the one before, and one more."""
    found = [first]
    for version in range(2, length + 2):
        found.append(peer.keyset(version, found[-1], iat=peer.T0 + version))
    return found


def publish(served: Site, statement: bytes, *, seq: int, **changes: Any) -> None:
    """A statement, then the release under it, unless a newer one is there."""
    served.publish(statement)
    release = peer.release(statement, PORTABLE, seq=seq, **changes)
    served.publish(release=release)


PROCESS = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from cardsign.statements.keyset import KeysetId
from cardsign.net.fetch import FetchSettings
from cardsign.trust.policy import KeysetAnchor
from cardsign.urls import parse_place
from cardsign.trust.policy import TrustedIssuer, Policy
from cardsign.trust.lock import Memory
from cardsign.verify.verifier import Verifier

folder, home, digest = sys.argv[1:]
places = (parse_place(home), parse_place("https://tides.example"))
enrolled = TrustedIssuer("tides", KeysetAnchor(KeysetId(1, 1, digest)), places)
settings = FetchSettings(insecure_loopback_http=True)
for _ in sys.stdin:
    verifier = Verifier(Policy((enrolled,)), lock=Memory(), cache=Path(folder), net=settings)
    report = verifier.look_up(home).report
    print(report.verdict, report.keyset.number, report.release.number, flush=True)
"""


def test_processes_that_meet_a_moving_issuer_lose_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    """Four processes, one cache: each sees the issuer move on and never back (attack 60)."""
    with plain_site(authority) as served:
        home = f"http://127.0.0.1:{served.port}"
        card = {"url": home + CANONICAL, "kind": "public", "seq": 1}
        listed = [{**card, "payload_sha256": peer.digest(PORTABLE)}]
        history = chain(peer.keyset(), 7)
        pin = pinned(history[0])
        assert isinstance(pin.pin, KeysetId)
        publish(served, history[0], seq=42, cards=listed, floor={})
        cache = tmp_path / "cache"
        command = [sys.executable, "-c", PROCESS, str(cache), home, pin.pin.digest]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        racers = [subprocess.Popen(command, **pipes) for _ in range(4)]
        lines: list[list[str]] = [[] for _ in racers]
        for turn in range(12):
            for racer in racers:
                racer.stdin.write("look\n")
                racer.stdin.flush()
            if turn < 7:  # while they look
                publish(served, history[turn + 1], seq=43 + turn, cards=listed, floor={})
            for racer, said in zip(racers, lines, strict=True):
                said.append(racer.stdout.readline())
        for racer in racers:
            racer.communicate()
            assert racer.returncode == 0
    seen = [[line.split() for line in said] for said in lines]
    assert {line[0] for line in itertools.chain(*seen)} == {"trusted"}
    for said in seen:
        numbers = [(line[1], int(line[2])) for line in said]
        assert numbers == sorted(numbers)
        assert numbers[-1] == ("1.8", 49)


def test_silent_peers_keep_no_other_waiting(tides: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread of his own: a whole loop's default pool of silent ones starves nobody."""
    one = verifier(tides)
    enough, silent = threading.Event(), itertools.count()
    discover = Judge.discover

    def slowly(self: Judge, target: str, **more: Any) -> Any:
        if target.startswith("https://silent"):
            next(silent)
            assert enough.wait(30)
        return discover(self, target, **more)

    monkeypatch.setattr(Judge, "discover", slowly)

    async def all_at_once() -> bool:
        waiting = [
            asyncio.create_task(one.judge.adiscover(f"https://silent{number}.example/"))
            for number in range(THREADS)
        ]
        try:
            card = await asyncio.wait_for(one.judge.adiscover(HOST), 10)
        finally:
            enough.set()
            await asyncio.gather(*waiting, return_exceptions=True)
        return card.report.verdict == "trusted"

    assert asyncio.run(all_at_once())
    assert next(silent) == THREADS


def test_who_is_cancelled_leaves_at_once(tides: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the peer goes on being silent."""
    enough = threading.Event()
    monkeypatch.setattr(Judge, "discover", lambda *_, **__: enough.wait(30))
    left = []

    async def impatient() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(verifier(tides).judge.adiscover(HOST), 0.05)
        left.append(not enough.is_set())
        enough.set()

    asyncio.run(impatient())
    assert left == [True]
