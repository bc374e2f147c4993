"""Several workers take up what is published at one moment, and say so once (rows F39 to F41)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from cardsign.files import file_stamp
from cardsign.jose.keys import PrivateKey
from cardsign.server.settings import ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.programs import running, wait_until
from tests.server.served import hearing


@pytest.mark.needs_prometheus
def test_F39_F40_workers_take_up_publications_whole(tmp_path: Path, key: PrivateKey) -> None:
    """One event at the start and one for each publication; metrics count for all workers.

    A broken one has no event, changes nothing, and counts as a problem until it is mended. A worker
    that was killed is started again by the settings that were good last.
    """
    current, cards, settings = tmp_path / "pub/current", list[bytes](), tmp_path / "serve.toml"

    def publish() -> None:
        card = {**PUBLIC, "version": f"{len(cards)}.0.0"}
        cards.append(publish_cards(tmp_path / "pub", key, card, now=datetime.now(UTC)).card)

    publish()
    with running(tmp_path, "workers = 2\nmetrics = true\n") as server:

        def metrics() -> list[str]:
            return server.get("/metrics").text.splitlines()

        wait_until(lambda: len(server.workers) == 2)
        seen = {server.get().content for _ in range(30)}
        server.get("/nothing?x=1")
        lines = metrics()
        assert 'cardsign_requests_total{endpoint="show_document",status="200"} 30.0' in lines
        assert 'cardsign_requests_total{endpoint="answer_interface",status="404"} 1.0' in lines
        assert "nothing" not in "".join(lines)

        def is_served(card: bytes) -> bool:
            seen.add(server.get().content)
            return card in seen

        publish()
        wait_until(lambda: is_served(cards[-1]))
        whole = current.read_bytes()
        current.write_bytes(b"{")
        problem = 'cardsign_problems{agent=""} 1.0'
        wait_until(lambda: problem in metrics())
        wait_until(lambda: any("still serving" in line for line in server.log))
        assert server.get().content == cards[-1]
        current.write_bytes(whole)
        wait_until(lambda: problem not in metrics())
        publish()
        wait_until(lambda: is_served(cards[-1]))
        assert seen == set(cards)

        settings.write_text("workers")
        killed = min(server.workers)
        os.kill(killed, signal.SIGKILL)

        def is_replaced() -> bool:
            with contextlib.suppress(httpx.TransportError):  # a connection that it held
                assert server.get().content == cards[-1]
            return killed not in server.workers and len(server.workers) == 2

        wait_until(is_replaced)
        settings.write_text("format = 1\n")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.get("/metrics").status_code == 404)
        assert server.stop() == (0, "")
    assert not any("Traceback" in line for line in server.log)
    events = [json.loads(line)["fields"] for line in server.log if line.startswith("{")]
    assert [fields["generation"] for fields in events] == [1, 2, 3]
    digests = [hashlib.sha256(card).hexdigest() for card in cards]
    assert [fields["card_sha256"] for fields in events] == digests


# ------------------------------------------------------------------ the event


def event_of(directory: Path, key: PrivateKey, card: dict[str, object], *audiences: str) -> str:
    """Publish a card, and return the line of its event."""
    publish_cards(directory, key, card, *audiences)
    with hearing("cardsign.events") as lines:
        Publications(directory, ServerSettings(), now=NOW.timestamp)
    (line,) = lines
    return line


def test_F41_the_event_never_holds_the_card(tmp_path: Path, key: PrivateKey) -> None:
    """No skill, no description, no extension, no signature, nothing of an extended card."""
    extension = {"uri": "https://secret.example/ext", "params": {"a": "secret-params"}}
    skill = {"id": "secret-id", "name": "secret-skill", "description": "secret-text", "tags": ["t"]}
    capabilities = {"extendedAgentCard": True, "extensions": [extension]}
    card = {**PUBLIC, "description": "secret", "capabilities": capabilities, "skills": [skill]}
    line = event_of(tmp_path, key, card, "secret-audience")
    signed = json.loads((tmp_path / "000001/agent-card.json").read_bytes())

    assert "secret" not in line
    assert signed["signatures"][0]["signature"] not in line
    event = json.loads(line)
    assert (list(event), event["time"]) == (
        ["time", "event", "fields"],
        "2026-11-21T12:00:00.000+00:00",
    )
    assert list(event["fields"]) == [
        *("agent", "generation", "name", "version", "protocol_version", "url", "skill_count"),
        *("capabilities", "security_schemes", "card_size_bytes", "card_sha256", "signatures"),
    ]


def test_F41_a_card_cannot_fill_or_forge_the_log(tmp_path: Path, key: PrivateKey) -> None:
    """Texts and lists are cut off, and a line end in a name is escaped."""
    bearer = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    schemes = {f"{number}{'s' * 999}": bearer for number in range(100)}
    name = 'Tides\n{"event":"forged"}\u2028\u001b[31m' + "x" * 9999
    card = {**PUBLIC, "name": name, "securitySchemes": schemes, "securityRequirements": []}
    line = event_of(tmp_path, key, card)

    assert line.isascii()
    assert line.isprintable()
    fields = json.loads(line)["fields"]
    assert fields["name"] == name[:256]
    assert [len(scheme) for scheme in fields["security_schemes"]] == [256] * 32


# ------------------------------------------------------------------ the moment


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


@pytest.fixture
def disk(tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, key, monkeypatch)


def number_of(publications: Publications) -> int:
    """The generation that a request gets."""
    return publications.site.agents[""].generation.number


@pytest.mark.parametrize("pause", [0.3, 0.99, 1.01, 1.5])
def test_all_processes_exchange_at_one_moment(disk: Disk, pause: float) -> None:
    """A request decides it, not a thread that wakes up late; what comes in between moves it."""
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
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is read before the stamp: a stamp of before the moment says nothing after it."""
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


def test_a_disk_whose_clock_is_ahead_holds_nothing_back(disk: Disk) -> None:
    """What it dates an hour from now is served at once."""
    server = disk.server()
    disk.seconds += 3600
    disk.publish(2)
    disk.seconds -= 3600
    server.look()
    assert number_of(server) == 2


def test_a_generation_has_its_event_although_another_follows_at_once(disk: Disk) -> None:
    """Where nobody asks, as in the parent of `serve`, only a look exchanges."""
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
