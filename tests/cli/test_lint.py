"""`cardsign lint`: status, streams, files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.lint.examples import example_card
from tests.support import PORTABLE, dump, put

# ------------------------------------------------------------------ folders, URLs, git


def agent(name: str, document: Any) -> Path:
    """A contract card where the standard wants it."""
    folder = Path("repo/agents", name)
    (folder / ".well-known").mkdir(parents=True)
    (folder / ".well-known/agent-card.json").write_text(json.dumps(document))
    return folder


def in_folder(cardsign: Cardsign) -> dict[str, list[str]]:
    """What is found in the folder, by card."""
    answer = cardsign("lint", "repo", "--json").json
    return {one["name"]: [f["code"] for f in one["findings"]] for one in answer["cards"]}


def test_a_folder_of_more_cards_than_are_read_is_refused(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the limit would pass unread."""
    monkeypatch.setattr("cardsign.projects.MAX_CARDS", 2)
    Path("many").mkdir()
    for number in (1, 2):
        Path(f"many/{number}.json").write_bytes(dump(PORTABLE))
    assert cardsign("lint", "many").status == 0
    Path("many/3.json").write_bytes(dump(PORTABLE))
    ended = cardsign("lint", "many")
    assert (ended.status, ended.out) == (2, b"")
    assert "the folder holds more than 2 cards (many)" in ended.err


def test_a_card_that_is_named_is_told_what_stands_beside_it(cardsign: Cardsign) -> None:
    """As in its folder: a pre-commit hook names files. Of other cards it cannot know."""
    document = example_card({"/metadata": {"foreman": "iam-lead"}}, "contract")
    folder = agent("iam-tides", document)
    (folder / "agent.py").write_text("card = None\n")
    subprocess.run(["git", "init", "-q", "repo"], check=True)
    (name,) = found = in_folder(cardsign)
    assert set(found[name]) > {"contract.path-constant", "contract.untracked"}
    (alone,) = cardsign("lint", name, "--json").json["cards"]
    rules = [one["code"] for one in alone["findings"]]
    assert rules == [one for one in found[name] if one != "contract.reference"]
    assert len(rules) == len(found[name]) - 1
    both = cardsign("lint", name, name, "--json").json["cards"]
    assert "contract.reference" in [one["code"] for one in both[0]["findings"]]


def test_a_repository_starts_nothing(cardsign: Cardsign) -> None:
    """Its index is sparse, a tree is missing, and it says by which program that is to be had."""
    agent("iam-tides", example_card({}, "contract"))
    Path("repo/other").mkdir()
    Path("repo/other/file").touch()

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@e.example")
        return subprocess.check_output(["git", "-C", "repo", *who, *words], text=True).strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    git("sparse-checkout", "set", "--cone", "--sparse-index", "agents")
    tree = git("rev-parse", "HEAD:other")
    Path("repo/.git/objects", tree[:2], tree[2:]).unlink()
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialclone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(Path("repo").absolute()),
        "remote.origin.uploadpack": f"touch {Path('ran').absolute()}; false",
    }.items():
        git("config", name, value)
    assert in_folder(cardsign)
    assert not Path("ran").exists()


def test_a_link_beside_a_card_is_not_followed(cardsign: Cardsign) -> None:
    """A cloned folder may link anywhere; nothing of there is told."""
    agent("iam-tides", example_card({}, "contract"))
    Path("outside.toml").write_text('[project]\nversion = "of another project"\n')
    Path("repo/pyproject.toml").symlink_to("../outside.toml")
    assert "another project" not in cardsign("lint", "repo").text


def test_B5_B36_what_stands_beside_a_contract(cardsign: Cardsign) -> None:
    """agent.py names the card, and the application has its version."""
    folder = agent("iam-tides", example_card({}, "contract"))
    (name,) = in_folder(cardsign)
    beside = {"contract.path-constant", "contract.app-version"}
    assert not beside & set(in_folder(cardsign)[name])
    (folder / "agent.py").write_text("card = None\n")
    Path("repo/pyproject.toml").write_text('[project]\nversion = "1.3.0"\n')
    assert beside <= set(in_folder(cardsign)[name])
    (folder / "agent.py").write_text("AGENTCARD_PATH = 1\n")
    Path("repo/pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    assert not beside & set(in_folder(cardsign)[name])


def test_a_card_of_a_url_is_linted(cardsign: Cardsign) -> None:
    """By the loader that `diff` uses."""
    with local_site() as site:
        site.answers["/card"] = json.dumps(put(PORTABLE, "/version", "two")).encode()
        ended = cardsign("lint", f"{site.origin}/card", "--insecure-loopback-http", "--json")
        assert [one["code"] for one in ended.json["cards"][0]["findings"]] == ["meaning.version"]
