"""The files of docs/guides/serve.md with the real programs: nginx, Redis, systemd, YAML."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from publications import PUBLIC, publish_cards

from cardsign.jose.keys import PrivateKey
from cardsign.publish.generation import export_files, public_files
from cardsign.server.settings import ServerSettings, read_server_settings
from tests.server.served import hearing, serve

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/serve.md"
CARD = "/.well-known/agent-card.json"
PATIENCE = 60.0
AUDIENCE = "9f2c61d07be84a15"
SPIFFE = "spiffe://tides.example/agent/harbour"


def blocks(language: str) -> list[str]:
    """The files of one kind that the guide shows."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    """Until a port is listened on."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "it ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError("it does not listen")


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """A process, ended with all that it started."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


# ------------------------------------------------------------------ certificates


class Authority:
    """One that signs the server's certificate and the clients'."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.path = self.write("authority", self.name, self.key, None)

    def write(
        self,
        name: str,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        alternative: x509.GeneralName | None,
    ) -> Path:
        """A certificate and its key, in two files; of the certificate's path."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(alternative is None, None), critical=True)
        )
        if alternative is not None:
            names = x509.SubjectAlternativeName([alternative])
            builder = builder.add_extension(names, critical=False)
        made = builder.sign(self.key, SHA256())
        path = self.folder / f"{name}.pem"
        path.write_bytes(made.public_bytes(Encoding.PEM))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.with_suffix(".key").write_bytes(private)
        return path

    def sign(self, name: str, alternative: x509.GeneralName) -> Path:
        """A certificate of somebody."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self.write(name, subject, ec.generate_private_key(ec.SECP256R1()), alternative)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority, with the certificate of the server."""
    (tmp_path / "tls").mkdir()
    made = Authority(tmp_path / "tls")
    made.sign("tides", x509.IPAddress(ip_address("127.0.0.1")))
    return made


@contextlib.contextmanager
def nginx(folder: Path, authority: Authority, config: str, **changes: str) -> Iterator[str]:
    """nginx with a file of the guide, its places moved here; the URL."""
    port = free_port()
    for old, new in {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/tides.pem": str(authority.folder / "tides.pem"),
        "/etc/ssl/private/tides.key": str(authority.folder / "tides.key"),
        "/etc/ssl/clients.pem": str(authority.path),
        **changes,
    }.items():
        config = config.replace(old, new)
    with run_nginx(folder, config, port):
        yield f"https://127.0.0.1:{port}"


