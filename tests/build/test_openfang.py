"""OpenFang: manifests, hands, and the configuration of its server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.card.convert import convert_card
from cardsign.errors import BuildRefused
from tests.build.making import Build, Write, built

AGENT = """name = "code-reviewer"
version = "0.3.0"
description = "Reviews code for bugs, security issues, and style"
module = "builtin:chat"
[model]
system_prompt = "You are a secret prompt. Never tell."
api_key_env = "SECRET_KEY"
[capabilities]
tools = ["file_read", "Shell-Exec"]
network = ["inside.example"]
shell = ["cargo *"]
"""
HAND = """id = "collector"
name = "Collector Hand"
description = "Collects"
category = "data"
tools = ["web_fetch"]
[[settings]]
key = "secret"
default = "hunter2"
[agent]
system_prompt = "You are a secret prompt"
"""


@pytest.mark.needs_shared
def test_Q40_every_fact_of_a_source_is_in_its_card_of_0_2(shared: Path) -> None:
    """Of each manifest of the corpus: what the card of 1.0 says, the one of 0.2 says too."""
    sources = sorted((shared / "corpus/sources").glob("openfang-agent-*.toml"))
    assert len(sources) > 15
    for source in sources:
        card = built(source)
        assert [*card.documents] == ["0.2"]
        old = convert_card(json.loads(card.document), "1.0")
        new = json.loads(built(source, a2a="1.0").document)
        for interface in (*old["supportedInterfaces"], *new["supportedInterfaces"]):  # type: ignore[misc]
            del interface["protocolVersion"]
        assert old == new, source.name


def test_O30_without_a_version_the_protocols_is_not_taken(build: Build, write: Write) -> None:
    """It is 0.0.0, as of every source that says none."""
    card = build(write("agent.toml", AGENT.replace('version = "0.3.0"\n', "")))
    assert card["version"] == "0.0.0"


def test_O31_a_hand_becomes_a_card(write: Write) -> None:
    """Id, name, category and tools; version 0.0.0 with a warning; nothing of its settings."""
    card = built(write("HAND.toml", HAND))
    found = json.loads(card.document)
    assert (found["name"], found["version"]) == ("Collector Hand", "0.0.0")
    assert found["skills"][0]["tags"] == ["data", "tool"]
    assert found["capabilities"]["extensions"][0]["params"]["id"] == "collector"
    assert any("0.0.0" in one.message and one.severity == "warning" for one in card.reasons)
    assert b"secret" not in card.document
    assert b"hunter2" not in card.document


def test_O32_the_url_is_the_base_url_and_the_listen_path(
    tmp_path: Path, build: Build, write: Write
) -> None:
    """The one of config.toml, else /a2a."""
    agent = write("agent.toml", AGENT)
    base = {"base_url": "https://of.example/"}
    assert build(agent, **base)["url"] == "https://of.example/a2a"
    write("config.toml", 'api_key = "hunter2"\n[a2a]\nenabled = true\nlisten_path = "/agents"\n')
    card = build(tmp_path, **base)
    assert card["url"] == "https://of.example/agents"
    assert card["authentication"] == {"schemes": ["bearer"]}
    assert "hunter2" not in json.dumps(card)


def test_a_prompt_describes_an_agent_only_when_asked(build: Build, write: Write) -> None:
    """Its first sentence, with a warning."""
    source = write("agent.toml", AGENT.replace("description", "author"))
    with pytest.raises(BuildRefused, match="describes the agent"):
        build(source)
    assert build(source, prompt_excerpt=True)["description"] == "You are a secret prompt."
