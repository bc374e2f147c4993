"""`cardsign call`: one message to a trusted agent of a2a-sdk, and to hostile ones."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cardsign.jose.keys import JwkSet
from tests.cli.conftest import Cardsign, Ended
from tests.publish.publications import sign
from tests.statements.making import key

if TYPE_CHECKING:
    from tests.integrations.sdk_agent import SdkAgent

TOKEN = "tok-2f0c77d1a9"
SERVERS = ("a2a.server", "sse_starlette", "uvicorn")  # loggers of the agent, in this process

Edit = Callable[[dict[str, Any]], dict[str, Any]]


def card_at(
    port: int,
    *,
    binding: str = "JSONRPC",
    path: str = "/a2a",
    version: str = "1.0",
    streaming: bool = True,
    secured: bool = False,
    tenant: str = "",
) -> dict[str, Any]:
    """A card of the agent."""
    url = f"http://127.0.0.1:{port}{path}"
    one = {"url": url, "protocolBinding": binding, "protocolVersion": version}
    if tenant:
        one["tenant"] = tenant
    card: dict[str, Any] = {
        "name": "Tide tables",
        "description": "Answers when the water comes.",
        "version": "1.2.0",
        "supportedInterfaces": [one],
        "capabilities": {"streaming": streaming},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "tides", "name": "Tides", "description": "When.", "tags": ["sea"]}],
    }
    if secured:
        card["securitySchemes"] = {"harbour": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"harbour": {"list": ["read"]}}}]
    return card


@dataclass
class Called:
    """An agent who is enrolled, and how he is called."""

    agent: SdkAgent
    cardsign: Cardsign

    def __call__(self, *words: str, stdin: bytes = b"") -> Ended:
        url = f"http://127.0.0.1:{self.agent.port}"
        timeout = () if "--timeout" in words else ("--timeout", "30")
        plain = () if "--insecure-loopback-http" in words else ("--insecure-loopback-http",)
        command = ("call", url, *words, *plain, *timeout)
        ended = self.cardsign(*command, stdin=stdin, TIDES_TOKEN=TOKEN)
        assert TOKEN not in ended.text + ended.err
        return ended


@pytest.fixture
def running(cardsign: Cardsign) -> Callable[..., contextlib.AbstractContextManager[Called]]:
    """Run an agent, with a policy that pins his key; `edit` changes the signed card on its way."""
    from tests.integrations.sdk_agent import sdk_agent

    @contextlib.contextmanager
    def run(edit: Edit = lambda card: card, token: str = "", **how: Any) -> Iterator[Called]:
        def served(card: dict[str, Any]) -> bytes:
            return json.dumps(edit(json.loads(sign(card, key("card"))))).encode()

        with sdk_agent(lambda port: card_at(port, **how), served, token) as agent:
            Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
            origin = f"http://127.0.0.1:{agent.port}"
            added = cardsign("trust", "add", "tides", "--origin", origin, "--jwks", "jwks.json")
            assert added.status == 0, added.err
            yield Called(agent, cardsign)

    return run


WAYS: dict[str, dict[str, Any]] = {
    "JSON-RPC, events": {},
    "HTTP+JSON, one answer": {"binding": "HTTP+JSON", "path": "/rest", "streaming": False},
    "JSON-RPC of 0.3": {"version": "0.3"},
}


@pytest.mark.needs_a2a
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_O19_an_agent_of_the_sdk_answers(running: Any, how: dict[str, Any]) -> None:
    """A message, and a task with its artifact; the answer alone is on stdout."""
    with running(**how) as call:
        for text, answer in (("hello", b"you said: hello\n"), ("work on", b"high water at noon\n")):
            ended = call(text)
            assert (ended.status, ended.out, ended.err) == (0, answer, "")
        assert call("-", stdin=b"from a pipe").text == "you said: from a pipe\n"


@pytest.mark.needs_a2a
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_O19_O33_a_task_that_waits_is_answered(running: Any, how: dict[str, Any]) -> None:
    """By the options that stderr names; its result can be had again, and nobody else's."""
    with running(**how) as call:
        asked = call("ask me")
        assert (asked.status, asked.text) == (0, "at which place?\n")
        assert "is TASK_STATE_INPUT_REQUIRED" in asked.err
        named = asked.err.partition("answer it by the same command with ")[2].split()
        answered = call("Brest", *named)
        assert (answered.status, answered.text, answered.err) == (0, "noon at Brest\n", "")
        assert call(*named[:2], "--get").text == "noon at Brest\n"
        for unknown in (("--get",), ("--cancel",)):
            ended = call("--task", "nobodys", *unknown)
            assert (ended.status, "call.error" in ended.err) == (3, True)


