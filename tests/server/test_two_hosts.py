"""Two hosts: one key store in PostgreSQL, limits in Redis, nginx in front of two servers.

Each host rotates, as its cron would. Peers look through nginx after each step.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

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
from tests.server.programs import (
    PATIENCE,
    free_port,
    redis,
    run_nginx,
    running,
)
from tests.support import PORTABLE

RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}
#: Caches of a second and clocks that differ by two: a rotation lasts some seconds, and waits.
TIMELINE = "[timeline]\nmax_age = 1\nworst_cache = 1\ncard_max_age = 1\nskew = 2\n"
RATE = 1_000_000  # an hour for each client: counted, and never reached
PAUSE = 0.1  # seconds between two tries
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
        server: What ends it.
    """

    folder: Path
    port: int
    server: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def set_up(self, published: Path, limits: int) -> None:
        """The operator's own files: he allows the shared disk, and counts in Redis."""
        own = self.folder / "home/.config/cardsign/signers.toml"
        own.parent.mkdir(parents=True)
        own.write_text(f'format = 1\nfolders = ["{published}"]\n')
        own.chmod(0o600)
        (self.folder / "pub").symlink_to(published)
        self.settings = (
            f'rate = "{RATE}/hour"\nproxies = ["127.0.0.1/32"]\n'
            f'rate_storage = "redis://127.0.0.1:{limits}"\n'
        )

    def start(self) -> None:
        """Serve; returns once it answers."""
        bind = f"127.0.0.1:{self.port}"
        self.server.enter_context(running(self.folder, self.settings, bind=bind))

    def kill(self) -> None:
        """As when the machine loses its power."""
        self.server.close()


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


class Peers:
    """They verify the card through nginx again and again, each by an anchor of its own."""

    def __init__(self, home: str, *policies: Policy) -> None:
        net = FetchSettings(insecure_loopback_http=True, total_timeout=PATIENCE)
        self.home, self.kids = home, set[str]()
        self.verifiers = [
            Verifier(policy, lock=Memory(), net=net, clock=clock) for policy in policies
        ]

    def look(self) -> None:
        """Each trusts what it sees."""
        for verifier in self.verifiers:
            report = verifier.look_up(self.home).report
            assert report.verdict == "trusted", report.to_json()
            self.kids |= {signature.kid for signature in report.signatures if signature.kid}

    def look_until(self, is_done: Callable[[], bool]) -> None:
        """Look before each try, and once more after the last one."""
        deadline = time.monotonic() + PATIENCE
        self.look()
        while not is_done():
            assert time.monotonic() < deadline
            time.sleep(PAUSE)
            self.look()
        self.look()


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
    one, two = hosts = [Host(tmp_path / name, free_port()) for name in ("one", "two")]
    for host in hosts:
        host.set_up(published, limits)

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

    anchor = KeysetAnchor(read_keyset(first.keysets["1.1"]).id)
    peers = Peers(
        home,
        Policy.from_jwks(first.jwks, origin=home),
        Policy.from_jwks_url(home + JWKS_PATH, origin=home),
        Policy((TrustedIssuer("tides", anchor, (parse_place(home),)),)),
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(redis(tmp_path, limits))
        for host in hosts:
            host.start()
            stack.callback(host.kill)
        stack.enter_context(run_nginx(tmp_path, NGINX.format(one.port, two.port, port), port))
        peers.look()
        assert counted(port, limits) == GREEDY
        old, new = key("active"), key("prepublished")
        well(on(one, "keys", "rotate", "--now", old))
        host_of_turn = itertools.cycle(hosts)
        peers.look_until(lambda: rotated(next(host_of_turn)) and new in signers())
        one.kill()
        peers.look_until(lambda: rotated(two) and old not in load_current(published).kids)
        one.start()
        two.kill()
        peers.look()
    assert peers.kids == {old, new}
