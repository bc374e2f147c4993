"""The real thing: granian on a loopback port, asked over HTTP, stopped by signals."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from publications import PUBLIC, publish_cards

from cardsign.jose.keys import PrivateKey
from cardsign.server import run
from cardsign.server.run import SignalFlag, make_server
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import create_token
from tests.support import workers_of

CARD = "/.well-known/agent-card.json"
#: Seconds, for what happens at once on an idle machine; far more than any busy one takes.
PATIENCE = 120.0
CALL = {"jsonrpc": "2.0", "id": "7", "method": "GetExtendedAgentCard"}

# What the command line will do: call the library, print an error as one line, exit 2.
PROGRAM = """
import sys
from pathlib import Path
from cardsign.errors import CardsignError
from functools import partial
from cardsign.server.settings import ServerSettings
from cardsign.server.run import serve

directory, tokens, host, port = sys.argv[1:]
try:
    read_settings = partial(ServerSettings, token_file=Path(tokens))
    serve(Path(directory), read_settings, host, int(port))
except CardsignError as exc:
    print(exc, file=sys.stderr)
    sys.exit(exc.exit_status)
"""


@dataclass
class Published:
    """A directory to serve, and who may have the extended card."""

    directory: Path
    token_file: Path
    token: str


@dataclass
class Server:
    """A running server.

    Attributes:
        process: The parent process; leader of a process group of its own.
        url: What it said that it serves at.
        said: The lines of stderr up to that one.
    """

    process: subprocess.Popen[str]
    url: str
    said: list[str]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; the exit status and what else was said on both streams."""
        self.process.send_signal(how)
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGABRT)  # each process says where it is
            pytest.fail("the server does not stop:\n" + "".join(self.process.communicate()))
        return self.process.returncode, out + err


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, key: PrivateKey) -> Published:
    return _publish(tmp_path_factory.mktemp("served"), key)


def _publish(base: Path, key: PrivateKey) -> Published:
    token, line = create_token("staff")
    (base / "tokens").write_text(line + "\n")
    publish_cards(base / "pub", key, PUBLIC, "staff", now=datetime.now(UTC))
    return Published(base / "pub", base / "tokens", token)


