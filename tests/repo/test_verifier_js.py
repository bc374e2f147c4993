"""The verifier in JavaScript agrees with the vectors of cards and statements."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERIFIER = ROOT / "examples" / "verifier-js"

pytestmark = pytest.mark.needs_node


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """A copy of the vectors, of which a test may change some."""
    return Path(shutil.copytree(ROOT / "tests" / "vectors", tmp_path / "vectors"))


def run(vectors: Path) -> subprocess.CompletedProcess[str]:
    """The verifier, on vectors."""
    command = [str(shutil.which("node")), str(VERIFIER / "run.mjs"), str(vectors)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_it_agrees_with_all_vectors(vectors: Path) -> None:
    """With all steps and ends of the statements, and with each card but those by other profiles."""
    ran = run(vectors)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].endswith("; 0 do not")


@pytest.mark.parametrize("folder", ["statements", "cards"])
def test_it_can_disagree(vectors: Path, folder: str) -> None:
    """The twin: what must come out of one case is changed, and it says so."""
    case = sorted((vectors / folder).glob("[0-9]*.json"))[0]
    data = json.loads(case.read_text("utf-8"))
    if folder == "statements":
        data["end"]["keyset"]["version"] += 1
    else:
        data["expect"]["verdict"] = "untrusted"
    case.write_text(json.dumps(data), "utf-8")

    ran = run(vectors)
    assert ran.returncode == 1
    assert case.name in ran.stdout


def test_it_refuses_two_keys_of_one_kid(vectors: Path) -> None:
    """A card that the vectors trust is not trusted by such a set, whichever key comes first."""
    case, other = (sorted((vectors / "cards").glob(f"0{number}-*.json"))[0] for number in (1, 3))
    data = json.loads(case.read_text("utf-8"))
    keys = data["jwks"]["keys"] + json.loads(other.read_text("utf-8"))["jwks"]["keys"]
    data["jwks"]["keys"] = [keys[0], next(key for key in keys if key["kid"] != keys[0]["kid"])]
    case.write_text(json.dumps(data), "utf-8")
    assert run(vectors).returncode == 0

    data["jwks"]["keys"][1]["kid"] = keys[0]["kid"]
    case.write_text(json.dumps(data), "utf-8")
    ran = run(vectors)
    assert (ran.returncode, case.name in ran.stdout) == (1, True)
