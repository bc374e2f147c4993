"""A signer is opened by the URI of its custody, and what its URI may do is the user's choice."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from traceback import format_exception

import pytest

from cardsign.errors import CardsignError, PassphraseFault, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.keys.signers.access import (
    Access,
    PassphraseSource,
    SignerPolicy,
    user_file,
    user_policy,
    user_secrets,
)
from cardsign.keys.signers.base import RemoteKey
from cardsign.keys.signers.registry import (
    check_possession,
    find_remote_key,
    list_public_keys,
    open_signer,
)

PASSPHRASE = b"correct horse battery staple"


def unasked(kind: str, of: str) -> bytes:
    """Fail where a secret is asked for."""
    pytest.fail("asked for a secret")


SHUT = Access(unasked)


def test_a_sealed_key_is_opened_by_the_store(store, es256):
    """The passphrase is asked for when it is needed."""
    record = store.add(es256)
    asked = []

    def secrets(kind: str, of: str) -> bytes:
        asked.append(kind)
        return PASSPHRASE

    signer = store.signer(record, Access(secrets))

    sign_payload(b"{}", signer, typ="JOSE")
    assert asked == ["passphrase"]


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("azure://vault/key/version", "no scheme"),
        ("ftp://host/key", "no scheme"),
        ("EXEC:/bin/sh", "without a scheme"),
        ("private/key.key", "without a scheme"),
        ("CARD_KEY", "without a scheme"),
        ("", "without a scheme"),
    ],
)
def test_another_custody_is_named_and_not_tried(uri, fault, es256):
    """Nobody is asked for a PIN, and nothing is run."""
    for attempt in (
        lambda: open_signer(uri, es256.public, SHUT),
        lambda: list_public_keys(uri, SHUT)[0],
        lambda: find_remote_key(uri, SHUT),
    ):
        with pytest.raises(SignerFault, match=fault) as caught:
            attempt()
        assert (caught.value.code, caught.value.exit_status) == ("signer.uri", 2)
        assert "--key takes env:NAME" in caught.value.hint


def test_what_runs_a_program_needs_leave(es256):
    """The word of a key store is not enough for it."""
    uri = "exec:/bin/true"
    for attempt in (
        lambda: open_signer(uri, es256.public, SHUT),
        lambda: list_public_keys(uri, SHUT)[0],
    ):
        with pytest.raises(SignerFault) as caught:
            attempt()
        assert caught.value.code == "config.not_allowed"


def test_a_token_without_a_library_of_the_user_is_not_reached(es256):
    """No library is guessed, and a relative one would be the repository's."""
    for named in ({}, {"CARDSIGN_PKCS11_MODULE": "lib.so"}):
        access = Access(unasked, environment=named)
        signer = open_signer("pkcs11:token=cards;object=k", es256.public, access)
        with pytest.raises(SignerFault, match="no PKCS#11 library") as caught:
            signer.sign(b"input")
        assert caught.value.code == "config.not_allowed"


