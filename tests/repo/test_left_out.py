"""A run says what it did not run, and CI fails for what it could have run."""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.needs_shared
def test_shared(shared):
    assert shared.is_dir()

@pytest.mark.needs_judges("py")
def test_python_judge():
    pass

@pytest.mark.needs_judges
def test_both_judges():
    pass
"""
SKIPPED = """
import pytest

def test_skipped():
    pytest.skip("no reason")
"""
SETTINGS = """
[pytest]
addopts = -q --strict-markers
markers =
    thorough
    needs_shared
    needs_judges
    needs_openbao
    needs_postgres
    needs_softhsm
"""
JUDGES = {"CARDSIGN_JUDGE_PY": "python", "CARDSIGN_JUDGE_JS_HOME": "folder"}


def test_every_folder_of_tests_is_looked_into(root: Path, pytestconfig: pytest.Config) -> None:
    """By itself pytest passes by folders of some names, and `build` is the name of a room."""
    tests = root / "tests"
    folders = {
        name for file in tests.rglob("test_*.py") for name in file.relative_to(tests).parent.parts
    }
    passed_by = pytestconfig.getini("norecursedirs")
    assert [name for name in folders if any(fnmatch(name, one) for one in passed_by)] == []


def outcome(
    checkout: Path, root: Path, *options: str, tests: str = TESTS, **variables: str
) -> tuple[int, list[str]]:
    """Exit status and last lines of a run of our conftest over a few tests."""
    folder = checkout / "tests"
    folder.mkdir(parents=True)
    (folder / "conftest.py").write_text((root / "tests/conftest.py").read_text(encoding="utf-8"))
    (folder / "test_some.py").write_text(tests)
    (checkout / "pytest.ini").write_text(SETTINGS)
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("CARDSIGN_", "PYTEST_"))}
    outer["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # hypothesis alone takes a second to start
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=checkout,
        env=outer | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    "options", [(), ("-p", "xdist", "-n", "1")], ids=["in one process", "under xdist"]
)
def test_what_is_absent_is_left_out_and_counted(
    options: tuple[str, ...], tmp_path: Path, root: Path
) -> None:
    """Without corpus and SDKs the rest passes, and the summary says so."""
    status, lines = outcome(tmp_path / "checkout", root, *options)
    assert status == 0
    assert "left out: 1 tests (no folder `shared` beside the checkout)" in lines
    assert "left out: 2 tests (no a2a-sdk; `make interop-env` installs it)" in lines
    assert "1 passed" in lines[-1]


def test_what_is_there_is_run(tmp_path: Path, root: Path) -> None:
    """With corpus and SDKs nothing is left out."""
    (tmp_path / "shared").mkdir()
    status, lines = outcome(tmp_path / "checkout", root, CARDSIGN_CI="1", **JUDGES)
    assert status == 0
    assert "4 passed" in lines[-1]
    assert not [line for line in lines if "left out" in line]


@pytest.mark.parametrize(
    "options", [(), ("-p", "xdist", "-n", "1")], ids=["in one process", "under xdist"]
)
def test_ci_fails_for_a_skipped_test(options: tuple[str, ...], tmp_path: Path, root: Path) -> None:
    """A skip is green elsewhere and red in CI."""
    ci = outcome(tmp_path / "ci", root, *options, tests=SKIPPED, CARDSIGN_CI="1")
    elsewhere = outcome(tmp_path / "elsewhere", root, *options, tests=SKIPPED)
    assert ci[0] == 1
    assert "failed, because CARDSIGN_CI is set: 1 skipped" in ci[1]
    assert elsewhere[0] == 0


def test_ci_fails_for_an_sdk_that_it_could_have_installed(tmp_path: Path, root: Path) -> None:
    """The SDKs are a command away; the corpus is not, and its absence is no fault."""
    status, lines = outcome(tmp_path / "checkout", root, CARDSIGN_CI="1")
    assert status == 1
    assert [line for line in lines if line.startswith("failed")] == [
        "failed, because CARDSIGN_CI is set: no a2a-sdk; `make interop-env` installs it"
    ]
    status, _ = outcome(tmp_path / "with judges", root, CARDSIGN_CI="1", **JUDGES)
    assert status == 0


THOROUGH = """
import pytest

@pytest.mark.thorough
def test_slow():
    pass

def test_plain():
    pass
"""


def test_what_takes_long_is_run_by_ci_and_when_asked(tmp_path: Path, root: Path) -> None:
    """A newcomer's run leaves it out and says how to run it."""
    status, lines = outcome(tmp_path / "here", root, tests=THOROUGH)
    assert status == 0
    assert "1 passed" in lines[-1]
    told = "left out: 1 tests (take long; `make test T=--thorough` runs them)"
    assert told in lines
    _, lines = outcome(tmp_path / "asked", root, "--thorough", tests=THOROUGH)
    assert "2 passed" in lines[-1]
    _, lines = outcome(tmp_path / "ci", root, tests=THOROUGH, CARDSIGN_CI="1")
    assert "2 passed" in lines[-1]


SIGNERS = """
import pytest

@pytest.mark.needs_softhsm
def test_token():
    pass

@pytest.mark.needs_openbao
def test_server():
    pass

def test_plain():
    pass
"""


def test_signers_that_are_absent_are_left_out_and_counted(tmp_path: Path, root: Path) -> None:
    """Without SoftHSM on the path its tests are left out, and CI fails for it."""
    status, lines = outcome(tmp_path / "here", root, tests=SIGNERS, PATH="/nowhere")
    assert status == 0
    assert "left out: 1 tests (no SoftHSM; `make signers-env` installs it)" in lines
    status, lines = outcome(tmp_path / "ci", root, tests=SIGNERS, PATH="/nowhere", CARDSIGN_CI="1")
    assert status == 1
    assert "failed, because CARDSIGN_CI is set: no SoftHSM; `make signers-env` installs it" in lines


DATABASE = """
import sys

import pytest

sys.modules["psycopg"] = None  # as if it were not installed

@pytest.mark.needs_postgres
def test_database():
    pass

def test_plain():
    pass
"""


def test_a_database_that_is_absent_is_left_out_and_counted(tmp_path: Path, root: Path) -> None:
    """Without the driver its tests are left out, and CI fails for it."""
    status, lines = outcome(tmp_path / "here", root, tests=DATABASE)
    assert status == 0
    assert "left out: 1 tests (no PostgreSQL; `make postgres-env` installs it)" in lines
    status, lines = outcome(tmp_path / "ci", root, tests=DATABASE, CARDSIGN_CI="1")
    assert status == 1
    assert any(line.startswith("failed, because CARDSIGN_CI is set: no Post") for line in lines)
