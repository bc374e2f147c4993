"""The real thing: granian on a loopback port, asked over HTTP, stopped by signals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cardsign.errors import FileFault, ServeFault, UsageFault
from cardsign.jose.keys import PrivateKey
from cardsign.server import run
from cardsign.server.app import BODY_WAS_READ, create_app
from cardsign.server.mount import needs_thread
from cardsign.server.run import SignalFlag, make_server, reserve_address
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.identity import Issuer, counterpart
from tests.server.programs import PATIENCE, ROOT, Running, blocks, is_gone, running, wait_until
from tests.server.served import exchange
from tests.support import each_case
from tests.tools import SCHEMATHESIS

CARD = "/.well-known/agent-card.json"
EXTENDED = "/a2a/extendedAgentCard"
CALL = {"jsonrpc": "2.0", "id": "7", "method": "GetExtendedAgentCard"}
TOKENS = 'token_file = "tokens"\n'
AUDIENCE = "9f2c61d07be84a15"  # of the guide


@dataclass
class Published:
    """A folder with something to serve, and the token that opens the extended card."""

    folder: Path
    token: str

    @property
    def bearer(self) -> dict[str, str]:
        """The header with the token."""
        return {"Authorization": f"Bearer {self.token}"}

    def head(self, *fields: str) -> bytes:
        """The head of a call with the token."""
        authorization = f"Authorization: Bearer {self.token}"
        lines = ["POST /a2a HTTP/1.1", "Host: x", authorization, *fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, key: PrivateKey) -> Published:
    folder, (token, line) = tmp_path_factory.mktemp("served"), create_token("staff")
    (folder / "tokens").write_text(line + "\n")
    publish_cards(folder / "pub", key, PUBLIC, "staff", AUDIENCE, now=datetime.now(UTC))
    return Published(folder, token)


@pytest.fixture(scope="module")
def server(published: Published) -> Iterator[Running]:
    with running(published.folder, TOKENS, bind="[::1]:0") as server:
        yield server


Connect = Callable[[bytes], socket.socket]


@pytest.fixture
def connect(server: Running) -> Iterator[Connect]:
    """Connect to the server and send something; the connections last as long as the test."""
    with contextlib.ExitStack() as senders:

        def send(data: bytes) -> socket.socket:
            client = socket.create_connection(("::1", server.port), timeout=PATIENCE)
            senders.enter_context(client).sendall(data)
            return client

        yield send


# ------------------------------------------------------------------------ over HTTP


def test_it_says_where_it_serves_once_it_does(server: Running) -> None:
    """After the event; the port is the one that was found for 0."""
    wait_until(lambda: len(server.log) == 2)
    event, line = server.log
    assert json.loads(event)["event"] == "agent_card_published"
    assert line == f"cardsign: serving on http://[::1]:{server.port}"


def test_answers_are_framed_as_http_wants_them(
    server: Running, published: Published, connect: Connect
) -> None:
    """Over one connection, with and without a body; bodies that are too long, or no HTTP."""
    long, call = b" " * (64 * 1024 + 1), json.dumps(CALL).encode()
    with httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as http:
        plain, head = http.get(CARD), http.head(CARD)
        again = http.get(CARD, headers={"If-None-Match": plain.headers["ETag"]})
        assert (head.content, head.headers["Content-Length"]) == (b"", str(len(plain.content)))
        assert (again.status_code, again.content) == (304, b"")
        for content in (long, iter([long[:1000], long[1000:]])):
            assert http.post("/a2a", content=content, headers=published.bearer).status_code == 413
        answer = http.post("/a2a/", content=call, headers=published.bearer)
        assert answer.json()["result"]["name"] == plain.json()["name"]
    client = connect(published.head(f"Content-Length: {len(long)}"))
    assert client.recv(1000).startswith(b"HTTP/1.1 413 ")  # before any of the body comes
    for chunks in (b"zz\r\n", b"%x\r\n%b\r\nzz\r\n" % (len(call), call)):  # no HTTP, so no call
        client = connect(published.head("Transfer-Encoding: chunked") + chunks)
        assert client.recv(1000).startswith(b"HTTP/1.1 400 ")


WAITING = 4  # of 16 threads, a quarter may wait for bodies


def test_silent_bodies_stop_nobody_else(
    server: Running, published: Published, connect: Connect
) -> None:
    """600: of callers who are not known each ends at once, of known ones all but a few get 503."""
    for _ in range(300):
        sender = connect(b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        assert sender.recv(1000).startswith(b"HTTP/1.1 401 ")
        _read_to_end(sender)
    known = [connect(published.head("Content-Length: 1000") + b"{") for _ in range(300)]
    with httpx.Client(base_url=server.url, trust_env=False, timeout=PATIENCE) as client:
        for _ in range(3):
            assert client.get("/healthz").status_code == 200
            assert client.get(CARD).status_code == 200
            assert client.post("/a2a", json=CALL).status_code == 401
    ready, _, _ = select.select(known, [], [], PATIENCE)
    while len(ready) < len(known) - WAITING:
        ready, _, _ = select.select(known, [], [], PATIENCE)
    for sender in ready:
        assert sender.recv(1000).startswith(b"HTTP/1.1 503 ")
        _read_to_end(sender)
    assert len(ready) == len(known) - WAITING


def _read_to_end(connection: socket.socket) -> None:
    """Read until the server closes it; a connection that stays is a TimeoutError."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1000):
            pass


