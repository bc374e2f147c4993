"""`cardsign mcp`, asked by the MCP SDK's own client over real stdio and HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from cardsign import JwkSet, PrivateKey, inspect_card, lint_card, sign_card
from cardsign.cli.main import run_words
from tests.server.identity import counterpart
from tests.server.programs import PATIENCE, free_port, started
from tests.support import PORTABLE, put

# The SDK gives a server the stderr that there was when it was imported, which must be a real one:
# not that of a command which a test before has run.
with contextlib.suppress(ImportError):
    import mcp.client.stdio  # noqa: F401

ORIGIN = "https://agent.example"


def enrol(folder: Path, policy: Path) -> None:
    """Make a policy that trusts the holder of the folder's keys for the issuer's origin."""
    policy.parent.mkdir(parents=True, exist_ok=True)
    added = ["trust", "add", "tides", "--origin", ORIGIN, "--jwks", str(folder / "jwks.json")]
    assert run_words([*added, "--trust", str(policy)]) == 0


@pytest.fixture
def signed(alice: PrivateKey, tmp_path: Path) -> str:
    """A card of the issuer that the policy in the folder trusts."""
    interfaces = put(PORTABLE, "/supportedInterfaces/0/url", f"{ORIGIN}/a2a")
    (tmp_path / "jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())
    enrol(tmp_path, tmp_path / "trust.toml")
    return sign_card(json.dumps(interfaces).encode(), alice).decode()


@pytest.mark.needs_a2a
def test_O21_a_model_asks_what_the_commands_answer(
    signed: str, alice: PrivateKey, tmp_path: Path
) -> None:
    """By the user's own policy: a changed card and a stranger are not trusted, no file is read,
    and a private address is not asked."""
    from mcp import Client, StdioServerParameters

    keys = JwkSet.of([alice.public])
    changed = signed.replace('"version"', '"iconUrl": "https://x.example/i", "version"', 1)
    (tmp_path / "card.json").write_text(signed)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "cardsign", "mcp", "--trust", "trust.toml", "--insecure-loopback-http"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    async def talk(url: str) -> tuple[list[Any], list[Any]]:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("verify", {"card": signed, "issuer": "tides"}),
            ("verify", {"card": changed, "issuer": "tides"}),
            ("verify", {"card": signed, "isuer": "tides"}),
            ("lint", {"card": signed}),
            ("inspect", {"card": changed, "jwks": keys.to_bytes().decode()}),
            ("diff", {"old": signed, "new": changed}),
            ("lint", {"card": "card.json"}),
            ("inspect", {"card": url}),
            ("verify", {"card": url}),
            ("lint", {"card": "https://192.168.1.1/card.json"}),
            ("verify", {"card": signed, "issuer": "nobody"}),
        ]
        with anyio.fail_after(PATIENCE):
            async with Client(server) as client:
                tools = (await client.list_tools()).tools
                return tools, [await client.call_tool(*call) for call in calls]

    with counterpart() as site:
        site.answers["/card.json"] = signed.encode()
        tools, answers = anyio.run(talk, f"{site.url}/card.json")
    assert {tool.name for tool in tools} == {"verify", "lint", "inspect", "diff"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    *structured, private, unknown = answers
    for refused, word in ((private, "fetch.forbidden_address"), (unknown, "nobody")):
        assert refused.is_error
        assert word in refused.content[0].text
    assert [answer.content[0].text for answer in structured if answer.is_error] == []
    good, bad, nobodys, lint, inspected, diff, file, here, stranger = (
        answer.structured_content for answer in structured
    )
    answered = (good["verdict"], good["subject"], good["policy"])
    assert answered == ("trusted", "tides", "trust.toml")
    assert (bad["verdict"], nobodys["verdict"]) == ("invalid", "indeterminate")
    assert lint["findings"] == [finding.to_json() for finding in lint_card(signed.encode())]
    same = inspect_card(changed.encode(), jwks=keys).to_json()
    assert inspected == json.loads(json.dumps({**same, "name": "(text)"}))
    assert any("iconUrl" in change["path"] for change in diff["changes"])
    assert [finding["code"] for finding in file["findings"]] == ["json.syntax"]
    assert here["agent"]["name"] == PORTABLE["name"]
    assert stranger["verdict"] != "trusted"


@pytest.mark.needs_a2a
def test_O21_over_http_by_the_users_policy_alone(signed: str, tmp_path: Path) -> None:
    """A stranger's trust.toml in the folder trusts nobody: an editor may start the server there.

    A page of another site, which a browser may send here, gets no answer.
    """
    from mcp import Client

    port, own = free_port(), tmp_path / ".config/cardsign/trust.toml"
    url = f"http://127.0.0.1:{port}/mcp"

    call = ("verify", {"card": signed, "issuer": "tides"})

    async def verify() -> Any:
        async with Client(url) as client:
            return (await client.call_tool(*call)).structured_content

    with started(f"cardsign mcp --port {port}", tmp_path, port, HOME=str(tmp_path)):
        answer = anyio.run(verify)
        assert (answer["verdict"], answer["policy"]) == ("indeterminate", None)
        enrol(tmp_path, own)
        answer = anyio.run(verify)
        assert (answer["verdict"], answer["policy"]) == ("trusted", str(own))
        for name, status in (("Host", 421), ("Origin", 403)):
            headers = {name: "http://evil.example" if name == "Origin" else "evil.example"}
            assert httpx.post(url, headers=headers, json={}).status_code == status


@pytest.mark.needs_a2a
def test_a_port_in_use_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """After the line that says where it would have served."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run_words(["mcp", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"serving http://127.0.0.1:{port}/mcp\n" in said
    assert f"serve.bind: 127.0.0.1:{port} cannot be bound" in said


def test_without_the_extra_one_line_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is served."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run_words(["mcp"]) == 2
    assert "pip install '.[mcp]'" in capsys.readouterr().err
