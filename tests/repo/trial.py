"""A folder in which pipelines run as a CI system runs them, with the secrets of a trial.

What a CI system does itself is done here: inputs and secrets are filled in, and `pip install` is a
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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cardsign import verify_card
from tests.repo.test_pages import commands_of, is_shown
from tests.support import PORTABLE

ROOT = Path(__file__).resolve().parents[2]
PASSPHRASE = "a passphrase for the trial"
GIT = "git -c user.name=trial -c user.email=trial@localhost -c tag.gpgSign=false"
MAKE_KEY = (
    f"umask 077; echo {PASSPHRASE} > pass; "
    "openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256"
    " -pass file:pass -out key.pem; "
    "cardsign keys import key.pem --kid card-2026 --passphrase-file pass; "
    "cardsign keys jwks -o jwks.json"
)
GIVEN = re.compile(r"\$\{\{ (?:inputs|secrets)\.([A-Za-z_-]+) \}\}")
CONDITION = re.compile(r"inputs\.([a-z-]+) != ''")


class Trial:
    """A folder with a card, and a PATH with `cardsign` and a `pip` that installs nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.edit_card()
        programs = folder / "home/bin"
        programs.mkdir(parents=True)
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        named = ["", *(f"[[]{name}]" for name in extras["optional-dependencies"])]
        commit = " @ git+https://github.com/OWNER/cardsign@COMMIT"
        checkout = ROOT / ".github/actions/cardsign/../../.."
        known = "|".join(f"cardsign{name}'{commit}'|{checkout}{name}" for name in named)
        pip = '#!/bin/sh\ncase "$1 $2" in "install "*) ;; *) exit 1;; esac\n'
        (programs / "pip").write_text(f'{pip}case "$2" in {known}) ;; *) exit 1;; esac\n')
        (programs / "pip").chmod(0o700)
        kept = {"LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR"}
        self.environment = {name: os.environ[name] for name in kept & os.environ.keys()} | {
            "HOME": str(folder / "home"),
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def edit_card(self, **changes: Any) -> None:
        """Write the card, with these changes."""
        (self.folder / "card.json").write_text(json.dumps({**PORTABLE, **changes}), "utf-8")

    def commit(self, made_key: Path) -> None:
        """Take over the key, its passphrase, set and store; commit the card under a tag."""
        shutil.copytree(made_key, self.folder, dirs_exist_ok=True)
        self.runs(f"git init -q .; git add card.json jwks.json; {GIT} commit -qm one; git tag v1")

    @property
    def key(self) -> str:
        """The encrypted private key, as it is stored in a CI system."""
        return (self.folder / "key.pem").read_text("ascii")

    def runs(self, script: str, **environment: str) -> str:
        """What the shell prints; it stops at the first command that fails, as a job does."""
        ended = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def runs_github(
        self, steps: Iterable[Mapping[str, Any]], known: Mapping[str, str], **environment: str
    ) -> None:
        """The steps of a job or of an action, with inputs and secrets; a failure ends the test."""
        for step in steps:
            condition = step.get("if", "")
            assert not CONDITION.sub("", condition).replace("&&", "").strip(), "an unknown form"
            if "run" not in step or not all(known[name] for name in CONDITION.findall(condition)):
                continue
            variables = {
                name: GIVEN.sub(lambda match: known[match[1]], value)
                for name, value in step.get("env", {}).items()
            }
            script = step["run"]
            assert "${{" not in script + "".join(variables.values()), "inputs by variables only"
            self.runs(script, **{**environment, **variables})

    def runs_gitlab(self, job: Mapping[str, Any], **environment: str) -> None:
        """The script of a job, with its variables and those of the project."""
        variables = {
            name: re.sub(r"\$(\w+)", lambda match: environment[match[1]], value)
            for name, value in job["variables"].items()
        }
        self.runs("\n".join(job["script"]), **{**environment, **variables})

    def prepares(self, block: str, **environment: str) -> None:
        """Run a console block, whose commands print what it shows."""
        for step in commands_of(block):
            assert is_shown(step, self.runs(step.command, **environment)), step

    def signed(self) -> bool:
        """Whether the card that came out is trusted by the published keys; it is removed."""
        card = (self.folder / "signed.json").read_bytes()
        (self.folder / "signed.json").unlink()
        return bool(verify_card(card, jwks=(self.folder / "jwks.json").read_bytes()))