@pytest.mark.parametrize(
    ("module", "extra", "uri"),
    [
        ("pkcs11", "pkcs11", "pkcs11:token=cards;object=k"),
        ("hvac", "vault", "hashivault://transit/k?version=1"),
        ("boto3", "aws", "awskms:///01234567-89ab-cdef-0123-456789abcdef"),
        (
            "google.cloud.kms",
            "gcp",
            "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
        ),
        (
            "azure.keyvault.keys.crypto",
            "azure",
            "azurekms://cards/k/0123456789abcdef0123456789abcdef",
        ),
    ],
)
def test_a_missing_library_is_one_helpful_line(module, extra, uri, es256, monkeypatch):
    """It says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    access = Access(unasked, environment={"CARDSIGN_PKCS11_MODULE": "/lib.so"})
    with pytest.raises(SignerFault, match=module) as caught:
        open_signer(uri, es256.public, access).sign(b"input")
    assert caught.value.code == "usage.not_installed"
    assert caught.value.hint == f"pip install 'cardsign[{extra}]'"


LINE = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg" + "Ab3xKq9/Zt+w" * 11
KEY_TEXTS = {
    "PEM": f"-----BEGIN X-----\n{LINE[:64]}\n{LINE[64:]}\n-----END X-----",
    "PEM in one line": f"-----BEGIN X-----{LINE}-----END X-----",
    "an old PEM with headers": f"-----BEGIN X-----\nProc-Type: 4\n\n{LINE}\n-----END X-----",
    "base64": LINE,
    "base64 of Ed25519": "MC4CAQAwBQYDK2VwBCIEI" + LINE[48:90] + "=",
    "JWK": f'{{"kty":"EC","d":"{LINE[:43]}"}}',
    "short JWK": '{"kty":"OKP","d":"Ab3xKq9-Zt_w"}',
}


@pytest.mark.parametrize("before", ["", "file:", "env:", "awskms:", "exec:", "pkcs11:"])
@pytest.mark.parametrize("text", KEY_TEXTS.values(), ids=KEY_TEXTS)
def test_a_key_in_the_place_of_its_uri_is_not_repeated(text, before, es256):
    """Neither in the error, nor in what a traceback shows."""
    for attempt in (
        lambda: open_signer(before + text, access=SHUT),
        lambda: open_signer(before + text, es256.public, SHUT),
        lambda: list_public_keys(before + text, SHUT)[0],
    ):
        with pytest.raises(CardsignError) as caught:
            attempt()
        told = "".join(format_exception(caught.value.with_traceback(None)))
        told += repr(vars(caught.value))
        parts = [text[at : at + 6] for at in range(len(text) - 6)]
        assert not [part for part in parts if part in told]


@pytest.mark.parametrize(
    ("uri", "place"),
    [("file:missing.pem", "missing.pem"), ("env:CARD_KEY", "env:CARD_KEY"), ("exec:x", "exec:x")],
)
def test_a_short_uri_is_repeated(uri, place):
    """The twin: without it nobody would find what is wrong."""
    with pytest.raises(CardsignError) as caught:
        open_signer(uri, access=SHUT)
    assert caught.value.path == place


MALFORMED = {
    "a relative program": "exec:bin/sign",
    "a program with a host": "exec://host/bin/sign",
    "an unknown attribute of a program": "exec:/bin/sign?shell=1",
    "an attribute without a value": "exec:/bin/sign?arg",
    "a fragment": "exec:/bin/sign#x",
    "a space": "exec:/bin/my sign",
    "a lone percent": "exec:/bin/100%",
    "a NUL": "exec:/bin/sign%00",
    "a newline": "exec:/bin/sign?arg=a%0Ab",
    "no UTF-8": "exec:/bin/%FF",
    "too long": "exec:/" + "a" * 2048,
    "no version": "hashivault://transit/key",
    "an empty version": "hashivault://transit/key?version=",
    "version 0, the newest": "hashivault://transit/key?version=0",
    "a version that is a word": "hashivault://transit/key?version=latest",
    "two versions": "hashivault://transit/key?version=1&version=2",
    "an unknown attribute": "hashivault://transit/key?version=1&x=1",
    "no key": "hashivault://transit?version=1",
    "a way up": "hashivault://transit/../sys/key?version=1",
    "an escaped slash": "hashivault://transit%2Fsys/key?version=1",
    "an alias": "awskms:///alias/cards",
    "an alias by its ARN": "awskms:///arn:aws:kms:eu-north-1:111122223333:alias/cards",
    "an endpoint": "awskms://localhost:4566/01234567-89ab-cdef-0123-456789abcdef",
    "no id of a key": "awskms:///cards",
    "no version of Google's": "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k",
    "another resource of Google's": "gcpkms://projects/p/locations/l/keyRings/r",
    "no version of Azure's": "azurekms://cards/key",
    "somebody else's host": "azurekms://vault.example/key/0123456789abcdef0123456789abcdef",
    "a host that looks like Azure's": (
        "azurekms://cards.vault.azure.net.example/key/0123456789abcdef0123456789abcdef"
    ),
    "no token": "pkcs11:object=k",
    "no key of the token": "pkcs11:token=cards",
    "a public key object": "pkcs11:token=cards;object=k;type=public",
    "an unknown attribute of a token": "pkcs11:token=cards;object=k;slot-id=1",
    "the same attribute twice": "pkcs11:token=cards;token=other;object=k",
    "two ids": "pkcs11:token=cards;id=%01;id=%02",
    "a library": "pkcs11:token=cards;object=k?module-path=/lib.so",
    "a file with the PIN": "pkcs11:token=cards;object=k?pin-source=/pin",
    "an attribute of a token without a value": "pkcs11:token;object=k",
    "a token's name with a space": "pkcs11:token=my cards;object=k",
}


@pytest.mark.parametrize("uri", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_uri_is_refused(uri):
    """Nothing in it is passed over; it never gets as far as a store."""
    with pytest.raises(SignerFault) as caught:
        find_remote_key(uri, SHUT)
    assert caught.value.code == "signer.uri"


def test_a_pin_in_a_uri_is_refused_and_not_repeated():
    """Every user of the machine can read a command line."""
    with pytest.raises(SignerFault) as caught:
        find_remote_key("pkcs11:token=cards;object=k?pin-value=4711", SHUT)
    assert caught.value.code == "signer.uri"
    assert "4711" not in str(caught.value)


class Answering(RemoteKey):
    """A key elsewhere that answers as it is told."""

    FORM = re.compile("answering:")
    EXPECTED = "answering:"

    def __init__(self, public, answer) -> None:
        super().__init__("answering:", SHUT)
        self.public, self.answer = public, answer

    def request_public(self) -> bytes:
        return b""

    def request_signature(self, signing_input, alg) -> bytes:
        return self.answer(signing_input)


DEVIATIONS = {
    "another key's": lambda key, other, data: other.sign(data),
    "short": lambda key, other, data: key.sign(data)[:-1],
    "empty": lambda key, other, data: b"",
    "of other bytes": lambda key, other, data: key.sign(data + b"."),
}


@pytest.mark.parametrize("answer", DEVIATIONS.values(), ids=DEVIATIONS)
def test_a_wrong_answer_is_not_given_out(answer, es256, another_es256):
    """Not even to who asks the signer directly."""
    honest = Answering(es256.public, es256.sign)
    assert sign_payload(b"{}", honest, typ="JOSE") == sign_payload(b"{}", es256, typ="JOSE")
    check_possession(honest)

    wrong = Answering(es256.public, lambda data: answer(es256, another_es256, data))
    for attempt in (lambda: wrong.sign(b"input"), lambda: check_possession(wrong)):
        with pytest.raises(SignerFault) as caught:
            attempt()
        assert caught.value.code == "signer.wrong_key"


FILE = """
format = 1
allow = ["exec:/bin/sign?arg=2"]
insecure_loopback_http = true
"""


def read_policy(home: Path, text: str, mode: int = 0o600) -> SignerPolicy:
    """Write the user's own file, and read it."""
    file = home / ".config/cardsign/signers.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return user_policy({"HOME": str(home)})


