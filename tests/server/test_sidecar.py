"""`cardsign verify --serve`: a program in another language gets a verdict by one request."""

from __future__ import annotations

import asyncio
import contextlib
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask.testing import FlaskClient

from cardsign import sign_card
from cardsign.batch import Batch
from cardsign.errors import ServeFault, UsageFault
from cardsign.files import MAX_INPUT_BYTES
from cardsign.jose.keys import PrivateKey
from cardsign.server.run import WholeRequests, create_verdict_app, serve_verdicts
from cardsign.trust.policy import Policy, Subject
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.support import PORTABLE

KEY = PrivateKey.generate("ES256")
CARD = sign_card(json.dumps(PORTABLE).encode(), KEY)
JWKS = json.dumps({"keys": [KEY.public.jwk()]}).encode()
GUIDE = Path(__file__).parents[2] / "docs/guides/verify-a-peer.md"
PUBLIC = ", ".join(f'{name} = "{value}"' for name, value in KEY.public.jwk().items())
ISSUER = f"""format = 1
[[issuer]]
name = "harbour"
origins = ["https://tides.example"]
freshness = "waived"
[issuer.anchor]
keys = [{{ holder = "harbour", public = {{ {PUBLIC} }} }}]
"""


def open_keys() -> Batch:
    """Any holder of the key."""
    return Batch(Verifier(Policy.from_jwks(JWKS)), Subject(issuer="pinned keys"))


def open_policy() -> Batch:
    """The policy of the working directory."""
    return Batch(Verifier("trust.toml"))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk is read again for each question."""
    monkeypatch.setattr("cardsign.server.run.FRESH_SECONDS", 1e-9)


@pytest.fixture
def client() -> FlaskClient:
    """Of an application that trusts a key."""
    return create_verdict_app(open_keys).test_client()


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policy of the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("trust.toml").write_text(ISSUER)
    return tmp_path / "trust.toml"


@pytest.fixture
def by_policy(policy: Path) -> FlaskClient:
    """Of an application that trusts an issuer."""
    return create_verdict_app(open_policy).test_client()


def ask(client: FlaskClient, card: bytes, **query: str) -> Any:
    """The answer to a question about a card."""
    answer = client.post("/verify", data=card, query_string=query)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_verdict_is_the_one_that_verify_prints(client: FlaskClient) -> None:
    """Trusted or not, the status is 200; who asks looks at `verdict`."""
    trusted = ask(client, CARD)
    assert (trusted["schema"], trusted["verdict"]) == ("cardsign.verdict/2", "trusted")
    assert trusted["card"]["name"] == PORTABLE["name"]
    edited = ask(client, CARD.replace(b"tides.example", b"evil.example"))
    assert (edited["verdict"], edited["card"]) == ("invalid", None)
    assert ask(client, b"no card")["reasons"][0]["code"] == "json.syntax"
    assert ask(client, b"")["verdict"] != "trusted"


def test_the_query_says_whose_card_it_must_be(by_policy: FlaskClient) -> None:
    """By the policy's name, its origin or the URL from which it came."""
    client = by_policy
    there = "https://tides.example/.well-known/agent-card.json"
    for query in ({"issuer": "harbour"}, {"origin": "https://tides.example"}, {"url": there}):
        assert ask(client, CARD, **query)["verdict"] == "trusted"
    assert ask(client, CARD, url="https://evil.example/card.json")["verdict"] != "trusted"
    for wrong, message in {
        "issuer=nobody": "no issuer 'nobody'",
        f"issuer=harbour&url={there}": "give one of issuer, origin and url",
        "isuer=harbour": "unexpected keyword argument 'isuer'",
        "audience=partner": "say whose card it is",
        "": "say whose card it is",
    }.items():
        refused = client.post("/verify", data=CARD, query_string=wrong)
        assert (refused.status_code, message in refused.json["error"]["message"]) == (400, True)