def test_strange_clients_stop_nobody_else(server: Running, connect: Connect) -> None:
    """Headers without end, too large ones, no HTTP at all, and many requests at once."""
    head = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\n"
    for _ in range(100):  # slowloris
        connect(head + b"X-Slow: a")
    for strange in (
        b"",
        head + b"X-Large: " + b"a" * 1024 * 1024 + b"\r\n\r\n",
        b"X: y\r\n" * 20_000,
        bytes(range(256)) * 64,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /a2a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        with contextlib.suppress(OSError):  # it may be cut off while it talks
            connect(strange)
        assert server.get().status_code == 200
    many, answers = connect((head + b"\r\n") * 100), b""
    while answers.count(b"HTTP/1.1 200") < 100 and (data := many.recv(1 << 16)):
        answers += data
    assert answers.count(b"HTTP/1.1 200") == 100


@pytest.mark.thorough
@pytest.mark.needs_schemathesis
def test_the_server_answers_as_the_specification_says(
    server: Running, published: Published, tmp_path: Path
) -> None:
    """Each status, header and body is one that openapi.yaml names; the twin names too few."""

    def ask(specification: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Ask with the token; Schemathesis asks without it, too."""
        words = [str(SCHEMATHESIS / "bin/st"), "run", str(specification), "--url", server.url]
        # JSON-RPC answers a bad call with 200 and an error (JSON-RPC 2.0 5.1).
        words += ["--exclude-checks", "negative_data_rejection", "--max-examples", "10"]
        words += ["-H", f"Authorization: Bearer {published.token}", "--seed", "1", "--no-color"]
        return subprocess.run([*words, *options], cwd=tmp_path, capture_output=True, text=True)

    specification = ROOT / "docs/reference/openapi.yaml"
    asked = ask(specification)
    assert asked.returncode == 0, asked.stdout
    changed = yaml.safe_load(specification.read_text("utf-8"))
    del changed["paths"]["/a2a"]["post"]["responses"]["200"]
    twin = tmp_path / "twin.yaml"
    twin.write_text(yaml.safe_dump(changed))
    asked = ask(twin, "--include-path", "/a2a", "--phases", "coverage")
    assert (asked.returncode, "Undocumented status code" in asked.stdout) == (1, True)


# ---------------------------------------------------------------- start and stop


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What serves does all but start processes, and leaves the log to the test."""
    monkeypatch.setattr(run, "run_server", lambda *_: None)
    monkeypatch.setattr(run, "log_to_stderr", lambda: None)


@pytest.mark.usefixtures("unstarted")
@each_case(__file__, "binds", "bind", "settings", "is_warned")
def test_others_may_be_slow_where_no_proxy_waits(
    published: Published, log: list[str], bind: str, settings: Any, is_warned: bool
) -> None:
    """So the operator is told."""
    run.serve(published.folder / "pub", partial(ServerSettings, **settings), bind)
    assert any("slow clients can hold its threads" in line for line in log) is is_warned


@pytest.mark.usefixtures("unstarted")
def test_metrics_without_the_library_are_refused(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything listens, with what to install."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageFault, match="prometheus_client") as caught:
        run.serve(published.folder / "pub", partial(ServerSettings, metrics=True), "127.0.0.1:0")
    assert ".[metrics]" in caught.value.hint


@pytest.mark.usefixtures("unstarted")
def test_who_is_told_to_read_settings_again_while_it_starts_goes_on(published: Published) -> None:
    """As by `systemctl reload` at once after the start; they are read then anyway."""
    hung_up = list[int]()
    previous = signal.signal(signal.SIGHUP, lambda number, _: hung_up.append(number))

    def read() -> ServerSettings:
        os.kill(os.getpid(), signal.SIGHUP)
        return ServerSettings(token_file=published.folder / "nowhere")

    try:
        with pytest.raises(FileFault):
            run.serve(published.folder / "pub", read, "127.0.0.1:0")
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert hung_up == []


def is_refused(host: str, port: int = 0) -> bool:
    """Whether nobody may listen there, which is a fault with a code."""
    with pytest.raises(ServeFault, match=r"serve\.bind"), reserve_address(host, port):
        pass
    return True


@pytest.mark.parametrize("option", [None, socket.SO_REUSEADDR, socket.SO_REUSEPORT])
def test_a_port_in_use_is_not_taken(option: int | None) -> None:
    """Whatever the other listener lets others do."""
    with socket.socket() as other:
        if option is not None:
            other.setsockopt(socket.SOL_SOCKET, option, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert is_refused(*other.getsockname())


def test_a_server_that_does_not_listen_yet_keeps_a_second_one_away() -> None:
    """Both would have a share of the requests; closed connections (TIME_WAIT) keep nobody away."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        host, port = first.getsockname()
        with socket.create_connection((host, port)) as client:
            first.accept()[0].close()  # the side that closes first keeps TIME_WAIT
            assert client.recv(1) == b""
    with reserve_address(host, port) as address:
        assert address == (host, port)
        assert is_refused(*address)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b"])
def test_an_address_that_is_not_ours_is_a_fault(host: str) -> None:
    """Neither a traceback nor silence."""
    assert is_refused(host)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["systemd", "Ctrl-C"])
def test_a_signal_ends_it_cleanly_and_whole(published: Published, how: signal.Signals) -> None:
    """Exit 0, no process and no line more; neither an idle client nor a worker that has it too."""
    with (
        running(published.folder, TOKENS) as server,
        httpx.Client(trust_env=False, timeout=PATIENCE) as client,
    ):
        assert client.get(server.url + EXTENDED, headers=published.bearer).status_code == 200
        wait_until(lambda: len(server.log) == 2)
        for worker in server.workers:
            os.kill(worker, how)
        os.killpg(server.process.pid, how)
        assert server.stop(how) == (0, "")
        wait_until(lambda: is_gone(server.process.pid))
        assert len(server.log) == 2


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


def test_a_worker_that_died_is_reported(published: Published) -> None:
    """Exit 2 and one line, so that whoever watches starts it again."""
    with running(published.folder, TOKENS) as server:
        (worker,) = server.workers
        os.kill(worker, signal.SIGKILL)
        assert server.process.wait(PATIENCE) == 2
        assert any("serve.worker_died" in line for line in server.log)


def test_the_worker_does_not_outlive_its_parent(published: Published) -> None:
    """Nobody could stop it, and the port would be taken."""
    with running(published.folder, TOKENS) as server:
        server.process.kill()
        server.process.wait()
        wait_until(lambda: is_gone(server.process.pid))


def test_one_application_chooses_the_thread_and_answers(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings may change in between: by newer ones it could wait, and stop the event loop."""
    worker = run.Worker.__new__(run.Worker)
    worker._app, newer = (
        create_app(published.folder / "pub", ServerSettings(catalogue=is_on))
        for is_on in (True, False)
    )

    def change(environ: object, settings: ServerSettings) -> bool:
        worker._app = newer
        return not settings.catalogue

    monkeypatch.setattr("cardsign.server.mount.needs_thread", change)
    scope = {"method": "GET", "path": "/a2a/agents", "headers": []}
    start, _ = asyncio.run(exchange(worker, scope))
    assert start["status"] == 200


SECRET = '[[provider]]\ntype = "mtls"\nopens = "staff"\nsecret = "env:NOT_SET"\n'
#: Settings that a running server does not take, and what it says of them.
UNFIT = {
    "legacy = 1\n": "config.malformed",
    "format = 1\nlegacy = true\n[[provider]]\ntype = 'mtls'\nopens = 'staff'\n": "serve.schemes",
    f"format = 1\n{TOKENS}{SECRET}": "config.malformed: the settings name env:NOT_SET",
}


def test_settings_and_tokens_are_read_again_without_a_dropped_request(
    published: Published, tmp_path: Path
) -> None:
    """On SIGHUP, by the same workers; what is wrong is a line, and the server goes on as before."""
    settings, is_over, statuses = tmp_path / "serve.toml", threading.Event(), list[int]()
    (tmp_path / "pub").symlink_to(published.folder / "pub")
    (tmp_path / "tokens").write_bytes((published.folder / "tokens").read_bytes())

    def ask(url: str) -> None:
        while not is_over.is_set():
            with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE) as client:
                statuses.extend(client.get(CARD).status_code for _ in range(5))

    with running(tmp_path, f"{TOKENS}workers = 2\n") as server, ThreadPoolExecutor() as pool:

        def extended() -> int:
            return server.get(EXTENDED, **published.bearer).status_code

        def reload(text: str, words: str, times: int = 1) -> None:
            settings.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: sum(words in line for line in server.log) == times)

        workers, again = server.workers, "reading settings and tokens again"
        asking = [pool.submit(ask, server.url) for _ in range(3)]
        try:
            assert extended() == 200
            for text, words in UNFIT.items():
                reload(text, f"the settings stay as they were: {words}")
            assert extended() == 200
            fewer = f"format = 1\n{TOKENS}catalogue = false\n"
            reload(fewer, again)
            wait_until(lambda: server.get("/a2a/agents").status_code == 404)
            (tmp_path / "tokens").unlink()
            assert extended() == 401
            reload(fewer, again, times=2)  # no tokens are no fault
            assert extended() == 401
            assert any("no token opens anything" in line for line in server.log)
            reload(f'format = 1\ntoken_file = "{"x" * 5000}"\n', again, times=3)
        finally:
            is_over.set()
        assert [thread.result(PATIENCE) for thread in asking] == [None] * 3
        assert server.workers == workers
        assert len(statuses) > 10
        assert set(statuses) == {200}
        log = server.log_path.read_text()
        assert "Traceback" not in log
        assert published.token not in log
        assert server.stop() == (0, "")


# ------------------------------------------------------------------ who waits for others


def test_an_operator_gives_cards_to_an_issuers_callers(
    published: Published, tmp_path: Path
) -> None:
    """By the guide's settings: valid, without scope, without token; the log says who asked."""
    (tmp_path / "pub").symlink_to(published.folder / "pub")
    (text,) = (block for block in blocks("toml") if "oidc" in block)
    assert len(text.splitlines()) <= 10
    with counterpart() as peer:
        issuer = Issuer(peer)
        local = f'issuer = "{issuer.url}"\ninsecure_loopback_http = true'
        text = text.replace('issuer = "https://login.example.com"', local)
        text = text.replace("[[", "access_log = true\n[[", 1).replace("format = 1", "")
        token, idle = issuer.token(scope="card.read"), issuer.token(scope="")
        with running(tmp_path, text) as server:
            for value, status in ((f"Bearer {token}", 200), (f"Bearer {idle}", 403), ("", 401)):
                assert server.get(EXTENDED, Authorization=value).status_code == status
            assert server.get().status_code == 200
            wait_until(lambda: sum(line.endswith(" ms") for line in server.log) == 4)
    lines = [line.split() for line in server.log if line.endswith(" ms")]
    assert [line[6] for line in lines] == ["200", "403", "401", "200"]
    assert {line[0] for line in lines} == {"127.0.0.1"}
    assert token not in server.log_path.read_text()


def test_an_issuer_that_gives_no_answer_keeps_nobody_else_waiting(
    published: Published, tmp_path: Path
) -> None:
    """Who asks for the public card or for health needs none of the threads that wait for it."""
    (tmp_path / "pub").symlink_to(published.folder / "pub")
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        silent.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/introspect"
        settings = (
            f'[[provider]]\ntype = "http_verifier"\nurl = "{url}"\nopens = "{AUDIENCE}"\n'
            "insecure_loopback_http = true\n"
        )
        with running(tmp_path, settings) as server:
            waiting = pool.submit(server.get, EXTENDED, Authorization="Bearer opaque")
            with silent.accept()[0]:
                for path in (CARD, "/healthz"):
                    assert server.get(path).status_code == 200
                assert not waiting.done()
                assert waiting.result().status_code == 503


ASKING = ServerSettings(
    providers=(ProviderSettings(type="http_verifier", url="https://login.example", opens="a"),)
)
#: Not validated, which would ask for the library of Redis.
SHARED = ServerSettings(rate="9/day").model_copy(update={"rate_storage": "redis://redis.example"})


WAITS = {
    "asking": ASKING,
    "tokens": ServerSettings(token_file=Path("tokens")),
    "shared": SHARED,
    "plain": ServerSettings(),
}


@each_case(__file__, "threads", "method", "path", "was_read", "settings", "is_needed")
def test_what_may_wait_or_is_much_work_takes_a_thread(
    method: str, path: str, settings: str, *, was_read: bool, is_needed: bool
) -> None:
    """All else is answered at once."""
    environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path}
    assert needs_thread({**environ, BODY_WAS_READ: was_read}, WAITS[settings]) is is_needed
