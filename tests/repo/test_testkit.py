"""The test kit, and the verifier in JavaScript that is checked by it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.vectors.pack import archive, members

VERIFIER = Path(__file__).parents[2] / "examples" / "verifier-js"


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """The archive, unpacked where nothing else of this checkout is."""
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        tar.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    return root


def run(kit: Path) -> subprocess.CompletedProcess[str]:
    """The verifier, on a kit."""
    command = [str(shutil.which("node")), str(VERIFIER / "run.mjs"), str(kit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_archive_holds_every_case_and_is_the_same_each_time(kit: Path) -> None:
    """Nothing of the file system gets in: no date, no owner, no order of a folder."""
    packed = {str(path.relative_to(kit)): path.read_bytes() for path in kit.rglob("*.*")}
    assert packed == members()
    assert archive() == archive()
    assert sum(name.startswith("attacks/") for name in packed) > 100
    assert sum(name.startswith("statements/") for name in packed) > 40


def test_no_private_key_is_in_it() -> None:
    """A kit is published."""
    assert not [name for name, data in members().items() if b"PRIVATE KEY" in data]


@pytest.mark.needs_node
def test_the_verifier_in_javascript_agrees_with_the_kit(kit: Path) -> None:
    """With all steps and ends of the statements, and with each card but those by other profiles."""
    ran = run(kit)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1].endswith("; 0 do not")


@pytest.mark.needs_node
@pytest.mark.parametrize("folder", ["statements", "cards"])
def test_the_verifier_in_javascript_can_disagree(kit: Path, folder: str) -> None:
    """The twin: what must come out of one case is changed, and it says so."""
    case = sorted((kit / folder).glob("[0-9]*.json"))[0]
    data = json.loads(case.read_text("utf-8"))
    if folder == "statements":
        data["end"]["keyset"]["version"] += 1
    else:
        data["expect"]["verdict"] = "untrusted"
    case.write_text(json.dumps(data), "utf-8")

    ran = run(kit)
    assert ran.returncode == 1
    assert case.name in ran.stdout


@pytest.mark.needs_node
def test_the_verifier_in_javascript_refuses_two_keys_of_one_kid(kit: Path) -> None:
    """A card that the kit trusts is not trusted by such a set, whichever of the two comes first."""
    case, other = (sorted((kit / "cards").glob(f"0{number}-*.json"))[0] for number in (1, 3))
    data = json.loads(case.read_text("utf-8"))
    keys = data["jwks"]["keys"] + json.loads(other.read_text("utf-8"))["jwks"]["keys"]
    data["jwks"]["keys"] = [keys[0], next(key for key in keys if key["kid"] != keys[0]["kid"])]
    case.write_text(json.dumps(data), "utf-8")
    assert run(kit).returncode == 0

    data["jwks"]["keys"][1]["kid"] = keys[0]["kid"]
    case.write_text(json.dumps(data), "utf-8")
    ran = run(kit)
    assert (ran.returncode, case.name in ran.stdout) == (1, True)
