"""MCP: saved answers and server cards; nothing is run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cardsign.errors import BuildRefused
from tests.build.making import Build, Write, built

TOOL: dict[str, Any] = {
    "name": "Search-Docs",
    "title": "Search",
    "description": "Finds pages",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "output": "secret",
}
SERVER = {
    "name": "my docs",
    "description": "Docs",
    "version": "2.0.0",
    "serverUrl": "https://x.example",
}
FORMS: dict[str, dict[str, Any]] = {
    "a server card": {**SERVER, "tools": [TOOL]},
    "an answer to tools/list": {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}},
    "a saved list": {"tools": [TOOL]},
    "capabilities with definitions": {
        "serverInfo": {"name": "my docs", "version": "2.0.0"},
        "capabilities": {"tools": {"definitions": [TOOL]}},
    },
    "one tool": TOOL,
}


@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
def test_O20_O22_tools_become_skills_under_namespaced_ids(
    write: Write, build: Build, source: dict[str, Any]
) -> None:
    """Of the server's name and the tool's, in lower case and without hyphens."""
    said = {} if {"serverInfo", "version"} & source.keys() else {"name": "my docs"}
    said |= {"description": "Docs"}
    card = build(write("tools.json", json.dumps(source)), members=said)
    (skill,) = card["skills"]
    assert skill["id"] == "mcp_my_docs_search_docs"
    assert (skill["name"], skill["description"], skill["tags"]) == (
        "Search",
        "Finds pages",
        ["tool"],
    )
    params = card["capabilities"]["extensions"][0]["params"]
    assert params["skills"][skill["id"]] == {"inputSchema": TOOL["inputSchema"]}
    assert "secret" not in json.dumps(card)
    assert "x.example" not in json.dumps(card)


def test_a_schema_that_is_no_object_is_refused(write: Write) -> None:
    """It would stand in the card as it is."""
    source = write("tools.json", json.dumps({**SERVER, "tools": [{**TOOL, "inputSchema": "x"}]}))
    with pytest.raises(BuildRefused, match="inputSchema: expected an object"):
        built(source)


LISTS = {
    "json": json.dumps({"mcpServers": {"github": {"command": "npx", "args": ["-y", "x"]}}}),
    "toml": '[[mcp_servers]]\nname = "github"\n[mcp_servers.transport]\ncommand = "npx"\n',
}


@pytest.mark.parametrize("suffix", LISTS)
def test_O27_a_list_of_servers_runs_nothing(
    write: Write, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused with the way out."""

    def run(*args: object, **named: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr("subprocess.Popen", run)
    monkeypatch.setattr("os.posix_spawn", run)
    path = write(f"servers.{suffix}", LISTS[suffix])
    with pytest.raises(BuildRefused, match="not what they offer") as caught:
        built(path)
    assert "tools/list" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({**SERVER, "transport": {}}, "names a skill or a tool"),
        ({"tools": [TOOL]}, "names the server"),
        ({**SERVER, "tools": [{"description": "x"}]}, "the tool has no name"),
        ({**SERVER, "tools": [TOOL], "auth": {"type": "magic"}}, "'magic'"),
    ],
)
def test_what_is_missing_is_refused(write: Write, source: dict[str, Any], words: str) -> None:
    """With the file."""
    path = write("server.json", json.dumps(source))
    with pytest.raises(BuildRefused, match=words) as caught:
        built(path)
    assert caught.value.path == str(path)


def test_a_server_card_without_tools_takes_those_of_a_saved_answer(
    write: Write, build: Build
) -> None:
    """As the draft of today has none; their ids carry the server's name."""
    card = write("server.json", json.dumps({**SERVER, "transport": {}}))
    tools = write("tools.json", json.dumps({"tools": [TOOL]}))
    assert [one["id"] for one in build(card, tools)["skills"]] == ["mcp_my_docs_search_docs"]


def test_two_servers_make_one_agent(write: Write, build: Build) -> None:
    """The first names it; tools of one name stay apart."""
    first = write("a.json", json.dumps({**SERVER, "tools": [TOOL]}))
    second = write("b.json", json.dumps({**SERVER, "name": "other", "tools": [TOOL]}))
    card = build(first, second)
    assert card["name"] == "my docs"
    assert [one["id"] for one in card["skills"]] == [
        "mcp_my_docs_search_docs",
        "mcp_other_search_docs",
    ]


