"""Forge: its configuration, its builder's specification, its skills and its auth chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.diff.cards import diff_cards, effect_of
from cardsign.errors import BuildRefused
from tests.build.making import URL, Build, Write, built

FORGE = "agent_id: weather-agent\nversion: 0.4.2\n"
MAIN = "---\nname: weather\ndescription: Says how the weather will be\n---\n"


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    """An agent with a main skill."""
    write("forge.yaml", FORGE)
    write("SKILL.md", MAIN)
    return tmp_path


def skill(card: dict[str, Any], name: str) -> dict[str, Any]:
    """A skill by id."""
    (found,) = (one for one in card["skills"] if one["id"] == name)
    return dict(found)


def test_F8_the_configuration_wins_over_the_specification(
    folder: Path, build: Build, write: Write
) -> None:
    """The name and the version; the specification fills what is missing."""
    spec = {"name": "Another", "version": "9.9.9", "description": "From the specification"}
    write("agent.json", json.dumps(spec))
    card = build(folder)
    assert (card["name"], card["version"]) == ("weather-agent", "0.4.2")
    assert card["description"] == "From the specification"


def test_F9_F47_a_card_without_a_description_is_refused(
    folder: Path, build: Build, write: Write
) -> None:
    """The main skill's is taken; without it, only what the person says."""
    assert build(folder)["description"] == "Says how the weather will be"
    (folder / "SKILL.md").unlink()
    write("forge.yaml", FORGE + "tools:\n  - name: web_search\n")
    with pytest.raises(BuildRefused, match="no source describes the agent"):
        build(folder)
    card = build(folder, members={"description": "Weather"})
    assert card["description"] == "Weather"
    assert skill(card, "web_search")["description"] == "Can use the web_search tool"


def test_F10_the_url_follows_from_the_base_url(folder: Path) -> None:
    """Forge serves at the root, so it stays as it was typed."""
    for base in ("http://localhost:8080", "https://w.example/"):
        card = json.loads(build_card([folder], BuildOptions(base_url=base)).document)
        assert card["url"] == base


def test_F12_another_protocol_version_is_a_change(folder: Path) -> None:
    """Of the interface, for a caller; the same version is none."""
    old, new = (built(folder, a2a=version).document for version in ("0.3", "1.0"))
    assert diff_cards(old, built(folder).document).changes == ()
    effects = {effect_of(one): one.message for one in diff_cards(old, new).changes}
    assert "JSONRPC 0.3.0" in effects["breaking"]
    assert "JSONRPC 1.0" in effects["additive"]


def test_F14_F32_skills_and_tools_are_one_list(folder: Path, build: Build, write: Write) -> None:
    """Of the specification, of skill files and of builtin tools, each with a tag."""
    write("forge.yaml", FORGE + "tools:\n  - name: web_search\n    type: builtin\n")
    write("agent.json", json.dumps({"a2a": {"skills": [{"id": "tides", "description": "Tides"}]}}))
    card = build(folder)
    tags = {one["id"]: one["tags"] for one in card["skills"]}
    assert tags == {"tides": ["skill"], "weather": ["skill"], "web_search": ["tool"]}


AUTH = """auth:
  required: true
  providers:
    - type: static_token
      settings: {token: hunter2-secret}
    - type: oidc
      name: staff
      settings: {issuer: https://id.example/, audience: api://forge}
    - type: kerberos
"""


def test_a_provider_without_its_setting_is_refused_with_its_line(
    folder: Path, build: Build, write: Write
) -> None:
    """Rather than left out in silence."""
    write("forge.yaml", FORGE + "auth:\n  providers:\n    - type: static_token\n    - type: oidc\n")
    with pytest.raises(BuildRefused, match="oidc: it needs `issuer`") as caught:
        build(folder)
    assert caught.value.finding.place.line == 6


def test_F24_schemes_written_by_hand_stay(folder: Path, build: Build, write: Write) -> None:
    """The derived one of that name gets another."""
    hand = "securitySchemes:\n  static_token: {type: http, scheme: digest}\n"
    write("forge.yaml", FORGE + AUTH + hand)
    card = build(folder)
    assert card["securitySchemes"]["static_token"] == {"type": "http", "scheme": "digest"}
    assert card["securitySchemes"]["static_token-2"] == {"type": "http", "scheme": "bearer"}
    assert card["security"] == [{"static_token-2": []}, {"staff": []}]


def test_each_provider_has_its_line(folder: Path, write: Write) -> None:
    """What it becomes, and that it becomes nothing; a scheme by hand has its own."""
    hand = "securitySchemes:\n  badge: {type: http, scheme: digest}\n"
    path = write("forge.yaml", FORGE + AUTH + hand)
    card = built(folder)
    places = {one.target[1]: one.place for one in card.facts if one.target[0] == "securitySchemes"}
    assert {name: place.line for name, place in places.items()} == {
        "static_token": 6,
        "staff": 8,
        "badge": 13,
    }
    (told,) = (one.path for one in card.reasons if one.code == "build.not_advertised")
    assert told == f"{path}:11"


