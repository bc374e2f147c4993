"""A key without a key store, where no story says it: in Python, and typed in the wrong place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cardsign as door
from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import PASSPHRASE, Cardsign
from tests.support import PORTABLE, encrypted_pem, private_jwk, private_pem

pytestmark = pytest.mark.usefixtures("cheap")

KID = "card-2026"
KEY = PrivateKey.generate("ES256", kid=KID)
OTHER = PrivateKey.generate("ES256", kid="card-2025")
PLAIN = private_pem(KEY).decode()
SEALED = encrypted_pem(KEY, PASSPHRASE)
BOTH = (
    b'{"keys": [' + private_jwk(OTHER, kid="card-2025") + b", " + private_jwk(KEY, kid=KID) + b"]}"
)


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "import", PLAIN),
        ("sign", "card.json", "-o", "out", "--key", "env:K", "--public", PLAIN),
        ("sign", f"./{PLAIN}", "-o", "signed.json"),
        ("sign", "card.json", "-o", "signed.json", "--key", PLAIN),
    ],
)
def test_a_pem_in_the_place_of_a_name_is_not_printed(
    words: tuple[str, ...], cardsign: Cardsign
) -> None:
    """Whether click takes it for an option, or no file has that name; a CI job keeps its log."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    done = cardsign(*words, "--json")
    printed = done.err + done.text
    assert (done.status, "not shown: it may be a key" in printed) == (2, True)
    assert "`(not shown" not in printed
    body = PLAIN.splitlines()[1]
    assert not [at for at in range(len(body) - 12) if body[at : at + 12] in printed]


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
