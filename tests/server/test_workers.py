"""Several workers and metrics: one that is killed is started again, and all serve the same."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from publications import NOW, PUBLIC, publish_cards
from served import Site, hearing, look
from served import serve as serve_app

from cardsign.errors import UsageFault
from cardsign.files import file_stamp
from cardsign.jose.keys import PrivateKey
from cardsign.server.run import serve
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.support import workers_of

CARD = "/.well-known/agent-card.json"
PATIENCE = 60.0


@dataclass
class Running:
    """A server, and what it was started with."""

    process: subprocess.Popen[str]
    url: str
    directory: Path

    def workers(self) -> set[int]:
        """The processes that answer."""
        return workers_of(self.process.pid)

    def get(self, path: str = CARD) -> httpx.Response:
        """An answer over a connection of its own, by whichever worker takes it."""
        return httpx.get(self.url + path, trust_env=False, timeout=PATIENCE)

    def count(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").text, re.M)
        return sum(map(float, lines))


@contextlib.contextmanager
def running(directory: Path, key: PrivateKey, settings: str) -> Iterator[Running]:
    """A server of two workers."""
    publish_cards(directory / "pub", key, PUBLIC, "staff", now=datetime.now(UTC))
    (directory / "serve.toml").write_text(f"format = 1\n{settings}")
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--settings", "serve.toml"]
    process = subprocess.Popen(
        [*command, "--workers", "2", "--bind", "127.0.0.1:0", "--json"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r'"url": "([^"]+)"', line)
        assert found, line
        yield Running(process, found[1], directory / "pub")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_killed_worker_is_started_again(tmp_path: Path, key: PrivateKey) -> None:
    """The other one answers meanwhile; a signal ends both; where they serve was said once."""
    with running(tmp_path, key, "") as server:
        deadline = time.monotonic() + PATIENCE
        while len(server.workers()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        before = server.workers()
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        while server.workers() & {killed} or len(server.workers()) < 2:
            assert time.monotonic() < deadline, "nobody started it again"
            with contextlib.suppress(httpx.TransportError):  # a connection that it held
                assert server.get().status_code == 200
        assert server.workers() - before
        for _ in range(20):
            with contextlib.suppress(httpx.ConnectError):
                assert server.get().status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""


def test_all_workers_serve_the_newest_generation_at_once(tmp_path: Path, key: PrivateKey) -> None:
    """A reader who has seen the new one never sees the old one again: no wait, no poll."""
    with running(tmp_path, key, "") as server:
        for number in range(2, 6):
            card = {**PUBLIC, "version": f"{number}.0.0"}
            made = publish_cards(server.directory, key, card, "staff", now=datetime.now(UTC))
            deadline = time.monotonic() + PATIENCE
            while server.get().content != made.card:
                assert time.monotonic() < deadline
            for _ in range(10):
                assert server.get().content == made.card


class Disk:
    """A publication, and a clock that this machine and the disk share."""

    def __init__(self, directory: Path, key: PrivateKey, patch: pytest.MonkeyPatch) -> None:
        self.directory, self.key = directory, key
        self.seconds, self.changed = 1_800_000_000.0, dict[int, float]()
        patch.setattr("cardsign.server.site.file_stamp", self.stamp)
        patch.setattr("cardsign.server.site.time.time", lambda: self.seconds)
        self.publish(1)

    def stamp(self, path: Path) -> tuple[int, int, int] | None:
        if (real := file_stamp(path)) is None:
            return None
        changed = self.changed.setdefault(real[0], self.seconds)
        return real[0], int(changed * 1e9), real[2]

    def publish(self, version: int) -> None:
        publish_cards(self.directory, self.key, {**PUBLIC, "version": f"{version}.0.0"})
        current = file_stamp(self.directory / "current")
        assert current is not None
        self.changed[current[0]] = self.seconds  # a new file may have an old one's inode

    def server(self) -> Publications:
        return Publications(self.directory, ServerSettings(), now=lambda: self.seconds)


def number_of(publications: Publications) -> int:
    """The generation that a request gets."""
    return publications.site.agents[""].generation.number


@pytest.mark.parametrize("pause", [0.3, 0.99, 1.01, 1.5])
def test_all_processes_exchange_at_one_moment(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """A request decides it, not a thread that wakes up late; what comes in between moves it."""
    disk = Disk(tmp_path, key, monkeypatch)
    servers = [disk.server() for _ in range(5)]
    disk.publish(2)
    began, seen = disk.seconds, set[tuple[int, ...]]()
    for step in range(400):
        disk.seconds = began + step / 100
        if step == int(pause * 100):
            disk.publish(3)
        if step % 20 < len(servers):  # each looks five times a second, one after another
            servers[step % 20].look()
        seen.add(tuple(map(number_of, servers)))
    assert seen == {(1,) * 5, (3,) * 5} | ({(2,) * 5} if pause > 1 else set())


def test_a_generation_has_its_event_although_another_follows_at_once(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody asks, as in the parent of `serve`, only a look exchanges."""
    disk = Disk(tmp_path, key, monkeypatch)
    with hearing("cardsign.events") as lines:
        server = disk.server()
        for version in (2, 3):
            disk.publish(version)
            disk.seconds += 0.1
            server.look()
            disk.seconds += 1.0
        disk.publish(4)
        server.look()
    assert [json.loads(line)["fields"]["generation"] for line in lines] == [1, 2, 3]