def test_what_is_no_question_is_refused(client: FlaskClient) -> None:
    """As JSON, and without a verdict."""
    for answer, status in (
        (client.get("/verify"), 405),
        (client.post("/elsewhere"), 404),
        (client.post("/verify", data=CARD, headers={"Host": "evil.example"}), 421),
        (client.post("/verify", data=CARD, headers={"Host": "127.0.0.1.evil.example:80"}), 421),
    ):
        assert (answer.status_code, [*answer.json]) == (status, ["error"])
        assert answer.json["error"]["code"] == status


def test_no_card_is_judged_by_a_policy_that_cannot_be_read(
    policy: Path, by_policy: FlaskClient
) -> None:
    """It is read again while the server runs. A fault of this machine is 503, as health says."""
    client, asked = by_policy, {"issuer": "harbour"}
    for spoil, code in (
        (lambda: policy.write_text("format = "), "policy.malformed"),
        (policy.unlink, "file.not_found"),
    ):
        assert ask(client, CARD, **asked)["verdict"] == "trusted"
        assert client.get("/healthz").json == {"status": "ok"}
        spoil()
        for _ in range(2):
            lost = client.post("/verify", data=CARD, query_string=asked)
            failing = client.get("/healthz")
            for answer in (lost, failing):
                assert (answer.status_code, answer.json["error"]["code"]) == (503, code)
            assert "verdict" not in lost.json
        policy.write_text(ISSUER)
    policy.write_text("format = 1\n")
    gone = client.post("/verify", data=CARD, query_string=asked)
    assert gone.status_code == 400


