"""Signers as a user has them: enrolled, signing, verified; and what the guide says of each.

`make tools` installs the real thing; docs/guides/signers-and-stores.md has the
matrix, and says no more than is tested.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.keys.signers.registry import SCHEMES
from tests.keys.openbao import OpenBao
from tests.keys.softhsm import PIN, SoftHsm
from tests.support import PORTABLE


class User:
    """Runs cardsign in a folder of their own, with nothing in the environment but what is said."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        self.environment = {"PATH": os.defpath, "HOME": str(folder / "home"), **environment}
        (folder / "card.json").write_text(json.dumps(PORTABLE))

    def runs(self, *arguments: str, status: int = 0) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "cardsign", *arguments]
        how = {"cwd": self.folder, "env": self.environment}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def enrols_and_signs(self, uri: str) -> None:
        """The whole way, by --key; a card that was changed is refused."""
        self.runs("keys", "import", uri)
        self.runs("keys", "jwks", "-o", "jwks.json")
        self.runs("sign", "card.json", "--key", uri, "-o", "signed.json")
        self.runs("verify", "signed.json", "--jwks", "jwks.json")
        signed = (self.folder / "signed.json").read_text()
        (self.folder / "signed.json").write_text(signed.replace("1.2.0", "1.2.1"))
        self.runs("verify", "signed.json", "--jwks", "jwks.json", status=1)


@pytest.mark.needs_softhsm
def test_a_token(softhsm: SoftHsm, tmp_path: Path) -> None:
    """`pkcs11:`, by SoftHSM; the library is named by the user, the PIN by the environment."""
    module = {"CARDSIGN_PKCS11_MODULE": str(softhsm.library)}
    configuration = os.environ["SOFTHSM2_CONF"]
    user = User(tmp_path, SOFTHSM2_CONF=configuration, CARDSIGN_PIN=PIN, **module)
    uri = "pkcs11:token=cards;object=es256-a"
    user.enrols_and_signs(uri)
    user.runs("sign", "card.json", "-o", "again.json")
    user.environment["CARDSIGN_PIN"] = "not the PIN"
    output = user.runs("sign", "card.json", "--key", uri, "-o", "never.json", status=2)
    assert "signer.credentials" in output
    assert "not the PIN" not in output
    assert not (tmp_path / "never.json").exists()
    del user.environment["CARDSIGN_PKCS11_MODULE"]
    assert "config.not_allowed" in user.runs("sign", "card.json", status=2)


@pytest.mark.needs_openbao
def test_a_server(openbao: OpenBao, tmp_path: Path) -> None:
    """`hashivault:`, by OpenBao; rotated there, the enrolled version goes on signing."""
    user = User(tmp_path, **openbao.environment())
    user.enrols_and_signs(openbao.make("matrix", "rsa-3072"))
    openbao.root.secrets.transit.rotate_key(name="matrix")
    user.runs("sign", "card.json", "-o", "again.json")
    user.runs("verify", "again.json", "--jwks", "jwks.json")
    user.environment["BAO_TOKEN"] = "no-token"
    assert "signer.credentials" in user.runs("sign", "card.json", "-o", "never.json", status=2)
    assert not (tmp_path / "never.json").exists()


#: By scheme, what the page says of it, and the test that shows it for each algorithm.
SHOWN = {
    "file": ("yes", "test_imports", "test_a_file_signs"),
    "exec": ("yes", "test_signer_program", "test_a_program_signs"),
    "pkcs11": ("yes", "test_signer_pkcs11", "test_the_token_signs"),
    "hashivault": ("yes", "test_signer_vault", "test_the_server_signs"),
    "awskms": ("shape", "test_signer_awskms", "test_kms_signs"),
    "gcpkms": ("shape", "test_signer_gcpkms", "test_kms_signs"),
    "azurekms": ("shape", "test_signer_azurekms", "test_the_vault_signs"),
}


def test_the_page_says_no_more_than_is_tested() -> None:
    """The guide's matrix: a row for each kind, each cell shown by a test."""
    guide = Path(__file__).parents[2] / "docs/guides/signers-and-stores.md"
    page = guide.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9]+):/*` \| (\w+) \| (\w+) \|", page, re.MULTILINE)
    assert rows == [(scheme, word, word) for scheme, (word, _, _) in SHOWN.items()]
    assert {scheme for scheme, *_ in rows} == {"file", *SCHEMES}
    for _, module, function in SHOWN.values():
        test = getattr(importlib.import_module(f"tests.keys.{module}"), function)
        tables = [mark.args for mark in test.pytestmark if mark.name == "parametrize"]
        values = next(values for names, values in tables if "alg" in names)
        algorithms = {value if isinstance(value, str) else value[0] for value in values}
        assert algorithms == {"ES256", "RS256"}, module
