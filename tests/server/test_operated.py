"""The files of docs/guides/serve.md with the real programs: nginx, Redis, systemd, YAML."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import yaml

from cardsign.jose.keys import PrivateKey
from cardsign.publish.generation import export_files, public_files
from cardsign.server.settings import ServerSettings
from tests.net.authorities import Authority
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import asking, blocks, free_port, nginx, redis, running, started
from tests.server.served import hearing, serve

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
    manifest = yaml.safe_load(text)
    pod = manifest["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert manifest["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["spec"]["volumes"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


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