def test_the_users_own_file_gives_leave(tmp_path):
    """Exactly what it lists."""
    assert read_policy(tmp_path, FILE) == SignerPolicy(
        format=1, allow=frozenset({"exec:/bin/sign?arg=2"}), insecure_loopback_http=True
    )
    assert read_policy(tmp_path, "format = 1") == SignerPolicy(format=1)
    assert user_policy({"HOME": str(tmp_path / "absent")}) == SignerPolicy(format=1)
    assert user_policy({}) == SignerPolicy(format=1)


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        pytest.param(FILE, 0o644, "file.permissions", id="readable by others"),
        pytest.param("format = ", 0o600, "config.malformed", id="no TOML"),
        pytest.param("", 0o600, "config.malformed", id="no format"),
        pytest.param("format = 2", 0o600, "config.malformed", id="another format"),
        pytest.param("format = true", 0o600, "config.malformed", id="a format that is no number"),
        pytest.param("format = 1\nalow = []", 0o600, "config.malformed", id="a misspelt member"),
        pytest.param('format = 1\nallow = "x"', 0o600, "config.malformed", id="no list"),
        pytest.param("format = 1\nallow = [1]", 0o600, "config.malformed", id="no URI"),
        pytest.param(
            'format = 1\nfolders = ["cards"]', 0o600, "config.malformed", id="no absolute path"
        ),
    ],
)
def test_a_file_that_gives_no_leave(text, mode, code, tmp_path):
    """What is not understood allows nothing; the schema of cardsign.toml is not its own."""
    with pytest.raises(CardsignError) as caught:
        read_policy(tmp_path, text, mode)
    assert caught.value.code == code
    assert "config schema" not in caught.value.hint


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"HOME": "/h"}, "/h/.config/cardsign/signers.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}, "/c/cardsign/signers.toml"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "c"}, "/h/.config/cardsign/signers.toml"),
        ({}, None),
    ],
)
def test_where_the_users_own_file_lies(environment, path):
    """Never relative to where a command is run."""
    assert user_file(environment) == (None if path is None else Path(path))


def test_each_secret_comes_from_its_own_place_and_once():
    """A passphrase is no PIN, and a PIN no token."""
    asked = []

    def prompt(question: str) -> str:
        asked.append(question)
        return "typed"

    environment = {"CARDSIGN_PASSPHRASE": "phrase", "CARDSIGN_PIN": "pin", "VAULT_TOKEN": "token"}
    told = user_secrets(PassphraseSource(environment=environment, prompt=prompt))
    assert [told(kind, "x") for kind in ("passphrase", "pin", "token")] == [
        b"phrase",
        b"pin",
        b"token",
    ]
    assert asked == []

    secrets = user_secrets(PassphraseSource(prompt=prompt))
    for kind, of in (("pin", "a"), ("pin", "a"), ("pin", "b"), ("passphrase", "a")) * 2:
        assert secrets(kind, of) == b"typed"
    assert asked == ["PIN of a: ", "PIN of b: ", "Passphrase: "]
    assert "typed" not in repr(secrets)


@pytest.mark.parametrize(("kind", "hint"), [("pin", "CARDSIGN_PIN"), ("token", "BAO_TOKEN")])
def test_a_secret_that_is_not_to_be_had(kind, hint):
    """The hint names its own place."""
    with pytest.raises(PassphraseFault, match=f"(?i)no {kind}") as caught:
        user_secrets(PassphraseSource())(kind, "the token")
    assert hint in caught.value.hint


def test_a_passphrase_serves_files_alone():
    """It is never offered as a PIN."""
    access = Access.by_passphrase(PASSPHRASE)
    assert access.secrets("passphrase", "k") == PASSPHRASE
    with pytest.raises(SignerFault) as caught:
        access.secrets("pin", "token 'cards'")
    assert caught.value.code == "signer.credentials"
