"""The application under granian, gunicorn, waitress and uvicorn, alone and before an agent."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.tokens import create_token
from tests.integrations.test_mounted_bypass import FORMS, FORMS_0_3
from tests.net.authorities import Authority
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import PATIENCE, blocks, free_port, nginx, started

pytestmark = pytest.mark.needs_servers

CARD = "/.well-known/agent-card.json"
#: An agent that gives its own extended card to whoever asks, however the request is written.
SERVED = """
import json
from pathlib import Path
from cardsign.server import ServerSettings, create_app, mount_cards

SETTINGS = Path("pub"), ServerSettings(token_file=Path("tokens"), threads=8)
METHODS = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")

def answer(path, body):
    try:
        is_asked = json.loads(body)["method"] in METHODS
    except Exception:
        is_asked = path.rstrip("/").endswith(("/extendedAgentCard", "/v1/card"))
    return b"the agent's own card" if is_asked else b"the agent"

def wsgi(environ, start_response):
    text = answer(environ["PATH_INFO"], environ["wsgi.input"].read())
    start_response("202 Accepted", [("Content-Length", str(len(text)))])
    return [text]

async def asgi(scope, receive, send):
    body, more = b"", scope["type"] == "http"
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": answer(scope.get("path", ""), body)})

alone = create_app(*SETTINGS)
mounted, mounted_asgi = mount_cards(wsgi, *SETTINGS), mount_cards(asgi, *SETTINGS)
"""
COMMANDS = {
    "granian": "granian --interface wsgi --blocking-threads 8 --backpressure 1024 --port {port}",
    "gunicorn": "gunicorn --worker-class gthread --threads 8 --bind 127.0.0.1:{port}",
    "waitress": "waitress --threads 8 --listen 127.0.0.1:{port}",
    "uvicorn": "uvicorn --log-level warning --lifespan off --port {port}",
}
MOUNTED = [*((name, "mounted") for name in COMMANDS if name != "uvicorn")]
MOUNTED.append(("uvicorn", "mounted_asgi"))
ALONE = [(name, "alone") for name in COMMANDS if name != "uvicorn"]


@contextlib.contextmanager
def running(folder: Path, name: str, app: str) -> Iterator[tuple[int, str]]:
    """A server with the cards; its port, and a token that opens the extended one."""
    token, line = create_token("staff")
    (folder / "tokens").write_text(line)
    publish_cards(
        folder / "pub", PrivateKey.generate("ES256"), PUBLIC, "staff", now=datetime.now(UTC)
    )
    (folder / "served.py").write_text(SERVED)
    port = free_port()
    with started(f"{COMMANDS[name].format(port=port)} served:{app}", folder, port):
        yield port, token


def exchange(port: int, request: bytes, patience: float = PATIENCE) -> bytes:
    """All that comes back before the connection ends, or nothing more comes."""
    answer = b""
    with (
        contextlib.suppress(ConnectionError, TimeoutError),
        socket.create_connection(("127.0.0.1", port), timeout=patience) as client,
    ):
        client.sendall(request)
        while data := client.recv(1 << 16):
            answer += data
    return answer


def post(*fields: str, body: bytes = b"", path: str = "/a2a") -> bytes:
    """A POST with these headers."""
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", "Connection: close", *fields])
    return f"{head}\r\n\r\n".encode() + body


def forms() -> Iterator[bytes]:
    """Requests of a caller without a credential, each of which somebody might take for a call."""
    for body in (*FORMS.values(), *FORMS_0_3.values()):
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        yield post(f"Content-Length: {len(body)}", body=body)
        yield post("Transfer-Encoding: chunked", body=chunks)
        yield post(f"Content-Length: {len(body)}", body=body, path="/unlisted")
    for path in (
        "/extendedAgentCard",
        "/x/../extendedAgentCard",
        "//extendedAgentCard",
        "/%65xtendedAgentCard",
        "/a2a/extendedAgentCard/",
        "/a2a/extendedAgentCard;x",
        "http://x/extendedAgentCard",
        "/a2a%2fextendedAgentCard",
        "/v1/card?A2A-Version=0.3",
    ):
        for name in ("Authorization: Bearer x", "Authorization: bearer", "X-Original-URL: /a2a"):
            yield f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{name}\r\n\r\n".encode()


def smuggled() -> Iterator[bytes]:
    """Requests that hide another one, where two readers disagree about where the body ends."""
    hidden = b"GET /extendedAgentCard HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for fields in (
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding : chunked",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding:\x0bchunked",),
        ("Content-Length: 0", f"Content-Length: {len(hidden)}"),
        ("Content-Length: +0",),
        ("Content-Length: 0x0",),
        ("X: y", " Content-Length: 0"),
    ):
        yield post(*fields, body=b"0\r\n\r\n" + hidden)


@pytest.mark.parametrize(("name", "app"), [*ALONE, *MOUNTED])
def test_no_form_of_a_request_gets_an_extended_card(tmp_path: Path, name: str, app: str) -> None:
    """Neither ours nor the agent's; the twin is the same request with a token."""
    with running(tmp_path, name, app) as (port, token):
        answers = {request: exchange(port, request) for request in forms()}
        answers |= {request: exchange(port, request, 0.3) for request in smuggled()}
        for request, answer in answers.items():
            assert b"Only for staff." not in answer, request[:300]
            assert b"own card" not in answer, request[:300]
        call = FORMS["plain"]
        bearer = f"Authorization: Bearer {token}"
        known = post(f"Content-Length: {len(call)}", bearer, body=call)
        assert b"Only for staff." in exchange(port, known)
        other = call.replace(b"GetExtendedAgentCard", b"SendMessage")
        wanted = b"HTTP/1.1 401" if app == "alone" else b"the agent"
        assert wanted in exchange(port, post(f"Content-Length: {len(other)}", body=other))


