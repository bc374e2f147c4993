"""Orloj: systems, agents and tools, across files and namespaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.config import OrlojSettings, read_config
from cardsign.errors import BuildRefused
from cardsign.issuer.cards import read_source
from tests.build.making import Build, Write, built

SYSTEM = """apiVersion: orloj.dev/v1
kind: AgentSystem
metadata:
  name: research-system
  annotations:
    orloj.dev/description: "AI research assistant for academic papers"
spec:
  agents:
    - research-agent
  a2a:
    enabled: true
"""
AGENT = """apiVersion: orloj.dev/v1
kind: Agent
metadata:
  name: research-agent
spec:
  prompt: You are a secret prompt. Never tell.
  tools:
    - web_search
    - arxiv_search
"""
TOOLS = """apiVersion: orloj.dev/v1
kind: Tool
metadata:
  name: web_search
spec:
  type: http
  endpoint: http://inside.example/tool
  description: Search the web for information
  input_schema:
    type: object
    properties:
      query: {type: string}
    required: [query]
  capabilities: [search]
  auth: {profile: api_key_header, secretRef: tool-key-secret, headerName: X-Stub-Key}
---
apiVersion: orloj.dev/v1
kind: Tool
metadata:
  name: arxiv_search
spec:
  description: Search arXiv for academic papers
  input_schema:
    type: object
    properties:
      query: {type: string}
      max_results: {type: integer}
    required: [query]
  capabilities: [search]
  operation_classes: [academic, SEARCH]
"""
SERVER = OrlojSettings(
    public_base_url="https://orloj.example.com",
    protocol_version="0.2",
    auth=("bearer",),
    organization="Orloj",
    streaming=True,
    push_notifications=False,
    state_transition_history=True,
)


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    """The seed's example in three files."""
    write("system.yaml", SYSTEM)
    write("agents/agent.yaml", AGENT)
    write("tools/tools.yaml", TOOLS)
    return tmp_path


def test_L8_L13_L16_the_card_of_1_0_says_the_same(folder: Path, write: Write) -> None:
    """What A2A requires is filled and said; schemas stand in our extension, omitted if empty."""
    bare = "".join(TOOLS.splitlines(keepends=True)[-2:])
    second = TOOLS.partition("---")[2]
    without = second[: second.index("  input_schema")] + bare
    write("tools/tools.yaml", TOOLS.partition("---")[0] + "---" + without)
    card = build_card([folder], BuildOptions(a2a="1.0", orloj=SERVER))
    found = json.loads(card.document)
    assert found["version"] == "0.0.0"
    assert found["provider"] == {"url": "https://orloj.example.com", "organization": "Orloj"}
    filled = [one.message for one in card.reasons if one.code == "build.filled"]
    assert any("0.0.0" in one for one in filled)
    assert any("provider" in one for one in filled)
    (ours,) = found["capabilities"]["extensions"]
    skills = ours["params"]["skills"]
    assert skills.keys() == {"web_search"}
    assert skills["web_search"]["inputSchema"]["required"] == ["query"]
    assert "inputSchema" not in json.dumps(found["skills"])


def test_L3_L23_nothing_of_a_tool_leaves_but_what_it_does(folder: Path) -> None:
    """Its endpoint, secretRef and header stay inside, in every form; the prompt too."""
    for version in ("0.2", "0.3", "1.0"):
        card = build_card([folder], BuildOptions(a2a=version, orloj=SERVER))
        for word in (b"inside.example", b"tool-key-secret", b"X-Stub-Key", b"prompt"):
            assert word not in card.document


def test_L6_a_prompt_is_taken_only_when_asked(folder: Path, build: Build, write: Write) -> None:
    """The annotation first; without it nothing, or the prompt's first sentence with a warning."""
    lines = SYSTEM.splitlines(keepends=True)
    write("system.yaml", "".join(lines[:4] + lines[6:]))
    with pytest.raises(BuildRefused, match="describes the agent"):
        build(folder)
    card = built(folder, prompt_excerpt=True)
    assert json.loads(card.document)["description"] == "You are a secret prompt."
    assert "build.prompt" in [one.code for one in card.reasons]


def test_L12_a_tool_without_a_description_gets_a_sentence(
    folder: Path, build: Build, write: Write
) -> None:
    """A2A requires one."""
    write("tools/tools.yaml", TOOLS.replace("description: Search the web", "note: Search the web"))
    texts = {one["id"]: one["description"] for one in build(folder)["skills"]}
    assert texts["web_search"] == "Can use the web_search tool"


@pytest.mark.parametrize("version", ["orloj.dev/v2", "v1", "apps/v1"])
def test_L17_L18_another_apiVersion_is_refused_by_name(
    folder: Path, build: Build, write: Write, version: str
) -> None:
    """Rather than read by guess."""
    write("agents/agent.yaml", AGENT.replace("orloj.dev/v1", version))
    with pytest.raises(BuildRefused, match=f"apiVersion '{version}'") as caught:
        build(folder)
    assert caught.value.code == "build.unsupported"
    assert caught.value.hint == "Write the resource in that version."


