"""Serving over loopback: `cardsign serve` beside nginx, who answers the same card from a file.

`wrk` asks, by connections that stay open, one server after another in turns. Counted are seconds
for a request and CPU seconds of the server's processes. Without nginx or wrk nothing is measured.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from documents import portable_card
from joserfc import jwt
from joserfc.jwk import ECKey
from measuring import Broken, in_turns, ratio, table

from cardsign import JwkSet, PrivateKey, sign_card
from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.publish.generation import Generation, export_files
from cardsign.publish.publication import Documents, publish_generation
from cardsign.server.tokens import create_token
from cardsign.urls import CARD_PATH

NGINX: Final = "nginx, a file"
BARE: Final = "a bare Flask view of the card, under granian"
SDK: Final = "a2a-sdk's own route, under uvicorn"
PUBLIC: Final = "the public card"
UNCHANGED: Final = "the public card, 304"
LIMITED: Final = "the public card, with a limit"
TOKEN: Final = "the extended card, by a static token"
JWT: Final = "the extended card, by a JWT"
EXTENDED_PATH: Final = "/a2a/extendedAgentCard"
AUDIENCE: Final = "https://tides.example"
_REQUESTS: Final = re.compile(r"(\d+) requests in ([\d.]+)(ms|s|m)")
_BAD: Final = re.compile(r"Non-2xx or 3xx responses: \d+|Socket errors: .*")
_PATIENCE: Final = 60.0

_NGINX: Final = """\
{user} worker_processes 1; daemon off; pid nginx.pid; error_log error.log;
events {{ worker_connections 256; }}
http {{
    access_log off; sendfile on; keepalive_requests 1000000000;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u;
    scgi_temp_path s;
    server {{ listen 127.0.0.1:{port}; root {root}; include {headers}; }}
}}
"""


#: Both answer the card that was published, the first with the headers that we send.
_BARE: Final = """
import json
from pathlib import Path
from flask import Flask, Response, request
BODY, HEADERS = Path("card").read_bytes(), json.loads(Path("headers").read_text())
app = Flask("bare", static_folder=None)

@app.get("/.well-known/agent-card.json")
def card():
    return Response(BODY, headers=HEADERS).make_conditional(request)
"""
_SDK: Final = """
from pathlib import Path
from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCard
from google.protobuf.json_format import Parse
from starlette.applications import Starlette
card = Parse(Path("card").read_bytes(), AgentCard(), ignore_unknown_fields=True)
app = Starlette(routes=create_agent_card_routes(agent_card=card))
"""


def measure_serving(folder: Path, rounds: int, seconds: int) -> dict[str, str]:
    """Return the table `serving`: seconds and CPU seconds of a request, by who answers."""
    if not (shutil.which("nginx") and shutil.which("wrk")):
        return {"serving": "Not measured: nginx or wrk was not installed."}
    card = {**json.loads(portable_card(skills=10)), **_EXTENDED}
    key = PrivateKey.generate("ES256")
    generation = _publish(folder / "public", card, key)
    export_files(generation, folder / "out")
    token, line = create_token("staff")
    (folder / "tokens").write_text(line + "\n")
    with _issuer() as issuer, contextlib.ExitStack() as stack:
        (folder / "oidc.toml").write_text(
            f'format = 1\n[[provider]]\ntype = "oidc"\nissuer = "{issuer.url}"\n'
            f'aud = "{AUDIENCE}"\nopens = "staff"\ninsecure_loopback_http = true\n'
        )
        ours = stack.enter_context(_cardsign(folder, "public", "--token-file", "tokens"))
        oidc = stack.enter_context(_cardsign(folder, "public", "--settings", "oidc.toml"))
        (folder / "limited.toml").write_text('format = 1\nrate = "1000000000/minute"\n')
        limited = stack.enter_context(_cardsign(folder, "public", "--settings", "limited.toml"))
        theirs = stack.enter_context(_nginx(folder))
        headers = _ask_once(ours, CARD_PATH, token)
        (folder / "card").write_bytes(generation.card)
        sent = {name: headers[name] for name in headers if name not in _OF_THE_SERVER}
        (folder / "headers").write_text(json.dumps(sent))
        bare = stack.enter_context(_python(folder, "bare", _BARE, _GRANIAN))
        asked = {
            NGINX: (theirs, CARD_PATH, ""),
            BARE: (bare, CARD_PATH, ""),
            PUBLIC: (ours, CARD_PATH, ""),
            UNCHANGED: (ours, CARD_PATH, f"If-None-Match: {headers['etag']}"),
            LIMITED: (limited, CARD_PATH, ""),
            TOKEN: (ours, EXTENDED_PATH, f"Authorization: Bearer {token}"),
            JWT: (oidc, EXTENDED_PATH, f"Authorization: Bearer {issuer.token()}"),
        }
        if find_spec("a2a") and find_spec("uvicorn"):
            sdk = stack.enter_context(_python(folder, "sdk", _SDK, _UVICORN))
            asked[SDK] = (sdk, CARD_PATH, "")
        _ask_once(oidc, EXTENDED_PATH, issuer.token())  # which makes the server ask for keys
        cpu: dict[str, list[float]] = {name: [] for name in asked}
        turns = {name: _turn(*what, seconds=seconds, cpu=cpu[name]) for name, what in asked.items()}
        for turn in turns.values():  # the first one warms up
            turn()
        for times in cpu.values():
            times.clear()
        wall = in_turns(turns, rounds)
    head = [
        "what is asked for",
        "seconds of a request, in nginx's",
        "CPU of it, in the bare view's",
    ]
    rows = ([name, ratio(wall, name, NGINX), ratio(cpu, name, BARE)] for name in asked)
    return {"serving": table(head, *rows)}


_GRANIAN: Final = (
    "granian --interface wsgi --no-ws --http 1 --blocking-threads 16 --backpressure 8192 "
    "--log-level error --port"
)
_UVICORN: Final = "uvicorn --log-level critical --no-access-log --port"
_OF_THE_SERVER: Final = ("content-length", "date", "server")
_EXTENDED: Final[dict[str, Any]] = {
    "capabilities": {"extendedAgentCard": True},
    "securitySchemes": {
        "staff": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
    },
    "securityRequirements": [{"schemes": {"staff": {"list": []}}}],
}


class _Server:
    """A server that listens."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port

    def cpu(self) -> float:
        """CPU seconds of all its processes until now."""
        ticks = 0
        for pid in _group(self.pid):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _ask_once(server: _Server, path: str, token: str) -> dict[str, str]:
    """Return the headers of an answer, by their names in lower case."""
    asking = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)
    with contextlib.closing(asking):
        asking.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        if (answer := asking.getresponse()).status != 200:
            raise Broken(f"{path}: {answer.status}")
        return {name.lower(): value for name, value in answer.getheaders()}


