"""`keys import URI` and `sign --key`: keys that lie elsewhere, on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import PASSPHRASE, Cardsign
from tests.support import PORTABLE

SIGNS = """#!{python}
import sys
from cardsign.jose.keys import PrivateKey
with open({ran!r}, "a") as file:
    file.write("ran ")
with open({key!r}, "rb") as file:
    key = PrivateKey.from_pkcs8_der(file.read())
sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""


class Elsewhere:
    """A key behind a program, the JWK of its public key, and a card."""

    def __init__(self, folder: Path, key: PrivateKey) -> None:
        self.key = key
        self.ran = folder / "ran"
        program, secret = folder / "program", folder / "elsewhere.der"
        secret.write_bytes(key.to_pkcs8_der())
        program.write_text(SIGNS.format(python=sys.executable, key=str(secret), ran=str(self.ran)))
        program.chmod(0o700)
        self.uri = f"exec:{program}"
        self.public = folder / "public.jwk"
        self.public.write_text(json.dumps(key.public.jwk()))
        self.card = folder / "card.json"
        self.card.write_text(json.dumps(PORTABLE))

    def enrolled(self, cardsign: Cardsign) -> None:
        """Take it into ./keys."""
        done = cardsign("keys", "import", self.uri, "--public", self.public)
        assert done.status == 0, done.err
        self.ran.unlink()

    def signs(self, cardsign: Cardsign, *options: object) -> None:
        """Sign the card, which the store's JWK Set then verifies."""
        done = cardsign("sign", self.card, *options, "-o", "signed.json")
        assert done.status == 0, done.err
        assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
        assert cardsign("verify", "signed.json", "--jwks", "jwks.json").status == 0


