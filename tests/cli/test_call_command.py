"""`cardsign call`: texts and tasks of an agent of a2a-sdk; ``transcripts/call.txt`` has misuses."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign, Ended
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key

pytestmark = pytest.mark.needs_a2a

TOKEN = "tok-2f0c77d1a9"
SERVERS = ("a2a.server", "sse_starlette", "uvicorn")  # loggers of the agent, in this process
Call = Callable[..., Ended]


@contextlib.contextmanager
def calling(cardsign: Cardsign, token: str = "", **interface: Any) -> Iterator[Call]:
    """Run an agent whom a policy trusts by its key; how it is called, which shows no token."""
    from tests.integrations.sdk_agent import sdk_agent

    def make_card(port: int) -> dict[str, Any]:
        member = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", **interface}
        member["url"] = f"http://127.0.0.1:{port}{interface.get('url', '/a2a')}"
        streaming = {"streaming": member["protocolBinding"] == "JSONRPC"}
        return {**PUBLIC, "supportedInterfaces": [member], "capabilities": streaming}

    with sdk_agent(make_card, lambda card: sign(card, key("card")), token) as agent:
        origin = f"http://127.0.0.1:{agent.port}"
        Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
        added = cardsign("trust", "add", "tides", "--origin", origin, "--jwks", "jwks.json")
        assert added.status == 0, added.err

        def call(*words: str, stdin: bytes = b"") -> Ended:
            options = ("--insecure-loopback-http", "--timeout", "60")
            ended = cardsign("call", origin, *words, *options, stdin=stdin, TIDES_TOKEN=TOKEN)
            assert TOKEN not in ended.text + ended.err
            return ended

        yield call


WAYS: dict[str, dict[str, Any]] = {
    "JSON-RPC, events": {},
    "HTTP+JSON, one answer": {"protocolBinding": "HTTP+JSON", "url": "/rest"},
    "JSON-RPC of 0.3": {"protocolVersion": "0.3"},
}


@pytest.mark.parametrize("interface", WAYS.values(), ids=WAYS)
def test_O19_O33_an_agent_answers(cardsign: Cardsign, interface: dict[str, Any]) -> None:
    """A message, a task, and one that waits, by the options that stderr names; nobody else's."""
    with calling(cardsign, **interface) as call:
        for text, answer in (("hello", b"you said: hello\n"), ("work on", b"high water at noon\n")):
            ended = call(text)
            assert (ended.status, ended.out, ended.err) == (0, answer, "")
        asked = call("ask me")
        assert (asked.status, asked.text) == (0, "at which place?\n")
        assert "is TASK_STATE_INPUT_REQUIRED" in asked.err
        named = asked.err.partition("answer it by the same command with ")[2].split()
        answered = call("Brest", *named)
        assert (answered.status, answered.text, answered.err) == (0, "noon at Brest\n", "")
        assert call(*named[:2], "--get").text == "noon at Brest\n"
        for unknown in ("--get", "--cancel"):
            ended = call("--task", "nobodys", unknown)
            assert (ended.status, "call.error" in ended.err) == (3, True)


def test_O19_O33_what_is_printed_of_a_task(cardsign: Cardsign) -> None:
    """A failure is an error, a cancellation is none, and an agent's words move no cursor."""
    with calling(cardsign) as call:
        failed = call("fail now")
        assert (failed.status, failed.text) == (3, "the sea is dry\n")
        assert "call.task_failed: the agent's task ended as TASK_STATE_FAILED" in failed.err
        told = call("work", "--json").json
        again = call("work", "--json", "--context", told["context"]).json
        assert (again["context"], again["task"] == told["task"]) == (told["context"], False)
        assert told.pop("task")
        assert told.pop("context")
        origin = told["endpoint"]["url"].removesuffix("/a2a")
        assert told == {
            "schema": "cardsign.call/1",
            "input": f"{origin}/.well-known/agent-card.json",
            "issuer": "tides",
            "endpoint": {"url": f"{origin}/a2a", "binding": "JSONRPC", "version": "1.0"},
            "state": "TASK_STATE_COMPLETED",
            "text": "high water at noon",
            "final": True,
            "unshown_parts": 0,
        }
        waiting = call("ask me", "--json").json["task"]
        canceled = call("--task", waiting, "--cancel")
        assert (canceled.status, canceled.text) == (0, "")
        assert f"task {waiting} is TASK_STATE_CANCELED" in canceled.err
        for flag, code in (("--get", "call.task_failed"), ("--cancel", "call.error")):
            ended = call("--task", waiting, flag)
            assert (ended.status, code in ended.err) == (3, True)
        ended = call("-", stdin=b"one\ntwo \x1b[2J\xe2\x80\xae three")
        assert ended.text == "you said: one\ntwo \\u{1b}[2J\\u{202e} three\n"


def test_a_credential_is_shown_to_the_agent(
    cardsign: Cardsign, caplog: pytest.LogCaptureFixture
) -> None:
    """By the scheme of the verified card; no log has it."""
    with calling(cardsign, TOKEN) as call, caplog.at_level(logging.DEBUG):
        assert call("hello", "--credential", "env:TIDES_TOKEN").status == 0
        ours = [record for record in caplog.records if not record.name.startswith(SERVERS)]
        assert ours
        assert not any(TOKEN in record.getMessage() for record in ours)
        without = call("hello")
        assert (without.status, "credential.refused: http" in without.err) == (3, True)
        assert 'it says it wants: Bearer realm="harbour"' in without.err
        assert "Name one with --credential env:NAME or file:/PATH." in without.err
        assert "Get a new one" not in without.err


def test_O19_an_edited_card_is_not_called(cardsign: Cardsign) -> None:
    """Nothing but the card is asked for, although the agent would answer."""
    from tests.integrations.sdk_agent import sdk_agent

    def serve(card: dict[str, Any]) -> bytes:
        return json.dumps({**json.loads(sign(card, key("card"))), "description": "x"}).encode()

    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    with sdk_agent(lambda port: PUBLIC, serve) as agent:
        words = ("call", f"http://127.0.0.1:{agent.port}", "hello", "--jwks", "jwks.json")
        credential = ("--credential", "env:TIDES_TOKEN", "--insecure-loopback-http", "--json")
        ended = cardsign(*words, *credential, TIDES_TOKEN=TOKEN)
        assert (ended.status, ended.json["card"], "sig.bad" in ended.text) == (1, None, True)
        assert set(agent.paths) == {"/.well-known/agent-card.json"}
