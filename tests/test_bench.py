"""The benchmark runs, at sizes too small to say anything about speed."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.hostile import SHAPES

BENCH = Path(__file__).resolve().parents[1] / "bench"


def run(*arguments: str, sdk: str | None = None) -> subprocess.CompletedProcess[str]:
    """One script, with nothing but the clock and this machine."""
    environment = {name: value for name, value in os.environ.items() if name != "CARDSIGN_JUDGE_PY"}
    environment |= {"PYTHONPATH": str(BENCH.parent)} | ({"CARDSIGN_JUDGE_PY": sdk} if sdk else {})
    return subprocess.run(
        [sys.executable, "-W", "error", str(BENCH / "run.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What a tiny run has written: the page and its numbers."""
    folder = tmp_path_factory.mktemp("page")
    sizes = (
        "--rounds",
        "1",
        "--fleet-rounds",
        "1",
        "--peers",
        "3",
        "--delay",
        "0.001",
        "--hostile",
        "8192",
        "--batch",
        "20",
        "--most",
        "10",
        "--batch-rounds",
        "1",
        "--serving-rounds",
        "1",
        "--serving-seconds",
        "1",
        "--agents",
        "2",
        "--skills",
        "5",
    )
    done = run(*sizes, "--page", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    numbers = json.loads((folder / "performance.json").read_text())
    picture = (folder / "performance.svg").read_text()
    return {"page": (folder / "performance.md").read_text(), "picture": picture, **numbers}


@pytest.mark.thorough
def test_the_page_holds_every_table(written: Mapping[str, Any]) -> None:
    """All that is measured is shown, and nothing is left to be filled in."""
    page = written["page"]
    are_there = shutil.which("nginx") and shutil.which("wrk")
    assert page.count("\n|---") == (14 if are_there else 13)
    assert "{" not in page
    for row in ("| cardsign |", "| `cardsign --help` |", "| side by side |", "| 1 ms |", "3 peers"):
        assert row in page


def test_lint_build_and_diff_stand_beside_a_bare_verification(written: Mapping[str, Any]) -> None:
    """With what is wanted of them; a run from before they were measured has no such section."""
    rows = written["manifests"]["rows"]
    assert list(rows)[-2:] == ["build of 5 SKILL.md files", "diff of two cards of 103 KB"]
    assert all(what in written["page"] for what in rows)
    assert 0 < written["manifests"]["bare"] < 0.1


def test_growth_is_drawn(written: Mapping[str, Any]) -> None:
    """Each number of each curve is a point with its figure."""
    picture = ElementTree.fromstring(written["picture"])
    points = sum(len(curve) for curves in written["growth"].values() for curve in curves.values())
    assert len(picture.findall(".//{*}circle")) == points
    assert {len(curves) for curves in written["growth"].values()} == {1, 2}
    assert "prefers-color-scheme:dark" in written["picture"]


def test_hostile_cards_are_measured(written: Mapping[str, Any]) -> None:
    """Each shape, by each reader."""
    readers = {name: len(shapes) for name, shapes in written["hostile"].items()}
    assert readers == {
        "verify": len(SHAPES),
        "explain": len(SHAPES),
        "the bare primitive": len(SHAPES),
    }


def test_a_folder_is_verified_by_one_process_and_by_two(written: Mapping[str, Any]) -> None:
    """As the command does it, start and end included."""
    assert [len(one["seconds"]) for one in written["batch"].values()] == [1, 1]


def test_an_unchanged_peer_costs_one_request_and_no_check(written: Mapping[str, Any]) -> None:
    """The counts are the same on every machine."""
    assert written["costs"] == {
        "for the first time": {"requests": {"200": 3, "404": 2}, "checks": 3},
        "at once": {"requests": {}, "checks": 0},
        "its card stale": {"requests": {"304": 1}, "checks": 0},
        "all of it stale": {"requests": {"304": 2, "404": 2}, "checks": 0},
    }


def test_the_committed_page_is_of_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reports/performance.md comes from the run that docs/reports/performance.json holds."""
    docs = BENCH.parent / "docs" / "reports"
    found = json.loads((docs / "performance.json").read_text(encoding="utf-8"))
    about = found["about"]
    assert (about["peers"], about["delay"]) == (200, 0.05)
    assert "a2a-sdk" in about["software"]
    made = subprocess.run(
        [sys.executable, "-c", "import json, sys, page; print(page.page_of(json.load(sys.stdin)))"],
        input=json.dumps(found),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": f"{BENCH}:{BENCH.parent}"},
    ).stdout
    assert made == (docs / "performance.md").read_text(encoding="utf-8") + "\n"
    monkeypatch.syspath_prepend(str(BENCH))
    drawn = importlib.import_module("growth").drawn(found["growth"])
    assert drawn == (docs / "performance.svg").read_text(encoding="utf-8")


@pytest.mark.needs_judges("py")
def test_the_official_sdk_does_the_same_work() -> None:
    """It verifies what cardsign has signed, and signs what cardsign signs."""
    asked = "import signatures as s, documents as d; from cardsign import PrivateKey\n"
    asked += "case = s.Case(d.portable_card(), PrivateKey.generate('ES256'))\n"
    asked += "with s.official_sdk() as sdk:\n"
    asked += "    assert s.SDK in s.verifying(case, sdk, 1) and s.SDK in s.signing(case, sdk, 1)\n"
    program = [sys.executable, "-c", asked]
    environment = os.environ | {"PYTHONPATH": f"{BENCH}:{BENCH.parent}"}
    subprocess.run(program, check=True, env=environment)


BROKEN = {
    "a verdict that is not trusted": (
        "import peers\n"
        "with peers.peers(1) as world:\n"
        "    world.tell(do='serve', documents={})\n"
        "    peers.costs(world)\n"
    ),
    "a verifier that takes anything": (
        "import signatures\n"
        "signatures.verify_by_hand = lambda card, key: None\n"
        "from cardsign import PrivateKey\n"
        "import documents\n"
        "case = signatures.Case(documents.portable_card(), PrivateKey.generate('ES256'))\n"
        "signatures.verifying(case, None, 1)\n"
    ),
    "a command that fails": "import startup\nstartup.timed(['false'], '')\n",
    "a command that says something else": "import startup\nstartup.timed(['echo', 'no'], 'yes')\n",
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_what_was_not_done_is_not_measured(program: str) -> None:
    """A benchmark of nothing fails."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{BENCH}:{BENCH.parent}"},
        check=False,
    )
    assert done.returncode == 1
    assert "measuring.Broken" in done.stderr