def test_F45_a_second_of_one_type_gets_a_suffix(folder: Path, build: Build, write: Write) -> None:
    """So that nothing enforced stays unadvertised."""
    chain = "auth:\n  providers:\n    - type: static_token\n    - type: static_token\n"
    write("forge.yaml", FORGE + chain)
    assert list(build(folder)["securitySchemes"]) == ["static_token", "static_token-2"]


@pytest.mark.parametrize("auth", ["", "auth:\n  required: true\n", "auth:\n  providers: []\n"])
def test_F46_without_a_chain_nothing_is_said(
    folder: Path, build: Build, write: Write, auth: str
) -> None:
    """Neither schemes nor requirements, not even empty ones."""
    write("forge.yaml", FORGE + auth)
    assert {"security", "securitySchemes"} & build(folder).keys() == set()


def test_F46_a_chain_that_is_not_required_lets_everybody_in(
    folder: Path, build: Build, write: Write
) -> None:
    """By an empty alternative, in both forms."""
    write("forge.yaml", FORGE + AUTH.replace("true", "false"))
    assert build(folder)["security"][-1] == {}
    assert build(folder, a2a="1.0")["securityRequirements"][-1] == {"schemes": {}}


def test_F34_skill_files_are_found_at_their_places(
    folder: Path, build: Build, write: Write
) -> None:
    """And the main one where the configuration says."""
    write("skills/a.md", MAIN.replace("weather", "a"))
    write("skills/b/SKILL.md", MAIN.replace("weather", "b"))
    write("skills/b/other.md", MAIN.replace("weather", "no"))
    write("forge.yaml", FORGE + "skills:\n  path: guide/main.md\n")
    write("guide/main.md", MAIN.replace("name: weather", "name: main"))
    assert [one["id"] for one in build(folder)["skills"]] == ["a", "b", "main", "weather"]


@pytest.mark.parametrize("path", ["../outside.md", "/etc/passwd", "link.md"])
def test_O16_a_path_out_of_the_folder_is_refused(
    folder: Path, build: Build, write: Write, tmp_path: Path, path: str
) -> None:
    """What a cloned folder says is a stranger's word."""
    (folder / "link.md").symlink_to("/etc/hostname")
    write("forge.yaml", FORGE + f"skills:\n  path: {path}\n")
    with pytest.raises(BuildRefused, match="leads out of the agent's folder"):
        build(folder)
    write("forge.yaml", FORGE + "skills:\n  path: SKILL.md\n")
    assert [one["id"] for one in build(folder)["skills"]] == ["weather"]


@pytest.mark.parametrize("name", ["agent.json", "forge.yaml"])
def test_a_link_out_of_the_folder_is_refused(
    folder: Path, build: Build, write: Write, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Of the files that a folder of the kind has, too."""
    target = tmp_path_factory.mktemp("elsewhere") / name
    target.write_text('{"agent_id": "a", "description": "Somebody else\'s"}')
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    with pytest.raises(BuildRefused, match="leads out of its folder"):
        build(folder)


def test_F36_F43_what_the_builder_wrote_wins_and_gaps_are_filled(
    folder: Path, build: Build, write: Write
) -> None:
    """So a card from source, and one after Forge's own build, are the same."""
    before = built(folder).document
    found: dict[str, Any] = {"id": "weather", "description": "Says how the weather will be"}
    spec = {"a2a": {"skills": [found]}}
    write("agent.json", json.dumps(spec))
    assert built(folder).document == before
    found |= {"name": "Weather!", "examples": ["Will it rain?"]}
    write("agent.json", json.dumps(spec))
    one = skill(build(folder), "weather")
    assert (one["name"], one["examples"]) == ("Weather!", ["Will it rain?"])


@pytest.mark.needs_shared
def test_F35_the_example_of_the_project_is_built(shared: Path, tmp_path: Path) -> None:
    """The real forge.yaml, with a main skill beside it."""
    example = (shared / "corpus/sources/forge-001.yaml").read_text(encoding="utf-8")
    (tmp_path / "forge.yaml").write_text(example, encoding="utf-8")
    (tmp_path / "SKILL.md").write_text(MAIN, encoding="utf-8")
    card = json.loads(built(tmp_path, url=URL).document)
    assert (card["name"], card["version"]) == ("my-support-agent", "0.1.0")
    ids = ["http_request", "json_parse", "weather", "web_search"]
    assert [one["id"] for one in card["skills"]] == ids
