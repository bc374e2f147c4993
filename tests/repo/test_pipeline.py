"""The GitHub Action and the hooks of pre-commit: what they run does what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.repo.trial import PASSPHRASE, ROOT, Trial
from tests.server.identity import counterpart
from tests.support import PORTABLE

ACTION = ROOT / ".github/actions/cardsign/action.yml"
USES = re.compile(r"uses: ([a-z-]+/[a-z-]+)@(?:[0-9a-f]{40}  # )?(v\d+)")
HOOKS = {
    "cardsign-lint": "harbour.card.json",
    "cardsign-secrets": "harbour.card.json",
    "cardsign-signature": "signed.json",
}


def act(
    trial: Trial, insecure: str = "", cloud: dict[str, str] | None = None, **inputs: str
) -> None:
    """Run all steps of the action; one that fails ends the test as it ends a job.

    Args:
        trial: Where.
        insecure: An option for the commands that ask what is live.
        cloud: The credentials of the job; none for a key in a secret.
        inputs: Of the action.
    """
    action: dict[str, Any] = yaml.safe_load(ACTION.read_text("utf-8"))
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    known = {name: about["default"] for name, about in action["inputs"].items()}
    assert given.keys() <= known.keys()
    if not cloud and "live" not in given:
        known |= {"key": "env:CARD_KEY", "kid": "card-2026"}
    steps = action["runs"]["steps"]
    for step in steps:
        step["run"] = re.sub(r"\b(verify|diff --live) ", rf"\1 {insecure} ", step["run"])
    trial.runs_github(
        steps,
        known | given,
        CARD_KEY=trial.key,
        CARDSIGN_PASSPHRASE=PASSPHRASE,
        GITHUB_OUTPUT=str(trial.folder / "home/output"),
        GITHUB_ACTION_PATH=str(ACTION.parent),
        **(cloud or {}),
    )


@pytest.fixture
def trial(tmp_path: Path, made_key: Path) -> Trial:
    """A git repository with a card, a key for a variable, and its key set."""
    trial = Trial(tmp_path)
    trial.commit(made_key)
    return trial


def test_the_action_lints_compares_signs_verifies_and_publishes(trial: Trial) -> None:
    """One job; its output names the signed card."""
    (skill,) = PORTABLE["skills"]
    trial.edit_card(skills=[skill, {**skill, "id": "another"}], version="1.3.0")
    files = {"comment": "comment.md", "sarif": "lint.sarif", "export": "static"}
    act(trial, previous="HEAD:card.json", publish="public", **files)
    assert (trial.folder / "home/output").read_text("utf-8") == "signed=signed.json\n"
    assert "another" in (trial.folder / "comment.md").read_text("utf-8")
    assert json.loads((trial.folder / "lint.sarif").read_text("utf-8"))["version"] == "2.1.0"
    published = trial.folder / "public/000001/agent-card.json"
    assert published.read_bytes() == (trial.folder / "signed.json").read_bytes()
    assert trial.signed()


@pytest.mark.needs_boto3
def test_the_action_signs_by_a_kms(trial: Trial, cloud: dict[str, str], kms_key: str) -> None:
    """With the cloud's credentials that a step before it got for the job; there is no secret."""
    trial.runs(f"cardsign keys jwks --key {kms_key} -o jwks.json", **cloud)
    act(trial, cloud=cloud, key=kms_key, public="jwks.json", publish="public", extras="aws")
    assert trial.signed()


def test_the_action_checks_what_is_live(trial: Trial) -> None:
    """By the committed keys; another card there fails the job, also our own of before."""
    trial.runs("rm -r keys")
    place = trial.folder / "static/site/.well-known/agent-card.json"
    cards = []
    for version in ("1.2.0", "1.3.0"):
        trial.edit_card(version=version)
        act(trial, publish="public", export="static")
        cards.append(place.read_bytes())
    before, card = cards
    edited = card.replace(b"1.3.0", b"1.3.9")
    with counterpart() as site:
        for body, fault in ((card, ""), (edited, r"sig\.bad"), (before, "version")):
            site.answers = {"/.well-known/agent-card.json": body}
            refused = pytest.raises(AssertionError, match=fault) if fault else nullcontext()
            with refused:
                act(trial, insecure="--insecure-loopback-http", live=site.url)


@pytest.mark.parametrize("changes", [{"skills": []}, {"supportedInterfaces": []}], ids=str)
def test_the_action_signs_nothing_that_is_wrong(trial: Trial, changes: dict[str, Any]) -> None:
    """A skill is gone under the old version, or the endpoint: the job fails before it signs."""
    trial.edit_card(**changes)
    with pytest.raises(AssertionError):
        act(trial, previous="HEAD:card.json")
    assert not (trial.folder / "signed.json").exists()


def test_the_action_builds(trial: Trial) -> None:
    """From a folder of skills to a signed card."""
    skill = trial.folder / "tides/SKILL.md"
    skill.parent.mkdir()
    skill.write_text("---\nname: tides\ndescription: Says when\n---\n", "utf-8")
    act(trial, sources="tides", build_options="--url https://tides.example/a2a")
    assert json.loads((trial.folder / "card.json").read_text("utf-8"))["name"] == "tides"
    assert trial.signed()


def test_workflows_and_actions_pass_zizmor() -> None:
    """Offline: what it knows of injected templates, permissions and unpinned actions."""
    command = [Path(sys.executable).with_name("zizmor"), "--offline", "--no-progress", ".github"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_workflow_names_one_version_of_an_action() -> None:
    """Ours, those of the guide and the examples, and that of `init --agent`."""
    ours = ("docs/guides/sign-in-ci.md", "cardsign/templates/agent/agent-cards.yml")
    patterns = (".github/*/*.yml", "examples/*/*.yaml", *ours)
    places = [place for pattern in patterns for place in ROOT.glob(pattern)]
    versions = {use for place in places for use in USES.findall(place.read_text())}
    assert len(versions) == len(dict(versions)) > 3, sorted(versions)


def test_each_hook_passes_a_good_card_and_stops_a_bad_one(trial: Trial) -> None:
    """The command of each; pre-commit itself reads the file, and adds the names of files."""
    manifest = ROOT / ".pre-commit-hooks.yaml"
    hooks = {hook["id"]: hook for hook in yaml.safe_load(manifest.read_text("utf-8"))}
    assert hooks.keys() == HOOKS.keys()
    program = Path(sys.executable).with_name("pre-commit")
    subprocess.run([program, "validate-manifest", manifest], check=True)
    trial.runs(
        "cp card.json harbour.card.json; cardsign sign card.json --key file:key.pem "
        "--kid card-2026 --passphrase-file pass -o signed.json"
    )
    for name, hook in hooks.items():
        # A change could add a file named ``--jwks=theirs-signed.json``, with keys of a stranger.
        assert hook["args"][-1] == "--"
        file = trial.folder / HOOKS[name]
        command = f"{hook['entry']} {' '.join(hook['args'])} {file.name}"
        trial.runs(command)
        sound = file.read_text("utf-8")
        card = json.loads(sound) | {"description": "Token: ghp_" + "a1B2" * 9}
        if name == "cardsign-lint":
            card["supportedInterfaces"] = []
        file.write_text(json.dumps(card), "utf-8")
        with pytest.raises(AssertionError):
            trial.runs(command)
        file.write_text(sound, "utf-8")