def _turn(
    server: _Server, path: str, header: str, *, seconds: int, cpu: list[float]
) -> Callable[[], float]:
    command = ["wrk", "-t1", "-c8", f"-d{seconds}s"]
    command += ["-H", header] if header else []
    command += [f"http://127.0.0.1:{server.port}{path}"]

    def turn() -> float:
        before = server.cpu()
        said = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        used = server.cpu() - before
        found, bad = _REQUESTS.search(said.stdout), _BAD.search(said.stdout)
        if found is None or bad or not int(found[1]):
            raise Broken(f"{path}: {bad[0] if bad else said.stdout}")
        took = float(found[2]) * {"ms": 0.001, "s": 1, "m": 60}[found[3]]
        cpu.append(used / int(found[1]))
        return took / int(found[1])

    return turn


def _publish(directory: Path, card: dict[str, Any], key: PrivateKey) -> Generation:
    now = datetime.now(UTC)
    extended = {}
    if "securitySchemes" in card:
        end = int((now + timedelta(days=30)).timestamp())
        longer = {**card, "description": f"{card['description']}, and why"}
        marked = with_marker(longer, ExtendedMarker("staff", seq=1, exp=end))
        extended["staff"] = sign_card(json.dumps(marked).encode(), [key])
    return publish_generation(
        Documents(
            sign_card(json.dumps(card).encode(), [key]), JwkSet.of([key.public]), extended=extended
        ),
        directory,
        now=now,
    )


@contextlib.contextmanager
def _cardsign(folder: Path, *arguments: str) -> Iterator[_Server]:
    command = [sys.executable, "-m", "cardsign", "serve", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    with _started([*command, "--bind", "127.0.0.1:0", "--json"], folder, environment) as process:
        assert process.stdout is not None
        yield _Server(process.pid, int(json.loads(process.stdout.readline())["url"].split(":")[2]))


@contextlib.contextmanager
def _python(folder: Path, name: str, program: str, command: str) -> Iterator[_Server]:
    """An application in a file of its own, under another server."""
    (folder / f"{name}_app.py").write_text(program)
    port = _free_port()
    whole = [sys.executable, "-m", *command.split(), str(port), f"{name}_app:app"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with _listening(whole, folder, port, environment) as server:
        yield server


@contextlib.contextmanager
def _nginx(folder: Path) -> Iterator[_Server]:
    port = _free_port()
    user = "user root;" if os.geteuid() == 0 else ""  # else it may not enter the folder
    text = _NGINX.format(
        user=user, port=port, root=folder / "out/site", headers=folder / "out/nginx.conf"
    )
    (folder / "nginx.conf").write_text(text)
    command = ["nginx", "-p", str(folder), "-e", "error.log", "-c", str(folder / "nginx.conf")]
    with _listening(command, folder, port) as server:
        yield server


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@contextlib.contextmanager
def _listening(
    command: list[str], folder: Path, port: int, environment: dict[str, str] | None = None
) -> Iterator[_Server]:
    with _started(command, folder, environment or dict(os.environ)) as process:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        yield _Server(process.pid, port)


@contextlib.contextmanager
def _started(
    command: list[str], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=_PATIENCE)


def _group(leader: int) -> list[int]:
    """The processes of a session that was started for a server."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(entry.name)) == leader:
                found.append(int(entry.name))
    return found


class _Issuer:
    """Gives its keys, and tokens of an hour."""

    def __init__(self, url: str) -> None:
        self.url = url
        named = {"kid": "k1", "use": "sig", "alg": "ES256"}
        self.key = ECKey.generate_key("P-256", named)

    def token(self) -> str:
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "peer", "exp": int(time.time()) + 3600}
        return jwt.encode({"alg": "ES256", "kid": "k1"}, claims, self.key)

    def answer(self, path: str) -> Any:
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}


@contextlib.contextmanager
def _issuer() -> Iterator[_Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(issuer.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = _Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
