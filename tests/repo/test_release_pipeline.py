"""examples/release_pipeline: each pipeline signs in a scratch repository, or refuses to."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repo.test_sign_in_ci import Trial

FOLDER = "examples/release_pipeline"
GIVEN = re.compile(r"\$\{\{ (?:inputs|secrets)\.([a-z-]+) \}\}")
PASSPHRASE = "a passphrase for the trial"
GIT = "git -c user.name=trial -c user.email=trial@localhost -c tag.gpgSign=false"


def by_github(trial: Trial, folder: Path, key: str) -> None:
    """The steps of the reusable workflow, with what its caller gives."""
    workflow = yaml.safe_load((folder / "github.yaml").read_text("utf-8"))
    called = workflow[True]["workflow_call"]  # YAML 1.1 reads `on` as true
    given = {name: what.get("default", "") for name, what in called["inputs"].items()}
    given |= {"kid": "card-2026", "card-key": key, "passphrase": PASSPHRASE}
    assert given.keys() == called["inputs"].keys() | called["secrets"].keys()
    (job,) = workflow["jobs"].values()
    for step in job["steps"]:
        if "run" in step:
            variables = {
                name: GIVEN.sub(lambda found: given[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            assert "${{" not in step["run"] + "".join(variables.values())
            trial.runs(step["run"], **variables)


def by_gitlab(trial: Trial, folder: Path, key: str) -> None:
    """The script of the job, with its variables and those of the project."""
    job: dict[str, Any] = yaml.safe_load((folder / "gitlab.yaml").read_text("utf-8"))["sign"]
    variables = {
        name: value.replace("$CARD_KEY_PASSPHRASE", PASSPHRASE)
        for name, value in job["variables"].items()
    }
    trial.runs("\n".join(job["script"]), CARD_KEY=key, **variables)


def by_shell(trial: Trial, folder: Path, key: str) -> None:
    """The script alone."""
    del folder
    trial.runs("./release.sh", CARD_KEY=key, CARDSIGN_PASSPHRASE=PASSPHRASE, CARD_KID="card-2026")


@pytest.fixture
def trial(tmp_path: Path, root: Path, made_key: Path) -> Trial:
    """A repository with a tag, a card, a key set and the script."""
    trial = Trial(tmp_path, root)
    shutil.copy(root / FOLDER / "release.sh", tmp_path)
    trial.takes(made_key)
    trial.runs(
        f"git init -q .; git add card.json release.sh jwks.json; {GIT} commit -qm one; git tag v1"
    )
    return trial


def _next(trial: Trial, **change: Any) -> None:
    card = json.loads((trial.folder / "card.json").read_text("utf-8"))
    (trial.folder / "card.json").write_text(json.dumps(card | change), "utf-8")
    trial.runs(f"git add card.json; {GIT} commit -qm two; git tag v2")


@pytest.mark.parametrize("pipeline", [by_github, by_gitlab, by_shell])
def test_a_pipeline_signs_the_next_release(
    trial: Trial, root: Path, pipeline: Callable[[Trial, Path, str], None]
) -> None:
    """The signed card is trusted by the committed key set."""
    _next(trial, version="1.9.0", description="Knows more tides than before.")
    pipeline(trial, root / FOLDER, (trial.folder / "key.pem").read_text("ascii"))
    assert trial.signed()


@pytest.mark.parametrize("pipeline", [by_github, by_gitlab, by_shell])
@pytest.mark.parametrize(
    "change",
    [{"skills": []}, {"version": "9.0.0", "supportedInterfaces": []}],
    ids=["a skill is gone under the old version", "no endpoint"],
)
def test_a_pipeline_signs_nothing_that_is_wrong(
    trial: Trial, root: Path, pipeline: Callable[[Trial, Path, str], None], change: dict[str, Any]
) -> None:
    """The negative twin: it fails before a signature is made."""
    _next(trial, **change)
    with pytest.raises(AssertionError):
        pipeline(trial, root / FOLDER, (trial.folder / "key.pem").read_text("ascii"))
    assert not (trial.folder / "signed.json").exists()