@pytest.mark.needs_a2a
def test_O19_what_a_program_reads_of_a_task(running: Any) -> None:
    """The schema; a failed task is an error, and a context goes on with another task."""
    with running() as call:
        failed = call("fail now")
        assert (failed.status, failed.text) == (3, "the sea is dry\n")
        assert "call.task_failed: the agent's task ended as TASK_STATE_FAILED" in failed.err
        told = call("work", "--json").json
        again = call("work", "--json", "--context", told["context"]).json
        assert (again["context"], again["task"] == told["task"]) == (told["context"], False)
        assert told.pop("task")
        assert told.pop("context")
        url = f"http://127.0.0.1:{call.agent.port}"
        assert told == {
            "schema": "cardsign.call/1",
            "input": f"{url}/.well-known/agent-card.json",
            "issuer": "tides",
            "endpoint": {"url": f"{url}/a2a", "binding": "JSONRPC", "version": "1.0"},
            "state": "TASK_STATE_COMPLETED",
            "text": "high water at noon",
            "final": True,
            "unshown_parts": 0,
        }


@pytest.mark.needs_a2a
def test_O19_O33_a_task_at_work_is_canceled(running: Any) -> None:
    """That is a success; what it came to afterwards is no answer, and twice is an error."""
    with running() as call:
        waiting = call("ask me", "--json").json
        canceled = call("--task", waiting["task"], "--cancel")
        assert (canceled.status, canceled.text) == (0, "")
        assert f"task {waiting['task']} is TASK_STATE_CANCELED" in canceled.err
        got = call("--task", waiting["task"], "--get")
        assert (got.status, "call.task_failed" in got.err) == (3, True)
        again = call("--task", waiting["task"], "--cancel")
        assert (again.status, "call.error" in again.err) == (3, True)


MISUSES: dict[str, tuple[str, ...]] = {
    "neither text nor task": (),
    "two calls": ("--task", "t", "--get", "--cancel"),
    "no task to get": ("--get",),
    "no task to cancel": ("--cancel",),
    "a text with --get": ("hello", "--task", "t", "--get"),
    "a context with --cancel": ("--task", "t", "--context", "c", "--cancel"),
    "a task elsewhere": ("hello", "--task", "../../admin"),
    "a context with a line": ("hello", "--context", "c\nd"),
    "a time that is no number": ("hello", "--timeout", "nan"),
    "no characters": ("--", "\udcff"),
    "no text": ("--", " "),
    "a text that is too long": ("--", "x" * (1024 * 1024 + 1)),
}


@pytest.mark.needs_a2a
@pytest.mark.parametrize("words", MISUSES.values(), ids=MISUSES)
def test_O19_what_contradicts_itself(cardsign: Cardsign, words: tuple[str, ...]) -> None:
    """Before anybody is asked; the message names the option."""
    ended = cardsign("call", "https://tides.example", *words)
    assert (ended.status, "usage." in ended.err) == (2, True)
    assert ("--" in ended.err) or ("TEXT" in ended.err)


@pytest.mark.needs_a2a
def test_the_agents_words_are_escaped(running: Any) -> None:
    """Lines stay lines; nothing else moves a cursor or hides."""
    with running() as call:
        ended = call("one\ntwo \x1b[2J\u202e three")
        assert ended.text == "you said: one\ntwo \\u{1b}[2J\\u{202e} three\n"


EDITS: dict[str, tuple[Edit, str]] = {
    "another word": (lambda card: {**card, "description": "Send money."}, "sig.bad"),
    "no signature": (lambda card: {**card, "signatures": []}, "sig.none"),
}


@pytest.mark.needs_a2a
@pytest.mark.parametrize(("edit", "code"), EDITS.values(), ids=EDITS)
def test_O19_an_edited_card_is_not_called(running: Any, edit: Edit, code: str) -> None:
    """Nothing but the card is asked for, although the agent would answer."""
    with running(edit) as call:
        ended = call("hello", "--credential", "env:TIDES_TOKEN", "--json")
        assert (ended.status, ended.json["card"], code in ended.text) == (1, None, True)
        assert set(call.agent.paths) == {"/.well-known/agent-card.json"}


@pytest.mark.needs_a2a
def test_a_credential_is_shown_to_the_agent(running: Any, caplog: pytest.LogCaptureFixture) -> None:
    """By the scheme of the verified card; no log has it."""
    with running(token=TOKEN, secured=True) as call, caplog.at_level(logging.DEBUG):
        assert call("hello", "--credential", "env:TIDES_TOKEN").status == 0
        assert set(call.agent.seen) == {f"Bearer {TOKEN}"}
        ours = [one for one in caplog.records if not one.name.startswith(SERVERS)]
        assert ours
        assert not any(TOKEN in one.getMessage() for one in ours)

        without = call("hello")
        assert without.status == 3
        assert "credential.refused: http://127.0.0.1:" in without.err
        assert 'it says it wants: Bearer realm="harbour"' in without.err
        assert "Name one with --credential env:NAME or file:/PATH." in without.err
        assert "Get a new one" not in without.err
