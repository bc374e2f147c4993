"""Cards on a Dask cluster: one verdict for each, whatever happens to a worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import Batch, Outcome, verify_many
from cardsign.errors import LocalFault
from cardsign.inputs import CardFile
from cardsign.jose.keys import JwkSet
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.support import signed
from tests.test_batch import KEYS, card_of, policy_of, spoken, unchanged

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.needs_dask


# A real scheduler with two workers.


class Cluster:
    """Processes of a cluster on this machine, and where its scheduler is."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None, *tls: str) -> None:
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}",  # the verifier of this file
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            **(environ or {}),
        }
        self.folder = folder
        file = folder / "scheduler.json"
        host = "tls://127.0.0.1:0" if tls else "tcp://127.0.0.1:0"
        self.tls = tls
        self.processes = [
            self.start("scheduler", "--host", host, "--no-dashboard", "--scheduler-file", str(file))
        ]
        while not file.exists() or not file.read_text().rstrip().endswith("}"):
            assert self.processes[0].poll() is None, (folder / "log").read_text()
            threading.Event().wait(0.05)
        self.address = json.loads(file.read_text())["address"]

    def start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Begin a scheduler or a worker."""
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "dask", what, *arguments, *self.tls]
            return subprocess.Popen(  # its own folder: nothing here is the project's
                command, cwd=self.folder, env=self.environ, stdout=log, stderr=log
            )

    def add_worker(self) -> None:
        """One worker without a nanny, which would begin it anew."""
        where = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", "work")
        self.processes.append(self.start("worker", self.address, *where))

    def fill(self) -> None:
        """Let there be two workers."""
        while sum(one.poll() is None for one in self.processes[1:]) < 2:
            self.add_worker()

    def wait(self) -> None:
        """Wait until the scheduler knows two workers."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)

    def stop(self) -> None:
        """End all processes that were begun here."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler, which takes seconds to begin."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def cluster(begun: Cluster) -> Cluster:
    """A scheduler with two workers."""
    begun.fill()
    begun.wait()
    return begun


def batch() -> Batch:
    """One that trusts two issuers."""
    return Batch(Deadly(policy_of(KEYS)), by_origin=True)


@pytest.fixture
def cards(tmp_path: Path) -> list[CardFile]:
    """Three hundred cards in a folder: trusted, unsigned, and none at all."""
    folder = tmp_path / "cards"
    folder.mkdir()
    kinds = [
        json.dumps(signed(card_of("north"), KEYS["north"])),
        json.dumps(signed(card_of("south"), KEYS["south"])),
        json.dumps(card_of("north")),
        "{",
    ]
    for number in range(300):
        (folder / f"{number:03}.json").write_text(kinds[number % 4])
    return [CardFile(str(one)) for one in sorted(folder.iterdir())]


class Deadly(Verifier):
    """A verifier to which some cards do something, by what they are called."""

    def judge(self, data: bytes, *args: Any, **named: Any) -> Report:
        """Return the verdict on a card that lets it; here nothing happens."""
        if "distributed" in sys.modules and b"waiting" in data:
            with contextlib.suppress(FileExistsError), open("flag", "x", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")
                file.flush()
                threading.Event().wait()  # for whoever kills the first that comes here
        if b"deadly" in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().judge(data, *args, **named)


def kill_by(flag: Path) -> None:
    """Wait until a worker has said who it is, and kill it."""
    while not flag.exists() or not flag.read_text().endswith("\n"):
        threading.Event().wait(0.02)
    os.kill(int(flag.read_text()), signal.SIGKILL)


def saying(card: CardFile, word: str) -> None:
    """Let a card say what something happens by."""
    made = signed({**card_of("north"), "description": word}, KEYS["north"])
    Path(card.name).write_text(json.dumps(made))


def test_a_worker_that_is_killed_loses_no_card(cluster: Cluster, cards: list[CardFile]) -> None:
    """Its chunk is done again by the other; each card has one verdict, the same as here."""
    saying(cards[150], "waiting")
    killer = threading.Thread(target=kill_by, args=(cluster.folder / "flag",), daemon=True)
    killer.start()

    outcomes = list(verify_many(cards, batch(), unchanged, cluster=cluster.address))

    killer.join()
    assert sum(one.poll() is not None for one in cluster.processes[1:]) == 1
    here = list(verify_many(cards, replace(batch(), verifier=Verifier(policy_of(KEYS))), unchanged))
    assert [*map(spoken, outcomes)] == [*map(spoken, here)]
    assert [one.name for one in outcomes] == [card.name for card in cards]


def test_a_card_that_ends_its_workers_ends_the_run(cluster: Cluster, cards: list[CardFile]) -> None:
    """Workers come back, as under a nanny; a few of them are ended, and then the run is."""
    saying(cards[20], "deadly")
    done = threading.Event()

    def replace_the_dead() -> None:
        while not done.wait(0.05):
            cluster.fill()

    nanny = threading.Thread(target=replace_the_dead)
    nanny.start()
    outcomes: list[Outcome] = []
    try:
        with pytest.raises(LocalFault) as ended:
            outcomes.extend(verify_many(cards[:40], batch(), unchanged, cluster=cluster.address))
    finally:
        done.set()
        nanny.join()

    assert ended.value.code == "cluster.unreachable"
    assert 0 < len(outcomes) <= 20
    assert [one.name for one in outcomes] == [card.name for card in cards[: len(outcomes)]]


# The command.


def test_tls_is_required_of_both_sides(tmp_path: Path, cards: list[str]) -> None:
    """A cluster by TLS gives the verdicts; without the certificates nothing is sent."""
    authority, prefix = Authority(tmp_path), "DASK_DISTRIBUTED__COMM__TLS__"
    (tmp_path / "ca.pem").write_text(authority.pem())
    environ = {f"{prefix}CA_FILE": str(tmp_path / "ca.pem")}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        both = str(authority.certificate("127.0.0.1"))
        environ |= {f"{prefix}{role}__CERT": both, f"{prefix}{role}__KEY": both}
    made = Cluster(tmp_path, environ, "--protocol", "tls")
    try:
        made.add_worker()
        policy = tmp_path / "jwks.json"
        policy.write_bytes(JwkSet.of([KEYS["north"].public]).to_bytes())
        command = [
            sys.executable,
            "-m",
            "cardsign",
            "verify",
            *(card.name for card in cards[:8]),
            "--jwks",
            str(policy),
        ]
        command += ["--cluster", made.address, "--json"]
        good = subprocess.run(command, env=made.environ, capture_output=True, check=False)
        bare = {name: value for name, value in made.environ.items() if prefix not in name}
        bad = subprocess.run(command, env=bare, capture_output=True, check=False)
    finally:
        made.stop()

    assert made.address.startswith("tls://")
    verdicts = [json.loads(line)["verdict"] for line in good.stdout.splitlines()]
    assert (len(verdicts), verdicts[0]) == (8, "trusted"), good.stderr
    assert (bad.returncode, b"usage.invalid" in bad.stderr) == (2, True)
    assert b"Set DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in bad.stderr
    assert b"Traceback" not in bad.stderr
