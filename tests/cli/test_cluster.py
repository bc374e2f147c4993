"""Cards on a Dask cluster: one verdict for each, whatever happens to a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from cardsign.batch import Batch, Outcome, verify_many
from cardsign.errors import FileFault, LocalFault
from cardsign.jose.keys import JwkSet
from cardsign.verify.verifier import Verifier
from tests.cli.conftest import Store
from tests.net.authorities import Authority
from tests.support import signed
from tests.test_batch import KEYS, card_of, policy_of

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
pytestmark = pytest.mark.needs_dask


# A real scheduler with two workers.


class Cluster:
    """Processes of a cluster on this machine, and where its scheduler is."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None, *tls: str) -> None:
        self.environ = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}",  # the views of this file
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
def begun(tmp_path_factory: pytest.TempPathFactory, s3: Store) -> Iterator[Cluster]:
    """A scheduler, which takes seconds to begin; its workers find the store."""
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


def verifier() -> Batch:
    """One that trusts two issuers at a fixed time."""
    return Batch(Verifier(policy_of(KEYS), clock=lambda: NOW), by_origin=True)


@pytest.fixture
def cards(tmp_path: Path) -> list[str]:
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
    return [str(one) for one in sorted(folder.iterdir())]


def spoken(one: Outcome) -> tuple[str, str]:
    """The name and the verdict."""
    return one.name, one.verdict


def whole(one: Outcome) -> Outcome:
    """All of it."""
    return one


def waiting(flag: str, at: str, one: Outcome) -> tuple[str, str]:
    """The same; the first worker that comes to one card waits there to be killed."""
    if one.name.endswith(at):
        try:
            with open(flag, "x", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            return spoken(one)
        threading.Event().wait()
    return spoken(one)


def deadly(at: str, one: Outcome) -> tuple[str, str]:
    """The same; one card ends each worker that it is given to."""
    if one.name.endswith(at) and not isinstance(one.result, LocalFault):
        os.kill(os.getpid(), signal.SIGKILL)
    return spoken(one)


def kill_by(flag: Path) -> None:
    """Wait until a worker has said who it is, and kill it."""
    while not flag.exists() or not flag.read_text().endswith("\n"):
        threading.Event().wait(0.02)
    os.kill(int(flag.read_text()), signal.SIGKILL)


def test_a_worker_that_is_killed_loses_no_card(
    cluster: Cluster, cards: list[str], tmp_path: Path
) -> None:
    """Its chunk is done again by the other; each card has one verdict, the same as here."""
    flag = tmp_path / "flag"
    killer = threading.Thread(target=kill_by, args=(flag,), daemon=True)
    killer.start()

    view = partial(waiting, str(flag), "150.json")
    found = list(verify_many(cards, verifier(), cluster=cluster.address, view=view))

    killer.join()
    assert sum(one.poll() is not None for one in cluster.processes[1:]) == 1
    assert found == list(verify_many(cards, verifier(), view=spoken))
    assert [name for name, _ in found] == cards


def test_a_card_that_ends_its_workers_ends_the_run(cluster: Cluster, cards: list[str]) -> None:
    """Workers come back, as under a nanny; after a few of them all that is left is faults."""
    done = threading.Event()

    def replace_the_dead() -> None:
        while not done.wait(0.05):
            cluster.fill()

    nanny = threading.Thread(target=replace_the_dead)
    nanny.start()
    try:
        view = partial(deadly, "020.json")
        found = list(verify_many(cards[:40], verifier(), cluster=cluster.address, view=view))
    finally:
        done.set()
        nanny.join()

    expected = list(verify_many(cards[:40], verifier(), view=spoken))
    ended = [verdict for _, verdict in found].index("fault")
    assert 0 < ended <= 20
    assert found == [*expected[:ended], *((name, "fault") for name in cards[ended:40])]


def test_workers_read_objects_and_no_policy_or_state(
    cluster: Cluster, cards: list[str], tmp_path: Path, s3: Store
) -> None:
    """Of a name that is no object they are sent the bytes; what is missing is one card's fault."""
    far = s3.put("cluster/1.json", Path(cards[1]).read_bytes())
    absent = "s3://cards/cluster/absent.json"
    names = [cards[0], far, absent, str(tmp_path / "none.json"), cards[2]]

    found = list(verify_many(names, verifier(), cluster=cluster.address, view=whole))

    assert [one.verdict for one in found] == ["trusted", "trusted", "fault", "fault", "untrusted"]
    for one in found[2:4]:
        assert isinstance(one.result, FileFault)
        assert one.result.code == "file.not_found"


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
        command = [sys.executable, "-m", "cardsign", "verify", *cards[:8], "--jwks", str(policy)]
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
