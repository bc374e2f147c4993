"""`cardsign init --agent`: rows B23 and B30."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.contract import init_agent
from cardsign.errors import FileFault, UsageFault
from cardsign.lint.cards import lint_card
from cardsign.lint.rules import LintSettings
from tests.cli.conftest import Cardsign


def test_B30_a_new_agent_keeps_its_contract(cardsign: Cardsign) -> None:
    """Card, code and test are there; the card has no finding of its contract, not even a note."""
    ended = cardsign("init", "--agent", "iam-tides", "--json")
    assert ended.status == 0
    assert all(Path(name).is_file() for name in ended.json["files"])
    card = Path("agents/iam-tides/.well-known/agent-card.json").read_bytes()
    settings = LintSettings(groups=("json", "contract"), strict=True)
    assert lint_card(card, settings).findings == ()
    assert "AGENTCARD_PATH" in Path("agents/iam-tides/agent.py").read_text()
    assert cardsign("lint", "agents", "--group", "contract").status == 0
    assert cardsign("init", "--agent", "iam-tides").status == 2


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


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    """A cloned folder does not choose where we write."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project/agents").symlink_to("../elsewhere")
    with pytest.raises(UsageFault) as refused:
        init_agent(tmp_path / "project", "iam-tides")
    assert refused.value.code == "config.not_allowed"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_next_step_of_a_new_agent_succeeds(cardsign: Cardsign) -> None:
    """As it is printed, and in the words of make and of the workflow too; a broken card fails."""
    said = cardsign("init", "--agent", "iam-tides").err
    next_step = shlex.split(said.partition("then cardsign ")[2])
    assert next_step[:2] == ["lint", "agents"]
    assert cardsign(*next_step).status == 0
    workflow = Path(".github/workflows/agent-cards.yml").read_text()
    for text in (Path("agent-cards.mk").read_text(), workflow):
        assert f"cardsign {shlex.join(next_step)}" in text
    Path("agents/iam-tides/.well-known/agent-card.json").write_text('{"name": 1}')
    assert cardsign(*next_step).status == 1


@pytest.mark.parametrize(
    "target", ["check-a2a-contracts", "check-a2a-contracts-full", "a2a-inspector-dev"]
)
def test_B23_make_targets_run_the_contract_checks(tmp_path: Path, target: str) -> None:
    """Of a new project, by make itself; a card without its skills fails, but not the report."""
    init_agent(tmp_path, "iam-tides")
    init_agent(tmp_path, "iam-moon")
    assert made(tmp_path, target).returncode == 0
    card = tmp_path / "agents/iam-moon/.well-known/agent-card.json"
    card.write_text(json.dumps(json.loads(card.read_bytes()) | {"skills": []}))
    assert (made(tmp_path, target).returncode == 0) == (target == "a2a-inspector-dev")


def made(project: Path, target: str) -> subprocess.CompletedProcess[str]:
    """What make says of a target."""
    make = shutil.which("make")
    assert make is not None
    # A make that runs these tests is none that runs this one, which would say so.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    own["PATH"] = f"{Path(sys.executable).parent}:{own['PATH']}"
    command = [make, "-f", "agent-cards.mk", target]
    return subprocess.run(
        command, cwd=project, env=own, capture_output=True, text=True, check=False, timeout=60
    )
