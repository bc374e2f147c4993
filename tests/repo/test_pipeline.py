"""The GitHub Action and the hooks of pre-commit: what they run does what they say.

A small runner takes the steps of the composite action as GitHub does: inputs with their defaults,
conditions that compare inputs with text, variables, outputs. Each script runs in bash.
"""

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

from cardsign.jose.keys import PrivateKey
from tests.cli.local_site import local_site
from tests.keys import aws
from tests.repo.test_sign_in_ci import KMS_KEY, Trial
from tests.support import PORTABLE, native

ACTION = ".github/actions/cardsign/action.yml"
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
USES = re.compile(r"uses: ([a-z-]+/[a-z-]+)@(?:[0-9a-f]{40}  # )?(v\d+)")
CONDITION = re.compile(r"inputs\.([a-z-]+) != ''")
HOOKS = {
    "cardsign-lint": "harbour.card.json",
    "cardsign-secrets": "harbour.card.json",
    "cardsign-signature": "signed.json",
}


class Runner:
    """Runs the action in a trial's folder."""

    def __init__(self, root: Path, trial: Trial) -> None:
        self.action: dict[str, Any] = yaml.safe_load((root / ACTION).read_text("utf-8"))
        self.trial, self.root = trial, root

    def runs(self, environment: dict[str, str], **inputs: str) -> str:
        """All that its steps print; a step that fails ends the test as it ends a job."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given.keys() <= self.action["inputs"].keys()
        known = {
            name: given.get(name, what["default"]) for name, what in self.action["inputs"].items()
        }
        said = ""
        for step in self.action["runs"]["steps"]:
            conditions = step.get("if", "")
            named = CONDITION.findall(conditions)
            assert CONDITION.sub("", conditions).replace("&&", "").strip() == "", "an unknown form"
            if not all(known[name] for name in named):
                continue
            variables = {
                name: INPUT.sub(lambda found: known[found[1]], value)
                for name, value in step.get("env", {}).items()
            }
            variables["GITHUB_ACTION_PATH"] = str((self.root / ACTION).parent)
            assert "${{" not in step["run"], "a script takes inputs by variables only"
            said += self.trial.runs(step["run"], **environment, **variables)
        return said


@pytest.fixture
def trial(tmp_path: Path, root: Path, made_key: Path) -> Trial:
    """A git repository with a card, a key for a variable, and its key set."""
    trial = Trial(tmp_path, root)
    trial.takes(made_key)
    trial.runs(
        "git init -q .; git add card.json; "
        "git -c user.name=trial -c user.email=trial@localhost commit -qm 'the card'"
    )
    return trial


@pytest.fixture
def secrets(trial: Trial) -> dict[str, str]:
    """What a job gets as variables."""
    key = (trial.folder / "key.pem").read_text("ascii")
    output = str(trial.folder / "home" / "output")
    return {
        "CARD_KEY": key,
        "CARDSIGN_PASSPHRASE": "a passphrase for the trial",
        "GITHUB_OUTPUT": output,
    }


def test_the_action_lints_compares_signs_verifies_and_publishes(
    root: Path, trial: Trial, secrets: dict[str, str]
) -> None:
    """One job; its output names the signed card."""
    card = json.loads((trial.folder / "card.json").read_text("utf-8"))
    card["skills"].append(card["skills"][0] | {"id": "another"})
    card["version"] = "1.3.0"
    (trial.folder / "card.json").write_text(json.dumps(card), "utf-8")

    Runner(root, trial).runs(
        secrets,
        key="env:CARD_KEY",
        kid="card-2026",
        previous="HEAD:card.json",
        comment="comment.md",
        sarif="lint.sarif",
        publish="public",
        export="static",
    )

    assert (trial.folder / "home/output").read_text("utf-8") == "signed=signed.json\n"
    assert "another" in (trial.folder / "comment.md").read_text("utf-8")
    assert json.loads((trial.folder / "lint.sarif").read_text("utf-8"))["version"] == "2.1.0"
    published = trial.folder / "public/000001/agent-card.json"
    assert published.read_bytes() == (trial.folder / "signed.json").read_bytes()
    assert trial.signed()


@pytest.mark.needs_boto3
def test_the_action_signs_by_a_kms(root: Path, trial: Trial, secrets: dict[str, str]) -> None:
    """With the cloud's credentials that a step before it got for the job; there is no secret."""
    with aws.running() as kms:
        kms.keys[KMS_KEY] = native(PrivateKey.generate("ES256"))
        cloud = {
            "AWS_ACCESS_KEY_ID": "AKIDKNOWN",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "eu-north-1",
            "AWS_ENDPOINT_URL_KMS": kms.endpoint,
        }
        trial.runs(f"cardsign keys jwks --key awskms:///{KMS_KEY} -o jwks.json", **cloud)
        output = {"GITHUB_OUTPUT": secrets["GITHUB_OUTPUT"]}
        Runner(root, trial).runs(
            output | cloud,
            key=f"awskms:///{KMS_KEY}",
            public="jwks.json",
            publish="public",
            extras="aws",
        )
        assert trial.signed()


