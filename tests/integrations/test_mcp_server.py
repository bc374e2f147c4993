"""`cardsign mcp`, asked by the MCP SDK's own client over real stdio and HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from cardsign import JwkSet, PrivateKey, inspect_card, lint_card, sign_card
from cardsign.cli.main import run_words
from tests.cli.local_site import local_site
from tests.server.programs import free_port, started
from tests.support import PORTABLE, put

# The SDK gives a server the stderr that there was when it was imported, which must be a real one:
# not that of a command which a test before has run.
with contextlib.suppress(ImportError):
    import mcp.client.stdio  # noqa: F401

ORIGIN = "https://agent.example"
NAMED = ("--trust", "trust.toml")


def enrol(jwks: Path, policy: Path) -> None:
    """Make a policy that trusts the holder of these keys for the issuer's origin."""
    added = ["trust", "add", "tides", "--origin", ORIGIN, "--jwks", str(jwks)]
    assert run_words([*added, "--trust", str(policy)]) == 0


@pytest.fixture
def signed(alice: PrivateKey, tmp_path: Path) -> str:
    """A card of the issuer that the policy in the folder trusts."""
    interfaces = put(PORTABLE, "/supportedInterfaces/0/url", f"{ORIGIN}/a2a")
    (tmp_path / "jwks.json").write_bytes(JwkSet.of([alice.public]).to_bytes())
    enrol(tmp_path / "jwks.json", tmp_path / "trust.toml")
    return sign_card(json.dumps(interfaces).encode(), alice).decode()


def asked(
    folder: Path, *calls: tuple[str, Mapping[str, Any]], trust: tuple[str, ...] = NAMED
) -> tuple[list[Any], list[Any]]:
    """The tools of the server, and what it answers to each call."""
    from mcp import Client, StdioServerParameters

    command = ["-m", "cardsign", "mcp", *trust]
    home = {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    server = StdioServerParameters(
        command=sys.executable,
        args=[*command, "--insecure-loopback-http"],
        cwd=folder,
        env=home,
    )

    async def talking() -> tuple[list[Any], list[Any]]:
        with anyio.fail_after(120):
            async with Client(server) as client:
                tools = (await client.list_tools()).tools
                return tools, [await client.call_tool(name, dict(said)) for name, said in calls]

    return anyio.run(talking)


@pytest.mark.needs_a2a
def test_O21_a_model_asks_what_the_commands_answer(
    signed: str, alice: PrivateKey, tmp_path: Path
) -> None:
    """By the user's own policy: a changed card and a stranger are not trusted, no file is read,
    and a private address is not asked."""
    keys = JwkSet.of([alice.public])
    changed = signed.replace('"version"', '"iconUrl": "https://x.example/i", "version"', 1)
    (tmp_path / "card.json").write_text(signed)
    with local_site() as site:
        site.answers["/card.json"] = signed.encode()
        url = f"{site.origin}/card.json"
        tools, answers = asked(
            tmp_path,
            ("verify", {"card": signed}),
            ("verify", {"card": changed, "issuer": "tides"}),
            ("lint", {"card": signed}),
            ("inspect", {"card": changed, "jwks": keys.to_bytes().decode()}),
            ("diff", {"old": signed, "new": changed}),
            ("lint", {"card": "card.json"}),
            ("inspect", {"card": url}),
            ("verify", {"card": url}),
            ("lint", {"card": "https://192.168.1.1/card.json"}),
            ("verify", {"card": signed, "issuer": "nobody"}),
        )
    assert {tool.name for tool in tools} == {"verify", "lint", "inspect", "diff"}
    assert all(tool.annotations.read_only_hint for tool in tools)
    *structured, private, unknown = answers
    for refused, word in ((private, "fetch.forbidden_address"), (unknown, "nobody")):
        assert refused.is_error
        assert word in refused.content[0].text
    assert [answer.content[0].text for answer in structured if answer.is_error] == []
    good, bad, lint, inspected, diff, file, here, stranger = (
        answer.structured_content for answer in structured
    )
    assert (good["verdict"], good["subject"]) == ("trusted", "tides")
    assert good["policy"] == "trust.toml"
    assert bad["verdict"] != "trusted"
    assert lint["findings"] == [finding.to_json() for finding in lint_card(signed.encode())]
    same = inspect_card(changed.encode(), jwks=keys).to_json()
    assert inspected == json.loads(json.dumps({**same, "name": "(text)"}))
    assert any("iconUrl" in change["path"] for change in diff["changes"])
    assert [finding["code"] for finding in file["findings"]] == ["json.syntax"]
    assert here["agent"]["name"] == PORTABLE["name"]
    assert stranger["verdict"] != "trusted"


@pytest.mark.needs_a2a
def test_O21_over_streamable_http_on_this_machine(signed: str, tmp_path: Path) -> None:
    """The same answers; a page of another site, which a browser may send here, gets none."""
    from mcp import Client

    port = free_port()
    words = f"cardsign mcp {' '.join(NAMED)} --port {port}"
    with started(words, tmp_path, port):
        url = f"http://127.0.0.1:{port}/mcp"

        async def talking() -> Any:
            async with Client(url) as client:
                return await client.call_tool("verify", {"card": signed})

        assert anyio.run(talking).structured_content["verdict"] == "trusted"
        command = [sys.executable, "-m", *words.split()]
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert second.returncode == 2
        assert f"serving {url}\n" in second.stderr  # which it says before
        assert f"serve.bind: 127.0.0.1:{port} cannot be bound" in second.stderr
        for name, status in (("Host", 421), ("Origin", 403)):
            headers = {name: "http://evil.example" if name == "Origin" else "evil.example"}
            assert httpx.post(url, headers=headers, json={}).status_code == status


@pytest.mark.needs_a2a
def test_the_policy_of_the_folder_is_none_of_the_users(signed: str, tmp_path: Path) -> None:
    """An editor starts the server in a repository; a stranger's trust.toml there trusts nobody."""
    _, (answer,) = asked(tmp_path, ("verify", {"card": signed}), trust=())
    assert answer.structured_content["verdict"] == "indeterminate"
    assert answer.structured_content["policy"] is None
    own = tmp_path / ".config/cardsign/trust.toml"
    own.parent.mkdir(parents=True)
    enrol(tmp_path / "jwks.json", own)
    _, (answer,) = asked(tmp_path, ("verify", {"card": signed}), trust=())
    assert answer.structured_content["verdict"] == "trusted"
    assert answer.structured_content["policy"] == str(own)


def test_without_the_extra_one_line_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is served."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run_words(["mcp"]) == 2
    assert "pip install '.[mcp]'" in capsys.readouterr().err
