"""The verifier in JavaScript agrees with the vectors of cards and statements."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs_node


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """The verifier, on vectors."""
    command = ["node", str(ROOT / "examples/verifier-js/run.mjs"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_it_agrees_with_all_vectors() -> None:
    """With all steps and ends of the statements, and with each card but those by other profiles."""
    ran = run(ROOT / "tests/vectors")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].endswith("; 0 do not")


def end_elsewhere(case: dict[str, Any]) -> None:
    case["end"]["keyset"]["version"] += 1


def expect_refusal(case: dict[str, Any]) -> None:
    case["expect"]["verdict"] = "untrusted"


def repeat_kid(case: dict[str, Any]) -> None:
    """Two good keys of one kid, the right one first: such a set makes no card trusted."""
    first, *_ = case["jwks"]["keys"]
    (file,) = (ROOT / "tests/vectors/cards").glob("03-*.json")
    others = json.loads(file.read_text("utf-8"))["jwks"]["keys"]
    other = next(key for key in others if key["kid"] != first["kid"])
    case["jwks"]["keys"] = [first, {**other, "kid": first["kid"]}]


@pytest.mark.parametrize(
    ("folder", "change"),
    [("statements", end_elsewhere), ("cards", expect_refusal), ("cards", repeat_kid)],
)
def test_it_can_disagree(folder: str, change: Callable[..., None], tmp_path: Path) -> None:
    """The twin: one case is changed, and it says so."""
    vectors = Path(shutil.copytree(ROOT / "tests/vectors", tmp_path / "vectors"))
    file = sorted((vectors / folder).glob("[0-9]*.json"))[0]
    case = json.loads(file.read_text("utf-8"))
    change(case)
    file.write_text(json.dumps(case), "utf-8")
    ran = run(vectors)
    assert (ran.returncode, file.name in ran.stdout) == (1, True)
