"""An encrypted key store that is committed works after a checkout (P12)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardsign.keys.store import open_store
from tests.cli.conftest import Cardsign, run
from tests.support import PORTABLE

ISSUER = "https://tides.example"
CRON = "that of cron's releases"
RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}

pytestmark = pytest.mark.usefixtures("cheap")


def git(folder: Path, *words: str) -> str:
    """Run git, without anyone's settings."""
    command = ["git", "-c", "user.name=Ann", "-c", "user.email=ann@tides.example", *words]
    plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.check_output(command, cwd=folder, env=plain, text=True)


@pytest.fixture(params=[0o022, 0o002, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """What the account that checks out denies to others."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("rooted", [True, False], ids=["with roots", "card key alone"])
def test_a_checkout_signs_and_rotates(
    cardsign: Cardsign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, rooted: bool
) -> None:
    """Whatever modes git gives the files; what is committed there works where it came from."""
    first, second = tmp_path / "first", tmp_path / "second"
    secrets = {"CARDSIGN_RELEASE_PASSPHRASE": CRON}
    first.mkdir()
    monkeypatch.chdir(first)
    Path("card.json").write_text(json.dumps(PORTABLE))
    if rooted:
        words = ("--issuer", ISSUER, "--recovery-out", "../recovery.key", "--card", "card.json")
        run(cardsign("init", *words, **secrets, **RECOVERY))
    else:
        card = '[[card]]\nsource = "card.json"\nsigned = "signed.json"\n'
        Path("cardsign.toml").write_text(f'format = 1\npublish = "public"\n{card}')
        run(cardsign("keys", "generate"))
    run(cardsign("keys", "rotate", **secrets))
    git(first, "init", "-q", ".")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "the key store")
    git(tmp_path, "clone", "-q", "first", "second")

    monkeypatch.chdir(second)
    Path("card.json").write_text(json.dumps({**PORTABLE, "version": "2.0.0"}))
    healthy = cardsign("keys", "doctor")
    others_may_write = not umask & 0o020
    assert (healthy.status == 1) is others_may_write
    assert ("error: doctor.permissions" in healthy.err) is others_may_write
    assert healthy.err.count("doctor.permissions") <= 1  # however many files there are
    for command in ("rotate", "generate", "rotate"):
        run(cardsign("keys", command, **secrets))
    run(cardsign("keys", "jwks", "-o", "jwks.json"))
    run(cardsign("verify", "signed.json", "--jwks", "jwks.json"))
    subprocess.run(["chmod", "-R", "go=", "keys"], check=True)
    run(cardsign("keys", "doctor"))
    git(second, "add", "-A")
    git(second, "commit", "-qm", "a rotation")

    monkeypatch.chdir(first)
    branch = git(second, "branch", "--show-current").strip()
    git(first, "pull", "-q", "--ff-only", "../second", branch)
    run(cardsign("keys", "log"))
    assert len(open_store(Path("keys")).state.keys) == len(open_store(second / "keys").state.keys)
    run(cardsign("keys", "rotate", **secrets))
