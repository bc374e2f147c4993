"""What a key store may meet, one table: a stable code, a hint, and no byte changed on disk."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from cardsign.jose.keys import PrivateKey
from cardsign.keys.key_files import export_private
from cardsign.keys.model import StoreState, file_custody
from cardsign.keys.stores.directory import DirectoryStore
from tests.cli.conftest import Cardsign, Ended
from tests.keys import aws
from tests.keys.softhsm import library
from tests.keys.states import cut, forge
from tests.support import PORTABLE, cheap_envelopes

SIGN = "sign card.json -o signed.json"
CHANGES = ("keys rotate", "keys generate --alg RS256", "keys jwks", SIGN)


@pytest.fixture
def store(cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`./keys` with an active key and a prepublished one, and a card."""
    cheap_envelopes(monkeypatch)
    for _ in range(2):
        assert cardsign("keys", "generate").status == 0
    Path("card.json").write_text(json.dumps(PORTABLE))
    return Path("keys")


def digest() -> str:
    """Of every file, folder and link below: name, mode, owner, content. Locks hold nothing."""
    told = hashlib.sha256()
    for path in sorted(Path().rglob("*")):
        status = path.lstat()
        content = os.readlink(path).encode() if path.is_symlink() else b""
        if stat.S_ISREG(status.st_mode) and path.name != ".lock":
            content = path.read_bytes()
        told.update(repr((str(path), status.st_mode, status.st_uid, content)).encode())
    return told.hexdigest()


def halves(store: Path) -> list[Path]:
    """The private files: of the active key, then of the other."""
    keys = DirectoryStore.open(store).state.keys
    return [store / "private" / f"{key.thumbprint}.key" for key in keys]


