"""A new agent with a contract: its card, its code's reference to it, tests, make targets (B30)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, UsageFault
from cardsign.files import leads_outside, outside, write_atomic

_NAME: Final = re.compile(r"(?=.{3,64}\Z)(?P<department>[a-z][a-z0-9]*)-[a-z0-9]+(?:-[a-z0-9]+)*")
#: The rules that a contract card keeps as it stands; A2A's are kept by what build makes of it.
CONTRACT_LINT: Final = "cardsign lint agents --group json --group contract"
_MAKE: Final = f"""# include agent-cards.mk
.PHONY: check-a2a-contracts check-a2a-contracts-full a2a-inspector-dev
check-a2a-contracts:  ## JSON and contract rules of every card
\t{CONTRACT_LINT}

check-a2a-contracts-full:  ## all rules, those of A2A on the card that is built of each
\t{CONTRACT_LINT} --group secrets --strict
\tfor card in agents/*/.well-known/agent-card.json; do \\
\t  cardsign build -q "$$card" --url 'https://agents.example.com/{{name}}' -o - | \\
\t  cardsign lint - --ignore meaning.placeholder || exit 1; done

a2a-inspector-dev:  ## a report of every card by every rule, to read
\t-cardsign lint agents --fail-on error
"""
_WORKFLOW: Final = f"""name: agent-cards
on: [pull_request]
permissions:
  contents: read
jobs:
  contracts:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v7
      - uses: actions/setup-python@v7
        with: {{python-version: "3.13"}}
      - run: pip install cardsign
      - run: {CONTRACT_LINT} --format github
"""
_TEST: Final = '''"""The card of {name} loads, and keeps its contract."""

from pathlib import Path

from cardsign.lint import LintSettings, lint_card

CARD = Path(__file__).parents[1] / "agents/{name}/.well-known/agent-card.json"


def test_the_card_keeps_its_contract():
    settings = LintSettings(groups=("json", "contract"))
    assert [one for one in lint_card(CARD.read_bytes(), settings).findings
            if one.severity != "note"] == []
'''
_CODE: Final = """from pathlib import Path

AGENTCARD_PATH = Path(__file__).parent / ".well-known" / "agent-card.json"
"""


def init_agent(folder: Path, name: str) -> tuple[Path, ...]:
    """Write what a new agent needs; make targets and the workflow only where there are none.

    Args:
        folder: Of the project.
        name: department-agent, such as ``iam-tides``.

    Returns:
        The files that were written.

    Raises:
        UsageFault: ``usage.invalid``: the name has another form.
        UsageFault: ``config.not_allowed``: a link leads out of the folder.
        FileFault: ``file.exists``: the agent is there already; nothing was written.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        hint = "Name the department too, as in: cardsign init --agent iam-tides"
        what = f"{name!r:.60} is not department-agent in lower case, of at most 64 characters"
        raise UsageFault("usage.invalid", what, hint=hint)
    agent = folder / "agents" / name
    if agent.exists() or agent.is_symlink():
        raise FileFault("file.exists", "the agent is there already", path=str(agent))
    test = folder / "tests" / f"test_{name.replace('-', '_')}_card.py"
    card = json.dumps(_card(name, found["department"]), indent=2) + "\n"
    own = {
        agent / ".well-known/agent-card.json": card,
        agent / "agent.py": _CODE,
        test: _TEST.format(name=name),
    }
    shared = {
        folder / "agent-cards.mk": _MAKE,
        folder / ".github/workflows/agent-cards.yml": _WORKFLOW,
    }
    texts = own | {path: text for path, text in shared.items() if not path.exists()}
    for path in texts:  # a cloned folder's links must not choose where we write
        if leads_outside(folder, path):
            raise outside(path, "a link leads", folder)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    return tuple(texts)


def _card(name: str, department: str) -> dict[str, object]:
    """A contract card that lints clean, with two skills to be replaced."""
    target = {"type": "string", "description": "What to look at"}
    status = {"type": "string", "enum": ["ok", "error", "partial", "skipped"]}
    skills = [
        {
            "skill_id": f"{department}.{verb}_target",
            "name": f"{verb.capitalize()} target",
            "description": f"{verb.capitalize()} a target and say how it ended",
            "input_schema": {
                "type": "object",
                "required": ["target"],
                "properties": {"target": target},
            },
            "output_schema": {
                "type": "object",
                "required": ["status"],
                "properties": {"status": status},
            },
        }
        for verb in ("check", "run")
    ]
    return {
        "name": name,
        "version": "0.1.0",
        "description": f"An agent of the department {department}",
        "spiffe_id": f"spiffe://{department}.internal.example/agent/{name}/dev/local/0.1.0",
        "capabilities": {"streaming": False},
        "skills": skills,
        "authentication": {"type": "bearer"},
        "metadata": {"department": department, "role": "specialist"},
    }
