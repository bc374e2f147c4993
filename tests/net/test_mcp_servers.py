"""MCP servers that are asked for their tools: real ones of the SDK, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cardsign
from cardsign.build import live as live_servers
from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.build.live import ask_servers
from cardsign.build.reading import SourceValue
from cardsign.errors import BuildRefused, CardsignError, FetchFailed, UsageFault
from cardsign.net.fetch import DEFAULT_SETTINGS
from tests.net.internet import Answer, Network, Request
from tests.net.peers import http

pytestmark = pytest.mark.needs_a2a
SERVER = Path(__file__).with_name("mcp_server.py")
URL = "https://docs.example/mcp"
TOOL = {"name": "read", "description": "Reads", "inputSchema": {"type": "object"}}


def ask(network: Network, url: str = URL) -> SourceValue:
    """What one server says."""
    return ask_servers([url], [], network.settings())[0]


def run(command: str, *notes: Callable[[str], object]) -> SourceValue:
    """What one program says."""
    return ask_servers([], [command], DEFAULT_SETTINGS, *notes)[0]


def built(*live: SourceValue, sources: tuple[Path, ...] = ()) -> bytes:
    members = {"description": "Docs"}
    options = BuildOptions(url="https://a.example/a2a", members=members, live=live)
    return build_card(sources, options).document


def skills(card: bytes) -> list[str]:
    """The ids of its skills."""
    return [skill["id"] for skill in json.loads(card)["skills"]]


def test_O28_a_live_server_says_what_is_saved_of_it(network: Network, tmp_path: Path) -> None:
    """The same bytes; and no byte leaves round the rules: all go to the one host."""
    saved = tmp_path / "docs.json"
    saved.write_text(json.dumps(run(f"{sys.executable} {SERVER} stdio").value))
    command = [sys.executable, SERVER, "streamable-http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            host = network.relay("docs.example", int(process.stdout.readline()))
            card = built(ask(network))
        finally:
            process.kill()
    assert card == built(sources=(saved,))
    assert skills(card) == ["mcp_my_docs_read_page", "mcp_my_docs_search_docs"]
    asked = b"".join(map(bytes, host.streams)).lower()
    assert (set(network.names), set(network.dialled)) == ({"docs.example"}, {"docs.example:443"})
    assert not any(word in asked for word in (b"authorization", b"cookie"))


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
HELLO["serverInfo"] = {"name": "docs", "version": "1"}
NOTE = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message"}\r\n\r\n'


def peer(*pages: object, stream: bool = False) -> Callable[[Request], bytes]:
    """A server whose pages have these results, the last one again and again; or only errors."""
    left = list(pages)

    def answer(request: Request) -> bytes:
        body = json.loads(request.body or b"{}")
        if request.method != "POST":
            return http(b"", status="405 No")
        if "id" not in body:
            return http(b"", status="202 Accepted")
        members: dict[str, object] = {"error": {"code": -32601, "message": "no \x1b[2J"}}
        if body["method"] == "initialize" and pages:
            members = {"result": HELLO}
        if body["method"] == "tools/list" and pages:
            members = {"result": left.pop(0) if len(left) > 1 else left[0]}
        data = json.dumps({"jsonrpc": "2.0", "id": body["id"], **members}).encode()
        if not stream:
            return http(data)
        events = b": hello\r\n\r\n" + NOTE + b"data: " + data + b"\r\n\r\n"
        return http(events, content_type="text/event-stream")

    return answer


@pytest.mark.parametrize("stream", [False, True])
def test_pages_are_read_one_by_one(network: Network, stream: bool) -> None:
    """Each by the cursor of the one before, as JSON and as a stream of events."""
    pages = ({"tools": [TOOL], "nextCursor": "two"}, {"tools": [{**TOOL, "name": "write"}]})
    host = network.host("docs.example", peer(*pages, stream=stream))
    assert skills(built(ask(network))) == ["mcp_docs_read", "mcp_docs_write"]
    sent = [json.loads(request.body) for request in host.requests if request.body]
    asked = [call.get("params", {}) for call in sent if call["method"] == "tools/list"]
    assert [params.get("cursor") for params in asked] == [None, "two"]


INSIDE = "https://inside.example/mcp"
GIANT = {**TOOL, "description": "x" * 3_000_000}
AGAIN = {"nextCursor": "again"}
HOSTILE: dict[str, tuple[Answer, type[CardsignError], str]] = {
    "endless pages": (peer({"tools": [], **AGAIN}), BuildRefused, "build.limit"),
    "endless tools": (peer({"tools": [TOOL] * 1000, **AGAIN}), BuildRefused, "build.limit"),
    "a giant tool": (peer({"tools": [GIANT]}), FetchFailed, "fetch.too_large"),
    "tools that are no list": (peer({"tools": {}}), BuildRefused, "build.unsupported"),
    "a refusal": (http(b"{}", status="403 No"), FetchFailed, "fetch.status"),
    "an error": (peer(), BuildRefused, "build.unsupported"),
    "a redirect": (http(b"", status="307 T", location=INSIDE), FetchFailed, "fetch.status"),
}


@pytest.mark.parametrize(("answer", "kind", "code"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_server_ends_in_a_reason(
    network: Network, answer: Answer, kind: type[CardsignError], code: str
) -> None:
    """In bounded time, and nobody else is asked; nor is a private address, or plain http."""
    network.host("docs.example", answer)
    network.resolves("inside.example", ["169.254.169.254"])
    with pytest.raises(kind) as refused:
        built(ask(network))
    assert (refused.value.code, set(network.dialled)) == (code, {"docs.example:443"})
    network.forget()
    for url, words in ((INSIDE, "forbidden_address"), ("http://docs.example/", "plain http")):
        with pytest.raises(FetchFailed, match=words):
            ask(network, url)
    assert network.dialled == []


def test_a_server_leads_to_no_other(network: Network) -> None:
    """Whatever the SDK were led to ask."""
    from cardsign.net.guarded import McpTransport

    network.host("evil.example", http())

    async def lead() -> None:
        async with McpTransport(URL, network.settings()).client() as client:
            await client.post("https://evil.example/mcp")

    with pytest.raises(Exception, match=r"fetch\.elsewhere"):
        asyncio.run(lead())
    assert network.names == []


# ------------------------------------------------------------------ stdio


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes the command of a program in Python, in the folder where it runs."""
    monkeypatch.chdir(tmp_path)

    def make(code: str) -> str:
        Path("server.py").write_text(f"import json, os, sys\n{code}")
        return f"{sys.executable} server.py"

    return make


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
PID = "open('pid', 'w').write(str(os.getpid()) + ' ' + str('SECRET' in os.environ))"