def test_a_kind_alone_is_none_of_Orloj(build: Build, write: Write) -> None:
    """Others have members of that name, too."""
    with pytest.raises(BuildRefused, match="it is none of"):
        build(write("a.yaml", "kind: Agent\n"))


def test_L20_a_dangling_name_is_an_error_with_its_line(
    folder: Path, build: Build, write: Write
) -> None:
    """Of an agent and of a tool."""
    write("agents/agent.yaml", AGENT.replace("arxiv_search", "lost"))
    with pytest.raises(BuildRefused, match="the Tool default/lost") as caught:
        build(folder)
    assert caught.value.path == str(folder / "agents/agent.yaml")
    assert caught.value.finding.place.line == 9
    (folder / "agents/agent.yaml").unlink()
    with pytest.raises(BuildRefused, match="the Agent default/research-agent") as caught:
        build(folder)
    assert caught.value.finding.place.line == 9


def test_L20_names_are_resolved_in_their_namespace(
    folder: Path, build: Build, write: Write
) -> None:
    """A tool of another namespace is another tool, unless the reference names it."""
    elsewhere = TOOLS.replace("  name: arxiv_search", "  name: arxiv_search\n  namespace: other")
    write("tools/tools.yaml", elsewhere)
    with pytest.raises(BuildRefused, match="default/arxiv_search"):
        build(folder)
    write("agents/agent.yaml", AGENT.replace("- arxiv_search", "- other/arxiv_search"))
    assert [one["id"] for one in build(folder)["skills"]] == ["arxiv_search", "web_search"]


def test_which_of_several_systems_is_meant(folder: Path, build: Build, write: Write) -> None:
    """The one that is enabled, or that is named."""
    write("second.yaml", SYSTEM.replace("research-system", "second"))
    with pytest.raises(BuildRefused, match="none was chosen"):
        build(folder)
    with pytest.raises(BuildRefused, match=r"no agent has the name 'third'; defined are: defa"):
        build(folder, agent="third")
    assert build(folder, agent="second")["name"] == "second"
    elsewhere = SYSTEM.replace("metadata:", "metadata:\n  namespace: other")
    third = write("third.yaml", elsewhere)
    with pytest.raises(BuildRefused, match="several agents have the name 'research-system'"):
        build(folder, agent="research-system")
    third.unlink()
    write("second.yaml", SYSTEM.replace("research-system", "second").replace("true", "false"))
    assert build(folder)["name"] == "research-system"
    with pytest.raises(BuildRefused, match="switched off") as caught:
        build(folder, agent="second")
    assert caught.value.hint.startswith("Set spec.a2a.enabled to true")


def test_Q44_a_card_of_the_project_names_its_agent(folder: Path, write: Write) -> None:
    """Of two systems in one folder; a card of a file or of skills only has the name."""
    write("second.yaml", SYSTEM.replace("research-system", "second"))
    table = 'format = 1\n[build]\nurl = "https://a.example/a2a"\n[[card]]\nsigned = "s.json"\n'
    for name in ("research-system", "default/second"):
        path = write("cardsign.toml", f'{table}build = ["."]\nagent = "{name}"\n')
        config = read_config(path)
        card = json.loads(read_source(config.cards[0], config.build))
        assert card["name"] == name.rpartition("/")[2]
    config = read_config(write("cardsign.toml", f'{table}build = ["."]\nagent = "third"\n'))
    with pytest.raises(BuildRefused, match="no agent has the name 'third'"):
        read_source(config.cards[0], config.build)
    write("plain.json", '{"name": "plain"}')
    write("skill/SKILL.md", "---\nname: forecast\ndescription: Says what comes\n---\n")
    for source, name in (('source = "plain.json"', "plain"), ('build = ["skill"]', "forecast")):
        config = read_config(write("cardsign.toml", f'{table}{source}\nagent = "third"\n'))
        assert json.loads(read_source(config.cards[0], config.build))["name"] == name


def test_a_resource_stands_once(folder: Path, build: Build, write: Write) -> None:
    """Two of one name would be an order of files deciding what a card says."""
    write("agents/again.yaml", AGENT)
    with pytest.raises(BuildRefused, match="defined twice") as caught:
        build(folder)
    assert caught.value.code == "build.reference"


@pytest.mark.needs_shared
def test_L20_the_corpus_has_one_system_with_its_agents_and_tools(
    shared: Path, build: Build
) -> None:
    """It is built from the five files."""
    sources = shared / "corpus/sources"
    files = [sources / f"orloj-{one}.yaml" for one in ("agentsystem-025", "agent-001")]
    files += [sources / f"orloj-tool-00{number}.yaml" for number in (1, 2, 3)]
    card = build(*files, members={"description": "Validates tools"})
    assert card["name"] == "rr-real-multi-tool-system"
    assert len(card["skills"]) == 3
    assert "host.docker.internal" not in json.dumps(card)
