"""Load with faults: many requests on loopback while everything around the server goes wrong.

New generations, new keys, broken generations, killed workers and a stopped Redis come in between.
Counted are wrong bytes, answers older than one that the same client has seen, errors of the server,
and memory; anything wrong is exit status 1.

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
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cardsign.jose.keys import PrivateKey
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import Running, free_port, redis, running
from tests.server.served import write_tokens

CARD = "/.well-known/agent-card.json"
EXTENDED = "/a2a/extendedAgentCard"
CLIENTS = 4
FAULTS = ("publish", "break", "rotate", "kill", "reload", "publish", "redis")
#: Seconds. granian ends where a worker dies so soon after it was started, as if none could start.
CRASH_LOOP = 6.0
HAS_REDIS = shutil.which("redis-server") is not None


class Load:
    """One publication, its faults and its clients.

    Attributes:
        left: Requests that are still to be made, by path.
        answers: By path and status.
        wrong: Bodies that were never published, answers older than one that the same client had,
            and connections that broke, which a killed worker explains; those are asked again.
    """

    def __init__(self, folder: Path, public: int, extended: int) -> None:
        self.folder, self.left = folder, {CARD: public, EXTENDED: extended}
        self.answers, self.wrong = Counter[tuple[str, int]](), Counter[str]()
        self.lock, self.key = threading.Lock(), PrivateKey.generate("ES256")
        self.versions: dict[bytes, int] = {}
        self.killed_at = 0.0
        self.redis, self.redis_port, self.has_redis = contextlib.ExitStack(), free_port(), False
        self.token, line = create_token("staff")
        write_tokens(folder, line)
        self.publish()

    def publish(self) -> None:
        """A new generation; its bytes count as published from before they are."""
        version = len(self.versions) // 2 + 1
        card, now = {**PUBLIC, "version": f"{version}.0.0"}, datetime.now(UTC)
        # Signatures differ each time, so a reader may see bytes before we can note them: readers
        # wait for this lock before they judge.
        with self.lock:
            made = publish_cards(self.folder / "pub", self.key, card, "staff", now=now)
            self.versions |= {made.card: version, made.extended["staff"]: version}

    def disturb(self, fault: str, server: Running) -> None:
        """One thing goes wrong, or changes."""
        current = self.folder / "pub/current"
        if fault == "rotate":
            self.key = PrivateKey.generate("ES256")
        if fault in ("publish", "rotate"):
            self.publish()
        elif fault == "break":
            whole = current.read_bytes()
            current.write_bytes(whole[: len(whole) // 2])
            time.sleep(0.2)
            current.write_bytes(whole)
        elif fault == "reload":
            server.process.send_signal(signal.SIGHUP)
        elif fault == "kill" and time.monotonic() > self.killed_at + CRASH_LOOP:
            self.killed_at = time.monotonic()
            _, *others = sorted(server.workers)
            for worker in others[:1]:  # else nobody would be left to answer
                os.kill(worker, signal.SIGKILL)
        elif fault == "redis" and HAS_REDIS:
            self.turn_redis()

    def turn_redis(self) -> None:
        """Stop Redis, or start one."""
        self.has_redis = not self.has_redis
        if self.has_redis:
            self.redis.enter_context(redis(self.folder, self.redis_port))
        else:
            self.redis.close()

    def ask(self, server: Running) -> None:
        """Ask until nothing is left to ask, or the server has ended."""
        newest, headers = 0, {EXTENDED: {"Authorization": f"Bearer {self.token}"}, CARD: {}}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        with contextlib.closing(connection):
            while server.process.poll() is None:
                with self.lock:
                    path = max(self.left, key=lambda path: self.left[path])
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
                        self.wrong["broken"] += 1
                        self.left[path] += 1
                    continue
                with self.lock:
                    self.answers[path, status] += 1
                    version = self.versions.get(body, 0)
                    self.wrong["unknown"] += status == 200 and not version
                    self.wrong["older"] += 0 < version < newest
                    newest = max(newest, version)

    def run(self, rounds: int) -> tuple[int, int]:
        """Everything, with so many rounds of faults spread over it; memory before and after."""
        settings = 'token_file = "tokens"\nworkers = 2\n'
        if HAS_REDIS:
            storage = f"redis://127.0.0.1:{self.redis_port}"
            settings += f'rate = "1000000/second"\nrate_storage = "{storage}"\n'
            self.turn_redis()
        faults, total = FAULTS * rounds, sum(self.left.values())
        with self.redis, running(self.folder, settings) as server:
            clients = [threading.Thread(target=self.ask, args=(server,)) for _ in range(CLIENTS)]
            for client in clients:
                client.start()
            before = 0
            for number, fault in enumerate(faults, start=1):
                due = total * number / (len(faults) + 1)
                while total - sum(self.left.values()) < due and server.process.poll() is None:
                    time.sleep(0.005)
                before = before or memory(server)
                self.disturb(fault, server)
            for client in clients:
                client.join()
            return before, memory(server)


def memory(server: Running) -> int:
    """KiB that all workers hold."""
    total = 0
    for pid in server.workers:
        with contextlib.suppress(OSError, IndexError):
            text = Path(f"/proc/{pid}/status").read_text()
            total += int(text.split("VmRSS:")[1].split()[0])
    return total


def main() -> int:
    """Run it and say what was counted; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("--public", 20_000), ("--extended", 2_000), ("--rounds", 4)):
        parser.add_argument(name, type=int, default=count)
    options, began = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        load = Load(Path(folder), options.public, options.extended)
        before, after = load.run(options.rounds)
    for (path, status), count in sorted(load.answers.items()):
        print(f"{count:>8}  {status}  {path}")
    print(f"wrong: {dict(load.wrong)}; memory {before} KiB, then {after} KiB")
    print(f"{options.rounds} times {', '.join(FAULTS)}; {time.monotonic() - began:.0f} s")
    is_as_asked = load.answers == {(CARD, 200): options.public, (EXTENDED, 200): options.extended}
    is_wrong = load.wrong["unknown"] or load.wrong["older"] or after > 2 * before + 50_000
    return int(bool(is_wrong or not is_as_asked))


if __name__ == "__main__":
    sys.exit(main())
