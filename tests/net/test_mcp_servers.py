"""MCP servers that are asked for their tools: real ones of the SDK, and hostile ones."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cardsign
from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.build.live import ask_mcp, ask_servers, run_mcp
from cardsign.build.reading import SourceDocument
from cardsign.errors import BuildRefused, CardsignError, FetchFailed, UsageFault
from tests.net.internet import Answer, Host, Network, Request
from tests.net.peers import http

pytestmark = pytest.mark.needs_a2a
SERVER = Path(__file__).with_name("mcp_server.py")
URL = "https://docs.example/mcp"
SAID = {"description": "Docs"}
TOOL = {"name": "read", "description": "Reads", "inputSchema": {"type": "object"}}


def built(*live: Callable[[], SourceDocument], sources: tuple[Path, ...] = ()) -> bytes:
    options = BuildOptions(url="https://a.example/a2a", members=SAID, live=live)
    return build_card(sources, options).document


@contextlib.contextmanager
def serving(transport: str) -> Iterator[int]:
    """A server of the SDK on loopback; its port."""
    process = subprocess.Popen([sys.executable, SERVER, transport], stdout=subprocess.PIPE)
    with process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """What the server of the SDK says, as somebody saves it."""
    document = run_mcp(f"{sys.executable} {SERVER} stdio")
    path = tmp_path / "docs.json"
    path.write_text(json.dumps(document.value))
    return path


def test_O28_a_live_server_says_what_is_saved_of_it(network: Network, saved: Path) -> None:
    """The same bytes; and no byte leaves round the rules: all go to the one host."""
    with serving("streamable-http") as port:
        host = network.relay("docs.example", port)
        card = built(ask_mcp("https://docs.example/mcp", network.settings()))
    assert card == built(sources=(saved,))
    assert [one["id"] for one in json.loads(card)["skills"]] == [
        "mcp_my_docs_read_page",
        "mcp_my_docs_search_docs",
    ]
    asked = b"".join(map(bytes, host.streams))
    assert set(network.names) == {"docs.example"}
    assert set(network.dialled) == {"docs.example:443"}
    assert not any(word in asked.lower() for word in (b"authorization", b"cookie"))


def method_of(request: Request) -> tuple[str, Any]:
    """The method and id of a JSON-RPC request."""
    body = json.loads(request.body or b"{}")
    return body.get("method", ""), body.get("id")


HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "docs", "version": "1"},
}


def peer(*pages: object, stream: bool = False) -> Callable[[Request], bytes]:
    """A server whose pages have these results, the last one again and again."""
    asked: list[Any] = []

    def answer(request: Request) -> bytes:
        method, call = method_of(request)
        if request.method != "POST":
            return http(b"", status="405 No")
        if call is None:
            return http(b"", status="202 Accepted")
        said: dict[str, object] = {"error": {"code": -32601, "message": "Method not found"}}
        if method == "initialize":
            said = {"result": HELLO}
        if method == "tools/list":
            said = {"result": pages[min(len(asked), len(pages) - 1)]}
            asked.append(call)
        body = json.dumps({"jsonrpc": "2.0", "id": call, **said}).encode()
        if not stream:
            return http(body)
        note = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\r\n\r\n'
        events = b": hello\r\n\r\n" + note + b"data: " + body + b"\r\n\r\n"
        return http(events, content_type="text/event-stream")

    return answer


def asking(network: Network, answers: Answer | dict[str, Answer], **limits: Any) -> Host:
    """Ask a host that answers so, and hand on what comes of it."""
    host = network.host("docs.example", answers)
    built(ask_mcp(URL, replace(network.settings(), **limits)))
    return host


@pytest.mark.parametrize("stream", [False, True])
def test_pages_are_read_one_by_one(network: Network, stream: bool) -> None:
    """Each by the cursor of the one before, as JSON and as a stream of events."""
    second = {**TOOL, "name": "write"}
    pages = ({"tools": [TOOL], "nextCursor": "two"}, {"tools": [second]})
    host = network.host("docs.example", peer(*pages, stream=stream))
    card = json.loads(built(ask_mcp(URL, network.settings())))
    assert [one["id"] for one in card["skills"]] == ["mcp_docs_read", "mcp_docs_write"]
    sent = [json.loads(one.body) for one in host.requests if one.body]
    asked = [one.get("params", {}) for one in sent if one["method"] == "tools/list"]
    assert [params.get("cursor") for params in asked] == [None, "two"]


GIANT = {**TOOL, "description": "x" * 3_000_000}
HOSTILE: dict[str, tuple[Answer, type[CardsignError], str]] = {
    "endless pages": (peer({"tools": [], "nextCursor": "again"}), BuildRefused, "build.limit"),
    "endless tools": (
        peer({"tools": [TOOL] * 1000, "nextCursor": "again"}),
        BuildRefused,
        "build.limit",
    ),
    "a giant tool": (peer({"tools": [GIANT]}), FetchFailed, "fetch.too_large"),
    "tools that are no list": (peer({"tools": {}}), BuildRefused, "build.unsupported"),
    "an error": (
        lambda request: http(
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": method_of(request)[1],
                    "error": {"code": -32601, "message": "no \x1b[2J"},
                }
            ).encode()
        ),
        BuildRefused,
        "build.unsupported",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_server_ends_in_a_reason(network: Network, case: str) -> None:
    """In bounded time, and nobody else is asked."""
    answer, kind, code = HOSTILE[case]
    with pytest.raises(kind) as refused:
        asking(network, answer)
    assert refused.value.code == code
    assert set(network.dialled) == {"docs.example:443"}


def test_private_addresses_are_not_asked(network: Network) -> None:
    """Whatever the name; plain http neither."""
    network.resolves("docs.example", ["169.254.169.254"])
    for url, code in ((URL, "fetch.forbidden_address"), ("http://docs.example/", "fetch.url")):
        with pytest.raises(FetchFailed) as refused:
            built(ask_mcp(url, network.settings()))
        assert refused.value.code == code
    assert network.dialled == []


# ------------------------------------------------------------------ stdio


def program(tmp_path: Path, code: str) -> str:
    """The command of a program in Python."""
    path = tmp_path / "server.py"
    path.write_text(f"import json, os, sys\n{code}")
    return f"{sys.executable} {path}"


ECHO = """
print("Welcome to docs")
for line in sys.stdin:
    call = json.loads(line)
    if "id" in call:
        tool = {"name": "t", "description": "D", "inputSchema": {"type": "object"}}
        said = {"error": {"code": -32601, "message": "Method not found"}}
        if call["method"] in ("initialize", "tools/list"):
            said = {"result": {"protocolVersion": "2025-06-18", "capabilities": {},
                               "serverInfo": {"name": "docs", "version": "1"}, "tools": [tool]}}
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **said}), flush=True)
"""


def test_O20_O28_a_program_is_asked_over_stdio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user's folder, with few variables; it is gone afterwards."""
    pid = tmp_path / "pid"
    code = f"open({str(pid)!r}, 'w').write(str(os.getpid()) + ' ' + str('SECRET' in os.environ))"
    monkeypatch.chdir(tmp_path)
    program(tmp_path, code + ECHO)
    monkeypatch.setenv("SECRET", "x")
    card = json.loads(built(run_mcp(f"{sys.executable} server.py")))
    assert [one["id"] for one in card["skills"]] == ["mcp_docs_t"]
    number, had_secret = pid.read_text().split()
    assert had_secret == "False"
    with pytest.raises(ProcessLookupError):
        os.kill(int(number), 0)


