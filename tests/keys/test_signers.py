"""A signer is opened by the URI of its custody, and what its URI may do is the user's choice."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from traceback import format_exception

import pytest

from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers import (
    Access,
    RemoteKey,
    check_possession,
    find_remote_key,
    list_public_keys,
    open_signer,
)
from tests.keys.elsewhere import SHUT, fault, refusal
from tests.keys.states import FIRST, SECOND
from tests.support import each_case


@pytest.mark.parametrize("uri", ["azure://v/k/1", "EXEC:/bin/sh", "private/a.key", "CARD_KEY", ""])
def test_another_custody_is_named_and_not_tried(uri: str) -> None:
    """Nobody is asked for a PIN, and nothing is run."""
    words = "is unknown" if uri.startswith("azure") else "without a scheme"
    attempts = (partial(open_signer, uri, FIRST.public), partial(list_public_keys, uri))
    for attempt in (*attempts, partial(find_remote_key, uri)):
        refused = fault(attempt, access=SHUT)
        assert (refused.code, refused.exit_status) == ("signer.uri", 2)
        assert (words in refused.message, "env:NAME" in refused.finding.hint) == (True, True)


@pytest.mark.parametrize("named", [{}, {"CARDSIGN_PKCS11_MODULE": "lib.so"}])
def test_a_token_without_a_library_of_the_user_is_not_reached(named: dict[str, str]) -> None:
    """No library is guessed, and a relative one would be the repository's."""
    access = Access(SHUT.secrets, environment=named)
    signer = open_signer("pkcs11:token=cards;object=k", FIRST.public, access)
    assert refusal(signer.sign, b"input", match="no PKCS#11 library") == "config.not_allowed"


HEX = "0123456789abcdef0123456789abcdef"
RING = "gcpkms://projects/p/locations/l/keyRings/r"
LIBRARIES = {
    "pkcs11": ("pkcs11", "pkcs11:token=cards;object=k"),
    "vault": ("hvac", "hashivault://transit/k?version=1"),
    "aws": ("boto3", "awskms:///01234567-89ab-cdef-0123-456789abcdef"),
    "gcp": ("google.cloud.kms", f"{RING}/cryptoKeys/k/cryptoKeyVersions/1"),
    "azure": ("azure.keyvault.keys.crypto", f"azurekms://cards/k/{HEX}"),
}


@pytest.mark.parametrize("extra", LIBRARIES)
def test_a_missing_library_is_one_helpful_line(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install."""
    module, uri = LIBRARIES[extra]
    monkeypatch.setitem(sys.modules, module, None)
    access = Access(SHUT.secrets, environment={"CARDSIGN_PKCS11_MODULE": "/lib.so"})
    missing = fault(open_signer(uri, FIRST.public, access).sign, b"input")
    assert (missing.code, module in missing.message) == ("usage.not_installed", True)
    assert f"pip install '.[{extra}]'" in missing.hint


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
def test_a_key_in_the_place_of_its_uri_is_not_repeated(text: str, before: str) -> None:
    """Neither in the error, nor in what a traceback shows."""
    uri = before + text
    attempts = (partial(open_signer, uri), partial(open_signer, uri, FIRST.public))
    for attempt in (*attempts, partial(list_public_keys, uri)):
        refused = fault(attempt, access=SHUT)
        told = "".join(format_exception(refused.with_traceback(None))) + repr(vars(refused))
        parts = [text[at : at + 6] for at in range(len(text) - 6)]
        assert not [part for part in parts if part in told]


@pytest.mark.parametrize(
    ("uri", "place"),
    [("file:missing.pem", "missing.pem"), ("env:CARD_KEY", "env:CARD_KEY"), ("exec:x", "exec:x")],
)
def test_a_short_uri_is_repeated(uri: str, place: str) -> None:
    """The twin: without it nobody would find what is wrong."""
    assert fault(open_signer, uri, access=SHUT).path == place


@each_case(__file__, "malformed", "uri")
def test_a_malformed_uri_is_refused(uri: str) -> None:
    """Nothing in it is passed over; it never gets as far as a store."""
    assert refusal(find_remote_key, uri, SHUT, match="^(?!.*4711)") == "signer.uri"
    assert refusal(find_remote_key, "exec:/" + "a" * 2048, SHUT) == "signer.uri"


class Answering(RemoteKey):
    """A key elsewhere that answers as it is told."""

    FORM = re.compile("answering:")
    EXPECTED = "answering:"

    def __init__(self, public: PublicKey, answer: Callable[[bytes], bytes]) -> None:
        super().__init__("answering:", SHUT)
        self.public, self.answer = public, answer

    def request_public(self, service: None) -> bytes:
        return b""

    def request_signature(self, service: None, signing_input: bytes) -> bytes:
        return self.answer(signing_input)


INPUT = b"eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.e30"  # ES256, and an empty object
DEVIATIONS: dict[str, Callable[[PrivateKey, PrivateKey, bytes], bytes]] = {
    "another key's": lambda key, other, data: other.sign(data),
    "short": lambda key, other, data: key.sign(data)[:-1],
    "empty": lambda key, other, data: b"",
    "of other bytes": lambda key, other, data: key.sign(data + b"."),
}


@pytest.mark.parametrize("answer", DEVIATIONS.values(), ids=DEVIATIONS)
def test_a_wrong_answer_is_not_given_out(answer: Callable[..., bytes]) -> None:
    """Not even to who asks the signer directly."""
    honest = Answering(FIRST.public, FIRST.sign)
    assert honest.sign(INPUT) == FIRST.sign(INPUT)
    check_possession(honest)
    wrong = Answering(FIRST.public, lambda data: answer(FIRST, SECOND, data))
    assert refusal(wrong.sign, INPUT) == "signer.wrong_key"
    assert refusal(check_possession, wrong) == "signer.wrong_key"