def test_O20_O28_a_program_is_asked_over_stdio(
    program: Callable[[str], str], network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the user's folder, with few variables; it is gone afterwards.

    The public function asks and runs at once.
    """
    monkeypatch.setenv("SECRET", "x")
    command = program(PID + ECHO)
    assert skills(built(run(command))) == ["mcp_docs_t"]
    number, had_secret = Path("pid").read_text().split()
    assert had_secret == "False"
    with pytest.raises(ProcessLookupError):
        os.kill(int(number), 0)
    network.host("docs.example", peer({"tools": [TOOL]}))
    how: Any = {"url": "https://docs.example/a2a", "members": {"description": "Docs"}}
    how["live"] = ask_servers([URL], [command], network.settings())
    assert skills(cardsign.build_card(**how).document) == ["mcp_docs_read", "mcp_docs_t"]


def absent(tmp_path: Path) -> str:
    """The command of a program that is not there, and what a shell would do besides."""
    return f"nowhere-mcp --token=abc; touch {tmp_path / 'x'}"


BAD_PROGRAMS = {
    "sys.exit(3)": (60, "no list of tools: Connection closed"),
    "while sys.stdin.readline().strip(): pass": (1, "no answer in 1 s, .* Content-Length"),  # O29
    "": (60, r"No such file.*'nowhere-mcp'"),
}


@pytest.mark.parametrize("code", BAD_PROGRAMS)
def test_a_program_that_misbehaves_is_refused(
    program: Callable[[str], str], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ended. A command is split, never given to a shell, and shown without arguments."""
    (seconds, words), began = BAD_PROGRAMS[code], time.monotonic()
    monkeypatch.setattr(live_servers, "SECONDS", seconds)
    monkeypatch.setattr(live_servers, "SILENT_SECONDS", 0.1)
    notes: list[str] = []
    with pytest.raises(BuildRefused, match=words) as refused:
        built(run(program(code) if code else absent(tmp_path), notes.append))
    assert "Content-Length" in "".join(notes) or seconds == 60
    assert refused.value.code == "build.unsupported"
    assert "Serve POST /mcp for --ask-mcp" in refused.value.finding.hint
    assert time.monotonic() - began < 50
    assert "abc" not in str(refused.value)
    assert not (tmp_path / "x").exists()
    for command in ("", "a 'b"):
        with pytest.raises(UsageFault, match="PROGRAM"):
            built(run(command))