PROJECT = """[project]
name = "tides"
version = "3.1.0"
description = "Says when the tide is high"

[tool.cardsign.card]
url = "https://tides.example/a2a"
provider = { organization = "Harbour", url = "https://harbour.example" }
capabilities = { streaming = true }
[[tool.cardsign.card.skills]]
id = "high"
description = "The next high tide"
tags = ["sea"]
"""


def test_a_pyproject_has_a_table(write: Write, tmp_path: Path) -> None:
    """The project fills what the table lacks; the table wins."""
    path = write("pyproject.toml", PROJECT)
    card = json.loads(built(path, url=None).document)
    assert (card["name"], card["version"]) == ("tides", "3.1.0")
    assert card["supportedInterfaces"][0]["url"] == "https://tides.example/a2a"
    assert card["skills"] == [
        {"id": "high", "name": "high", "description": "The next high tide", "tags": ["sea"]}
    ]
    table = PROJECT.replace("capabilities", 'name = "moon"\ncapabilities')
    path = write("pyproject.toml", table)
    assert json.loads(built(path, url=None).document)["name"] == "moon"
    path = write("pyproject.toml", "[project]\nname = 'a'\n")
    with pytest.raises(BuildRefused, match="no table"):
        built(f"pyproject:{path}")


def test_the_table_of_a_pyproject_is_read_as_a_card(write: Write) -> None:
    """An older scheme is put into the card's form, and what no card has is named with its line."""
    table = PROJECT.replace(
        "[[tool.cardsign.card.skills]]",
        'egress = "inside"\nsecurity = [{ key = [] }]\n'
        'securitySchemes = { key = { type = "http", scheme = "bearer" } }\n'
        "[[tool.cardsign.card.skills]]",
    )
    made = built(write("pyproject.toml", table), url=None)
    card = json.loads(made.document)
    assert card["securitySchemes"] == {"key": {"httpAuthSecurityScheme": {"scheme": "bearer"}}}
    assert card["securityRequirements"] == [{"schemes": {"key": {}}}]
    assert card["supportedInterfaces"][0]["protocolVersion"] == "1.0"
    (note,) = (reason for reason in made.reasons if "egress" in reason.message)
    assert note.path.endswith(":10")


def test_a_folder_with_the_table_is_recognised(write: Write, tmp_path: Path) -> None:
    """Whatever else a project has; without the table it is what its other files say."""
    write("project/pyproject.toml", PROJECT)
    write("project/.pre-commit-config.yaml", "repos: []\n")
    write("project/SKILL.md", "---\nname: low\ndescription: The next low tide\n---\n")
    card = json.loads(built(tmp_path / "project", url=None).document)
    assert [one["id"] for one in card["skills"]] == ["high"]
    (tmp_path / "project/.pre-commit-config.yaml").unlink()
    write("project/pyproject.toml", "[project]\nname = 'a'\n")
    assert [one["id"] for one in json.loads(built(tmp_path / "project").document)["skills"]] == [
        "low"
    ]
    (tmp_path / "project/SKILL.md").unlink()
    with pytest.raises(BuildRefused, match="it is none of"):
        built(tmp_path / "project")


def test_the_pyproject_of_a_folder_is_its_own(write: Write, tmp_path: Path) -> None:
    """A link out of the folder, a pipe and none at all are refused; a plain file is read."""
    write("plain/pyproject.toml", PROJECT)
    assert built(f"pyproject:{tmp_path / 'plain'}").document
    for name in ("linked", "piped", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked/pyproject.toml").symlink_to(tmp_path / "plain/pyproject.toml")
    os.mkfifo(tmp_path / "piped/pyproject.toml")
    for name, code in (
        ("linked", "build.unsupported"),
        ("piped", "build.missing"),
        ("empty", "build.missing"),
    ):
        with pytest.raises(BuildRefused) as refused:
            built(f"pyproject:{tmp_path / name}")
        assert refused.value.code == code
        with pytest.raises(BuildRefused, match="it is none of"):
            built(tmp_path / name)
