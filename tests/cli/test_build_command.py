"""``cardsign build``: what it writes, what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cardsign.cli.main import command_line

SKILL = "---\nname: tides\ndescription: Says when the tide is high\n---\n"
URL = "https://{name}.example/a2a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with one skill."""
    (tmp_path / "SKILL.md").write_text(SKILL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    """Run the command without raising."""
    return CliRunner().invoke(command_line, ["build", *words], standalone_mode=False)


MCP_SERVER = """import json, sys
open("started", "w").close()
tool = {"name": "read", "description": "Reads", "inputSchema": {"type": "object"}}
answers = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "docs", "version": "1"}},
    "tools/list": {"tools": [tool]},
}
for line in sys.stdin:
    call = json.loads(line)
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    said = {"result": answers[call["method"]]} if call["method"] in answers else unknown
    if "id" in call:
        print(json.dumps({"jsonrpc": "2.0", "id": call["id"], **said}), flush=True)
"""


@pytest.mark.needs_a2a
def test_O27_a_program_runs_only_by_an_option(folder: Path) -> None:
    """Neither a list of servers nor the settings of a project start it; --run-mcp does."""
    (folder / "server.py").write_text(MCP_SERVER)
    servers = {"mcpServers": {"docs": {"command": sys.executable, "args": ["server.py"]}}}
    (folder / "servers.json").write_text(json.dumps(servers))
    said = ("--set", "description=Docs", "--url", URL, "-o", "card.json")
    assert getattr(run("servers.json", *said).exception, "code", None) == "build.unsupported"
    settings = f'format = 1\n[build]\nrun_mcp = ["{sys.executable} server.py"]\n'
    (folder / "cardsign.toml").write_text(settings)
    assert run("SKILL.md", *said).exception is not None
    (folder / "cardsign.toml").unlink()
    assert not (folder / "started").exists()
    done = run("--run-mcp", f"{sys.executable} server.py", *said)
    assert done.exception is None
    assert (folder / "started").exists()
    (skill,) = json.loads((folder / "card.json").read_bytes())["skills"]
    assert skill["id"] == "mcp_docs_read"


@pytest.mark.needs_a2a
def test_a_live_server_on_this_machine_needs_the_option(folder: Path) -> None:
    """As everywhere: loopback is refused without --insecure-loopback-http."""
    words = ("--ask-mcp", "http://127.0.0.1:9/mcp", "--url", URL, "-o", "card.json")
    assert getattr(run(*words).exception, "code", None) == "fetch.url"
    refused = run(*words, "--insecure-loopback-http")
    assert getattr(refused.exception, "code", None) == "fetch.failed"
    assert getattr(run("-o", "card.json").exception, "code", None) == "usage.invalid"
