"""A key without a key store, in Python; ``transcripts/sign-key.txt`` has the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cardsign as door
from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import PASSPHRASE
from tests.support import PORTABLE, encrypted_pem, private_jwk

pytestmark = pytest.mark.usefixtures("cheap")

KID = "card-2026"
KEY = PrivateKey.generate("ES256", kid=KID)
OTHER = PrivateKey.generate("ES256", kid="card-2025")
SEALED = encrypted_pem(KEY, PASSPHRASE)
BOTH = (
    b'{"keys": [' + private_jwk(OTHER, kid="card-2025") + b", " + private_jwk(KEY, kid=KID) + b"]}"
)


@pytest.mark.parametrize("data", [SEALED, BOTH], ids=["encrypted PEM", "one of a JWK Set"])
def test_python_opens_a_key_in_a_variable_or_a_file(
    data: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`cardsign.open_signer`, under the kid that is stated."""
    monkeypatch.setenv("CARD_KEY", data.decode())
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_bytes(data)

    by_variable = door.open_signer("env:CARD_KEY", kid=KID)
    by_file = door.open_signer(f"file:{file}", kid=KID)

    assert by_variable.public == by_file.public == KEY.public
    assert json.loads(door.sign_card(json.dumps(PORTABLE).encode(), [by_variable]))["signatures"]
