"""SKILL.md files become skills, and a folder of them a card."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardsign.build.assemble import build_card
from cardsign.build.draft import BuildOptions
from cardsign.errors import BuildRefused, FileFault
from tests.build.making import Build, Write, built

WHOLE = """---
name: web-research
display_name: Web research
description: Finds what is known
category: research
tags: [Web, research, RESEARCH, web]
examples: ["Who wrote it?"]
modes: [text/markdown]
metadata: {forge: {egress_domains: [inside.example]}}
allowed-tools: [Bash]
---
You are a secret prompt.
"""


@pytest.mark.parametrize("head", ["metadata:\n  version: 1.10.0", "version: 1.10.0"])
def test_Q10_the_main_skill_says_the_version(build: Build, write: Write, head: str) -> None:
    """As the specification of skills has it; without one it is 0.0.0."""
    source = "---\nname: a\ndescription: b\n{}\n---\n"
    assert build(write("SKILL.md", source.format(head)))["version"] == "1.10.0"
    assert build(write("SKILL.md", source.format("metadata: words")))["version"] == "0.0.0"


def test_F37_the_same_sources_give_the_same_bytes(tmp_path: Path, write: Write) -> None:
    """Whatever the order in which they are named; skills are sorted by id."""
    names = ["zeta", "alpha", "mid"]
    files = [write(f"{n}/SKILL.md", f"---\nname: {n}\ndescription: {n}\n---\n") for n in names]
    said = {"name": "agent", "description": "All of them"}
    first = built(*files, members=said).document
    assert first == built(*reversed(files), members=said).document
    assert first == built(tmp_path, members=said).document
    assert [one["id"] for one in json.loads(first)["skills"]] == sorted(names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\ndescription: b\n---\n", "no name"),
        ("---\nname: a\n---\n", "'a' has no description"),
        ("---\nname: [a]\n---\n", "name: expected a text"),
        ("# A heading\n\nA text.\n", "no name"),
    ],
)
def test_a_skill_that_lacks_what_is_required(write: Write, text: str, words: str) -> None:
    """It is refused by its file."""
    path = write("SKILL.md", text)
    with pytest.raises(BuildRefused, match=words) as caught:
        built(path)
    assert caught.value.code in ("build.missing", "build.type")
    assert caught.value.path == str(path)


def test_one_bad_file_among_good_ones(tmp_path: Path, write: Write) -> None:
    """It is refused by its name and line."""
    write("good/SKILL.md", "---\nname: good\ndescription: b\n---\n")
    bad = write("bad/SKILL.md", "---\nname: bad\nname: worse\n---\n")
    with pytest.raises(BuildRefused, match="stands here twice") as caught:
        built(tmp_path, members={"name": "agent", "description": "Some"})
    assert (caught.value.path, caught.value.finding.place.line) == (str(bad), 3)
    with pytest.raises(FileFault):
        built(bad.parent.parent / "good/SKILL.md", tmp_path / "absent.md")


def test_a_loop_of_links_is_no_trap(tmp_path: Path, build: Build, write: Write) -> None:
    """A link back is not followed without end, and one that leads out is refused."""
    write("agent/skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n")
    (tmp_path / "agent/skills/loop").symlink_to(tmp_path / "agent/skills")
    assert [one["id"] for one in build(tmp_path / "agent")["skills"]] == ["a"]
    write("secret/SKILL.md", "---\nname: secret\ndescription: b\n---\n")
    (tmp_path / "agent/skills/out").symlink_to(tmp_path / "secret")
    with pytest.raises(BuildRefused, match="leads out of its folder"):
        build(tmp_path / "agent")


def test_ten_thousand_skills_are_beyond_a_card(tmp_path: Path, write: Write) -> None:
    """A clear error, and no traceback."""
    skills = [
        {"id": f"s{n}", "name": "s", "description": "d", "tags": ["t"]} for n in range(10_000)
    ]
    card = {"name": "a", "description": "b", "url": "https://a.example", "skills": skills}
    with pytest.raises(BuildRefused, match="longer than 262144 bytes") as caught:
        built(write("card.json", json.dumps(card)))
    assert caught.value.code == "build.limit"


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    """It says what was looked for."""
    with pytest.raises(BuildRefused, match="it is none of"):
        build_card([tmp_path], BuildOptions())


def test_without_a_url_there_is_no_card(write: Write) -> None:
    """Nobody could call it."""
    path = write("SKILL.md", WHOLE)
    with pytest.raises(BuildRefused, match="where the agent is called"):
        build_card([path], BuildOptions())
