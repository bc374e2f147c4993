"""Meeting many peers: side by side or one after the other, for the first time or again.

Real sockets on this machine, and every answer delayed as if it had come from far away. The peers
run in a process of their own. Each has his own origin, keys, keyset and release; a verifier that
is cold has neither connections nor answers nor memory nor verdicts. Its clock is ours to set, so
that an hour needs no waiting.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from documents import Issuer, issuer_at
from measuring import Broken, Times, in_turns, ratio, table

import cardsign
from cardsign import Policy
from cardsign.cli.verifier import CONCURRENCY
from cardsign.jose.keys import PublicKey
from cardsign.net.fetch import FetchSettings
from cardsign.trust.lock import Memory

SIDE_BY_SIDE: Final = "side by side"
ONE_BY_ONE: Final = "one after the other"
COLD: Final = "for the first time"
WARM: Final = "again, unchanged"

_SERVER: Final = Path(__file__).resolve().parent / "peer_server.py"
_WIRE: Final = FetchSettings(insecure_loopback_http=True)
DELAY: Final = 0.05  # seconds before each answer: a peer on another continent
#: Seconds: the card is stale by then (peer_server.py), and the statements are not asked for yet.
CARD_STALE: Final = 61
#: Seconds: everything is stale.
ALL_STALE: Final = 301


class Peers:
    """The peers of one run and their server."""

    def __init__(self, process: subprocess.Popen[str], issuers: Sequence[Issuer]) -> None:
        self._process = process
        self.issuers = issuers

    def tell(self, **request: object) -> Any:
        """One request to the server, and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def requests(self) -> Counter[int]:
        """How many answers of which status there were since this was asked last."""
        return Counter(status for status, _ in self.tell(do="log"))


@contextmanager
def peers(count: int) -> Iterator[Peers]:
    """So many peers, as long as the context lasts."""
    with subprocess.Popen(
        [sys.executable, str(_SERVER), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        now = datetime.now(UTC)
        issuers = {
            port: issuer_at(f"http://127.0.0.1:{port}", f"peer-{port}", now)
            for port in json.loads(process.stdout.readline())
        }
        made = Peers(process, tuple(issuers.values()))
        documents = {
            port: {path: body.decode() for path, body in issuer.served.items()}
            for port, issuer in issuers.items()
        }
        made.tell(do="serve", documents=documents)
        yield made  # leaving closes the server's stdin, which ends it


@dataclass(slots=True)
class Verifier:
    """Somebody who has pinned the first keyset of each peer, and has met none.

    Attributes:
        checks: The signatures that he has checked.
    """

    issuers: Sequence[Issuer]
    verifier: cardsign.Verifier
    now: datetime
    checks: list[None] = field(default_factory=list)

    def meet(self, issuer: Issuer) -> None:
        """Verify the live card of a peer; it has to be trusted."""
        report = self.verifier.look_up(issuer.origin).report
        if report.verdict != "trusted":
            raise Broken(f"{issuer.origin} is {report.verdict}: {report.reasons}")

    def meet_all(self, threads: int) -> float:
        """Verify them all; the seconds that it took."""
        began = time.perf_counter()
        if threads == 1:
            for issuer in self.issuers:
                self.meet(issuer)
        else:
            with ThreadPoolExecutor(threads) as pool:
                for _ in pool.map(self.meet, self.issuers):
                    pass
        return time.perf_counter() - began


@contextmanager
def cold_verifier(issuers: Sequence[Issuer]) -> Iterator[Verifier]:
    """One who is cold, as long as the context lasts; only one at a time."""
    entries = tuple(issuer.entry for issuer in issuers)
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        verifier: Verifier

        def now() -> datetime:
            return verifier.now

        asking = cardsign.Verifier(
            Policy(entries), lock=Memory(), cache=Path(folder), net=_WIRE, clock=now
        )
        verifier = Verifier(issuers, asking, datetime.now(UTC))
        check = PublicKey.check

        def counting(*arguments: Any) -> None:
            verifier.checks.append(None)
            check(*arguments)

        with patch.object(PublicKey, "check", counting):
            yield verifier


def measure_peers(count: int, rounds: int) -> dict[str, str]:
    """Return the tables `costs`, `again` and `many`."""
    with peers(count) as world:
        rows = list(_cost_rows(world))
        again = _meet_again(world, min(count, 20), rounds)
        many = _meet_many(world, max(1, rounds // 2))
    return {
        "costs": table(["when", "requests", "signatures checked"], *rows),
        "again": table(
            ["20 peers, one after the other", "times the first time"],
            [WARM, ratio(again, WARM, COLD)],
        ),
        "many": table(
            [f"{count} peers", f"times {CONCURRENCY} threads"],
            *([name, ratio(many, name, SIDE_BY_SIDE)] for name in many),
        ),
    }


def _cost_rows(world: Peers) -> Iterator[list[str]]:
    """What is asked and checked when one peer is met again and again; the same at every run."""
    world.tell(do="delay", seconds=0)
    waits = {COLD: 0, "at once": 0, "its card stale": CARD_STALE, "all of it stale": ALL_STALE}
    with cold_verifier(world.issuers[:1]) as verifier:
        world.requests()
        for what, seconds in waits.items():
            verifier.now += timedelta(seconds=seconds)
            verifier.checks.clear()
            verifier.meet(world.issuers[0])
            requests = sorted(world.requests().items())
            shown = ", ".join(f"{number} answered {status}" for status, number in requests)
            yield [what, shown or "none", str(len(verifier.checks))]


def _meet_again(world: Peers, some: int, rounds: int) -> Times:
    """Seconds on the wall for the first time, and when the cards are stale."""
    world.tell(do="delay", seconds=DELAY)
    times: dict[str, list[float]] = {COLD: [], WARM: []}
    for _ in range(rounds):
        with cold_verifier(world.issuers[:some]) as verifier:
            times[COLD].append(verifier.meet_all(1) / some)
            verifier.now += timedelta(seconds=CARD_STALE)
            times[WARM].append(verifier.meet_all(1) / some)
    return times


def _meet_many(world: Peers, rounds: int) -> Times:
    """Seconds on the wall of all peers for the first time, by many threads and by one."""
    world.tell(do="delay", seconds=DELAY)

    def turn(threads: int) -> float:
        with cold_verifier(world.issuers) as verifier:
            return verifier.meet_all(threads)

    turns = {SIDE_BY_SIDE: partial(turn, CONCURRENCY), ONE_BY_ONE: partial(turn, 1)}
    return in_turns(turns, rounds)
