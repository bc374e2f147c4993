"""`cardsign verify --serve`: slow clients, and where it listens.

`exchanges/verdicts.txt` has what it answers.
"""

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
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from cardsign import sign_card
from cardsign.batch import Batch
from cardsign.errors import CardsignError
from cardsign.files import MAX_INPUT_BYTES
from cardsign.jose.keys import PrivateKey
from cardsign.server.mount import AsgiApp
from cardsign.server.run import (
    answer_whole_requests,
    create_verdict_app,
    hold_place,
    serve_verdicts,
)
from cardsign.trust.policy import Policy, Subject
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.server.programs import PATIENCE, ROOT, ended
from tests.server.served import Messages, exchange
from tests.support import PORTABLE, each_case

KEY = PrivateKey.generate("ES256")
CARD = sign_card(json.dumps(PORTABLE).encode(), KEY)
JWKS = json.dumps({"keys": [KEY.public.jwk()]}).encode()


def open_keys() -> Batch:
    """Any holder of the key."""
    return Batch(Verifier(Policy.from_jwks(JWKS)), Subject(issuer="pinned keys"))


def open_nothing() -> Batch:
    """By a policy that is not there."""
    return Batch(Verifier("nowhere.toml"))


@pytest.mark.needs_node
@pytest.mark.parametrize(
    ("open_batch", "query", "status"),
    [(open_keys, "", 200), (open_keys, "issuer=nobody", 400), (open_nothing, "", 503)],
)
def test_the_javascript_of_the_guide_says_why(
    open_batch: Callable[[], Batch], query: str, status: int
) -> None:
    """The message of the first reason, or of the error where there is no verdict."""
    client = create_verdict_app(open_batch).test_client()
    answer = client.post("/verify", data=b"no card", query_string=query)
    assert (answer.status_code, answer.json is not None) == (status, True)
    reason = answer.json["error"] if status != 200 else answer.json["reasons"][0]

    guide = (ROOT / "docs/guides/verify-a-peer.md").read_text("utf-8")
    (block,) = re.findall(r"^```text\n(const url.*?)^```$", guide, re.M | re.S)
    script = f"globalThis.fetch = async () => new Response({json.dumps(answer.text)});\n{block}"
    node = [str(shutil.which("node")), "--input-type=module", "-"]
    ran = subprocess.run(node, input=script, capture_output=True, text=True, check=False)
    assert (ran.returncode, f"Error: {reason['message']}\n" in ran.stderr) == (1, True), ran.stderr


@pytest.mark.parametrize(("by_socket", "status"), [(True, 200), (False, 421)])
def test_a_socket_may_be_called_by_any_name(by_socket: bool, status: int) -> None:
    """No page in a browser reaches it, and clients make a name up; a port is not so."""
    client = create_verdict_app(open_keys, by_socket=by_socket).test_client()
    assert client.post("/verify", base_url="http://x", data=b"{}").status_code == status


# ------------------------------------------------------------------ slow clients

WHOLE = {"type": "http.request", "body": CARD}
BEGUN = {**WHOLE, "more_body": True}


def sent_after(
    app: AsgiApp, *messages: dict[str, Any], method: str = "POST", path: str = "/verify"
) -> Coroutine[Any, Any, Messages]:
    """What is sent to a client who sends these messages, and then nothing more."""
    scope = {"method": method, "path": path, "headers": [(b"host", b"localhost")]}
    return exchange(app, scope, *messages)


def test_neither_cards_nor_a_slow_policy_stop_another_request() -> None:
    """Four cards are judged at a time, however many are sent; health is read in its own thread."""
    is_reading, judging = threading.Event(), list[int]()
    may_read, may_judge = threading.Event(), threading.Event()

    class Slow(Verifier):
        def judge(self, *about: Any, **how: Any) -> Report:
            judging.append(1)
            assert may_judge.wait(PATIENCE)
            return super().judge(*about, **how)

    def open_slowly() -> Batch:
        is_reading.set()
        assert may_read.wait(PATIENCE)
        return Batch(Slow(Policy.from_jwks(JWKS)), Subject(issuer="pinned keys"))

    async def wait_until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def ask_many() -> None:
        app = answer_whole_requests(create_verdict_app(open_slowly))

        def probe() -> Any:
            return sent_after(app, {"type": "http.request"}, method="GET", path="/healthz")

        health = asyncio.create_task(probe())
        await wait_until(is_reading.is_set)
        assert not health.done()
        may_read.set()
        assert (await health)[0]["status"] == 200
        asked = [asyncio.create_task(sent_after(app, WHOLE)) for _ in range(12)]
        await wait_until(lambda: len(judging) == 4)
        start, _ = await probe()
        assert (start["status"], len(judging)) == (200, 4)
        may_judge.set()
        for answer in asyncio.as_completed(asked):
            assert b'"verdict":"trusted"' in (await answer)[1]["body"]

    asyncio.run(ask_many())


