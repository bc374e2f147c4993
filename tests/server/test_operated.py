"""The files of docs/guides/serve.md with the real programs: nginx, Redis, systemd; two hosts."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml

from cardsign.card.strictjson import parse_object
from cardsign.jose.keys import PrivateKey
from cardsign.net.fetch import FetchSettings
from cardsign.publish.generation import export_files, load_current, public_files
from cardsign.server.settings import ServerSettings
from cardsign.server.site import read_signers
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, TrustedIssuer
from cardsign.urls import JWKS_PATH, parse_place
from cardsign.verify.verifier import Verifier
from tests.cli.conftest import Cardsign, Ended
from tests.cli.conftest import cardsign as cardsign
from tests.keys.postgres import Server
from tests.net.authorities import Authority
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import (
    PATIENCE,
    asking,
    blocks,
    free_port,
    nginx,
    redis,
    run_nginx,
    running,
    started,
)
from tests.server.served import hearing, serve
from tests.support import PORTABLE

CARD = "/.well-known/agent-card.json"
EXTENDED = "/a2a/extendedAgentCard"
AUDIENCE = "9f2c61d07be84a15"
SPIFFE = "spiffe://tides.example/agent/harbour"
MTLS_CARD = {
    **PUBLIC,
    "securitySchemes": {"mesh": {"mtlsSecurityScheme": {}}},
    "securityRequirements": [{"schemes": {"mesh": {"list": []}}}],
}

# ------------------------------------------------------------------ nginx


@pytest.mark.needs_nginx
def test_nginx_serves_an_export_as_the_server_would(
    tmp_path: Path, key: PrivateKey, authority: Authority
) -> None:
    """Each public file with its headers; what is not there is not kept; nothing extended."""
    now = datetime.now(UTC)
    generation = publish_cards(tmp_path / "pub", key, PUBLIC, "staff", now=now)
    export_files(generation, tmp_path / "out")
    (config,) = (text for text in blocks("nginx") if "include" in text)
    with (
        nginx(tmp_path, authority, config, **{"/srv/out": str(tmp_path / "out")}) as url,
        asking(authority) as http,
    ):
        for path, (body, headers) in public_files(generation).items():
            answer = http.get(url + path)
            assert (answer.status_code, answer.content) == (200, body)
            for name, value in headers:
                assert answer.headers[name] == value
            held = http.get(url + path, headers={"If-None-Match": answer.headers["ETag"]})
            assert held.status_code == 304
        missing = http.get(f"{url}/.well-known/cardsign/keyset/9.9.json")
        assert (missing.status_code, missing.headers["Cache-Control"]) == (404, "no-store")
        assert http.get(f"{url}/extended/staff.json").status_code == 404


@pytest.fixture
def harbour(tmp_path: Path, key: PrivateKey, authority: Authority) -> Path:
    """A card for whom the mesh knows by a certificate, and the right one."""
    publish_cards(tmp_path / "pub", key, MTLS_CARD, AUDIENCE, now=datetime.now(UTC))
    return authority.certificate(SPIFFE)


def stolen(certificate: Path) -> dict[str, str]:
    """The headers of a client who says that the proxy has verified a certificate."""
    text = certificate.read_text().partition("-----BEGIN EC")[0].partition("-----BEGIN PRIV")[0]
    text = text.replace("\n", "%0A")
    return {"X-SSL-Client-Verify": "SUCCESS", "X-SSL-Client-Cert": text}


def status(url: str, **headers: str) -> int:
    """The status of who asks a server for the extended card, past nginx."""
    return httpx.get(url + EXTENDED, headers=headers, trust_env=False).status_code


@pytest.mark.needs_nginx
def test_client_certificates_reach_the_server_through_nginx(
    tmp_path: Path, authority: Authority, harbour: Path
) -> None:
    """The guide's two files together: the right caller, another one, one without, a forger."""
    (settings,) = (text for text in blocks("toml") if "mtls" in text)
    settings = settings.replace("metrics = true", "metrics = false").replace("workers = 2\n", "")
    pirate, true = authority.certificate(f"{SPIFFE}/pirate"), stolen(harbour)
    (config,) = (text for text in blocks("nginx") if "upstream" in text)
    with running(tmp_path, settings.replace("format = 1", "")) as server:
        places = {"127.0.0.1:8080": server.url.removeprefix("http://")}
        with nginx(tmp_path, authority, config, **places) as url:
            for certificate, headers, answer in (
                (harbour, {}, 200),
                (pirate, {}, 403),
                (None, {}, 401),
                (None, true, 401),
                (pirate, true, 403),
            ):
                with asking(authority, certificate) as http:
                    assert http.get(url + EXTENDED, headers=headers).status_code == answer
            with asking(authority) as http:
                assert http.get(url + CARD).status_code == 200
                assert http.get(f"{url}/metrics").status_code == 404
        # A name with underscores is none of the proxy's: neither what it sent nor what it left out.
        forged = {name.replace("-", "_"): text for name, text in true.items()}
        assert status(server.url, **true) == 200
        assert status(server.url, **forged) == 401
        refused = {"X-SSL-Client-Verify": "NONE"}
        assert status(server.url, **{**true, **refused, **forged}) == 401
        assert status(server.url, **{**forged, **true, **refused}) == 401