def test_the_action_checks_what_is_live(root: Path, trial: Trial, secrets: dict[str, str]) -> None:
    """By the committed keys; another card there fails the job, also our own of before."""
    trial.runs("rm -r keys")
    inputs = {"key": "env:CARD_KEY", "kid": "card-2026", "publish": "public", "export": "static"}
    Runner(root, trial).runs(secrets, **inputs)
    place = trial.folder / "static/site/.well-known/agent-card.json"
    before = place.read_bytes()
    trial.runs("sed -i s/1.2.0/1.3.0/ card.json")
    Runner(root, trial).runs(secrets, **inputs)
    card = place.read_bytes()
    runner = Runner(root, trial)
    for step in runner.action["runs"]["steps"]:
        for command in ("verify ", "diff --live "):
            step["run"] = step["run"].replace(command, f"{command}--insecure-loopback-http ")
    edited = card.replace(b"1.3.0", b"1.3.9")
    with local_site() as site:
        for body, fault in ((card, ""), (edited, r"sig\.bad"), (before, "version")):
            site.answers = {"/.well-known/agent-card.json": body}
            refused = pytest.raises(AssertionError, match=fault) if fault else nullcontext()
            with refused:
                runner.runs(secrets, live=site.origin)


@pytest.mark.parametrize(
    ("spoil", "because"),
    [
        ({"version": PORTABLE["version"], "skills": []}, "the version does not say so"),
        ({"supportedInterfaces": []}, "a card without an endpoint"),
    ],
    ids=["a removed skill under the old version", "no endpoint"],
)
def test_the_action_signs_nothing_that_is_wrong(
    root: Path, trial: Trial, secrets: dict[str, str], spoil: dict[str, Any], because: str
) -> None:
    """The negative twin: the job fails before a signature is made."""
    card = json.loads((trial.folder / "card.json").read_text("utf-8")) | spoil
    (trial.folder / "card.json").write_text(json.dumps(card), "utf-8")
    with pytest.raises(AssertionError):
        Runner(root, trial).runs(
            secrets, key="env:CARD_KEY", kid="card-2026", previous="HEAD:card.json"
        )
    assert not (trial.folder / "signed.json").exists(), because


def test_the_action_builds(root: Path, trial: Trial, secrets: dict[str, str]) -> None:
    """From a folder of skills to a signed card."""
    skills = trial.folder / "tides"
    skills.mkdir()
    (skills / "SKILL.md").write_text("---\nname: tides\ndescription: Says when\n---\n", "utf-8")
    Runner(root, trial).runs(
        secrets,
        sources="tides",
        build_options="--url https://tides.example/a2a",
        key="env:CARD_KEY",
        kid="card-2026",
    )
    assert json.loads((trial.folder / "card.json").read_text("utf-8"))["name"] == "tides"
    assert trial.signed()


def test_workflows_and_actions_pass_zizmor(root: Path) -> None:
    """Offline: what it knows of injected templates, permissions and unpinned actions."""
    zizmor = Path(sys.executable).with_name("zizmor")
    ran = subprocess.run(
        [zizmor, "--offline", "--no-progress", ".github"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_workflow_names_one_version_of_an_action(root: Path) -> None:
    """Ours, those of the guide and the examples, and that of `init --agent`."""
    places = [*root.glob(".github/*/*.yml"), *root.glob("examples/*/*.yaml")]
    places += [
        root / "docs/guides/sign-in-ci.md",
        root / "cardsign/templates/agent/agent-cards.yml",
    ]
    named = {(place.name, *use) for place in places for use in USES.findall(place.read_text())}
    assert {"agent-cards.yml", "sign-in-ci.md", "github.yaml"} <= {name for name, *_ in named}
    versions = {(action, version) for _, action, version in named}
    assert len(versions) == len(dict(versions)), sorted(versions)


def test_each_hook_passes_a_good_card_and_stops_a_bad_one(root: Path, trial: Trial) -> None:
    """The command of each; pre-commit itself reads the file, and adds the names of files."""
    manifest = root / ".pre-commit-hooks.yaml"
    hooks = yaml.safe_load(manifest.read_text("utf-8"))
    assert [hook["id"] for hook in hooks] == list(HOOKS)
    program = Path(sys.executable).with_name("pre-commit")
    subprocess.run([program, "validate-manifest", manifest], check=True, timeout=120)
    trial.runs(
        "cp card.json harbour.card.json; cardsign sign card.json --key file:key.pem "
        "--kid card-2026 --passphrase-file pass -o signed.json"
    )
    for hook, name in zip(hooks, HOOKS.values(), strict=True):
        # A change could add a file named ``--jwks=theirs-signed.json``, with keys of a stranger.
        assert hook["args"][-1] == "--"
        command = f"{hook['entry']} {' '.join(hook['args'])} {name}"
        trial.runs(command)
        spoilt = trial.folder / name
        sound = spoilt.read_text("utf-8")
        card = json.loads(sound)
        card["description"] = "Token: ghp_" + "a1B2" * 9
        if hook["id"] == "cardsign-lint":
            card["supportedInterfaces"] = []
        spoilt.write_text(json.dumps(card), "utf-8")
        with pytest.raises(AssertionError):
            trial.runs(command)
        spoilt.write_text(sound, "utf-8")
