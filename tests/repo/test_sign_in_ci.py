"""docs/guides/sign-in-ci.md runs: each pipeline in an empty folder, with secrets of a trial.

Of a YAML block the shell steps and their variables are read, and nothing else. What a CI system
does itself is done here: `${{ secrets.X }}` and `$X` are replaced, and `pip install` is a
program that installs nothing, as `cardsign` is on the PATH already: it checks that a commit is
named, or the checkout of the action, and that each extra exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import Policy
from tests.keys import aws
from tests.repo.test_pages import blocks, commands_of
from tests.support import NOW, PORTABLE, holder_of, native, reach_verdict

PAGE = "docs/guides/sign-in-ci.md"
KMS_KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"
SECONDS = 120

STEP = re.compile(r"^( *)(?:- )?(run|script):(?: \|)?(?: ([^|\n].*))?$")
VARIABLE = re.compile(r"^ +([A-Z][A-Z_]*): (\S.*)$")


def script_of(block: str) -> str:
    """The shell commands of a pipeline, after its variables."""
    commands, variables, lines = [], [], block.splitlines()
    for index, line in enumerate(lines):
        if named := VARIABLE.match(line):
            value = re.sub(r"\$\{\{ secrets\.(\w+) \}\}", r"$\1", named[2])
            variables.append(f'export {named[1]}="{value}"')
        if step := STEP.match(line):
            commands += [step[3]] if step[3] else list(_below(lines[index + 1 :], len(step[1])))
    return "\n".join([*variables, *commands])


def _below(lines: list[str], depth: int) -> list[str]:
    """The lines that are indented more, without the dash of a list."""
    found = []
    for line in lines:
        text = line.lstrip()
        if len(line) - len(text) <= depth:
            break
        found.append(text.removeprefix("- "))
    return found


class Trial:
    """A folder with a card, and a PATH with `cardsign` and a `pip` that installs nothing."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        (folder / "card.json").write_text(json.dumps(PORTABLE))
        (folder / "home").mkdir()
        programs = folder / "home" / "bin"
        programs.mkdir()
        with (root / "pyproject.toml").open("rb") as file:
            extras = tomllib.load(file)["project"]["optional-dependencies"]
        named = ["", *(f"[[]{name}]" for name in extras)]
        commit = " @ git+https://github.com/OWNER/cardsign@COMMIT"
        checkout = root / ".github/actions/cardsign/../../.."
        known = "|".join(f"cardsign{name}'{commit}'|{checkout}{name}" for name in named)
        pip = '#!/bin/sh\ncase "$1 $2" in "install "*) ;; *) exit 1;; esac\n'
        (programs / "pip").write_text(f'{pip}case "$2" in {known}) ;; *) exit 1;; esac\n')
        (programs / "pip").chmod(0o700)
        kept = {"LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR"}
        self.environment = {name: os.environ[name] for name in kept & os.environ.keys()} | {
            "HOME": str(folder / "home"),
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def takes(self, made_key: Path) -> None:
        """A copy of the key, its passphrase, its set and its store."""
        shutil.copytree(made_key / "keys", self.folder / "keys")
        for name in ("key.pem", "pass", "jwks.json"):
            shutil.copy(made_key / name, self.folder)

    def runs(self, script: str, **environment: str) -> str:
        """What the shell prints; it stops at the first command that fails, as a job does."""
        ended = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def prepares(self, block: str, **environment: str) -> None:
        """Run a console block, whose commands print what it shows."""
        for step in commands_of(block):
            assert step.fits(self.runs(step.command, **environment)), step

    def signed(self) -> bool:
        """Whether the card that came out is trusted by the published keys; it is removed."""
        jwks = JwkSet.from_bytes((self.folder / "jwks.json").read_bytes())
        card = (self.folder / "signed.json").read_bytes()
        (self.folder / "signed.json").unlink()
        policy = Policy.from_jwks(jwks, name="the trial")
        return (
            reach_verdict(card, expect=holder_of(policy), policy=policy, now=NOW).verdict
            == "trusted"
        )


@pytest.fixture
def trial(tmp_path: Path, root: Path) -> Trial:
    """An empty folder."""
    return Trial(tmp_path, root)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """The guide."""
    return (root / PAGE).read_text(encoding="utf-8")


def pipelines(page: str, *, kms: bool) -> list[str]:
    """The YAML blocks that sign by a KMS, or by a secret."""
    found = [body for _, body in blocks(page, "yaml")]
    return [body for body in found if ("awskms:" in body) is kms]


def test_the_blocks_with_a_secret_run(page: str, trial: Trial) -> None:
    """GitHub Actions, GitLab CI, plain shell and Python, with the secrets that the page makes."""
    trial.prepares(blocks(page, "console")[0][1])
    secrets = {
        "CARD_KEY": (trial.folder / "card-key.pem").read_text(),
        "CARD_KEY_PASSPHRASE": (trial.folder / "passphrase.txt").read_text().strip(),
    }
    github, gitlab = pipelines(page, kms=False)
    trial.runs(script_of(github), **secrets)
    assert trial.signed()
    masked = trial.runs("base64 -w 0 card-key.pem")
    assert "base64 -w 0 card-key.pem" in page
    trial.runs(script_of(gitlab), **{**secrets, "CARD_KEY": masked})
    assert trial.signed()
    for _, shell in blocks(page, "console")[1:3]:
        trial.runs("\n".join(step.command for step in commands_of(shell)))
        assert trial.signed()
    (_, python), _ = blocks(page, "python")
    passphrase = secrets["CARD_KEY_PASSPHRASE"]
    trial.runs(f"python - <<'EOF'\n{python}EOF", **secrets, CARDSIGN_PASSPHRASE=passphrase)
    assert trial.signed()
    assert not (trial.folder / "keys").exists()


def test_the_secret_is_rotated_as_the_page_says(page: str, trial: Trial) -> None:
    """Signed by the old key and then by the next; each time what is published verifies."""
    trial.prepares(blocks(page, "console")[0][1])
    github = script_of(pipelines(page, kms=False)[0])
    publish, next_key, without_old = (
        next(body for _, body in blocks(page, "console") if words in body)
        for words in ("--export static", "next-key.pem", "mv next.json")
    )

    def release(key: str) -> None:
        passphrase = (trial.folder / "passphrase.txt").read_text().strip()
        secret = {"CARD_KEY": (trial.folder / key).read_text(), "CARD_KEY_PASSPHRASE": passphrase}
        trial.runs(github, **secret)

    release("card-key.pem")
    trial.prepares(publish)
    assert (trial.folder / "static/site/.well-known/agent-card.json").exists()
    trial.prepares(next_key)
    release("next-key.pem")
    trial.prepares(without_old)
    published = JwkSet.from_bytes((trial.folder / "public/000003/jwks.json").read_bytes())
    assert len(published.keys) == 1
    assert trial.signed()
    with pytest.raises(AssertionError, match=r"key\.unknown"):
        release("card-key.pem")


@pytest.mark.needs_a2a
def test_a_partner_verifies_by_pyjwt(page: str, trial: Trial) -> None:
    """Two signatures, of which one counts; a changed card, and one without it, are refused."""
    _, (_, python) = blocks(page, "python")
    trial.prepares(blocks(page, "console")[0][1])
    trial.runs(
        "cardsign sign card.json --key file:card-key.pem --passphrase-file passphrase.txt "
        "--compat all -o signed.json"
    )
    verify = f"python - <<'EOF'\n{python}EOF"
    trial.runs(verify)
    signed = json.loads((trial.folder / "signed.json").read_bytes())
    assert len(signed["signatures"]) > 1
    for changed, reason in (
        (signed | {"name": "Another"}, "InvalidSignatureError"),
        (signed | {"signatures": signed["signatures"][1:]}, "no signature by these keys"),
    ):
        (trial.folder / "signed.json").write_text(json.dumps(changed))
        with pytest.raises(AssertionError, match=reason):
            trial.runs(verify)


#: The value of `CARD_KEY`, as a shell writes it, for each message of the page's table.
MISTAKES = {
    "the environment variable CARD_KEY is empty": "",
    "the passphrase is empty": "$(cat card-key.pem)",
    "this PEM has lost its line breaks": "$(tr '\\n' '|' < card-key.pem)",
    "found a PEM of: public key": "$(openssl pkey -in card-key.pem -passin file:passphrase.txt "
    "-pubout)",
    "this is a JWK Set of 2 keys": '{\\"keys\\": [{}, {}]}',
}


def test_each_mistake_fails_the_pipeline_with_the_message_of_the_table(
    page: str, trial: Trial
) -> None:
    """The runner sees it, under the code that stands there."""
    trial.prepares(blocks(page, "console")[0][1])
    rows = re.findall(r"^\| `([a-z_.]+)`: ([^|]+?) \|", page, re.MULTILINE)
    assert [message for _, message in rows] == list(MISTAKES)
    lines = script_of(pipelines(page, kms=False)[0]).splitlines()
    github = "\n".join(line for line in lines if line.startswith(("export", "cardsign sign")))
    for (code, message), value in zip(rows, MISTAKES.values(), strict=True):
        with pytest.raises(AssertionError, match=f"{code}: .*{re.escape(message)}"):
            trial.runs(github.replace('$CARD_KEY"', f'{value}"', 1))


@pytest.mark.needs_boto3
def test_the_blocks_with_a_kms_run(page: str, trial: Trial) -> None:
    """Against a server of ours that answers as AWS KMS does."""
    with aws.running() as kms:
        kms.keys[KMS_KEY] = native(PrivateKey.generate("ES256"))
        cloud = {
            "AWS_ACCESS_KEY_ID": "AKIDKNOWN",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-north-1",
            "AWS_DEFAULT_REGION": "eu-north-1",
            "AWS_ENDPOINT_URL_KMS": kms.endpoint,
        }
        trial.prepares(blocks(page, "console")[3][1], **cloud)
        for block in pipelines(page, kms=True):
            token = str(trial.folder / "token")
            script = script_of(block).replace("/tmp/aws-token", token)
            trial.runs(script, AWS_TOKEN="of the job", **cloud)
            assert trial.signed()
