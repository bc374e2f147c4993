"""What is taken up from disk while a server runs, and what is refused: the last good state stays.

Several workers take it up at one moment, and say so once (rows F39 to F41). What is answered then
is in `exchanges/following.txt` and `exchanges/host.txt`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from cardsign.errors import ServeFault
from cardsign.files import file_stamp
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.page import card_page
from cardsign.publish.generation import load_current
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.site import Publications
from tests.publish.publications import NOW, PUBLIC, publish_cards, put_in_place, sign
from tests.server.programs import running, wait_until
from tests.server.served import Site, hearing, look, publications_of, serve

CARD = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
MTLS = ServerSettings(providers=(ProviderSettings(type="mtls", opens="staff"),))
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def version_of(site: Site) -> str:
    version: str = json.loads(site.client.get(CARD).data)["version"]
    return version


def truncate_card(directory: Path) -> None:
    (max(directory.glob("0*")) / "agent-card.json").write_bytes(b"{")


def publish_anew(directory: Path) -> None:
    """Somebody removed the directory, and so begins with the first number again."""
    shutil.rmtree(directory)
    publish_cards(directory, PrivateKey.generate("ES256"))


def put(directory: Path, name: str, body: bytes) -> None:
    """Put this in the place of a published file; publishing makes no such thing."""
    newest = load_current(directory)
    (directory / newest.folder / name).parent.mkdir(exist_ok=True)
    put_in_place(directory, replace(newest, files={**newest.files, name: body}))


EXTENDED, UNMARKED = "extended/staff.json", b'{"name":"x","capabilities":{}}'


def go_back(directory: Path) -> None:
    """Put the first generation in place again, which would revive withdrawn cards and keys."""
    shutil.copy(directory.parent / "first", directory / "current")


#: What is done to the directory, and what the operator is told.
SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "a damaged card": (truncate_card, "serve.corrupt_generation"),
    "no directory any more": (shutil.rmtree, "serve.no_generation"),
    "an earlier generation": (go_back, "generation 1 is not newer, and is refused"),
    "one that begins anew, and is not later": (publish_anew, "generation 1 is not newer"),
    "an extended card that is none": (lambda d: put(d, EXTENDED, b"{"), ""),
    "an extended card without marker": (lambda d: put(d, EXTENDED, UNMARKED), ""),
}


@pytest.mark.parametrize(("spoil", "words"), SPOILT.values(), ids=SPOILT)
def test_whatever_is_wrong_with_a_newer_one_the_last_good_one_stays(
    site: Site, key: PrivateKey, spoil: Callable[[Path], object], words: str
) -> None:
    """The operator is told once, however often it is looked at."""
    shutil.copy(site.directory / "current", site.directory.parent / "first")
    publish_cards(site.directory, key, {**PUBLIC, "version": "2.0.0"}, "staff")
    look(site.client)
    publish_cards(site.directory, key, {**PUBLIC, "version": "3.0.0"}, "staff")
    spoil(site.directory)
    for _ in range(3):
        look(site.client)
        assert version_of(site) == "2.0.0"
    (line,) = site.log
    assert line.startswith("warning: still serving generation 2: ")
    assert words in line
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 200


def test_other_settings_take_over_what_is_served(site: Site, key: PrivateKey) -> None:
    """They revive nothing, and lose nothing of which the files are broken now."""
    first = (site.directory / "current").read_bytes()
    publish_cards(site.directory, key, {**PUBLIC, "version": "2.0.0"}, "staff")
    look(site.client)
    served = publications_of(site.client)
    (site.directory / "current").write_bytes(first)
    settings = site.settings.model_copy(update={"legacy": False})
    newer = Publications(site.directory, settings, now=served.now, previous=served)
    (site.directory / "current").unlink()
    newer = Publications(site.directory, settings, now=served.now, previous=newer)
    assert newer.site.agents[""].generation.number == 2
    assert LEGACY not in newer.site.documents
    assert [line.split(": ")[1] for line in site.log] == ["still serving generation 2"] * 2
    with pytest.raises(ServeFault, match="and no provider accepts that"):
        Publications(site.directory, MTLS, now=served.now, previous=newer)
    disabled = site.settings.model_copy(update={"enabled": False})
    newer = Publications(site.directory, disabled, now=served.now, previous=newer)
    assert newer.site.agents == {}


def test_a_publication_that_begins_anew_is_served_if_it_is_later(
    site: Site, key: PrivateKey
) -> None:
    """As from a pipeline, whose folder is empty each time; the key of before may be stolen."""
    for version in ("2.0.0", "3.0.0"):
        publish_cards(site.directory, key, {**PUBLIC, "version": version}, "staff")
    look(site.client)
    shutil.rmtree(site.directory)
    card = {**PUBLIC, "version": "4.0.0"}
    later = NOW + timedelta(days=1)
    publish_cards(site.directory, PrivateKey.generate("ES256"), card, "staff", now=later)
    look(site.client)
    assert version_of(site) == "4.0.0"
    assert site.log == []
    for _ in range(2):  # of an earlier time again, under a higher number
        publish_cards(site.directory, key, {**PUBLIC, "version": "5.0.0"}, "staff")
    current = json.loads((site.directory / "current").read_bytes())
    early = json.dumps({**current, "published_at": "2026-11-21T12:00:01Z"})
    (site.directory / "current").write_text(early)
    look(site.client)
    assert version_of(site) == "4.0.0"


def test_there_is_no_server_on_a_damaged_publication(site: Site) -> None:
    """At the start a fault is a fault: nothing good is there to keep."""
    card = json.loads(site.generation.card) | {"securityRequirements": ["harbour"]}
    put(site.directory, "agent-card.json", json.dumps(card).encode())
    with pytest.raises(ServeFault, match="public card cannot be read") as refused:
        serve(site.directory, site.settings)  # nobody could say who may have the extended card
    assert refused.value.code == "serve.schemes"
    truncate_card(site.directory)
    with pytest.raises(ServeFault, match=r"serve\.corrupt_generation"):
        serve(site.directory)
    for name in ("empty", "no-such-folder"):
        with pytest.raises(ServeFault, match=r"serve\.no_generation"):
            serve(site.directory / name)


def test_agents_come_and_go_and_harm_no_other(
    tmp_path: Path, key: PrivateKey, log: list[str]
) -> None:
    """Without a restart. While their folder cannot be read, those that were there stay."""
    folder = tmp_path / "all"
    for name in ("surf", "tides"):
        publish_cards(folder / name, key, {**PUBLIC, "name": name})
    truncate_card(folder / "surf")
    client = serve(folder, now=NOW.timestamp)

    def served() -> dict[str, str]:
        look(client)
        agents = publications_of(client).site.agents
        cards = {name: client.get(f"/agents/{name}{CARD}").json for name in agents}
        return {name: card["name"] for name, card in cards.items() if card}

    assert served() == {"tides": "tides"}
    (line,) = (line for line in log if "surf" in line)
    assert line.startswith("warning: agent surf: not served: serve.corrupt_generation")
    assert client.get(f"/agents/surf{CARD}").status_code == 404
    shutil.rmtree(folder / "surf")
    publish_cards(folder / "waves", key, {**PUBLIC, "name": "waves"})
    assert client.get(f"/agents/waves{CARD}").status_code == 404  # until it is looked at
    assert served() == {"tides": "tides", "waves": "waves"}
    folder.rename(tmp_path / "away")
    for _ in range(3):
        assert served() == {"tides": "tides", "waves": "waves"}
    assert len([line for line in log if "still serving the agents" in line]) == 1
    (tmp_path / "away").rename(folder)
    publish_cards(folder / "tides", key, PUBLIC, "staff", now=NOW + timedelta(days=1))
    look(client)
    with pytest.raises(ServeFault, match="agent tides: the public card demands"):
        Publications(folder, MTLS, previous=publications_of(client))
    shutil.rmtree(folder / "tides")
    assert served() == {"waves": "waves"}
    assert client.get(f"/agents/tides{CARD}").status_code == 404
    assert client.get(CARD).json == client.get(f"/agents/waves{CARD}").json


# ------------------------------------------------------------------ the page for people


def test_a_page_allows_its_own_style_alone(site: Site) -> None:
    """No script, nothing of other hosts."""
    shown = site.client.get("/", headers=HTML)
    policy = shown.headers["Content-Security-Policy"]
    style = re.search("<style>(.*)</style>", shown.text, re.DOTALL)
    assert style is not None
    assert f"style-src 'sha256-{b64encode(sha256(style[1].encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_statement_that_cannot_be_read_leaves_the_page_of_the_card(site: Site) -> None:
    """Whoever can write the publication may have put it there."""
    put(site.directory, "keyset/1.1.json", b"{}")
    shown = serve(site.directory, now=NOW.timestamp).get("/", headers=HTML)
    assert (shown.status_code, "Tide tables" in shown.text) == (200, True)
    assert any("the page leaves the statements out" in line for line in site.log)


def test_a_page_is_made_once_and_kept_no_longer_than_statements(
    tmp_path: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is asked for, until its verdict ends; each generation has its own."""
    made, real, ahead = [], card_page, [0.0]

    def count(*args: Any, **options: Any) -> Any:
        made.append(1)
        return real(*args, **options)[0], NOW + timedelta(seconds=400 * len(made))

    monkeypatch.setattr("cardsign.server.site.card_page", count)
    documents = Documents(sign(PUBLIC, key), JwkSet.of([key.public]), max_age=86_400)
    publish_generation(documents, tmp_path, now=NOW)
    client = serve(tmp_path, now=lambda: NOW.timestamp() + ahead[0])
    for ahead[0], times in ((0, 1), (399, 1), (400, 2)):
        answer = client.get("/", headers=HTML)
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert len(made) == times
    assert client.get(CARD).headers["Cache-Control"] == "public, max-age=86400"
    publish_cards(tmp_path, key, {**PUBLIC, "version": "9.9.9"})
    look(client)
    assert client.get("/", headers=HTML).headers["ETag"] != answer.headers["ETag"]
    assert len(made) == 3


# ------------------------------------------------------------------ several workers


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
