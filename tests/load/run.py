"""Load with faults: many requests on loopback while everything around the server goes wrong.

New generations, new keys, broken generations, killed workers and a stopped Redis come in between.
Counted are wrong bytes, answers older than one that the same client has seen, errors of the server,
and memory.

    .venv/bin/python tests/load/run.py --public 500000 --extended 50000 --rounds 10
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cardsign.jose.keys import PrivateKey
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import free_port, redis, running

CARD = "/.well-known/agent-card.json"
EXTENDED = "/a2a/extendedAgentCard"
CLIENTS = 4
FAULTS = ("publish", "break", "rotate", "kill", "reload", "publish", "redis")
WORKERS = 2
HAS_REDIS = shutil.which("redis-server") is not None


@dataclass
class Result:
    """What was counted.

    Attributes:
        answers: By path and status.
        faults: What was done to the server, by name.
        wrong: Bodies that were never published.
        older: Answers older than one that the same client had before.
        refused: Requests whose connection broke, which a killed worker explains; asked again.
        memory: KiB of the server's processes, at the start and at the end.
        seconds: How long it took.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    older: int = 0
    refused: int = 0
    memory: tuple[int, int] = (0, 0)
    seconds: float = 0.0

    @property
    def server_errors(self) -> int:
        """Answers of 500 and above."""
        return sum(count for (_, status), count in self.answers.items() if status >= 500)


class Load:
    """One server, its faults and its clients."""

    def __init__(self, folder: Path, public: int, extended: int) -> None:
        self.folder, self.result = folder, Result()
        self.left = {CARD: public, EXTENDED: extended}
        self.total = public + extended
        self.lock = threading.Lock()
        self.key = PrivateKey.generate("ES256")
        self.bodies: dict[bytes, int] = {}
        self.version, self.has_redis = 0, False
        self.token, line = create_token("staff")
        (folder / "tokens").write_text(line + "\n")
        self.publish()

    def publish(self) -> None:
        """A new generation; its bytes count as published from before they are."""
        self.version += 1
        card = {**PUBLIC, "version": f"{self.version}.0.0"}
        now = datetime.now(UTC)
        # Signatures differ each time, so a reader may see bytes before we can note them: readers
        # wait for this lock before they judge.
        with self.lock:
            made = publish_cards(self.folder / "pub", self.key, card, "staff", now=now)
            self.bodies[made.card] = self.bodies[made.extended["staff"]] = self.version

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Two workers, which count in Redis where there is one."""
        settings = f'token_file = "tokens"\nworkers = {WORKERS}\n'
        self.redis, self.redis_port = contextlib.ExitStack(), free_port()
        if HAS_REDIS:
            storage = f"redis://127.0.0.1:{self.redis_port}"
            settings += f'rate = "1000000/second"\nrate_storage = "{storage}"\n'
            self.turn_redis()
        with self.redis, running(self.folder, settings) as self.server:
            yield

    def turn_redis(self) -> None:
        """Stop Redis, or start one."""
        self.has_redis = not self.has_redis
        if self.has_redis:
            self.redis.enter_context(redis(self.folder, self.redis_port))
        else:
            self.redis.close()

    def memory(self) -> int:
        """KiB that all of them hold."""
        held = 0
        for pid in self.server.workers:
            with contextlib.suppress(OSError, IndexError):
                text = Path(f"/proc/{pid}/status").read_text()
                held += int(text.split("VmRSS:")[1].split()[0])
        return held

    def disturb(self, fault: str) -> None:
        """One thing goes wrong, or changes."""
        self.result.faults[fault] += 1
        current = self.folder / "pub/current"
        if fault == "publish":
            self.publish()
        elif fault == "rotate":
            self.key = PrivateKey.generate("ES256")
            self.publish()
        elif fault == "break":
            whole = current.read_bytes()
            current.write_bytes(whole[: len(whole) // 2])
            time.sleep(0.2)
            current.write_bytes(whole)
        elif fault == "reload":
            self.server.process.send_signal(signal.SIGHUP)
        elif fault == "kill":
            workers = sorted(self.server.workers)
            if len(workers) > 1:  # else nobody would be left to answer
                os.kill(workers[0], signal.SIGKILL)
        elif fault == "redis" and HAS_REDIS:
            self.turn_redis()

    def client(self) -> None:
        """Ask until nothing is left to ask."""
        seen = 0
        headers = {EXTENDED: {"Authorization": f"Bearer {self.token}"}, CARD: {}}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        with contextlib.closing(connection):
            while True:
                with self.lock:
                    path = max(self.left, key=lambda one: self.left[one])
                    if self.left[path] <= 0:
                        return
                    self.left[path] -= 1
                try:
                    connection.request("GET", path, headers=headers[path])
                    answer = connection.getresponse()
                    status, body = answer.status, answer.read()
                except (OSError, http.client.HTTPException):
                    connection.close()  # the next request opens it anew
                    with self.lock:
                        self.result.refused += 1
                        self.left[path] += 1
                    continue
                with self.lock:
                    self.result.answers[path, status] += 1
                    if status == 200:
                        number = self.bodies.get(body, -1)
                        self.result.wrong += number < 0
                        self.result.older += 0 <= number < seen
                        seen = max(seen, number)

    def run(self, rounds: int) -> Result:
        """Everything, with so many rounds of faults spread over it."""
        with self.serving():
            clients = [threading.Thread(target=self.client) for _ in range(CLIENTS)]
            began, before = time.monotonic(), 0
            for one in clients:
                one.start()
            faults = [fault for _ in range(rounds) for fault in FAULTS]
            for number, fault in enumerate(faults, start=1):
                due = self.total * number / (len(faults) + 1)
                while self.total - sum(self.left.values()) < due:
                    time.sleep(0.005)
                before = before or self.memory()
                self.disturb(fault)
            for one in clients:
                one.join()
            self.result.memory = before, self.memory()
            self.result.seconds = time.monotonic() - began
        return self.result


def main() -> int:
    """Run it and say what was counted; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", type=int, default=20_000)
    parser.add_argument("--extended", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = Load(Path(folder), given.public, given.extended).run(given.rounds)
    for (path, status), count in sorted(found.answers.items()):
        print(f"{count:>8}  {status}  {path}")
    print(f"{found.wrong} wrong, {found.older} older than seen, {found.server_errors} errors 5xx")
    print(f"{found.refused} connections broken; faults: {dict(found.faults)}")
    print(f"memory {found.memory[0]} KiB, then {found.memory[1]} KiB; {found.seconds:.0f} s")
    return int(bool(found.wrong or found.older or found.server_errors))


if __name__ == "__main__":
    sys.exit(main())