@contextlib.contextmanager
def run_nginx(folder: Path, config: str, port: int) -> Iterator[None]:
    """nginx with these servers, once it listens on the port."""
    places = "\n".join(
        f"{one}_temp_path {folder}/{one};"
        for one in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = (
        f"daemon off; pid {folder}/nginx.pid; error_log stderr; worker_processes 1;\n"
        + ("user root;\n" if os.getuid() == 0 else "")
        + f"events {{}}\nhttp {{ access_log off; {places}\n{config} }}\n"
    )
    (folder / "whole.conf").write_text(whole)
    command = [str(shutil.which("nginx")), "-p", str(folder), "-c", str(folder / "whole.conf")]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    with ended(process):
        wait_for(port, process)
        yield


def asking(authority: Authority, certificate: Path | None = None) -> httpx.Client:
    """A client that trusts the authority, perhaps with a certificate of its own."""
    context = ssl.create_default_context(cafile=str(authority.path))
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return httpx.Client(verify=context, trust_env=False, timeout=PATIENCE)


# ------------------------------------------------------------------ nginx


@pytest.mark.needs_nginx
def test_nginx_serves_an_export_as_the_server_would(
    tmp_path: Path, key: PrivateKey, authority: Authority
) -> None:
    """Each public file with its headers; what is not there is not kept; nothing extended."""
    now = datetime.now(UTC)
    generation = publish_cards(tmp_path / "pub", key, PUBLIC, "staff", now=now)
    export_files(generation, tmp_path / "out")
    (config,) = (one for one in blocks("nginx") if "include" in one)
    with (
        nginx(tmp_path, authority, config, **{"/srv/out": str(tmp_path / "out")}) as url,
        asking(authority) as http,
    ):
        for path, file in public_files(generation).items():
            answer = http.get(url + path)
            assert (answer.status_code, answer.content) == (200, file.body)
            for name, value in file.headers:
                assert answer.headers[name] == value
            held = http.get(url + path, headers={"If-None-Match": answer.headers["ETag"]})
            assert held.status_code == 304
        missing = http.get(f"{url}/.well-known/cardsign/keyset/9.9.json")
        assert (missing.status_code, missing.headers["Cache-Control"]) == (404, "no-store")
        assert http.get(f"{url}/extended/staff.json").status_code == 404


@pytest.mark.needs_nginx
def test_client_certificates_reach_the_server_through_nginx(
    tmp_path: Path, key: PrivateKey, authority: Authority
) -> None:
    """The guide's two files together: the right caller, another one, one without, a forger."""
    schemes = {"mesh": {"mtlsSecurityScheme": {}}}
    demanded = [{"schemes": {"mesh": {"list": []}}}]
    card = {**PUBLIC, "securitySchemes": schemes, "securityRequirements": demanded}
    publish_cards(tmp_path / "pub", key, card, AUDIENCE, now=datetime.now(UTC))
    (settings,) = (one for one in blocks("toml") if "mtls" in one)
    settings = settings.replace("metrics = true", "metrics = false").replace("workers = 2\n", "")
    (tmp_path / "serve.toml").write_text(settings)
    harbour = authority.sign("harbour", x509.UniformResourceIdentifier(SPIFFE))
    pirate = authority.sign("pirate", x509.UniformResourceIdentifier(f"{SPIFFE}/pirate"))
    (config,) = (one for one in blocks("nginx") if "upstream" in one)
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--settings", "serve.toml"]
    server = subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with ended(server):
        assert server.stdout is not None
        upstream = json.loads(server.stdout.readline())["url"].removeprefix("http://")
        with nginx(tmp_path, authority, config, **{"127.0.0.1:8080": upstream}) as url:

            def status(certificate: Path | None, **headers: str) -> int:
                with asking(authority, certificate) as http:
                    answer = http.get(f"{url}/a2a/extendedAgentCard", headers=headers)
                    return answer.status_code

            stolen = {
                "X-SSL-Client-Verify": "SUCCESS",
                "X-SSL-Client-Cert": harbour.read_text().replace("\n", "%0A"),
            }
            assert status(harbour) == 200
            assert status(pirate) == 403
            assert status(None) == 401
            assert status(None, **stolen) == 401
            assert status(pirate, **stolen) == 403
            with asking(authority) as http:
                assert http.get(url + CARD).status_code == 200
                assert http.get(f"{url}/metrics").status_code == 404


UVICORN = """
from pathlib import Path
from cardsign.server import mount_cards, read_server_settings

async def agent(scope, receive, send):
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b"the agent"})

app = mount_cards(agent, Path("pub"), read_server_settings(Path("serve.toml")))
"""


@pytest.mark.needs_nginx
@pytest.mark.needs_a2a  # which brings uvicorn
def test_client_certificates_reach_an_agent_behind_uvicorn(
    tmp_path: Path, key: PrivateKey, authority: Authority
) -> None:
    """A client that is not on this machine, whose address uvicorn shows; a forger of it all."""
    schemes = {"mesh": {"mtlsSecurityScheme": {}}}
    demanded = [{"schemes": {"mesh": {"list": []}}}]
    card = {**PUBLIC, "securitySchemes": schemes, "securityRequirements": demanded}
    publish_cards(tmp_path / "pub", key, card, AUDIENCE, now=datetime.now(UTC))
    (shown,) = (one for one in blocks("text") if "X-Proxy-Secret" in one)
    header, _, provider = shown.partition("\n")
    rule = f'[[provider.rule]]\nclaim = "uri"\nvalue = "{SPIFFE}"\nopens = "{AUDIENCE}"\n'
    (tmp_path / "serve.toml").write_text(f"format = 1\n{provider}{rule}")
    (tmp_path / "served.py").write_text(UVICORN)
    harbour = authority.sign("harbour", x509.UniformResourceIdentifier(SPIFFE))
    (config,) = (one for one in blocks("nginx") if "upstream" in one)
    config = config.replace("$remote_addr;", "192.0.2.77;")
    config = config.replace("proxy_set_header X-SSL-Client-Verify", f"{header}\n$&").replace(
        "$&", "proxy_set_header X-SSL-Client-Verify"
    )
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "served:app", "--port", str(port)]
    root = str(Path(__file__).resolve().parents[2])
    server = subprocess.Popen(
        [*command, "--log-level", "warning"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root, "PROXY_SECRET": "a long random text"},
        start_new_session=True,
    )
    with ended(server):
        wait_for(port, server)
        places = {"127.0.0.1:8080": f"127.0.0.1:{port}"}
        with nginx(tmp_path, authority, config, **places) as url:
            with asking(authority, harbour) as http:
                assert http.get(f"{url}/a2a/extendedAgentCard").status_code == 200
                assert http.get(f"{url}/other").text == "the agent"
            with asking(authority) as http:
                assert http.get(f"{url}/a2a/extendedAgentCard").status_code == 401
        forged = {
            "X-SSL-Client-Verify": "SUCCESS",
            "X-SSL-Client-Cert": harbour.read_text().replace("\n", "%0A"),
            "X-Forwarded-For": "127.0.0.1",
        }
        direct = f"http://127.0.0.1:{port}/a2a/extendedAgentCard"
        assert httpx.get(direct, headers=forged, trust_env=False).status_code == 401


# ------------------------------------------------------------------ Redis


@contextlib.contextmanager
def redis(folder: Path, port: int) -> Iterator[subprocess.Popen[Any]]:
    """A Redis of our own, which keeps nothing."""
    command = [str(shutil.which("redis-server")), "--port", str(port), "--bind", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    with ended(process):
        wait_for(port, process)
        yield process


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


def test_the_settings_are_read(tmp_path: Path) -> None:
    """As the guide shows them."""
    (text,) = (one for one in blocks("toml") if "mtls" in one)
    (tmp_path / "serve.toml").write_text(text)
    settings = read_server_settings(tmp_path / "serve.toml")
    assert (settings.workers, settings.metrics, settings.rate) == (2, True, "600/minute")
    assert [one.type for one in settings.providers] == ["mtls"]


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
