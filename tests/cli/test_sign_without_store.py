"""`sign --key env:NAME` and `--key file:PATH`: a pipeline without a key store."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

import cardsign as door
from cardsign.jose.keys import PrivateKey
from cardsign.keys.imports import export_public
from tests.cli.conftest import PASSPHRASE, Cardsign
from tests.support import PORTABLE, encrypted_pem, private_jwk, private_pem

pytestmark = pytest.mark.usefixtures("cheap")

KID = "card-2026"
KEY = PrivateKey.generate("ES256", kid=KID)
OTHER = PrivateKey.generate("ES256", kid="card-2025")
PLAIN = private_pem(KEY)
SEALED = encrypted_pem(KEY, PASSPHRASE)
JWK = private_jwk(KEY, kid=KID)
BOTH = b'{"keys": [' + private_jwk(OTHER, kid="card-2025") + b", " + JWK + b"]}"

FORMS = {
    "encrypted PEM": SEALED,
    "one of a JWK Set": BOTH,
    "base64 of a PEM": base64.b64encode(PLAIN),
}


@pytest.fixture
def card(cardsign: Cardsign) -> str:
    """`card.json`, and `jwks.json` of the key that is to sign it."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    Path("jwks.json").write_text(json.dumps({"keys": [KEY.public.jwk()]}))
    return "card.json"


def verifies(cardsign: Cardsign) -> bool:
    """Whether signed.json is trusted by the public key, and no key store was made."""
    assert not Path("keys").exists()
    return cardsign("verify", "signed.json", "--jwks", "jwks.json").status == 0


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_a_key_in_a_variable_signs(data: bytes, card: str, cardsign: Cardsign) -> None:
    """In each form, under the kid that is stated."""
    done = cardsign(
        *("sign", card, "--key", "env:CARD_KEY", "--kid", KID, "-o", "signed.json"),
        CARD_KEY=data.decode(),
    )
    assert done.status == 0, done.err
    assert verifies(cardsign)


@pytest.mark.parametrize("data", [PLAIN, SEALED], ids=["plain", "encrypted"])
def test_a_key_in_a_file_signs(data: bytes, card: str, cardsign: Cardsign) -> None:
    """Only one that is encrypted may be open to others."""
    file = Path("card-key.pem")
    file.write_bytes(data)
    file.chmod(0o644)
    words = ("sign", card, "--key", f"file:{file}", "--kid", KID, "-o", "signed.json")

    shared = cardsign(*words)
    assert (shared.status == 0) is (data == SEALED)
    if data != SEALED:
        assert "file.permissions" in shared.err
    file.chmod(0o600)
    assert cardsign(*words).status == 0
    assert verifies(cardsign)


def test_an_encrypted_key_is_opened_by_the_passphrase_of_card_keys(
    card: str, cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever reads it asks the same places: the role's own first, then that of all roles."""
    file = Path("card-key.pem")
    file.write_bytes(SEALED)
    file.chmod(0o600)
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", "another one")
    for words in (
        ("sign", card, "--key", f"file:{file}", "--kid", KID, "-o", "signed.json"),
        ("keys", "jwks", "--key", f"file:{file}", "--kid", KID, "-o", "jwks.json"),
        ("publish", "signed.json", "--key", f"file:{file}", "--kid", KID, "-o", "public"),
        ("keys", "import", str(file), "--keystore", "imported"),
    ):
        wrong = cardsign(*words)
        assert (wrong.status, "passphrase.wrong" in wrong.err) == (2, True), wrong.err
        done = cardsign(*words, CARDSIGN_CARD_PASSPHRASE=PASSPHRASE)
        assert done.status == 0, done.err


def test_a_peers_keys_are_taken_as_the_samples_of_a2a_publish_them(
    card: str, cardsign: Cardsign
) -> None:
    """PEM by kid; a card by another key is refused, and a private PEM too."""
    words = ("sign", card, "--key", "env:CARD_KEY", "--kid", KID, "-o", "signed.json")
    assert cardsign(*words, CARD_KEY=PLAIN.decode()).status == 0
    for pem, status in (
        (export_public(KEY.public, "pem"), 0),
        (export_public(OTHER.public, "pem"), 1),
        (PLAIN, 2),
    ):
        Path("peer.json").write_text(json.dumps({KID: pem.decode()}))
        done = cardsign("verify", "signed.json", "--jwks", "peer.json")
        assert done.status == status, done.err


TYPED = {
    "PEM": PLAIN.decode(),
    "JWK": f"file:{JWK.decode()}",
    "base64 of a PEM": f"env:{base64.b64encode(PLAIN).decode()}",
}


@pytest.mark.parametrize("text", TYPED.values(), ids=TYPED)
def test_a_key_that_was_typed_is_not_printed(text: str, card: str, cardsign: Cardsign) -> None:
    """As by `--key "$(cat key.pem)"`: what is printed ends in the log of a CI job."""
    done = cardsign("sign", card, "-o", "signed.json", "--key", text, "--json")
    assert done.status == 2
    text = text.removeprefix("file:").removeprefix("env:")
    printed = done.err + done.text
    assert not [at for at in range(len(text) - 12) if text[at : at + 12] in printed]
    assert "env:NAME" in printed or "environment variable" in printed


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "import", PLAIN.decode()),
        ("sign", "card.json", "-o", "out", "--key", "env:K", "--public", PLAIN.decode()),
        ("sign", "./" + PLAIN.decode(), "-o", "signed.json"),
    ],
)
def test_a_pem_in_the_place_of_a_file_is_not_printed(
    words: tuple[str, ...], card: str, cardsign: Cardsign
) -> None:
    """Whether click takes it for an option, or no file has that name."""
    done = cardsign(*words, "--json")
    printed = done.err + done.text
    assert (done.status, "not shown: it may be a key" in printed) == (2, True)
    assert "`(not shown" not in printed
    body = PLAIN.decode().splitlines()[1]
    assert not [at for at in range(len(body) - 12) if body[at : at + 12] in printed]


def test_a_store_may_keep_the_public_key_of_a_variable(card: str, cardsign: Cardsign) -> None:
    """`keys import env:NAME`: the repository has no private key, the pipeline one."""
    words = ("keys", "import", "env:CARD_KEY", "--kid", KID)
    assert cardsign(*words, CARD_KEY=PLAIN.decode()).status == 0
    assert not Path("keys/private").exists()
    words = ("sign", card, "-o", "signed.json")
    assert cardsign(*words, CARD_KEY=PLAIN.decode()).status == 0
    assert cardsign("verify", "signed.json", "--jwks", "jwks.json").status == 0
    assert "signer.wrong_key" in cardsign(*words, CARD_KEY=private_pem(OTHER).decode()).err
    named = ("--key", "env:CARD_KEY", "--kid", "another")
    assert "usage.conflict" in cardsign(*words, *named, CARD_KEY=PLAIN.decode()).err


def test_python_does_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`cardsign.open_signer`, with variables and files."""
    monkeypatch.setenv("CARD_KEY", SEALED.decode())
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    (tmp_path / "key.pem").write_bytes(SEALED)

    by_variable = door.open_signer("env:CARD_KEY", kid=KID)
    by_file = door.open_signer(f"file:{tmp_path}/key.pem", kid=KID)

    assert by_variable.public == by_file.public == KEY.public
    assert json.loads(door.sign_card(json.dumps(PORTABLE).encode(), [by_variable]))["signatures"]