@pytest.mark.needs_nginx
@pytest.mark.needs_a2a  # which brings uvicorn
def test_client_certificates_reach_an_agent_behind_uvicorn(
    tmp_path: Path, authority: Authority, harbour: Path
) -> None:
    """A client that is not on this machine, whose address uvicorn shows; a forger of it all."""
    (shown,) = (text for text in blocks("text") if "X-Proxy-Secret" in text)
    header, _, provider = shown.partition("\n")
    rule = f'[[provider.rule]]\nclaim = "uri"\nvalue = "{SPIFFE}"\nopens = "{AUDIENCE}"\n'
    (tmp_path / "serve.toml").write_text(f"format = 1\n{provider}{rule}")
    (config,) = (text for text in blocks("nginx") if "upstream" in text)
    config = config.replace("$remote_addr;", "192.0.2.77;")
    verified = "proxy_set_header X-SSL-Client-Verify"
    config = config.replace(verified, f"{header}\n{verified}")
    port = free_port()
    module = f"uvicorn tests.server.agent_apps:mounted_asgi --port {port} --log-level warning"
    with started(module, tmp_path, port, PROXY_SECRET="a long random text"):
        places = {"127.0.0.1:8080": f"127.0.0.1:{port}"}
        with nginx(tmp_path, authority, config, **places) as url:
            with asking(authority, harbour) as http:
                assert http.get(url + EXTENDED).status_code == 200
                assert http.get(f"{url}/other").text == "the agent"
            with asking(authority) as http:
                assert http.get(url + EXTENDED).status_code == 401
        forged = {**stolen(harbour), "X-Forwarded-For": "127.0.0.1"}
        assert status(f"http://127.0.0.1:{port}", **forged) == 401


# ------------------------------------------------------------------ Redis


@pytest.mark.needs_redis
def test_two_servers_count_together_in_redis(tmp_path: Path, key: PrivateKey) -> None:
    """While Redis is stopped each counts for itself, and a line says so."""
    publish_cards(tmp_path / "pub", key, PUBLIC)
    port = free_port()
    settings = ServerSettings(rate="3/hour", rate_storage=f"redis://127.0.0.1:{port}")
    with hearing("flask-limiter") as log:
        with redis(tmp_path, port):
            clients = [serve(tmp_path / "pub", settings) for _ in "12"]
            asked = [clients[turn].get(CARD).status_code for turn in (0, 1, 0, 1, 0)]
            assert asked == [200, 200, 200, 429, 429]
            other = {"REMOTE_ADDR": "192.0.2.2"}
            assert clients[1].get(CARD, environ_overrides=other).status_code == 200
            assert not any("storage" in line for line in log)
        assert [clients[0].get(CARD).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert clients[1].get(CARD).status_code == 200
        assert len([line for line in log if "storage unreachable" in line]) == 2


# ------------------------------------------------------------------ the other files


def test_the_manifest_probes_what_answers() -> None:
    """Its paths are ours, its volume is read only, and its labels fit."""
    (text,) = blocks("yaml")
    deployment = yaml.safe_load(text)["spec"]
    labels, pod = deployment["template"]["metadata"]["labels"], deployment["template"]["spec"]
    (container,) = pod["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("readiness", "liveness")]
    assert (probes, deployment["selector"]["matchLabels"]) == (["/readyz", "/healthz"], labels)
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """As `systemd-analyze verify` judges it; its twin is refused."""
    (unit,) = blocks("ini")
    program = tmp_path / "cardsign"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def judged(text: str) -> str:
        (tmp_path / "cards.service").write_text(text)
        command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "cards.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "\n".join(one for one in done.stderr.splitlines() if "cards.service" in one)

    here = unit.replace("/opt/cardsign/bin/cardsign", str(program))
    assert judged(here) == ""
    assert judged(here.replace("ProtectSystem=strict", "ProtectSystm=strict")) != ""


# ------------------------------------------------------------------ two hosts
#
# One key store in PostgreSQL, one published folder, nginx in front of two servers. Each host
# rotates, as its cron would. Peers look through nginx after each step.

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
