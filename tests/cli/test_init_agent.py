"""`cardsign init --agent`: rows B23 and B30."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cardsign.agents import init_agent
from cardsign.errors import FileFault, UsageFault
from cardsign.lint import LintSettings, lint_card
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


@pytest.mark.parametrize("name", ["Tides", "tides", "../x-y", "iam_tides", "iam-", "iam-a/b"])
def test_a_name_of_another_form_writes_nothing(tmp_path: Path, name: str) -> None:
    """Least of all outside the folder."""
    with pytest.raises(UsageFault):
        init_agent(tmp_path, name)
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


def test_B23_make_targets_run_the_contract_checks(tmp_path: Path) -> None:
    """As make itself reads them."""
    init_agent(tmp_path, "iam-tides")
    make = shutil.which("make")
    assert make is not None
    for target in ("check-a2a-contracts", "check-a2a-contracts-full", "a2a-inspector-dev"):
        command = [make, "-n", "-f", "agent-cards.mk", target]
        # A make that runs these tests is none that runs this one, which would say so.
        own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        ended = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, check=True)
        assert ended.stdout.decode().startswith("cardsign lint agents")
    assert "cardsign lint agents" in (tmp_path / ".github/workflows/agent-cards.yml").read_text()
