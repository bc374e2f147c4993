"""Every kind of signer with each algorithm, as a user has it: enrolled, signing, verified.

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

from cardsign.jose.keys import PrivateKey
from cardsign.keys.signers.registry import SCHEMES
from tests.keys.openbao import OpenBao
from tests.keys.softhsm import PIN, SoftHsm
from tests.support import PORTABLE

ALGS = ["ES256", "RS256"]
KINDS = {"ES256": "ecdsa-p256", "RS256": "rsa-3072"}


class User:
    """Runs cardsign in a folder of their own, with nothing in the environment but what is said."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        self.environment = {"PATH": os.defpath, "HOME": str(home), **environment}
        (folder / "card.json").write_text(json.dumps(PORTABLE))

    def runs(self, *arguments: str, status: int = 0) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "cardsign", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def enrols_and_signs(self, uri: str, alg: str, *public: str) -> None:
        """The whole way, by --key; and once more by the store, where that is allowed."""
        self.runs("keys", "import", uri, *public)
        assert json.loads(self.runs("keys", "list", "--json"))[0]["alg"] == alg
        self.runs("keys", "jwks", "-o", "jwks.json")
        self.runs("sign", "card.json", "--key", uri, "-o", "signed.json")
        self.runs("verify", "signed.json", "--jwks", "jwks.json")
        signed = (self.folder / "signed.json").read_text()
        (self.folder / "signed.json").write_text(signed.replace("1.2.0", "1.2.1"))
        self.runs("verify", "signed.json", "--jwks", "jwks.json", status=1)


@pytest.mark.parametrize("alg", ALGS)
def test_a_file(alg: str, tmp_path: Path) -> None:
    """`file:`, the key store itself."""
    user = User(tmp_path, CARDSIGN_PASSPHRASE="correct horse battery staple")
    user.runs("keys", "generate", "--alg", alg)
    assert json.loads(user.runs("keys", "list", "--json"))[0]["alg"] == alg
    user.runs("keys", "jwks", "-o", "jwks.json")
    user.runs("sign", "card.json", "-o", "signed.json")
    user.runs("verify", "signed.json", "--jwks", "jwks.json")


@pytest.mark.parametrize("alg", ALGS)
def test_a_program(alg: str, tmp_path: Path) -> None:
    """`exec:`, by a few lines of Python; it is not run by the store's word."""
    key = PrivateKey.generate(alg)
    (tmp_path / "key.der").write_bytes(key.to_pkcs8_der())
    (tmp_path / "public.jwk").write_text(json.dumps(key.public.jwk()))
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "from cardsign.jose.keys import PrivateKey\n"
        "key = PrivateKey.from_pkcs8_der(open(sys.argv[1], 'rb').read())\n"
        "sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))\n"
    )
    program.chmod(0o700)
    user = User(tmp_path)
    uri = f"exec:{program}?arg={tmp_path / 'key.der'}"
    user.enrols_and_signs(uri, alg, "--public", "public.jwk")
    said = user.runs("sign", "card.json", "-o", "again.json", status=2)
    assert "config.not_allowed" in said


@pytest.mark.needs_softhsm
@pytest.mark.parametrize("alg", ALGS)
def test_a_token(alg: str, softhsm: SoftHsm, tmp_path: Path) -> None:
    """`pkcs11:`, by SoftHSM; the library is named by the user, the PIN by the environment."""
    user = User(
        tmp_path,
        SOFTHSM2_CONF=os.environ["SOFTHSM2_CONF"],
        CARDSIGN_PKCS11_MODULE=str(softhsm.library),
        CARDSIGN_PIN=PIN,
    )
    uri = f"pkcs11:token=cards;object={alg.lower()}-a"
    user.enrols_and_signs(uri, alg)
    user.runs("sign", "card.json", "-o", "again.json")
    del user.environment["CARDSIGN_PKCS11_MODULE"]
    assert "config.not_allowed" in user.runs("sign", "card.json", status=2)
    user.environment["CARDSIGN_PKCS11_MODULE"] = str(softhsm.library)
    user.environment["CARDSIGN_PIN"] = "not the PIN"
    said = user.runs("sign", "card.json", "--key", uri, "-o", "never.json", status=2)
    assert "signer.credentials" in said
    assert "not the PIN" not in said
    assert not (tmp_path / "never.json").exists()


@pytest.mark.needs_openbao
@pytest.mark.parametrize("alg", ALGS)
def test_a_server(alg: str, openbao: OpenBao, tmp_path: Path) -> None:
    """`hashivault:`, by OpenBao; rotated there, the enrolled version goes on signing."""
    uri = openbao.make(f"matrix-{alg.lower()}", KINDS[alg])
    user = User(tmp_path, **openbao.environment())
    user.enrols_and_signs(uri, alg)
    openbao.root.secrets.transit.rotate_key(name=f"matrix-{alg.lower()}")
    user.runs("sign", "card.json", "-o", "again.json")
    user.runs("verify", "again.json", "--jwks", "jwks.json")
    user.environment["BAO_TOKEN"] = "no-token"
    said = user.runs("sign", "card.json", "-o", "never.json", status=2)
    assert "signer.credentials" in said
    assert not (tmp_path / "never.json").exists()


def _algorithms(module: str, function: str) -> set[str]:
    """With what a test of the signer is run."""
    test = getattr(importlib.import_module(f"tests.keys.{module}"), function)
    return {
        alg
        for mark in test.pytestmark
        if mark.name == "parametrize" and mark.args[0] == "alg"
        for alg in mark.args[1]
    }


#: By scheme, what the page says of it, and the test that shows it for each algorithm.
SHOWN = {
    "file": ("yes", "test_signers_matrix", "test_a_file"),
    "exec": ("yes", "test_signers_matrix", "test_a_program"),
    "pkcs11": ("yes", "test_signers_matrix", "test_a_token"),
    "hashivault": ("yes", "test_signers_matrix", "test_a_server"),
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
        assert _algorithms(module, function) == set(ALGS)