@pytest.mark.needs_node
@pytest.mark.parametrize("status", [200, 400, 503])
def test_the_javascript_of_the_guide_says_why(
    status: int, policy: Path, by_policy: FlaskClient
) -> None:
    """The message of the first reason, or of the error where there is no verdict."""
    client = by_policy
    if status == 503:
        policy.unlink()
    query = {"issuer": "nobody" if status == 400 else "harbour"}
    answer = client.post("/verify", data=b"no card", query_string=query)
    assert answer.status_code == status
    reason = answer.json["error"] if status != 200 else answer.json["reasons"][0]

    (block,) = re.findall(r"^```text\n(const url.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    script = f"globalThis.fetch = async () => new Response({json.dumps(answer.text)});\n{block}"
    node = [str(shutil.which("node")), "--input-type=module", "-"]
    ran = subprocess.run(
        node, input=script, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, f"Error: {reason['message']}\n" in ran.stderr) == (1, True), ran.stderr


HEAD = b"POST /verify HTTP/1.1\r\nHost: localhost\r\n"
#: What a client sends that then says nothing more.
SILENT = [
    b"",
    HEAD,
    HEAD + b"Content-Length: 1000\r\n\r\n",
    HEAD + b"Content-Length: 1000\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
]


async def sent_after(
    app: WholeRequests, *messages: dict[str, Any], method: str = "POST", path: str = "/verify"
) -> list[dict[str, Any]]:
    """What is sent to a client who sends these messages, and then nothing more."""
    waiting, sent = iter(messages), list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        for message in waiting:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app({"method": method, "path": path, "headers": [(b"host", b"localhost")]}, receive, send)
    return sent


WHOLE = {"type": "http.request", "body": CARD}


def test_neither_cards_nor_a_slow_policy_stop_another_request() -> None:
    """Four cards are judged at a time, however many are sent; health is read in its own thread."""
    is_reading, judging = threading.Event(), list[int]()
    may_read, may_judge = threading.Event(), threading.Event()

    class Slow(Verifier):
        def judge(self, *about: Any, **how: Any) -> Report:
            judging.append(1)
            assert may_judge.wait(60)
            return super().judge(*about, **how)

    slow = Batch(Slow(Policy.from_jwks(JWKS)), Subject(issuer="pinned keys"))

    def open_slowly() -> Batch:
        is_reading.set()
        assert may_read.wait(60)
        return slow

    async def ask_many() -> None:
        app = WholeRequests(create_verdict_app(open_slowly))
        question, probe = {"method": "GET", "path": "/healthz"}, {"type": "http.request"}
        health = asyncio.create_task(sent_after(app, probe, **question))
        while not is_reading.is_set():
            await asyncio.sleep(0.01)
        assert not health.done()
        may_read.set()
        assert (await health)[0]["status"] == 200
        asked = [asyncio.create_task(sent_after(app, WHOLE)) for _ in range(12)]
        while len(judging) < 4:
            await asyncio.sleep(0.01)
        start, _ = await sent_after(app, probe, **question)
        assert (start["status"], len(judging)) == (200, 4)
        may_judge.set()
        for answer in asyncio.as_completed(asked):
            assert b'"verdict":"trusted"' in (await answer)[1]["body"]

    asyncio.run(ask_many())


BEGUN = {"type": "http.request", "body": CARD, "more_body": True}
#: What a client sends before it says nothing more, and the status that it gets.
CLIENTS = {
    "whole": ([WHOLE], 200),
    "silent": ([], 408),
    "half-sent": ([BEGUN], 408),
    "gone": ([BEGUN, {"type": "http.disconnect"}], 400),
}


@pytest.mark.parametrize(("messages", "status"), CLIENTS.values(), ids=CLIENTS)
def test_what_does_not_come_whole_in_time_is_not_judged(
    messages: list[dict[str, Any]],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And its connection is closed; nothing of it is for the operator."""
    caplog.set_level("INFO", "cardsign")
    if status == 408:
        monkeypatch.setattr("cardsign.server.run.BODY_SECONDS", 0.01)
    app = WholeRequests(create_verdict_app(open_keys))
    start, end = asyncio.run(sent_after(app, *messages))
    assert start["status"] == status
    assert ((b"connection", b"close") in start["headers"]) is (status != 200)
    assert (b"verdict" in end["body"]) is (status == 200)
    assert status == 200 or caplog.text == ""


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("0.0.0.0:8080", UsageFault),
        ("tides.example:8080", UsageFault),
        ("127.0.0.1", UsageFault),
        ("127.0.0.1:70000", UsageFault),
        ("./notes.txt", ServeFault),
        ("./taken", ServeFault),
        ("none/s", ServeFault),
    ],
)
def test_it_listens_on_this_machine_alone(
    where: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes no file's place, nor that of a living server's socket."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("mine")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("taken")
        other.listen()
        with pytest.raises(kind):
            serve_verdicts(open_keys, where)
    assert (Path("notes.txt").read_text(), Path("taken").is_socket()) == ("mine", True)


@contextmanager
def serving(where: str, folder: Path) -> Iterator[str]:
    """The command, and where it says that it answers; it ends by Ctrl-C at a terminal."""
    (folder / "jwks.json").write_bytes(JWKS)
    command = [sys.executable, "-m", "cardsign", "verify", "--jwks", "jwks.json", "--json"]
    with subprocess.Popen(
        [*command, "--serve", where],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
        finally:
            os.killpg(server.pid, signal.SIGINT)
        _, stderr = server.communicate(timeout=60)
        assert (server.returncode, b"died" in stderr, b"Unexpected" in stderr) == (0, False, False)


def test_silent_clients_stop_nobody(tmp_path: Path) -> None:
    """Some hundreds of them, of each kind; what is too long is not read to its end."""
    with serving("127.0.0.1:0", tmp_path) as url, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        for number in range(300):
            client = stack.enter_context(socket.create_connection(address, timeout=60))
            client.sendall(SILENT[number % len(SILENT)])
        http = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=60))
        for _ in range(3):
            began = time.monotonic()
            assert http.get("/healthz").json() == {"status": "ok"}
            assert time.monotonic() - began < 5  # a silent head is waited for ten seconds
            assert http.post("/verify", content=CARD).json()["verdict"] == "trusted"
        long = http.post("/verify", content=b" " * (MAX_INPUT_BYTES + 1))
        assert (long.status_code, long.headers["Connection"]) == (413, "close")


def test_a_socket_is_its_owners_alone(tmp_path: Path) -> None:
    """It takes the place of one that a killed server has left; its end removes no other file."""
    path = tmp_path / "verdicts"
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(path))
    with serving(str(path), tmp_path) as url:
        assert url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(base_url="http://localhost", transport=transport) as http:
            answer = http.post("/verify", content=CARD, timeout=60)
        assert answer.json()["verdict"] == "trusted"
        path.rename(tmp_path / "old")
        path.write_text("mine")
    assert path.read_text() == "mine"