def edited(path: Path, change: Callable[[Any], None]) -> None:
    """A file of JSON that somebody has edited."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2) + "\n")


# --- what was done to it ------------------------------------------------------------------


def untouched(store: Path) -> None:
    """Nothing."""


def a_tampered_envelope(store: Path) -> None:
    """One character of the ciphertext."""

    def change(document: Any) -> None:
        text = document["ciphertext"]
        document["ciphertext"] = ("B" if text[0] == "A" else "A") + text[1:]

    edited(halves(store)[0], change)


def swapped_envelopes(store: Path) -> None:
    one, other = halves(store)
    spare = store / "private/spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def a_renamed_envelope(store: Path) -> None:
    """The other key's, which says that it is this one's."""
    swapped_envelopes(store)
    own = DirectoryStore.open(store).state.keys[0]
    label = {"kid": own.kid, "thumbprint": own.thumbprint}
    edited(halves(store)[0], lambda document: document.update(label))


def a_private_key_that_is_a_link(store: Path) -> None:
    half = halves(store)[0]
    half.rename(store / "elsewhere")
    half.symlink_to(Path("../elsewhere"))


def a_hungry_kdf(store: Path) -> None:
    """128 GiB, if anybody would compute it."""
    edited(halves(store)[0], lambda document: document["kdf"].update(n=2**30))


def a_lowered_generation(store: Path) -> None:
    edited(store / "keystore.json", lambda document: document.update(generation=1))


def an_old_state(store: Path) -> None:
    """Of two commits ago."""
    old = (store / "keystore.json").read_bytes()
    for name in ("three", "four"):
        DirectoryStore.open(store).add_key(
            PrivateKey.generate("ES256", kid=name),
            b"correct horse battery staple",
            now=DirectoryStore.open(store).state.keys[0].created,
        )
    (store / "keystore.json").write_bytes(old)


def an_edited_line(store: Path) -> None:
    log = store / "audit.jsonl"
    log.write_text(log.read_text().replace('"actor":"', '"actor":"not ', 1))


def a_log_without_its_end(store: Path) -> None:
    log = store / "audit.jsonl"
    log.write_bytes(cut(log.read_bytes(), 1))


def a_line_cut_out(store: Path) -> None:
    log = store / "audit.jsonl"
    log.write_text(log.read_text().partition("\n")[2])


def an_edited_holder(store: Path) -> None:
    edited(store / "keystore.json", lambda document: document["keys"][0].update(holder="mallory"))


def a_key_of_somebody_else(store: Path) -> None:
    """In the place of the active one, in state and log alike."""
    theirs = PrivateKey.generate("ES256").public
    custody = file_custody(theirs.thumbprint)

    def exchanged(state: StoreState) -> StoreState:
        own, *others = state.keys
        return replace(state, keys=(replace(own, public=theirs, custody=custody), *others))

    forge(DirectoryStore.open(store), exchanged)


def a_log_of_another_store(store: Path) -> None:
    other = DirectoryStore.create(store.parent / "other")
    other.add_remote_key(PrivateKey.generate("ES256").public, "exec:/x", now=datetime.now(UTC))
    (store / "audit.jsonl").write_bytes(other.read_audit())


@dataclass(frozen=True)
class Bad:
    """A row: what was done, what the user asks for, and how that ends."""

    spoil: Callable[[Path], None]
    words: str
    code: str
    status: int = 2
    passphrase: str | None = None


ROWS: dict[str, Bad] = {
    "a wrong passphrase": Bad(untouched, SIGN, "passphrase.wrong", passphrase="wrong " * 4),
    "no passphrase": Bad(untouched, SIGN, "passphrase.none", passphrase=""),
    "a tampered envelope": Bad(a_tampered_envelope, SIGN, "passphrase.wrong"),
    "swapped envelopes": Bad(swapped_envelopes, SIGN, "signer.wrong_key"),
    "an envelope under another name": Bad(a_renamed_envelope, SIGN, "passphrase.wrong"),
    "a symbolic link for a private key": Bad(a_private_key_that_is_a_link, SIGN, "file.not_plain"),
    "a KDF cost that would eat the memory": Bad(a_hungry_kdf, SIGN, "keystore.corrupt"),
    "an edited line of the log": Bad(an_edited_line, "keys audit verify", "keystore.audit_broken"),
    "a line cut out of the log": Bad(a_line_cut_out, "keys audit verify", "keystore.audit_broken"),
    "doctor and an edited line": Bad(
        an_edited_line, "keys doctor --fix", "keystore.audit_broken", 1
    ),
    **{
        f"a lowered generation: {words}": Bad(a_lowered_generation, words, "keystore.rolled_back")
        for words in CHANGES
    },
    **{
        f"{name}: {words}": Bad(spoil, words, code)
        for words in CHANGES
        for name, spoil, code in (
            ("an edited holder", an_edited_holder, "keystore.audit_broken"),
            ("state and log written anew", a_key_of_somebody_else, "keystore.other_history"),
            ("a log that was cut", a_log_without_its_end, "keystore.audit_broken"),
            ("the log of another store", a_log_of_another_store, "keystore.audit_broken"),
        )
    },
    **{
        f"a state of before: {words}": Bad(an_old_state, words, "keystore.rolled_back")
        for words in CHANGES
    },
}


def refused(ended: Ended, code: str, status: int = 2) -> None:
    """One line that says what, and one that says what to do; no traceback."""
    assert ended.status == status, ended.err
    assert code in ended.err
    assert "\n  " in ended.err.partition(code)[2]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_bad_input_is_refused_and_changes_nothing(
    row: Bad, cardsign: Cardsign, store: Path
) -> None:
    """By the command line, with the whole folder compared before and after."""
    row.spoil(store)
    before = digest()
    environment = {} if row.passphrase is None else {"CARDSIGN_PASSPHRASE": row.passphrase or None}

    ended = cardsign(*row.words.split(), **environment)

    refused(ended, row.code, row.status)
    assert digest() == before


@pytest.mark.parametrize("words", [SIGN, "keys audit verify", "keys jwks", "keys generate"])
def test_an_honest_store_is_not_refused(words: str, cardsign: Cardsign, store: Path) -> None:
    """The negative twin; a line of an attempt that came to nothing is no rollback either."""
    log = store / "audit.jsonl"
    state = (store / "keystore.json").read_bytes()
    attempt = PrivateKey.generate("ES256").public  # by a process that was killed before its commit
    DirectoryStore.open(store).add_remote_key(attempt, "exec:/x", now=datetime.now(UTC))
    (store / "keystore.json").write_bytes(state)
    assert len(log.read_text().splitlines()) > json.loads(state)["audit"]["seq"]

    assert cardsign(*words.split()).status == 0


@pytest.mark.parametrize("words", ["import locked.pem", "export --private -o again.pem -- {kid}"])
def test_a_passphrase_that_only_an_option_gives_is_named(
    words: str, cardsign: Cardsign, store: Path
) -> None:
    """That of the file which comes in or goes out is never the store's own."""
    secret = PrivateKey.generate("ES256")
    locked = export_private(secret, "pkcs8", b"a passphrase of others")
    Path("locked.pem").write_bytes(locked)
    kid = DirectoryStore.open(store).state.active_keys()[0].kid
    before = digest()

    ended = cardsign("keys", *words.format(kid=kid).split())

    refused(ended, "passphrase.none")
    assert f"--{words.split()[0]}-passphrase-file" in ended.err
    assert "CARDSIGN_PASSPHRASE" not in ended.err
    assert digest() == before


