"""examples/release_pipeline: each pipeline signs in a scratch repository, or refuses to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repo.trial import GIT, PASSPHRASE, ROOT, Trial

FOLDER = ROOT / "examples/release_pipeline"


def by_github(trial: Trial) -> None:
    """The steps of the reusable workflow, with what its caller gives."""
    workflow = yaml.safe_load((FOLDER / "github.yaml").read_text("utf-8"))
    called = workflow[True]["workflow_call"]  # YAML 1.1 reads `on` as true
    given = {name: about.get("default", "") for name, about in called["inputs"].items()}
    given |= {"kid": "card-2026", "card-key": trial.key, "passphrase": PASSPHRASE}
    assert given.keys() == called["inputs"].keys() | called["secrets"].keys()
    (job,) = workflow["jobs"].values()
    trial.runs_github(job["steps"], given)


def by_gitlab(trial: Trial) -> None:
    """The script of the job, with its variables and those of the project."""
    job = yaml.safe_load((FOLDER / "gitlab.yaml").read_text("utf-8"))["sign"]
    trial.runs_gitlab(job, CARD_KEY=trial.key, CARD_KEY_PASSPHRASE=PASSPHRASE)


def by_shell(trial: Trial) -> None:
    """The script alone."""
    secrets = {"CARD_KEY": trial.key, "CARDSIGN_PASSPHRASE": PASSPHRASE, "CARD_KID": "card-2026"}
    trial.runs("./release.sh", **secrets)


#: What the next release changes, and whether it is signed.
CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "more is said": ({"version": "1.9.0", "description": "Knows more tides than before."}, True),
    "a skill is gone under the old version": ({"skills": []}, False),
    "no endpoint": ({"version": "9.0.0", "supportedInterfaces": []}, False),
}


@pytest.mark.parametrize("pipeline", [by_github, by_gitlab, by_shell])
@pytest.mark.parametrize(("changes", "is_signed"), CHANGES.values(), ids=CHANGES)
def test_a_pipeline_signs_the_next_release(
    tmp_path: Path,
    made_key: Path,
    pipeline: Callable[[Trial], None],
    changes: dict[str, Any],
    is_signed: bool,
) -> None:
    """The committed key set trusts it; one that is wrong fails before a signature is made."""
    trial = Trial(tmp_path)
    shutil.copy(FOLDER / "release.sh", tmp_path)
    trial.commit(made_key)
    trial.edit_card(**changes)
    trial.runs(f"git add card.json; {GIT} commit -qm two; git tag v2")
    if is_signed:
        pipeline(trial)
        assert trial.signed()
        return
    with pytest.raises(AssertionError):
        pipeline(trial)
    assert not (tmp_path / "signed.json").exists()
