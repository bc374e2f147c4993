"""What the tests of the repository itself look at: its files and its syntax trees."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

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
def made_key(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pipeline is given, made once: `key.pem`, `pass` for it, `jwks.json`, and the store."""
    from tests.repo.test_sign_in_ci import Trial

    trial = Trial(tmp_path_factory.mktemp("made"), root)
    trial.runs(
        "umask 077; echo a passphrase for the trial > pass; "
        "openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256"
        " -pass file:pass -out key.pem; "
        "cardsign keys import key.pem --kid card-2026 --passphrase-file pass; "
        "cardsign keys jwks -o jwks.json"
    )
    return trial.folder


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
