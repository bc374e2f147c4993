"""Two hosts: one key store in PostgreSQL, limits in Redis, nginx in front of two servers.

Each host rotates, as its cron would. Peers poll through nginx all the while.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from programs import (
    PATIENCE,
    free_port,
    redis,
    run_nginx,
)

from cardsign.card.strictjson import parse_object
from cardsign.net.fetch import FetchSettings
from cardsign.publish.generation import load_current
from cardsign.server.site import read_signers
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, TrustedIssuer
from cardsign.urls import CARD_PATH, JWKS_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.cli.conftest import Cardsign, Ended
from tests.cli.conftest import cardsign as cardsign  # a fixture
from tests.keys.postgres import Server
from tests.support import PORTABLE

RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}
#: Caches of a second and clocks that differ by two: a rotation lasts some seconds, and waits.
TIMELINE = "[timeline]\nmax_age = 1\nworst_cache = 1\ncard_max_age = 1\nskew = 2\n"
RATE = 1_000_000  # an hour for each client: counted, and never reached
PAUSE = 0.05  # seconds between two polls of one peer, which leave time for the rest
CLIENT = "127.0.0.2"
GREEDY = 8  # requests of one more client, which both servers answer

NGINX = """
upstream cards {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}
server {{
    listen 127.0.0.1:{};
    location / {{
        proxy_pass http://cards;
        proxy_set_header Host $http_host;
        add_header X-Upstream $upstream_addr;
        proxy_set_header X-Forwarded-For $remote_addr;
    }}
}}
"""


def well(done: Ended) -> Ended:
    """What must have gone well."""
    assert done.status == 0, done.err
    return done


@dataclass
class Host:
    """A machine with a checkout of the issuer's project, and a server.

    Attributes:
        folder: The checkout; the user's own settings lie in it.
        port: Of the server.
        published: The publication, on a disk that both machines have.
        process: The server, while it lives.
    """

    folder: Path
    port: int
    published: Path
    process: subprocess.Popen[bytes] | None = None

    def set_up(self, limits: int) -> None:
        """The operator's own files: he allows the shared disk, and counts in Redis."""
        own = self.folder / "home/.config/cardsign/signers.toml"
        own.parent.mkdir(parents=True)
        own.write_text(f'format = 1\nfolders = ["{self.published}"]\n')
        own.chmod(0o600)
        (self.folder / "serve.toml").write_text(
            f'format = 1\nrate = "{RATE}/hour"\nproxies = ["127.0.0.1/32"]\n'
            f'rate_storage = "redis://127.0.0.1:{limits}"\n'
        )

    def start(self) -> None:
        """Serve; returns once it answers."""
        command = [sys.executable, "-m", "cardsign", "serve", str(self.published)]
        command += ["--settings", "serve.toml", "--bind", f"127.0.0.1:{self.port}", "--json"]
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), "the server ended"

    def kill(self) -> None:
        """As when the machine loses its power."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None


@dataclass
class Peer:
    """One that verifies the card again and again, and notes each answer that it should not get."""

    name: str
    verifier: Verifier
    wrong: list[str] = field(default_factory=list)
    kids: set[str] = field(default_factory=set)
    polls: int = 0

    def poll(self, home: str, is_over: threading.Event, turn: threading.Condition) -> None:
        """Until it is over."""
        while not is_over.is_set():
            report = self.verifier.look_up(home).report
            if report.verdict != "trusted":
                self.wrong.append(json.dumps(report.to_json()))
            self.kids |= {one.kid for one in report.signatures if one.kid}
            with turn:
                self.polls += 1
                turn.notify_all()
            is_over.wait(PAUSE)


def clock() -> datetime:
    return datetime.now(UTC)


def counted(port: int, limits: int) -> int:
    """How many requests of one client Redis holds, which nginx gave to both servers."""
    from redis import Redis

    answered = set()
    for _ in range(GREEDY):
        asking = http.client.HTTPConnection("127.0.0.1", port, PATIENCE, (CLIENT, 0))
        with contextlib.closing(asking):
            asking.request("GET", CARD_PATH)
            answer = asking.getresponse()
            assert answer.status == 200
            answered.add(answer.headers["X-Upstream"])
    assert len(answered) == 2
    with Redis(port=limits) as held:
        return sum(int(held.get(name) or 0) for name in held.scan_iter(f"*{CLIENT}*"))


def until(is_done: Callable[[], bool], peers: Peers) -> None:
    """Try until it is; between two tries each peer looks at what there is."""
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < deadline
        peers.look()


class Peers:
    """They verify the card through nginx, each in a thread of its own, until the test is over."""

    def __init__(self, home: str, peers: list[Peer]) -> None:
        self.home, self.all = home, peers
        self.is_over, self.turn = threading.Event(), threading.Condition()

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        threads = [
            threading.Thread(target=one.poll, args=(self.home, self.is_over, self.turn))
            for one in self.all
        ]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self.is_over.set()
            for one in threads:
                one.join(PATIENCE)

    def look(self) -> None:
        """Returns once each of them has made a whole poll that began after this was called."""
        with self.turn:
            due = [one.polls + 2 for one in self.all]
            assert self.turn.wait_for(
                lambda: all(one.polls >= count for one, count in zip(self.all, due, strict=True)),
                PATIENCE,
            )
        assert [one.wrong for one in self.all] == [[] for _ in self.all]


@pytest.mark.thorough
@pytest.mark.usefixtures("cheap")
@pytest.mark.needs_postgres
@pytest.mark.needs_nginx
@pytest.mark.needs_redis
def test_peers_see_neither_a_rotation_nor_a_lost_host(
    tmp_path: Path, cardsign: Cardsign, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned keys, a key set with its cache, a keyset: each poll of each of them is trusted."""
    monkeypatch.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    port, limits = free_port(), free_port()
    home = f"http://127.0.0.1:{port}"
    published = tmp_path / "shared"
    one, two = hosts = [Host(tmp_path / name, free_port(), published) for name in ("one", "two")]
    for host in hosts:
        host.set_up(limits)

    def on(host: Host, *words: str, **environment: str) -> Ended:
        """A command there, by a user of that machine."""
        monkeypatch.chdir(host.folder)
        return cardsign(*words, HOME=str(host.folder / "home"), **environment)

    interface = {**PORTABLE["supportedInterfaces"][0], "url": f"{home}/a2a"}
    card = {**PORTABLE, "supportedInterfaces": [interface]}
    (one.folder / "card.json").write_text(json.dumps(card))
    words = ("--issuer", home, "--card", "card.json", "--recovery-out", "recovery.key")
    well(on(one, "init", *words, **RECOVERY))
    settings = one.folder / "cardsign.toml"
    text = settings.read_text().replace('publish = "public"', f'publish = "{published}"')
    settings.write_text(text + TIMELINE)
    well(on(one, "keys", "rotate"))
    for name in ("cardsign.toml", "card.json", "signed.json"):
        shutil.copy(one.folder / name, two.folder)
    first = load_current(published)

    def key(state: str) -> str:
        """The card key in a state."""
        listed = well(on(one, "keys", "list", "--json")).json
        (found,) = (each for each in listed if each["state"] == state and "card" in each["roles"])
        return str(found["kid"])

    def rotated(host: Host) -> bool:
        """Its cron, which needs a person for nothing: all keys are in the database."""
        well(on(host, "keys", "rotate"))
        return True

    def signers() -> set[str | None]:
        """Whose signatures the published card claims."""
        return {
            signer["kid"] for signer in read_signers(parse_object(load_current(published).card))
        }

    fetching = FetchSettings(insecure_loopback_http=True, total_timeout=PATIENCE)

    def peer(name: str, policy: Policy) -> Peer:
        return Peer(name, Verifier(policy, lock=Memory(), net=fetching, clock=clock))

    anchor = KeysetAnchor(read_keyset(first.keysets["1.1"]).id)
    peers = Peers(
        home,
        [
            peer("pinned", Policy.from_jwks(first.jwks, origin=home)),
            peer("jwks", Policy.from_jwks_url(home + JWKS_PATH, origin=home)),
            peer("keyset", Policy((TrustedIssuer("tides", anchor, (parse_place(home),)),))),
        ],
    )
    with contextlib.ExitStack() as running:
        running.enter_context(redis(tmp_path, limits))
        for host in hosts:
            host.start()
            running.callback(host.kill)
        running.enter_context(run_nginx(tmp_path, NGINX.format(one.port, two.port, port), port))
        running.enter_context(peers.polling())
        peers.look()
        assert counted(port, limits) == GREEDY
        old, new = key("active"), key("prepublished")
        well(on(one, "keys", "rotate", "--now", old))
        host_of_turn = itertools.cycle(hosts)
        until(lambda: rotated(next(host_of_turn)) and new in signers(), peers)
        one.kill()
        until(lambda: rotated(two) and old not in load_current(published).kids, peers)
        one.start()
        two.kill()
        peers.look()
    for each in peers.all:
        assert each.kids == {old, new}
