"""The story of each seed system: from its manifest to a verified card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STORIES = sorted(path.parent.name for path in EXAMPLES.glob("*/run.sh"))


#: They start a hundred processes, most of them alike: one of them runs wherever tests run.
FIRST, *OTHERS = STORIES
EACH = [FIRST, *(pytest.param(story, marks=pytest.mark.thorough) for story in OTHERS)]


@pytest.mark.parametrize("story", EACH)
def test_a_story_prints_what_lies_beside_it(story: str, tmp_path: Path) -> None:
    """It builds, lints, signs, publishes, serves and verifies live, and leaves nothing behind."""
    program = tmp_path / "bin" / "cardsign"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cardsign "$@"\n')
    program.chmod(0o755)
    kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH") if name in os.environ}
    before = sorted(EXAMPLES.rglob("*"))
    done = subprocess.run(
        ["/bin/sh", str(EXAMPLES / story / "run.sh")],
        cwd=tmp_path,
        env=kept | {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / story / "expected.txt").read_text(encoding="utf-8")
    assert "trusted: signed.json" in done.stdout
    assert "trusted: http://HOST/" in done.stdout
    assert sorted(EXAMPLES.rglob("*")) == before


@pytest.mark.parametrize("story", STORIES)
def test_nothing_secret_of_a_story_is_printed(story: str) -> None:
    """Prompts, endpoints, secrets and keys of the manifests stay in them."""
    shown = (EXAMPLES / story / "expected.txt").read_text(encoding="utf-8")
    for word in ("prompt", "internal", "secretRef", "never-leaves", "TOKEN", "allowed_domains"):
        assert word not in shown
    document, _ = json.JSONDecoder().raw_decode(shown[shown.index("{\n") :])
    assert document["skills"]
