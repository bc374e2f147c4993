"""docs/guides/signers-and-stores.md has a matrix of signers, and says no more than is tested."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from cardsign.keys.signers import SCHEMES

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
