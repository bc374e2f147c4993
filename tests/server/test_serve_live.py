"""Following a publication: what is taken, what is refused, what the operator is told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from publications import NOW, PUBLIC, publish_cards
from served import Site
from werkzeug.test import Client

from cardsign.errors import ServeFault
from cardsign.jose.keys import PrivateKey
from cardsign.publish.generation import Generation, load_current
from cardsign.server.live import LiveApplication

CARD = "/.well-known/agent-card.json"


def _version(number: int) -> dict[str, Any]:
    return {**PUBLIC, "version": f"{number}.0.0"}


def _served(site: Site) -> str:
    version: str = json.loads(site.client.get(CARD).data)["version"]
    return version


def test_a_newer_generation_is_taken_whole(site: Site, key: PrivateKey) -> None:
    """Card, extended card and tag change together, and the operator is told."""
    old = site.client.get(CARD).headers
    new = publish_cards(site.directory, key, _version(2), "staff")
    site.wait()

    answer = site.client.get(CARD)
    assert answer.data == new.card
    assert answer.headers["ETag"] != old["ETag"]
    assert answer.headers["Last-Modified"] == "Sat, 21 Nov 2026 12:00:01 GMT"
    extended = site.client.get("/extendedAgentCard", headers=site.bearer())
    assert extended.data == new.extended["staff"]
    assert site.log == ["serving generation 2"]


def test_a_newer_card_brings_its_own_paths_and_challenges(site: Site, key: PrivateKey) -> None:
    """They are the generation's, not the server's."""
    interface = {"url": "https://x.example/new", "protocolBinding": "JSONRPC"}
    schemes = {"quay": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    card = {
        **PUBLIC,
        "supportedInterfaces": [interface],
        "securitySchemes": schemes,
        "securityRequirements": [],
    }
    publish_cards(site.directory, key, card, "staff")
    site.wait()

    answer = site.client.get("/new/extendedAgentCard")
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="quay"'
    assert site.client.get("/a2a/extendedAgentCard").status_code == 404


def _truncate_card(directory: Path) -> None:
    newest = max(directory.glob("0*"))
    (newest / "agent-card.json").write_bytes(b"{")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(_truncate_card, "serve.corrupt_generation", id="a damaged card"),
        pytest.param(
            lambda d: (d / "current").write_text("{"), "strict JSON", id="a damaged current"
        ),
        pytest.param(
            lambda d: (d / "current").unlink(), "serve.no_generation", id="no current any more"
        ),
        pytest.param(shutil.rmtree, "serve.no_generation", id="no directory any more"),
        pytest.param(
            lambda d: (d / "current").write_text('{"format": 9}'),
            "serve.newer_format",
            id="a format of the future",
        ),
    ],
)
def test_whatever_is_wrong_with_a_newer_one_the_last_good_one_stays(
    site: Site, key: PrivateKey, spoil: Callable[[Path], object], words: str
) -> None:
    """The operator is told once, however often it is looked at."""
    publish_cards(site.directory, key, _version(2))
    spoil(site.directory)

    for _ in range(3):
        site.wait()
        assert _served(site) == "1.2.0"
    (line,) = site.log
    assert line.startswith("still serving generation 1: ")
    assert words in line


def test_after_a_failure_the_next_good_one_is_taken(site: Site, key: PrivateKey) -> None:
    """A damaged generation does not stop the server from looking."""
    publish_cards(site.directory, key, _version(2))
    _truncate_card(site.directory)
    site.wait()
    assert _served(site) == "1.2.0"

    publish_cards(site.directory, key, _version(3), "staff")
    site.wait()
    assert _served(site) == "3.0.0"
    assert site.log[-1] == "serving generation 3"


def test_a_lower_generation_is_refused(site: Site, key: PrivateKey) -> None:
    """Going back would revive withdrawn cards and keys."""
    first = (site.directory / "current").read_bytes()
    publish_cards(site.directory, key, _version(2), "staff")
    site.wait()
    assert _served(site) == "2.0.0"

    (site.directory / "current").write_bytes(first)
    for _ in range(3):
        site.wait()
        assert _served(site) == "2.0.0"
    assert site.log[1:] == ["still serving generation 2: generation 1 is lower and is refused"]


def test_another_generation_of_the_same_number_is_refused(site: Site, key: PrivateKey) -> None:
    """Somebody removed the directory and published anew: a person must look at that."""
    shutil.rmtree(site.directory)
    publish_cards(site.directory, key, _version(9), "staff")
    site.wait()

    assert _served(site) == "1.2.0"
    assert site.log == ["still serving generation 1: there is another generation 1 now"]


def test_a_current_that_is_only_touched_changes_nothing(site: Site) -> None:
    """The same generation again is no news."""
    os.utime(site.directory / "current", (1, 1))
    site.wait()
    assert _served(site) == "1.2.0"
    assert site.log == []


class Disk:
    """A publication whose newest generation, and all time, the test decides."""

    def __init__(
        self, generations: list[Generation], random: Random, patch: pytest.MonkeyPatch, skew: float
    ) -> None:
        self.generations, self.newest, self.random = generations, 0, random
        self.skew, self.stepped = skew, 0.0
        self.due: list[tuple[float, int]] = []
        self.seconds, self.changed, self.slept = 1_800_000_000.0, 0.0, 0.0
        for name, made in (("load_current", self.load), ("file_stamp", self.stamp)):
            patch.setattr(f"cardsign.server.live.{name}", made)
        patch.setattr("cardsign.server.live.time.sleep", self.sleep)

    def load(self, _: Path) -> Generation:
        self.publish(0.1)
        return self.generations[self.newest]

    def stamp(self, _: str) -> tuple[int, int, int]:
        return self.newest, int(self.changed * 1e9), 1

    def sleep(self, seconds: float) -> None:
        self.slept = max(self.slept, seconds)
        self.seconds += seconds + 0.0001  # no clock stands still

    def clock(self) -> float:
        return self.seconds

    def now(self) -> float:
        return self.seconds + self.stepped

    def publish(self, chance: float) -> None:
        """Perhaps one more; the clock of the file system ticks 100 times a second."""
        if self.random.random() < chance and self.newest < len(self.generations) - 1:
            self.newest += 1
            self.changed = int((self.seconds + self.skew) * 100) / 100
            self.due.append((self.seconds, self.newest + 1))


@pytest.mark.parametrize("skew", [0.0, 0.02, 0.06, 3600.0, -0.02, -0.06, -3600.0])
@pytest.mark.parametrize("seed", range(20))
def test_no_server_of_a_disk_goes_back_behind_another(
    site: Site, monkeypatch: pytest.MonkeyPatch, seed: int, skew: float
) -> None:
    """Whenever each is asked, was begun, and however fast one publication follows another.

    The disk's clock is another one, and that of this machine is set while it all goes on.
    """
    made = [site.generation]
    made += [replace(made[0], number=number) for number in range(2, 16)]
    random = Random(seed)
    disk = Disk(made, random, monkeypatch, skew)

    def begun() -> LiveApplication:
        quiet = {"log": lambda _: None, "events": lambda _: None}
        return LiveApplication(site.directory, clock=disk.clock, now=disk.now, **quiet)

    servers, seen = [begun(), begun()], 1
    for _ in range(600):
        disk.seconds += random.choice((0.0, 0.001, 0.004, 0.02, 0.2))
        disk.publish(0.02)
        if random.random() < 0.05:
            disk.stepped = random.choice((0.0, 0.03, -0.03, 1.0, -1.0))
        if random.random() < 0.02:
            servers[random.randrange(2)] = begun()
        asked, one = disk.seconds, random.choice(servers)
        one.look()
        assert one.generation.number >= seen
        seen = one.generation.number
        settled = [number for when, number in disk.due if asked - when > 0.2]
        assert seen >= max(settled, default=1)
    assert seen > 1
    assert disk.slept <= 0.06


def test_a_broken_publication_is_read_once_a_second_at_most(
    site: Site, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many requests come, on however many threads."""
    reads = []

    def count(directory: Path) -> Generation:
        reads.append(directory)
        return load_current(directory)

    def get(_: int) -> int:
        return Client(site.client.application).get(CARD).status_code

    publish_cards(site.directory, key, _version(2))
    (newest,) = site.directory.glob("0*2")
    whole = (newest / "agent-card.json").read_bytes()
    _truncate_card(site.directory)
    monkeypatch.setattr("cardsign.server.live.load_current", count)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for seconds in range(3):
            assert set(pool.map(get, range(40))) == {200}
            assert len(reads) == 1 + seconds
            site.wait()
    (newest / "agent-card.json").write_bytes(whole)
    assert _served(site) == "2.0.0"