def _spawn(published: Published, host: str = "127.0.0.1", port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            PROGRAM,
            published.directory,
            published.token_file,
            host,
            str(port),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextlib.contextmanager
def _running(published: Published, host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    process = _spawn(published, host, port)
    try:
        assert process.stderr is not None
        said: list[str] = []
        while not said or "serving generation" not in said[-1]:
            line = process.stderr.readline()
            assert line, f"the server ended: {said}"
            said.append(line.rstrip())
        yield Server(process, said[-1].split()[-1], said)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="module")
def server(published: Published) -> Iterator[Server]:
    with _running(published) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as client:
        yield client


def _wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_empty(group: int) -> bool:
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


# ------------------------------------------------------------------------ over HTTP


def test_it_says_where_it_serves_once_it_does(server: Server) -> None:
    """The event of the card, one line, and the port that was found for 0."""
    event, line = server.said
    assert json.loads(event)["event"] == "agent_card_published"
    assert line == f"cardsign: serving generation 1 on http://127.0.0.1:{server.port}"
    assert server.port > 0


def test_the_public_card_comes_with_its_validators(
    http: httpx.Client, published: Published
) -> None:
    """GET, HEAD and 304 as any cache sees them."""
    plain = http.get(CARD)
    head = http.head(CARD)
    held = http.get(CARD, headers={"If-None-Match": plain.headers["ETag"]})

    assert plain.content == (published.directory / "000001/agent-card.json").read_bytes()
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(len(plain.content))
    assert (held.status_code, held.content) == (304, b"")
    assert held.headers["ETag"] == plain.headers["ETag"]


def test_a_preflight_and_an_unknown_path_keep_the_connection(http: httpx.Client) -> None:
    """Answers without body or entity are framed as HTTP wants them."""
    assert http.options(CARD).status_code == 204
    assert http.get("/nothing").status_code == 404
    assert http.put(CARD).status_code == 405
    assert http.get("/healthz").json() == {"status": "ok", "generation": 1}


def test_the_extended_card_needs_the_token(http: httpx.Client, published: Published) -> None:
    """By REST and by JSON-RPC."""
    bearer = {"Authorization": f"Bearer {published.token}"}
    extended = (published.directory / "000001/extended/staff.json").read_bytes()

    refused = http.get("/extendedAgentCard")
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"] == 'Bearer realm="harbour"'
    assert http.post("/a2a", json=CALL).status_code == 401
    assert http.get("/extendedAgentCard", headers=bearer).content == extended
    assert extended.strip() in http.post("/a2a/", json=CALL, headers=bearer).content


@pytest.mark.parametrize("chunked", [False, True], ids=["its length is told", "it comes in chunks"])
def test_a_body_beyond_the_limit_is_413(
    http: httpx.Client, published: Published, chunked: bool
) -> None:
    """Told beforehand or found out while reading."""
    body, bearer = b" " * (64 * 1024 + 1), {"Authorization": f"Bearer {published.token}"}
    content = iter([body[:1000], body[1000:]]) if chunked else body
    assert http.post("/a2a", content=content, headers=bearer).status_code == 413
    assert http.post("/a2a", content=b"{}", headers=bearer).json()["error"]["code"] == -32600


HELD = 4  # of 16 threads, a quarter may wait for bodies


def test_silent_bodies_stop_nobody_else(published: Published) -> None:
    """600: of callers who are not known each ends at once, of known ones all but a few get 503."""
    head = b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    bearer = f"Authorization: Bearer {published.token}\r\n".encode()
    with _running(published) as server, contextlib.ExitStack() as senders:

        def send(request: bytes) -> list[socket.socket]:
            silent = []
            for _ in range(300):
                sender = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
                silent.append(senders.enter_context(sender))
                sender.sendall(request)
            return silent

        for sender in send(head + b"\r\n{"):
            assert sender.recv(1000).startswith(b"HTTP/1.1 401 ")
            assert _ends(sender)
        known = send(head + bearer + b"\r\n{")
        with httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as client:
            for _ in range(3):
                assert client.get("/healthz").status_code == 200
                assert client.get(CARD).status_code == 200
                assert client.post("/a2a", json=CALL).status_code == 401
        ready, _, _ = select.select(known, [], [], PATIENCE)
        while len(ready) < len(known) - HELD:
            ready, _, _ = select.select(known, [], [], PATIENCE)
        for sender in ready:
            assert sender.recv(1000).startswith(b"HTTP/1.1 503 ")
            assert _ends(sender)
        assert len(ready) == len(known) - HELD


def _ends(connection: socket.socket) -> bool:
    """Whether the server closes it, after what it has still to say."""
    try:
        while connection.recv(1000):
            pass
    except ConnectionResetError:
        return True
    return True  # a connection that stays is a TimeoutError


# ---------------------------------------------------------------- start and stop


def test_strange_clients_stop_nobody_else(published: Published) -> None:
    """Headers without end, too large ones, no HTTP at all, and many requests at once."""
    head = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n"
    with _running(published) as server, contextlib.ExitStack() as senders:

        def connect() -> socket.socket:
            made = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
            return senders.enter_context(made)

        def get() -> int:
            return httpx.get(server.url + CARD, trust_env=False, timeout=PATIENCE).status_code

        for _ in range(100):  # slowloris
            connect().sendall(head + b"X-Slow: a")
        assert get() == 200
        for strange in (
            head + b"X-Large: " + b"a" * 1024 * 1024 + b"\r\n\r\n",
            b"X: y\r\n" * 20_000,
            bytes(range(256)) * 64,
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            b"POST /a2a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            with contextlib.suppress(OSError):  # it may be cut off while it talks
                connect().sendall(strange)
            assert get() == 200
        many = connect()
        many.sendall((head + b"\r\n") * 100)
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 100 and (data := many.recv(1 << 16)):
            answers += data
        assert answers.count(b"HTTP/1.1 200") == 100
        assert server.process.poll() is None


def test_a_port_in_use_is_one_clear_line(server: Server, published: Published) -> None:
    """A second server must not share the port without a word."""
    process = _spawn(published, port=server.port)
    out, err = process.communicate(timeout=PATIENCE)

    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"serve.bind: 127.0.0.1:{server.port} cannot be bound: ")
    assert err.count("\n") == 1
    assert httpx.get(server.url + CARD, trust_env=False, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("option", [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_a_port_in_use_by_somebody_else_is_the_same_line(
    published: Published, option: int | None
) -> None:
    """Whatever the other listener lets others do."""
    with socket.socket() as other:
        if option is not None:
            other.setsockopt(socket.SOL_SOCKET, option, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        process = _spawn(published, port=other.getsockname()[1])
        _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert err.startswith("serve.bind: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b"])
def test_an_address_that_is_not_ours_is_one_clear_line(published: Published, host: str) -> None:
    """Neither a traceback nor silence."""
    process = _spawn(published, host)
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert err.startswith("serve.bind: ")
    assert err.count("\n") == 1


def test_a_directory_without_publication_is_one_clear_line(
    published: Published, tmp_path: Path
) -> None:
    """Found out before anything listens."""
    process = _spawn(Published(tmp_path, published.token_file, ""))
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 2
    assert err.startswith("serve.no_generation: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_is_no_death(published: Published, how: signal.Signals) -> None:
    """Ctrl-C at a terminal, or systemd: the worker, which has it too, does not end first."""
    with _running(published) as server:
        (worker,) = workers_of(server.process.pid)
        os.kill(worker, how)
        os.killpg(server.process.pid, how)
        out, err = server.process.communicate(timeout=PATIENCE)

        assert (server.process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_whole(published: Published, how: signal.Signals) -> None:
    """Exit 0, no process left, nothing on stdout, no token said; an idle client is no hindrance."""
    with _running(published) as server, httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        headers = {"Authorization": f"Bearer {published.token}"}
        assert client.get(f"{server.url}/extendedAgentCard", headers=headers).status_code == 200
        status, said = server.stop(how)

        assert (status, said) == (0, "")
        assert _wait_for(lambda: _is_empty(server.process.pid))


def test_a_signal_while_the_parent_waits_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler takes no lock that the wait may hold; it would wait for itself for ever."""
    server = make_server(ServerSettings(), ("127.0.0.1", 0))
    assert isinstance(server.main_loop_interrupt, SignalFlag)
    before = signal.signal(signal.SIGUSR1, server.signal_handler_interrupt)
    monkeypatch.setattr(run.time, "sleep", lambda _: signal.raise_signal(signal.SIGUSR1))
    try:
        server.main_loop_interrupt.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert server.interrupt_signal


def test_a_server_can_be_started_again_at_once(published: Published) -> None:
    """Closed connections at the port (TIME_WAIT) are nobody who listens."""
    with _running(published) as first:
        port = first.port
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            while client.recv(4096):  # the server closes first, so TIME_WAIT is on its side
                pass
        assert first.stop()[0] == 0
    with _running(published, port=port) as second:
        assert second.port == port


def test_a_worker_that_died_is_reported(published: Published) -> None:
    """Exit 2 and one line, so that whoever watches starts it again."""
    with _running(published) as server:
        workers = workers_of(server.process.pid)
        assert workers
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        said = server.process.communicate(timeout=PATIENCE)[1]

        assert (server.process.returncode, "serve.worker_died" in said) == (2, True)


def test_the_worker_does_not_outlive_its_parent(published: Published) -> None:
    """Nobody could stop it, and the port would be taken."""
    with _running(published) as server:
        server.process.kill()
        server.process.wait()

        assert _wait_for(lambda: _is_empty(server.process.pid))


def test_an_ipv6_address_is_served(published: Published) -> None:
    """Written in brackets."""
    with _running(published, host="::1") as server:
        assert server.url == f"http://[::1]:{server.port}"
        assert httpx.get(server.url + CARD, trust_env=False, timeout=PATIENCE).status_code == 200


def test_settings_and_tokens_are_read_again_without_a_dropped_request(
    tmp_path: Path, key: PrivateKey
) -> None:
    """On SIGHUP, by the same workers; what is wrong is a line, and the server goes on as before."""
    published = _publish(tmp_path, key)
    settings = tmp_path / "serve.toml"
    settings.write_text('format = 1\ntoken_file = "tokens"\nworkers = 2\n')
    log = (tmp_path / "log").open("w")
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--settings", "serve.toml"]
    process = subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )
    statuses: list[int] = []
    is_over = threading.Event()

    def ask(url: str) -> None:
        while not is_over.is_set():
            with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE) as client:
                statuses.extend(client.get(CARD).status_code for _ in range(5))

    def extended(url: str) -> int:
        bearer = {"Authorization": f"Bearer {published.token}"}
        return httpx.get(f"{url}/a2a/extendedAgentCard", headers=bearer).status_code

    def has_said(words: str) -> bool:
        return words in (tmp_path / "log").read_text()

    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        workers = workers_of(process.pid)
        asking = [threading.Thread(target=ask, args=(url,)) for _ in range(3)]
        for thread in asking:
            thread.start()
        assert extended(url) == 200
        settings.write_text("legacy = 1\n")
        process.send_signal(signal.SIGHUP)
        assert _wait_for(lambda: has_said("the settings stay as they were: config.malformed"))
        assert extended(url) == 200
        settings.write_text('format = 1\ntoken_file = "tokens"\ncatalogue = ""\n')
        process.send_signal(signal.SIGHUP)
        assert _wait_for(lambda: {httpx.get(f"{url}/a2a/agents").status_code} == {404})
        published.token_file.unlink()
        assert extended(url) == 401
        process.send_signal(signal.SIGHUP)
        assert _wait_for(lambda: has_said("no token opens anything"))
        assert extended(url) == 401
        is_over.set()
        for thread in asking:
            thread.join(PATIENCE)
        assert workers_of(process.pid) == workers
        assert len(statuses) > 10
        assert set(statuses) == {200}
        assert published.token not in (tmp_path / "log").read_text()
    finally:
        is_over.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        log.close()
