"""The application under granian, gunicorn, waitress and uvicorn, alone and before an agent."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import httpx
import pytest

from cardsign.jose.keys import PrivateKey
from cardsign.server.tokens import create_token
from tests.integrations.test_mounted_bypass import FORMS, FORMS_0_3
from tests.net.authorities import Authority
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import PATIENCE, blocks, free_port, nginx, started
from tests.server.served import write_tokens
from tests.support import read_cases

pytestmark = pytest.mark.needs_servers

CARD = "/.well-known/agent-card.json"
CASES = read_cases(__file__)
COMMANDS = {
    "granian": "granian --interface wsgi --blocking-threads 8 --backpressure 1024 --port {port}",
    "gunicorn": "gunicorn --worker-class gthread --threads 8 --bind 127.0.0.1:{port}",
    "waitress": "waitress --threads 8 --listen 127.0.0.1:{port}",
    "uvicorn": "uvicorn --log-level warning --lifespan off --port {port}",
}
WSGI = ("granian", "gunicorn", "waitress")
SERVERS = [*((name, "alone") for name in WSGI), *((name, "mounted") for name in WSGI)]
SERVERS.append(("uvicorn", "mounted_asgi"))
MOUNTED = [server for server in SERVERS if server[1] != "alone"]
each_server = pytest.mark.parametrize("server", SERVERS, indirect=True, ids="-".join)


@dataclass
class Server:
    """One of them, by the name of its command and what it serves; a token opens the card."""

    name: str
    app: str
    port: int
    token: str

    def exchange(self, request: bytes, patience: float = PATIENCE) -> bytes:
        """All that comes back before the connection ends, or nothing more comes."""
        answer = b""
        with (
            contextlib.suppress(ConnectionError, TimeoutError),
            socket.create_connection(("127.0.0.1", self.port), timeout=patience) as client,
        ):
            client.sendall(request)
            while data := client.recv(1 << 16):
                answer += data
        return answer


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, key: PrivateKey
) -> Iterator[Server]:
    """Each server with the cards."""
    (name, app), folder = request.param, tmp_path_factory.mktemp("served")
    token, line = create_token("staff")
    write_tokens(folder, line)
    publish_cards(folder / "pub", key, PUBLIC, "staff", now=datetime.now(UTC))
    (folder / "serve.toml").write_text('format = 1\ntoken_file = "tokens"\nthreads = 8\n')
    port = free_port()
    module = f"{COMMANDS[name].format(port=port)} tests.server.agent_apps:{app}"
    with started(module, folder, port):
        yield Server(name, app, port, token)


def head(line: str, *fields: str) -> bytes:
    """The head of a request."""
    text = "\r\n".join([f"{line} HTTP/1.1", "Host: x", "Connection: close", *fields])
    return f"{text}\r\n\r\n".encode()


def forms() -> Iterator[bytes]:
    """Requests of a caller without a credential, each of which somebody might take for a call."""
    for body in (*FORMS.values(), *FORMS_0_3.values()):
        length = f"Content-Length: {len(body)}"
        yield head("POST /a2a", length) + body
        yield head("POST /unlisted", length) + body
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        yield head("POST /a2a", "Transfer-Encoding: chunked") + chunks
    for path, field in product(CASES["paths"], CASES["fields"]):
        yield head(f"GET {path}", field)


@each_server
def test_no_form_of_a_request_gets_an_extended_card(server: Server) -> None:
    """Neither ours nor the agent's; the twin is the same request with a token."""
    hidden = head("GET /extendedAgentCard")
    answers = {request: server.exchange(request) for request in forms()}
    for fields in CASES["smuggled"]:  # two readers may disagree about where the body ends
        smuggled = head("POST /a2a", *fields) + b"0\r\n\r\n" + hidden
        answers[smuggled] = server.exchange(smuggled, 0.3)
    for request, answer in answers.items():
        assert b"Only for staff." not in answer, request[:300]
        assert b"own card" not in answer, request[:300]
    call = FORMS["plain"]
    known = head(
        "POST /a2a", f"Content-Length: {len(call)}", f"Authorization: Bearer {server.token}"
    )
    assert b"Only for staff." in server.exchange(known + call)
    other = call.replace(b"GetExtendedAgentCard", b"SendMessage")
    expected = b"HTTP/1.1 401" if server.app == "alone" else b"the agent"
    answer = server.exchange(head("POST /a2a", f"Content-Length: {len(other)}") + other)
    assert expected in answer


@each_server
def test_a_name_with_an_underscore_is_no_other(server: Server) -> None:
    """Granian's WSGI server cannot tell them; client certificates are refused there."""
    for field, status in (("If_None_Match: *", 200), ("If-None-Match: *", 304)):
        line = server.exchange(head(f"GET {CARD}", field)).splitlines()[0]
        assert (b" %d " % status in line) is (server.name != "granian" or status == 304)


@pytest.mark.needs_nginx
@pytest.mark.parametrize("server", MOUNTED, indirect=True, ids="-".join)
def test_slow_clients_stop_nobody_behind_nginx(
    tmp_path: Path, authority: Authority, server: Server
) -> None:
    """600: idle, silent and half-sent bodies, with the file of the guide in front."""
    (config,) = (block for block in blocks("nginx") if "upstream" in block)
    begun, context = head("POST /a2a", "Content-Length: 1000"), authority.client()
    places = {"127.0.0.1:8080": f"127.0.0.1:{server.port}"}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(nginx(tmp_path, authority, config, **places))
        at = ("127.0.0.1", int(url.rpartition(":")[2]))
        for number in range(600):
            # Of many addresses: the file allows each 50 connections.
            source = (f"127.0.1.{number % 20 + 1}", 0)
            plain = socket.create_connection(at, timeout=PATIENCE, source_address=source)
            client = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            client.sendall((b"", begun, begun + b'{"jsonrpc":')[number % 3])
        # nginx ends such a body after 10 s: whoever waited for one would answer later.
        with httpx.Client(verify=context, trust_env=False, timeout=8.0) as http:
            for _ in range(3):
                assert http.get(url + CARD).status_code == 200
                assert http.get(f"{url}/healthz").is_success
                bearer = {"Authorization": f"Bearer {server.token}"}
                assert http.post(f"{url}/a2a", content=FORMS["plain"], headers=bearer).is_success