def test_a_token_never_opens_the_card_of_another_audience(site: Site, key: PrivateKey) -> None:
    """Its own card was withdrawn while the server ran, and the only one left is another's."""
    publish_cards(site.directory, key, _version(2), "crew")
    site.wait()
    answer = site.client.get("/extendedAgentCard", headers=site.bearer("staff"))

    assert answer.status_code == 400
    assert b"NOT_CONFIGURED" in answer.data
    assert site.log == [
        "serving generation 2",
        "warning: no extended card is published for the audience of the tokens in line 1 (staff); "
        "the audiences that have one: crew",
    ]
    assert _served(site) == "2.0.0"


def test_a_token_keeps_opening_its_card_beside_new_ones(site: Site, key: PrivateKey) -> None:
    """The twin: more audiences change nothing for those there were, and are no line."""
    new = publish_cards(site.directory, key, _version(2), "crew", "staff")
    site.wait()
    answer = site.client.get("/extendedAgentCard", headers=site.bearer("staff"))

    assert answer.data == new.extended["staff"]
    assert site.log == ["serving generation 2"]


def test_a_token_opens_its_card_once_that_is_published_again(site: Site, key: PrivateKey) -> None:
    """Nobody has to start the server again."""
    publish_cards(site.directory, key, _version(2))
    site.wait()
    assert site.client.get("/extendedAgentCard", headers=site.bearer()).status_code == 400
    new = publish_cards(site.directory, key, _version(3), "staff")
    site.wait()
    answer = site.client.get("/extendedAgentCard", headers=site.bearer())
    assert answer.data == new.extended["staff"]


def test_there_is_no_server_without_a_publication(tmp_path: Path) -> None:
    """At the start a fault is a fault: nothing good is there to keep."""
    with pytest.raises(ServeFault) as refused:
        LiveApplication(tmp_path)
    assert refused.value.code == "serve.no_generation"


def test_there_is_no_server_on_a_damaged_publication(tmp_path: Path, key: PrivateKey) -> None:
    """The twin for a directory that holds something."""
    publish_cards(tmp_path / "pub", key, now=NOW)
    _truncate_card(tmp_path / "pub")
    with pytest.raises(ServeFault) as refused:
        LiveApplication(tmp_path / "pub")
    assert refused.value.code == "serve.corrupt_generation"
