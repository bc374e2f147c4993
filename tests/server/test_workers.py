"""Several workers and metrics: one that is killed is started again, and all serve the same."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from cardsign.errors import UsageFault
from cardsign.files import file_stamp
from cardsign.jose.keys import PrivateKey
from cardsign.server.run import serve
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.programs import running, wait_until
from tests.server.served import Site, hearing

TWO_WORKERS = "workers = 2\n"


def publish(directory: Path, key: PrivateKey, version: int = 1) -> bytes:
    """The card of a new generation, with this version."""
    card = {**PUBLIC, "version": f"{version}.0.0"}
    return publish_cards(directory / "pub", key, card, "staff", now=datetime.now(UTC)).card


def test_a_killed_worker_is_started_again(tmp_path: Path, key: PrivateKey) -> None:
    """The other one answers meanwhile; a signal ends both; where they serve was said once.

    The new one goes by the settings that were good last, whatever their file has become.
    """
    publish(tmp_path, key)
    with running(tmp_path, TWO_WORKERS) as server:
        wait_until(lambda: len(server.workers) == 2)
        (tmp_path / "serve.toml").write_text("workers")
        killed = min(server.workers)
        os.kill(killed, signal.SIGKILL)

        def is_replaced() -> bool:
            with contextlib.suppress(httpx.TransportError):  # a connection that it held
                assert server.get().status_code == 200
            return killed not in server.workers and len(server.workers) == 2

        wait_until(is_replaced)
        assert server.stop() == (0, "")
        assert not any("Traceback" in line for line in server.log)


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


def test_what_is_published_while_a_process_looks_moves_the_moment_too(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is read before the stamp: a stamp of before the moment says nothing after it."""
    disk = Disk(tmp_path, key, monkeypatch)
    server = disk.server()
    disk.publish(2)
    server.look()
    disk.seconds += 0.999

    def stamp_and_wait(path: Path) -> tuple[int, int, int] | None:
        stamp = disk.stamp(path)
        disk.seconds += 0.002
        return stamp

    monkeypatch.setattr("cardsign.server.site.file_stamp", stamp_and_wait)
    assert number_of(server) == 1


def test_a_disk_whose_clock_is_ahead_holds_nothing_back(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it dates an hour from now is served at once."""
    disk = Disk(tmp_path, key, monkeypatch)
    server = disk.server()
    disk.seconds += 3600
    disk.publish(2)
    disk.seconds -= 3600
    server.look()
    assert number_of(server) == 2


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
    """Whichever worker is asked, until they are switched off; a problem counts until mended."""
    publish(tmp_path, key)
    current = tmp_path / "pub/current"
    whole = current.read_bytes()
    with running(tmp_path, f"{TWO_WORKERS}metrics = true\n") as server:

        def shows(line: str) -> bool:
            return line in server.get("/metrics").text.splitlines()

        for _ in range(30):
            server.get()
        server.get("/nothing?x=1")
        answer = server.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        for line in (
            'cardsign_requests_total{endpoint="show_document",status="200"} 30.0',
            'cardsign_requests_total{endpoint="answer_interface",status="404"} 1.0',
        ):
            assert line in answer.text.splitlines()
        assert "nothing" not in answer.text
        began = re.search(r'cardsign_problems{agent=""} (\S+)', answer.text)
        assert began is not None
        for data, more in ((b"{", 1), (whole, 0)):
            current.write_bytes(data)
            problems = f'cardsign_problems{{agent=""}} {float(began[1]) + more}'
            wait_until(lambda line=problems: shows(line))  # type: ignore[misc]
        (tmp_path / "serve.toml").write_text("format = 1\n")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.get("/metrics").status_code == 404)


def test_metrics_without_the_library_are_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything listens, with what to install."""
    monkeypatch.setattr("cardsign.server.run.find_spec", lambda name: None)
    with pytest.raises(UsageFault, match="prometheus-client") as caught:
        serve(site.directory, partial(ServerSettings, metrics=True), "127.0.0.1:0")
    assert ".[metrics]" in caught.value.hint
    assert ServerSettings().metrics is False