COUNTS = {"where": {"python": "3.11.7"}, "instructions": {"verify": 1_000_000}}


@pytest.mark.parametrize(
    ("count", "where", "status"),
    [(1_049_000, "3.11.7", 0), (1_051_000, "3.11.7", 1), (2_000_000, "3.12.1", 0)],
    ids=["less than 5 % more", "over 5 % more", "on another Python"],
)
def test_growth_in_instructions_fails(
    count: int, where: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of one machine and one Python are compared; others are only shown."""
    monkeypatch.syspath_prepend(str(BENCH))
    compare = importlib.import_module("guard").compare
    found = {"where": {"python": where}, "instructions": {"verify": count}}
    assert compare(found, COUNTS) == status


def test_what_has_no_baseline_fails_the_guard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new measurement is written down first; compared with itself it could never grow."""
    monkeypatch.syspath_prepend(str(BENCH))
    compare = importlib.import_module("guard").compare
    assert compare({**COUNTS, "instructions": {"verify": 1, "sign": 1}}, COUNTS) == 1
    assert "no baseline" in capsys.readouterr().out


def test_what_is_held_and_not_measured_fails_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor may a measurement be dropped without its baseline."""
    monkeypatch.syspath_prepend(str(BENCH))
    compare = importlib.import_module("guard").compare
    assert compare({**COUNTS, "instructions": {}}, COUNTS) == 1


def test_the_guards_baseline_has_all_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file in the repository, for whoever has no valgrind."""
    monkeypatch.syspath_prepend(str(BENCH))
    guard = importlib.import_module("guard")
    held = json.loads(guard.BASELINE.read_text(encoding="utf-8"))
    assert set(held["instructions"]) == {*guard.PIECES, guard.COMMAND}
    assert set(held["where"]) == set(guard.where())
