"""The first section of docs/guides/serve.md from an empty folder: an agent of a2a-sdk and nginx.

Each block runs as the page shows it. Only the ports and the certificate are this machine's, and
``tides.example`` leads here.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.cli.conftest import Cardsign
from tests.cli.conftest import cardsign as cardsign  # a fixture
from tests.net.authorities import Authority
from tests.net.internet import hand_on
from tests.net.peers import read_head, speaking
from tests.publish.publications import PUBLIC
from tests.server.programs import ROOT, asking, nginx

pytestmark = [pytest.mark.needs_a2a, pytest.mark.needs_nginx]

PAGE = (ROOT / "docs/guides/serve.md").read_text("utf-8")
SECTION = PAGE.partition("## Ten minutes")[2].partition("\n## ")[0]
CARD = {**PUBLIC, "capabilities": {"extendedAgentCard": True, "streaming": True}}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": MESSAGE}}


def blocks(language: str) -> list[str]:
    """What the section shows in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", SECTION, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[list[str]]:
    """The words of each line that a reader types."""
    lines = block.replace("$(cat token)", "TOKEN").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


@pytest.mark.usefixtures("cheap")
def test_a_new_operator_has_both_cards_in_front_of_the_agent(
    cardsign: Cardsign, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its callers see them; the agent answers; a verifier trusts the card."""
    from tests.integrations.sdk_agent import sdk_agent

    def run(words: list[str]) -> str:
        ended = cardsign(*words[1:])
        assert (words[0], ended.status) == ("cardsign", 0), ended.err
        return ended.text

    begin, publish, look, verify = map(commands, blocks("console"))
    (second,), (code,), (config,) = blocks("text"), blocks("python"), blocks("nginx")
    Path("card.json").write_text(json.dumps(CARD))
    Path("partners.json").write_text(json.dumps({**CARD, "description": "For partners."}))
    assert begin[0][0] == "export"  # of the passphrase, which the fixture has
    run(begin[1])
    with Path("cardsign.toml").open("a") as settings:
        settings.write(second)
    for words in publish:
        run(words)

    def mount(app: Any, card: dict[str, Any]) -> Any:
        monkeypatch.setitem(sys.modules, "my_agent", SimpleNamespace(app=app))
        names: dict[str, Any] = {}
        exec(code, names)
        return names["app"]

    with sdk_agent(lambda port: CARD, wrap=mount) as agent:
        places = {"127.0.0.1:8080": f"127.0.0.1:{agent.port}"}
        assert "127.0.0.1:8080" in config
        with nginx(tmp_path, authority, config, **places) as url, asking(authority) as http:
            token = Path("token").read_text().strip()
            for words, file in zip(look, ("signed.json", "partners.signed.json"), strict=True):
                fields = [word.replace("TOKEN", token).split(": ") for word in words[2:-1]]
                asked = words[-1].replace("https://tides.example", url)
                assert http.get(asked, headers=dict(fields)).content == Path(file).read_bytes()
            answer = http.post(f"{url}/a2a", json=CALL, headers={"A2A-Version": "1.0"})
            assert "you said: hello" in answer.text

            def proxy(connection: socket.socket) -> None:
                assert read_head(connection).startswith(b"CONNECT tides.example:443 ")
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                hand_on(connection, httpx.URL(url).port or 0)

            add, check = verify
            run(add)
            with speaking(proxy) as port:
                trust = Path("trust.toml")
                through = f'\nproxy = "http://127.0.0.1:{port}"\norigins ='
                trust.write_text(trust.read_text().replace("\norigins =", through, 1))
                (tmp_path / "ca.pem").write_text(authority.pem())
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
                assert "trusted" in run([*check, "--trust", "trust.toml"])