def test_one_look_costs_one_stamp(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many agents there are; publishing any of them changes it, and so does a new one."""
    for name in ("tides", "waves"):
        publish_cards(tmp_path / name, key, PUBLIC)
    publications = Publications(tmp_path, ServerSettings(), now=NOW.timestamp)
    monkeypatch.setattr("cardsign.server.site.EXCHANGE_SECONDS", 0.0)
    looked: list[str] = []

    def count(path: Path) -> object:
        looked.append(str(path.relative_to(tmp_path)))
        return file_stamp(path)

    monkeypatch.setattr("cardsign.server.site.file_stamp", count)
    publications.look()
    assert looked == ["."]
    publish_cards(tmp_path / "waves", key, {**PUBLIC, "version": "2.0.0"})
    publications.look()
    assert publications.site.agents["waves"].generation.number == 2
    publish_cards(tmp_path / "storms", key, PUBLIC)
    publications.look()
    assert list(publications.site.agents) == ["storms", "tides", "waves"]


@pytest.mark.needs_prometheus
def test_metrics_count_for_all_workers(tmp_path: Path, key: PrivateKey) -> None:
    """Whichever worker is asked; what is served is told beside it."""
    with running(tmp_path, key, "metrics = true\n") as server:
        for _ in range(30):
            server.get()
        server.get("/nothing?x=1")
        said = server.get("/metrics")
        assert said.headers["Content-Type"].startswith("text/plain")
        assert 'cardsign_requests_total{endpoint="show_document",status="200"} 30.0' in said.text
        assert 'cardsign_requests_total{endpoint="answer_interface",status="404"} 1.0' in said.text
        assert server.count("cardsign_request_seconds_count") == 31
        assert 'cardsign_generation{agent=""} 1.0' in said.text
        assert "nothing" not in said.text


@pytest.fixture
def two_agents(tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of two agents without a root, whose requests are counted."""
    (tmp_path / "counts").mkdir()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "counts"))
    for name in ("tides", "waves"):
        publish_cards(tmp_path / "all" / name, key, PUBLIC)
    return tmp_path / "all"


@pytest.mark.needs_prometheus
def test_a_problem_is_a_metric(two_agents: Path) -> None:
    """P6: what the log says is wrong is counted, by agent, and ends when it is mended."""
    client = serve_app(two_agents, ServerSettings(metrics=True), now=NOW.timestamp)
    began = client.get("/metrics").text
    current = two_agents / "waves/current"
    whole = current.read_bytes()
    current.write_bytes(b"{")
    look(client)
    broken = client.get("/metrics").text
    current.write_bytes(whole)
    look(client)
    mended = client.get("/metrics").text

    def problems(text: str) -> float:
        found = re.search(r'cardsign_problems{agent="waves"} (\S+)', text)
        assert found is not None
        return float(found[1])

    assert problems(broken) == problems(began) + 1
    assert problems(mended) == problems(began)
    assert 'cardsign_generation{agent="waves"} 1.0' in broken


def test_metrics_without_the_library_are_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything listens, with what to install."""
    monkeypatch.setattr("cardsign.server.run.find_spec", lambda name: None)
    with pytest.raises(UsageFault, match="prometheus-client") as caught:
        serve(site.directory, partial(ServerSettings, metrics=True), "127.0.0.1", 0)
    assert "cardsign[metrics]" in caught.value.hint
    assert ServerSettings().metrics is False