def test_the_public_function_asks_and_runs_as_the_command_does(
    tmp_path: Path, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same names; without them nobody is asked, and a text in place of a list is misuse."""
    monkeypatch.chdir(tmp_path)
    program(tmp_path, ECHO)
    network.host("docs.example", peer({"tools": [TOOL]}))
    live = ask_servers([URL], [f"{sys.executable} server.py"], network.settings())
    built_card = cardsign.build_card(
        url="https://docs.example/a2a", members={"description": "Docs"}, live=live
    )
    skills = json.loads(built_card.document)["skills"]
    assert [one["id"] for one in skills] == ["mcp_docs_read", "mcp_docs_t"]
    with pytest.raises(TypeError, match="lists of str"):
        ask_servers(URL, [])


BAD_PROGRAMS = {
    "it ends at once": ("sys.exit(3)", "no list of tools: Connection closed"),
    "it never answers": ("sys.stdin.read()", "did not answer within 1 seconds"),
}


@pytest.mark.parametrize("case", BAD_PROGRAMS)
def test_a_program_that_misbehaves_is_refused(tmp_path: Path, case: str) -> None:
    """And ended."""
    code, words = BAD_PROGRAMS[case]
    seconds = 1 if case == "it never answers" else 60
    began = time.monotonic()
    with pytest.raises(BuildRefused, match=words) as refused:
        built(run_mcp(program(tmp_path, code), seconds=seconds))
    assert refused.value.code == "build.unsupported"
    assert time.monotonic() - began < 50


def test_a_command_is_split_and_never_given_to_a_shell(tmp_path: Path) -> None:
    """A program that is not there is said; its arguments are not, since they may hold a secret."""
    with pytest.raises(BuildRefused, match="no program 'nowhere-mcp'") as refused:
        built(run_mcp(f"nowhere-mcp --token=abc; touch {tmp_path / 'x'}"))
    assert "abc" not in str(refused.value)
    assert not (tmp_path / "x").exists()
    for command in ("", "a 'b"):
        with pytest.raises(UsageFault, match="PROGRAM"):
            built(run_mcp(command))
