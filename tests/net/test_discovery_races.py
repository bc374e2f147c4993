"""Verifiers of one cache, in threads and in processes: none goes back, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from authorities import Authority
from internet import Network
from peers import Answer, http, serving
from sites import CANONICAL, Looker, Site, at

from cardsign.statements.keyset import read_keyset
from cardsign.trust.session import StatementCache
from cardsign.urls import RELEASE_PATH
from tests.cli import peer
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, signed

ROOT = Path(__file__).resolve().parents[2]


def chain(length: int) -> list[bytes]:
    """So many statements, each the successor of the one before."""
    statements = [peer.keyset()]
    for version in range(2, length + 1):
        statements.append(peer.keyset(version, statements[-1], iat=peer.T0 + version))
    return statements


def test_fifty_verifiers_of_one_cache_never_go_back(authority: Authority, tmp_path: Path) -> None:
    """The issuer moves on while they look; each sees at least what it fetched itself."""
    tides, history = Site(Network(authority)), chain(7)

    def look(turn: int) -> str:
        if turn % 8 == 0:
            statement = history[turn // 8]
            tides.publish(statement, release=peer.release(statement, PORTABLE, seq=43 + turn))
        report = Looker(tides, cache=StatementCache(tmp_path / "cache")).examine()
        assert report.keyset is not None
        return report.keyset.number

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(look, range(50)))
    assert look(1) == "1.7"


PROCESS = """
import sys
from pathlib import Path
from cardsign.net.fetch import FetchSettings
from cardsign.statements.keyset import KeysetId
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.verifier import Verifier

folder, home, digest = sys.argv[1:]
places = (parse_place(home), parse_place("https://tides.example"))
policy = Policy((TrustedIssuer("tides", KeysetAnchor(KeysetId(1, 1, digest)), places),))
settings = FetchSettings(insecure_loopback_http=True)
for _ in sys.stdin:
    verifier = Verifier(policy, lock=Memory(), cache=Path(folder), net=settings)
    report = verifier.look_up(home).report
    print(report.verdict, report.keyset.number, report.release.number, flush=True)
"""


def test_processes_that_meet_a_moving_issuer_lose_nothing(tmp_path: Path) -> None:
    """Three processes, one cache: each sees the issuer move on and never back (attack 60)."""
    history, answers = chain(4), dict[str, Answer]()
    answers[CANONICAL] = http(dump(signed(PORTABLE, key("card"))))
    with serving(answers) as server:
        home = server.url("")
        card = {"url": home + CANONICAL, "kind": "public", "seq": 1}
        listed: list[Any] = [{**card, "payload_sha256": peer.digest(PORTABLE)}]

        def publish(turn: int) -> None:
            statement = history[turn]
            release = peer.release(statement, PORTABLE, seq=42 + turn, cards=listed, floor={})
            answers[at(1, turn + 1)] = http(statement)
            answers[RELEASE_PATH] = http(release)

        publish(0)
        digest = read_keyset(history[0]).digest
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "cache"), home, digest]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
        racers = [subprocess.Popen(command, **pipes) for _ in range(3)]
        lines: list[list[str]] = [[] for _ in racers]
        for turn in range(1, 7):
            for racer in racers:
                racer.stdin.write("look\n")
                racer.stdin.flush()
            if turn < len(history):  # while they look
                publish(turn)
            for racer, seen in zip(racers, lines, strict=True):
                seen.append(racer.stdout.readline())
        for racer in racers:
            racer.communicate()
            assert racer.returncode == 0
    for seen in lines:
        verdicts, keysets, releases = zip(*(line.split() for line in seen), strict=True)
        assert set(verdicts) == {"trusted"}
        numbers = list(zip(keysets, map(int, releases), strict=True))
        assert numbers == sorted(numbers)
        assert numbers[-1] == ("1.4", 45)