@pytest.mark.parametrize(
    ("name", "app"), [(name, app) for name, app in [*ALONE, *MOUNTED] if name != "granian"]
)
def test_a_name_with_an_underscore_is_no_other(tmp_path: Path, name: str, app: str) -> None:
    """Granian's WSGI server cannot tell them; client certificates are refused there."""
    with running(tmp_path, name, app) as (port, _):
        for field, status in (("If_None_Match", 200), ("If-None-Match", 304)):
            head = f"GET {CARD} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{field}: *\r\n\r\n"
            assert b" %d " % status in exchange(port, head.encode()).splitlines()[0]


@pytest.mark.needs_nginx
@pytest.mark.parametrize(("name", "app"), MOUNTED)
def test_slow_clients_stop_nobody_behind_nginx(
    tmp_path: Path, authority: Authority, name: str, app: str
) -> None:
    """600: idle, silent and half-sent bodies, with the file of the guide in front."""
    (config,) = (one for one in blocks("nginx") if "upstream" in one)
    head = post("Content-Length: 1000")
    context = authority.client()
    with contextlib.ExitStack() as stack:
        port, token = stack.enter_context(running(tmp_path, name, app))
        upstream = {"127.0.0.1:8080": f"127.0.0.1:{port}"}
        url = stack.enter_context(nginx(tmp_path, authority, config, **upstream))
        at = ("127.0.0.1", int(url.rpartition(":")[2]))
        for number in range(600):
            # Of many addresses: the file allows each 50 connections.
            source = (f"127.0.1.{number % 20 + 1}", 0)
            plain = socket.create_connection(at, timeout=PATIENCE, source_address=source)
            client = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            client.sendall((b"", head, head + b'{"jsonrpc":')[number % 3])
        # nginx ends such a body after 10 s: whoever waited for one would answer later.
        with httpx.Client(verify=context, trust_env=False, timeout=8.0) as http:
            for _ in range(3):
                assert http.get(url + CARD).status_code == 200
                assert http.get(f"{url}/healthz").status_code == 202
                bearer = {"Authorization": f"Bearer {token}"}
                assert http.post(f"{url}/a2a", content=FORMS["plain"], headers=bearer).is_success
