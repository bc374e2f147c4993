"""The first section of docs/guides/serve.md from an empty folder: an agent of a2a-sdk and nginx.

Each block runs as the page shows it. Only the ports and the certificate are this machine's; the
name ``tides.example`` leads here by the settings of curl and, for who verifies, by a proxy.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.authorities import Authority
from tests.net.internet import hand_on
from tests.net.peers import read_head, speaking
from tests.publish.publications import PUBLIC
from tests.server.programs import free_port, nginx, started

pytestmark = [pytest.mark.needs_a2a, pytest.mark.needs_nginx, pytest.mark.needs_curl]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/guides/serve.md").read_text("utf-8")
SECTION = PAGE.partition("## Ten minutes")[2].partition("\n## ")[0]
CARD = {
    **PUBLIC,
    "name": "Tides",
    "capabilities": {"extendedAgentCard": True, "streaming": True},
    "supportedInterfaces": [
        {
            "url": "https://tides.example/a2a",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
    ],
}
#: The operator's agent, as a2a-sdk has it: routes for a card of its own, and JSON-RPC at /a2a.
MY_AGENT = """
import json
from pathlib import Path
from a2a.client.card_resolver import parse_agent_card
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from sdk_agent import Agent
from starlette.applications import Starlette

card = parse_agent_card(json.loads(Path("card.json").read_text()))
handler = DefaultRequestHandler(Agent(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a")])
"""


def blocks(language: str) -> list[str]:
    """What the section shows in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)


class Operator:
    """A person with an empty folder and an empty home, who copies what the page shows."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        for one in (self.home, self.work, folder / "bin"):
            one.mkdir()
        program = folder / "bin/cardsign"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cardsign "$@"\n')
        program.chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        here = f"{ROOT}:{Path(__file__).parent}"
        self.environment = {"HOME": str(self.home), "PATH": path, "PYTHONPATH": here}
        self.shell = ""

    def run(self, block: str) -> str:
        """What the commands of a block say; exports are remembered."""
        lines = [line.removeprefix("$ ") for line in block.splitlines()]
        self.shell += "".join(f"{line}\n" for line in lines if line.startswith("export "))
        script = "set -e\n" + self.shell + "\n".join(lines)
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def operator(tmp_path: Path, authority: Authority) -> Operator:
    """With the two cards and the agent."""
    found = Operator(tmp_path)
    (found.work / "card.json").write_text(json.dumps(CARD))
    (found.work / "partners.json").write_text(json.dumps({**CARD, "description": "For partners."}))
    (found.work / "my_agent.py").write_text(MY_AGENT)
    return found


def test_a_new_operator_has_both_cards_in_front_of_the_agent(
    operator: Operator, authority: Authority, tmp_path: Path
) -> None:
    """And its callers see them; the agent answers; a verifier trusts the card."""
    begin, publish, look, verify = blocks("console")
    (second,) = blocks("text")
    operator.run(begin)
    with (operator.work / "cardsign.toml").open("a") as settings:
        settings.write(second)
    operator.run(publish)
    (tmp_path / "ca.pem").write_text(authority.pem())
    (code,), (config,) = blocks("python"), blocks("nginx")
    (operator.work / "served.py").write_text(code)
    free = free_port()
    assert "127.0.0.1:8080" in config
    places = {"127.0.0.1:8080": f"127.0.0.1:{free}"}
    module = f"uvicorn served:app --port {free}"
    with (
        started(module, operator.work, free, **operator.environment),
        nginx(tmp_path, authority, config, **places) as url,
    ):
        port = int(url.rpartition(":")[2])
        (operator.home / ".curlrc").write_text(
            f"silent\nfail\ncacert = {tmp_path}/ca.pem\n"
            f"connect-to = tides.example:443:127.0.0.1:{port}\n"
        )
        public, extended = (operator.run(line) for line in look.splitlines())
        assert public.encode() == (operator.work / "signed.json").read_bytes()
        assert extended.encode() == (operator.work / "partners.signed.json").read_bytes()
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        (operator.work / "call.json").write_text(json.dumps(call))
        asked = "$ curl -H 'A2A-Version: 1.0' --json @call.json https://tides.example/a2a"
        assert "you said: hello" in operator.run(asked)

        def proxy(connection: socket.socket) -> None:
            assert read_head(connection).startswith(b"CONNECT tides.example:443 ")
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            hand_on(connection, port)

        add, check = verify.splitlines()
        operator.run(add)
        with speaking(proxy) as there:
            trust = operator.work / "trust.toml"
            through = f'\nproxy = "http://127.0.0.1:{there}"\norigins ='
            trust.write_text(trust.read_text().replace("\norigins =", through, 1))
            operator.environment["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
            assert "trusted" in operator.run(f"{check} --trust trust.toml")
