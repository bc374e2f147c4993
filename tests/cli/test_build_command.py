"""``cardsign build`` of a live MCP server; ``transcripts/build.txt`` has the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign

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
def test_O27_a_program_runs_only_by_an_option(cardsign: Cardsign) -> None:
    """Neither a list of servers nor the settings of a project start it; --run-mcp does."""
    Path("SKILL.md").write_text("---\nname: tides\ndescription: Says when the tide is high\n---\n")
    Path("server.py").write_text(MCP_SERVER)
    servers = {"mcpServers": {"docs": {"command": sys.executable, "args": ["server.py"]}}}
    Path("servers.json").write_text(json.dumps(servers))
    words = ("--set", "description=Docs", "--url", "https://{name}.example/a2a", "-o", "card.json")
    assert "build.unsupported" in cardsign("build", "servers.json", *words).err
    settings = f'format = 1\n[build]\nrun_mcp = ["{sys.executable} server.py"]\n'
    Path("cardsign.toml").write_text(settings)
    assert cardsign("build", "SKILL.md", *words).status == 2
    Path("cardsign.toml").unlink()
    assert not Path("started").exists()
    done = cardsign("build", "--run-mcp", f"{sys.executable} server.py", *words)
    assert done.status == 0, done.err
    assert Path("started").exists()
    (skill,) = json.loads(Path("card.json").read_bytes())["skills"]
    assert skill["id"] == "mcp_docs_read"
