"""What the tests of the repository itself look at: its files and its syntax trees."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from tests.keys import aws
from tests.repo.trial import MAKE_KEY, Trial
from tests.support import native

ROOT = Path(__file__).resolve().parents[2]
#: What a working copy holds beside its own files, for a source distribution without git.
NOT_OURS = {"__pycache__", "dist", "build", "node_modules"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout, or the unpacked source distribution."""
    return ROOT


@pytest.fixture(scope="session")
def tracked(root: Path) -> list[Path]:
    """Every file that is tracked, or would be with the next commit."""
    if (root / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
        found = [root / name.decode() for name in names.split(b"\0") if name]
    else:
        found = [path for path in root.rglob("*") if _ours(path.relative_to(root))]
    files = sorted(path for path in found if path.is_file())
    assert root / "pyproject.toml" in files
    return files


@pytest.fixture(scope="session")
def made_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pipeline is given, made once: `key.pem`, `pass` for it, `jwks.json`, and the store."""
    trial = Trial(tmp_path_factory.mktemp("made"))
    trial.runs(MAKE_KEY)
    return trial.folder


@pytest.fixture
def kms_key() -> str:
    """The URI of a key in a KMS."""
    return "awskms:///1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.fixture
def cloud(kms_key: str) -> Iterator[dict[str, str]]:
    """The credentials of a job for that KMS, which is a server of ours."""
    with aws.running() as kms:
        kms.keys[kms_key.rpartition("/")[2]] = native(PrivateKey.generate("ES256"))
        yield {
            "AWS_ACCESS_KEY_ID": "AKIDKNOWN",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-north-1",
            "AWS_ENDPOINT_URL_KMS": kms.endpoint,
        }


def _ours(path: Path) -> bool:
    return not any(part.startswith(".") or part in NOT_OURS for part in path.parts)


@pytest.fixture(scope="session")
def trees(root: Path) -> dict[str, ast.Module]:
    """The syntax tree of every module of the package, by its dotted name."""
    trees = {}
    for path in sorted((root / "cardsign").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    assert "cardsign.errors" in trees
    return trees