# --- private keys elsewhere -------------------------------------------------------------


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[aws.Kms]:
    """A key management service, and its user."""
    with aws.running() as service:
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", service.endpoint)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDKNOWN")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
        yield service


@pytest.mark.needs_boto3
def test_a_kms_that_answers_with_another_key_signs_nothing(
    cardsign: Cardsign, kms: aws.Kms
) -> None:
    """Whatever it says of itself: the public key was stored when the key was enrolled."""
    uri = kms.make(ec.generate_private_key(ec.SECP256R1()))
    assert cardsign("keys", "import", "--custody", uri).status == 0
    Path("card.json").write_text(json.dumps(PORTABLE))
    assert cardsign(*SIGN.split()).status == 0
    Path("signed.json").unlink()
    kms.keys[uri.rpartition("/")[2]] = ec.generate_private_key(ec.SECP256R1())
    before = digest()

    refused(cardsign(*SIGN.split()), "signer.wrong_key")

    assert digest() == before


@pytest.mark.needs_softhsm
@pytest.mark.parametrize("words", [SIGN + " --key {uri}", "keys import --custody {uri}"])
def test_a_token_that_is_absent_signs_nothing(words: str, store: Path, cardsign: Cardsign) -> None:
    """In a process of its own, since the library reads its configuration once."""
    Path("tokens").mkdir()
    Path("softhsm2.conf").write_text(f"directories.tokendir = {Path('tokens').resolve()}\n")
    uri = "pkcs11:token=absent;object=cards"
    keys = DirectoryStore.open(store)
    forge(
        keys,
        lambda state: replace(
            state, keys=(replace(state.keys[0], custody=uri, private="elsewhere"), *state.keys[1:])
        ),
        kept=len(keys.read_audit().splitlines()),
    )
    environment = {
        **os.environ,
        "SOFTHSM2_CONF": str(Path("softhsm2.conf").resolve()),
        "CARDSIGN_PKCS11_MODULE": str(library()),
        "CARDSIGN_PIN": "1234",
    }
    assert cardsign("keys", "list").status == 0  # so that this user has seen the newest state
    before = digest()

    done = subprocess.run(
        [sys.executable, "-m", "cardsign", *words.format(uri=uri).split()],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    refused(Ended(done.returncode, b"", done.stderr), "signer.unreachable")
    assert digest() == before