@pytest.fixture
def elsewhere(cardsign: Cardsign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """A key elsewhere, and a user without a file of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("CARDSIGN_PASSPHRASE")
    return Elsewhere(tmp_path, PrivateKey.generate("ES256", kid="cards-1"))


def test_a_key_elsewhere_is_enrolled_by_its_public_half(
    cardsign: Cardsign, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """The store keeps no private key and asks for no passphrase; the signer has proved itself."""
    done = cardsign("keys", "import", elsewhere.uri, "--public", elsewhere.public)

    assert (done.status, done.text) == (0, "cards-1\n")
    assert elsewhere.ran.read_text() == "ran "
    (listed,) = cardsign("keys", "list", "--json").json
    assert (listed["custody"], listed["state"]) == (elsewhere.uri, "active")
    assert not (tmp_path / "keys" / "private").exists()


def test_a_signer_that_does_not_hold_the_key_is_not_enrolled(
    cardsign: Cardsign, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """Nothing is written."""
    elsewhere.public.write_text(json.dumps(PrivateKey.generate("ES256").public.jwk()))
    done = cardsign("keys", "import", elsewhere.uri, "--public", elsewhere.public)
    assert (done.status, done.text) == (2, "")
    assert "signer.wrong_key" in done.err
    assert not (tmp_path / "keys").exists()


def test_the_store_alone_runs_nothing(
    cardsign: Cardsign, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """--key gives leave to run it, or the user's own file, for cron and pipelines.

    A file of the repository gives no such leave.
    """
    elsewhere.enrolled(cardsign)
    leave = f"format = 1\nallow = [{json.dumps(elsewhere.uri)}]\n"
    own = tmp_path / "config" / "cardsign" / "signers.toml"
    own.parent.mkdir(parents=True)
    for file in (tmp_path / "signers.toml", tmp_path / "keys" / "signers.toml"):
        file.write_text(leave)
        file.chmod(0o600)
    done = cardsign("sign", elsewhere.card, "-o", "signed.json")
    assert (done.status, "config.not_allowed" in done.err) == (2, True)
    assert not elsewhere.ran.exists()
    assert not (tmp_path / "signed.json").exists()

    elsewhere.signs(cardsign, "--key", elsewhere.uri)
    own.write_text(leave)
    own.chmod(0o600)
    elsewhere.signs(cardsign)


def test_sign_by_a_public_half_in_a_file(
    cardsign: Cardsign, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """No key store is needed; signing again replaces nothing and changes nothing."""
    command = ("sign", "signed.json", "--key", elsewhere.uri, "--public", elsewhere.public)
    (tmp_path / "signed.json").write_text(json.dumps(PORTABLE))
    assert cardsign(*command, "-o", "signed.json").status == 0
    once = (tmp_path / "signed.json").read_bytes()
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [elsewhere.key.public.jwk()]}))
    assert cardsign("verify", "signed.json", "--jwks", "jwks.json").status == 0

    assert cardsign(*command, "-o", "signed.json").status == 0
    assert (tmp_path / "signed.json").read_bytes() == once
    assert not (tmp_path / "keys").exists()


def test_a_signer_that_only_signs_has_its_key_named(
    cardsign: Cardsign, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """As while a secret is rotated, when the key set holds two keys."""
    keys = [PrivateKey.generate("ES256", kid="cards-2").public.jwk(), elsewhere.key.public.jwk()]
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": keys}))
    command = ("sign", elsewhere.card, "--key", elsewhere.uri, "--public", "jwks.json", "-o", "out")
    unnamed = cardsign(*command)
    assert (unnamed.status, "signer.no_public" in unnamed.err) == (2, True)
    assert "name the key: --kid KID" in unnamed.err
    wrong = cardsign(*command, "--kid", "cards-2")
    assert (wrong.status, "signer.wrong_key" in wrong.err) == (2, True)
    assert not (tmp_path / "out").exists()
    assert cardsign(*command, "--kid", "cards-1").status == 0
    assert cardsign("verify", "out", "--jwks", "jwks.json").status == 0


@pytest.mark.usefixtures("cheap")
def test_a_public_half_in_a_file_is_no_way_round_the_roots(
    cardsign: Cardsign, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a keyset statement, a key signs only if that lists it (threat 22)."""
    monkeypatch.setenv("CARDSIGN_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("CARDSIGN_RECOVERY_PASSPHRASE", "another horse entirely")
    made = cardsign("init", "--issuer", "https://tides.example", "--recovery-out", "recovery.key")
    assert made.status == 0, made.err
    named = ("--key", elsewhere.uri, "--public", elsewhere.public)

    refused = cardsign("sign", elsewhere.card, *named, "-o", "signed.json")

    assert (refused.status, "keystore.not_listed" in refused.err) == (2, True)
    assert not Path("signed.json").exists()
    assert not elsewhere.ran.exists()
    assert cardsign("keys", "import", *named[1:]).status == 0
    elsewhere.ran.unlink()
    drafted = cardsign("keyset", "draft")
    draft = "keyset-1.2.json"
    assert cardsign("keyset", "sign", draft, "--digest", drafted.text.strip()).status == 0
    assert cardsign("keyset", "publish", draft).status == 0
    assert cardsign("sign", elsewhere.card, *named, "-o", "signed.json").status == 0


TWO = ("--key", "exec:/a", "--key", "exec:/b")
UNNAMED: dict[str, tuple[tuple[str, ...], str]] = {
    "--public without --key": (("--public", "public.jwk"), "usage.conflict"),
    "--public of two keys": ((*TWO, "--public", "public.jwk"), "usage.conflict"),
    "a key not enrolled": (("--key", "exec:/other"), "keystore.unknown_key"),
    "a malformed URI": (("--key", "exec:relative"), "signer.uri"),
    "no JWK": ((*TWO[:2], "--public", "card.json"), "jwks.malformed"),
    "a private key": ((*TWO[:2], "--public", "elsewhere.der"), "jwks.malformed"),
}


@pytest.mark.parametrize(("options", "code"), UNNAMED.values(), ids=UNNAMED)
def test_what_names_no_key(
    options: tuple[str, ...], code: str, cardsign: Cardsign, elsewhere: Elsewhere
) -> None:
    """A local fault, and nothing is run."""
    elsewhere.enrolled(cardsign)
    done = cardsign("sign", elsewhere.card, "-o", "signed.json", *options)
    assert (done.status, code in done.err) == (2, True), done.err
    assert not elsewhere.ran.exists()
