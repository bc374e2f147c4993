"""`cardsign init --agent`: rows B23 and B30."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.contract import init_agent
from cardsign.errors import FileFault, UsageFault


@pytest.mark.parametrize(
    "name", ["Tides", "tides", "../x-y", "iam_tides", "iam-", "iam-a/b", "iam-" + "a" * 61]
)
def test_a_name_of_another_form_writes_nothing(tmp_path: Path, name: str) -> None:
    """Least of all outside the folder."""
    with pytest.raises(UsageFault) as refused:
        init_agent(tmp_path, name)
    assert "cardsign init --agent iam-tides" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_second_agent_leaves_what_is_shared(tmp_path: Path) -> None:
    """And what is there already of an agent."""
    init_agent(tmp_path, "iam-tides")
    (tmp_path / "agent-cards.mk").write_text("mine\n")
    init_agent(tmp_path, "iam-moon")
    assert (tmp_path / "agent-cards.mk").read_text() == "mine\n"
    with pytest.raises(FileFault):
        init_agent(tmp_path, "iam-moon")


@pytest.mark.parametrize("name", ["agents", "Makefile"])
def test_a_link_that_leads_out_is_not_followed(tmp_path: Path, name: str) -> None:
    """A cloned folder does not choose where we write."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / name).symlink_to("../elsewhere")
    with pytest.raises(UsageFault) as refused:
        init_agent(tmp_path / "project", "iam-tides")
    assert refused.value.code == "config.not_allowed"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_Q42_a_makefile_that_is_there_is_extended_once(tmp_path: Path) -> None:
    """Its own rules stay, and its first target stays the default."""
    (tmp_path / "makefile").write_text("all:\n\t@echo mine")
    init_agent(tmp_path, "iam-tides")
    init_agent(tmp_path, "iam-moon")
    rules = (tmp_path / "makefile").read_text()
    assert rules == "all:\n\t@echo mine\ninclude agent-cards.mk\n"
    assert not (tmp_path / "Makefile").exists()
    assert made(tmp_path, "all").stdout == "mine\n"
    assert made(tmp_path, "check-a2a-contracts").returncode == 0


@pytest.mark.parametrize("target", ["check-a2a-contracts-full", "a2a-inspector-dev"])
def test_B23_make_targets_run_the_contract_checks(tmp_path: Path, target: str) -> None:
    """Of a new project, by make itself; a card without its skills fails, but not the report."""
    init_agent(tmp_path, "iam-tides")
    init_agent(tmp_path, "iam-moon")
    assert made(tmp_path, target).returncode == 0
    card = tmp_path / "agents/iam-moon/.well-known/agent-card.json"
    card.write_text(json.dumps(json.loads(card.read_bytes()) | {"skills": []}))
    assert (made(tmp_path, target).returncode == 0) == (target == "a2a-inspector-dev")


def test_a_file_in_place_of_the_folder_of_agents_is_said(tmp_path: Path) -> None:
    """Not told as a bug of ours."""
    (tmp_path / "agents").write_text("")
    with pytest.raises(FileFault) as refused:
        init_agent(tmp_path, "iam-tides")
    assert "agents" in str(refused.value.path)


def test_its_test_holds_its_card_against_the_contract(tmp_path: Path) -> None:
    """By pytest, in a project of nothing else; a card without its skills fails."""
    init_agent(tmp_path, "iam-tides")
    test = "tests/test_iam_tides_card.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    (tmp_path / "agents/iam-tides/.well-known/agent-card.json").write_text('{"name": "iam-tides"}')
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "contract.required" in ran.stdout


def made(project: Path, target: str) -> subprocess.CompletedProcess[str]:
    """What make says of a target."""
    make = shutil.which("make")
    assert make is not None
    # A make that runs these tests is none that runs this one, which would say so.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    own["PATH"] = f"{Path(sys.executable).parent}:{own['PATH']}"
    return subprocess.run(
        [make, target],
        cwd=project,
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