#: What a client sends before it says nothing more, and the status that it gets.
CLIENTS: dict[str, tuple[Messages, int]] = {
    "whole": ([WHOLE], 200),
    "silent": ([], 408),
    "half-sent": ([BEGUN], 408),
    "gone": ([BEGUN, {"type": "http.disconnect"}], 400),
    "too long": ([{**BEGUN, "body": b" " * (MAX_INPUT_BYTES + 1)}], 413),
}


@pytest.mark.parametrize(("messages", "status"), CLIENTS.values(), ids=CLIENTS)
def test_what_does_not_come_whole_in_time_is_not_judged(
    messages: Messages,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And its connection is closed; nothing of it is for the operator."""
    caplog.set_level("INFO", "cardsign")
    if status == 408:
        monkeypatch.setattr("cardsign.server.run.BODY_SECONDS", 0.01)
    start, end = asyncio.run(
        sent_after(answer_whole_requests(create_verdict_app(open_keys)), *messages)
    )
    assert start["status"] == status
    assert ((b"connection", b"close") in start["headers"]) is (status != 200)
    assert (b"verdict" in end["body"]) is (status == 200)
    assert status == 200 or caplog.text == ""


# ------------------------------------------------------------------ where it listens


@each_case(__file__, "places", "where", "code")
def test_it_listens_on_this_machine_alone(
    where: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes no file's place, nor that of a living server's socket."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("mine")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("taken")
        other.listen()
        with pytest.raises(CardsignError, match=code):
            serve_verdicts(open_keys, where)
    assert (Path("notes.txt").read_text(), Path("taken").is_socket()) == ("mine", True)
    with hold_place("127.0.0.1:0") as (host, port):
        assert (host, port > 0) == ("127.0.0.1", True)


HEAD = b"POST /verify HTTP/1.1\r\nHost: localhost\r\n"
#: What a client sends that then says nothing more.
SILENT = [
    b"",
    HEAD,
    HEAD + b"Content-Length: 1000\r\n\r\n",
    HEAD + b"Content-Length: 1000\r\n\r\n{",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
]


def test_silent_clients_stop_nobody_at_a_socket_that_is_its_owners_alone(tmp_path: Path) -> None:
    """It takes the place of one that a killed server has left; its end removes no other file."""
    path = tmp_path / "verdicts"
    with socket.socket(socket.AF_UNIX) as abandoned:
        abandoned.bind(str(path))
    (tmp_path / "jwks.json").write_bytes(JWKS)
    command = [sys.executable, "-m", "cardsign", "verify", "--jwks", "jwks.json", "--json"]
    with (
        ended(
            subprocess.Popen(
                [*command, "--serve", str(path)],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        assert server.stdout is not None
        assert json.loads(server.stdout.readline()) == {"url": f"unix:{path}"}
        assert path.stat().st_mode & 0o777 == 0o600
        for number in range(300):
            silent = stack.enter_context(socket.socket(socket.AF_UNIX))
            silent.connect(str(path))
            silent.sendall(SILENT[number % len(SILENT)])
        transport = httpx.HTTPTransport(uds=str(path))
        # A silent head is waited for ten seconds: who waited for one would answer later.
        with httpx.Client(base_url="http://x", transport=transport, timeout=8.0) as http:
            for _ in range(3):
                assert http.get("/healthz").json() == {"status": "ok"}
                assert http.post("/verify", content=CARD).json()["verdict"] == "trusted"
        path.rename(tmp_path / "old")
        path.write_text("mine")
        os.killpg(server.pid, signal.SIGINT)  # as Ctrl-C at a terminal
        _, stderr = server.communicate(timeout=PATIENCE)
        assert (server.returncode, b"died" in stderr, b"Unexpected" in stderr) == (0, False, False)
    assert path.read_text() == "mine"
