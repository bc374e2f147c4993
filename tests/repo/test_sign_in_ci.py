"""docs/guides/sign-in-ci.md runs: each pipeline in an empty folder, with secrets of a trial."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cardsign.jose.keys import JwkSet
from tests.repo.test_pages import blocks
from tests.repo.trial import Trial

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/sign-in-ci.md"
TEXT = PAGE.read_text(encoding="utf-8")
GITHUB, GITLAB, KMS_GITHUB, KMS_GITLAB = (yaml.safe_load(body) for _, body in blocks(TEXT, "yaml"))
CONSOLE = [body for _, body in blocks(TEXT, "console")]
SIGN_PYTHON, VERIFY_PYTHON = (f"python - <<'EOF'\n{body}EOF" for _, body in blocks(TEXT, "python"))


def read_secrets(trial: Trial, key: str = "card-key.pem") -> dict[str, str]:
    """What the page stores in the CI system."""
    passphrase = (trial.folder / "passphrase.txt").read_text().strip()
    return {"CARD_KEY": (trial.folder / key).read_text(), "CARD_KEY_PASSPHRASE": passphrase}


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """A folder with the key that the page makes first."""
    trial = Trial(tmp_path)
    trial.prepares(CONSOLE[0])
    return trial


def test_the_blocks_with_a_secret_run(trial: Trial) -> None:
    """GitHub Actions, GitLab CI, plain shell and Python, with the secrets that the page makes."""
    secrets = read_secrets(trial)
    trial.runs_github(GITHUB["jobs"]["sign"]["steps"], secrets)
    assert trial.signed()
    assert "base64 -w 0 card-key.pem" in TEXT
    # In several lines, as where -w 0 was forgotten.
    trial.runs_gitlab(GITLAB["sign"], **{**secrets, "CARD_KEY": trial.runs("base64 card-key.pem")})
    assert trial.signed()
    for block in CONSOLE[1:3]:
        trial.runs(block.replace("$ ", ""))
        assert trial.signed()
    trial.runs(SIGN_PYTHON, **secrets, CARDSIGN_PASSPHRASE=secrets["CARD_KEY_PASSPHRASE"])
    assert trial.signed()
    assert not (trial.folder / "keys").exists()


def test_the_secret_is_rotated_as_the_page_says(trial: Trial) -> None:
    """Signed by the old key and then by the next; each time what is published verifies."""

    def release(key: str) -> None:
        trial.runs_github(GITHUB["jobs"]["sign"]["steps"], read_secrets(trial, key))

    publish, next_key, without_old = (
        next(body for body in CONSOLE if words in body)
        for words in ("--export static", "next-key.pem", "mv next.json")
    )
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
def test_a_partner_verifies_by_pyjwt(trial: Trial) -> None:
    """Two signatures, of which one counts; a changed card, and one without it, are refused."""
    trial.runs(
        "cardsign sign card.json --key file:card-key.pem --passphrase-file passphrase.txt "
        "--compat all -o signed.json"
    )
    trial.runs(VERIFY_PYTHON)
    signed = json.loads((trial.folder / "signed.json").read_bytes())
    assert len(signed["signatures"]) > 1
    for changed, reason in (
        (signed | {"name": "Another"}, "InvalidSignatureError"),
        (signed | {"signatures": signed["signatures"][1:]}, "no signature by these keys"),
    ):
        (trial.folder / "signed.json").write_text(json.dumps(changed))
        with pytest.raises(AssertionError, match=reason):
            trial.runs(VERIFY_PYTHON)


def test_each_mistake_fails_the_pipeline_with_the_message_of_the_table(trial: Trial) -> None:
    """The runner sees it, under the code that stands there."""
    secrets = read_secrets(trial)
    public = "openssl pkey -in card-key.pem -passin file:passphrase.txt -pubout"
    mistakes: dict[str, dict[str, Any]] = {
        "the environment variable CARD_KEY is empty": {"CARD_KEY": ""},
        "the passphrase is empty": {"CARD_KEY_PASSPHRASE": ""},
        "this PEM has lost its line breaks": {"CARD_KEY": secrets["CARD_KEY"].replace("\n", "|")},
        "found a PEM of: public key": {"CARD_KEY": trial.runs(public)},
        "this is a JWK Set of 2 keys": {"CARD_KEY": '{"keys": [{}, {}]}'},
    }
    rows = re.findall(r"^\| `([a-z_.]+)`: ([^|]+?) \|", TEXT, re.MULTILINE)
    assert [message for _, message in rows] == list(mistakes)
    for code, message in rows:
        with pytest.raises(AssertionError, match=f"{code}: .*{re.escape(message)}"):
            trial.runs_github(GITHUB["jobs"]["sign"]["steps"], secrets | mistakes[message])


@pytest.mark.needs_boto3
def test_the_blocks_with_a_kms_run(tmp_path: Path, cloud: dict[str, str]) -> None:
    """Against a server of ours that answers as AWS KMS does."""
    trial = Trial(tmp_path)
    trial.prepares(CONSOLE[3], **cloud)
    trial.runs_github(KMS_GITHUB["jobs"]["sign"]["steps"], {}, **cloud)
    assert trial.signed()
    KMS_GITLAB["sign"]["variables"]["AWS_WEB_IDENTITY_TOKEN_FILE"] = str(tmp_path / "token")
    trial.runs_gitlab(KMS_GITLAB["sign"], AWS_TOKEN="of the job", **cloud)
    assert trial.signed()
