"""What git ignores, and with it the wheel: no module of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("path", "is_ignored"),
    [
        ("build/lib/cardsign/card.py", True),
        ("dist/cardsign.whl", True),
        ("cardsign/build/mcp.py", False),
        ("cardsign/dist/of_keys.py", False),
    ],
)
def test_only_the_folders_of_a_build_at_the_root_are_ignored(
    path: str, is_ignored: bool, root: Path, tmp_path: Path
) -> None:
    """hatchling leaves out of a wheel what the root .gitignore names, whatever it includes."""
    (tmp_path / ".gitignore").write_bytes((root / ".gitignore").read_bytes())
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    checked = subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", path], check=False)
    assert (checked.returncode == 0) is is_ignored
