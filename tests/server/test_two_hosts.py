"""Two hosts: one key store in PostgreSQL, one published folder, nginx in front of two servers.

Each host rotates, as its cron would. Peers look through nginx after each step.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import time
from collections.abc import Callable
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
from cardsign.urls import JWKS_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.cli.conftest import Cardsign, Ended
from tests.cli.conftest import cardsign as cardsign  # a fixture
from tests.keys.postgres import Server
from tests.server.programs import PATIENCE, free_port, run_nginx, running
from tests.support import PORTABLE

RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}
#: Caches of a second and clocks that differ by two: a rotation lasts some seconds, and waits.
TIMELINE = "[timeline]\nmax_age = 1\nworst_cache = 1\ncard_max_age = 1\nskew = 2\n"
NGINX = """
upstream cards {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}
server {{ listen 127.0.0.1:{}; location / {{ proxy_pass http://cards; }} }}
"""


def set_up(host: Path, published: Path) -> None:
    """The operator allows the shared disk."""
    own = host / "home/.config/cardsign/signers.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'format = 1\nfolders = ["{published}"]\n')
    own.chmod(0o600)
    (host / "pub").symlink_to(published)


@pytest.mark.thorough
@pytest.mark.usefixtures("cheap")
@pytest.mark.needs_postgres
@pytest.mark.needs_nginx
def test_peers_see_neither_a_rotation_nor_a_lost_host(
    tmp_path: Path, cardsign: Cardsign, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned keys, a key set with its cache, a keyset: each poll of each of them is trusted."""
    monkeypatch.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    port = free_port()
    home, published = f"http://127.0.0.1:{port}", tmp_path / "shared"
    one, two = ports = {tmp_path / name: free_port() for name in ("one", "two")}
    for host in ports:
        set_up(host, published)

    def on(host: Path, *words: str, **environment: str) -> Ended:
        monkeypatch.chdir(host)
        done = cardsign(*words, HOME=str(host / "home"), **environment)
        assert done.status == 0, done.err
        return done

    interface = {**PORTABLE["supportedInterfaces"][0], "url": f"{home}/a2a"}
    (one / "card.json").write_text(json.dumps({**PORTABLE, "supportedInterfaces": [interface]}))
    words = ("--issuer", home, "--card", "card.json", "--recovery-out", "recovery.key")
    on(one, "init", *words, **RECOVERY)
    settings = one / "cardsign.toml"
    text = settings.read_text().replace('publish = "public"', f'publish = "{published}"')
    settings.write_text(text + TIMELINE)
    on(one, "keys", "rotate")
    for name in ("cardsign.toml", "card.json", "signed.json"):
        shutil.copy(one / name, two)
    first = load_current(published)

    def key(state: str) -> str:
        listed = on(one, "keys", "list", "--json").json
        (kid,) = (k["kid"] for k in listed if k["state"] == state and "card" in k["roles"])
        return str(kid)

    def signers() -> set[str | None]:
        card = parse_object(load_current(published).card)
        return {signer["kid"] for signer in read_signers(card)}

    anchor, kids = KeysetAnchor(read_keyset(first.keysets["1.1"]).id), set[str]()
    net = FetchSettings(insecure_loopback_http=True, total_timeout=PATIENCE)
    peers = [
        Verifier(policy, lock=Memory(), net=net, clock=lambda: datetime.now(UTC))
        for policy in (
            Policy.from_jwks(first.jwks, origin=home),
            Policy.from_jwks_url(home + JWKS_PATH, origin=home),
            Policy((TrustedIssuer("tides", anchor, (parse_place(home),)),)),
        )
    ]

    def look() -> None:
        for peer in peers:
            report = peer.look_up(home).report
            assert report.verdict == "trusted", report.to_json()
            kids.update(signature.kid for signature in report.signatures if signature.kid)

    def rotate_until(is_done: Callable[[], bool], *hosts: Path) -> None:
        """By the cron of each, which needs a person for nothing."""
        deadline = time.monotonic() + PATIENCE
        for host in itertools.cycle(hosts):
            look()
            on(host, "keys", "rotate")
            if is_done():
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        look()

    with contextlib.ExitStack() as stack:
        servers = {host: stack.enter_context(contextlib.ExitStack()) for host in ports}
        for host in ports:
            servers[host].enter_context(running(host, bind=f"127.0.0.1:{ports[host]}"))
        config = NGINX.format(ports[one], ports[two], port)
        stack.enter_context(run_nginx(tmp_path, config, port))
        look()
        old, new = key("active"), key("prepublished")
        on(one, "keys", "rotate", "--now", old)
        rotate_until(lambda: new in signers(), one, two)
        servers[one].close()  # as when the machine loses its power
        rotate_until(lambda: old not in load_current(published).kids, two)
        servers[one].enter_context(running(one, bind=f"127.0.0.1:{ports[one]}"))
        servers[two].close()
        rotate_until(lambda: new in kids, one)  # once what peers keep for a second is over
    assert kids == {old, new}
