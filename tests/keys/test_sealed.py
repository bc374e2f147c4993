"""An envelope opens with its passphrase, unaltered, and in no other way."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.keys.sealed import MAX_ENVELOPE_BYTES, SCRYPT_N, open_envelope, open_sealed, seal
from tests.keys.elsewhere import fault, refusal
from tests.keys.states import FIRST, SECOND
from tests.support import cheap_envelopes, dump, edited

LABEL = {"kid": "card-2026", "alg": "ES256", "thumbprint": "t" * 43}
SECRET = b"a private key that must not be seen"


def sealed(passphrase: bytes = b"passphrase", *, secret: bytes = SECRET, **label: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        cheap_envelopes(patch)
        return seal(secret, passphrase, SimpleNamespace(**{**LABEL, **label}))  # type: ignore[arg-type]


def altered(path: str, value: Any) -> bytes:
    """An envelope of which one member has been replaced, or with None taken out."""
    return dump(edited(json.loads(sealed()), [(path,) if value is None else (path, value)]))


@given(
    st.binary(min_size=1), st.binary(), st.text(st.characters(min_codepoint=32, max_codepoint=126))
)
def test_what_was_sealed_comes_out(passphrase: bytes, secret: bytes, kid: str) -> None:
    """Any bytes, under any passphrase and kid."""
    envelope = sealed(passphrase, secret=secret, kid=kid, alg="RS256")
    assert open_envelope(envelope, passphrase) == (secret, {**LABEL, "kid": kid, "alg": "RS256"})


def test_the_file_is_readable_and_says_its_format() -> None:
    """Its members are those of the documentation, its cost OWASP's; the secret is not in it."""
    document, other = json.loads(sealed()), json.loads(sealed())
    assert {**LABEL, "format": 1}.items() <= document.items()
    kdf = document["kdf"]
    assert (SCRYPT_N, kdf["name"], kdf["r"], kdf["p"]) == (2**17, "scrypt", 8, 1)
    assert SECRET not in sealed()
    assert (kdf["salt"] != other["kdf"]["salt"], document["nonce"] != other["nonce"]) == (True,) * 2


@pytest.mark.parametrize("passphrase", [b"", b"Passphrase", b"passphrase ", b"passphrase\n"])
def test_a_wrong_passphrase_opens_nothing(passphrase: bytes) -> None:
    """Close is not enough."""
    wrong = fault(open_envelope, sealed(), passphrase)
    assert (wrong.code, wrong.exit_status) == ("passphrase.wrong", 2)


ALTERED = {
    **{"/kid": "card-2027", "/alg": "RS256", "/thumbprint": "u" * 43, "/kdf/n": 4},
    **{"/kdf/salt": "A" * 22, "/nonce": "A" * 16, "/ciphertext": "A" * 80},
}


@pytest.mark.parametrize(("path", "value"), [*ALTERED.items(), ("/ciphertext", "")])
def test_an_altered_file_does_not_open(path: str, value: Any) -> None:
    """Every member is bound; the alteration looks like a wrong passphrase."""
    words = "or its file was changed"
    code = refusal(open_envelope, altered(path, value), b"passphrase", match=words)
    assert code == "passphrase.wrong"


MALFORMED: dict[str, list[Any]] = {
    **{"/kid": [None, 1], "/thumbprint": [None], "/extra": ["member"]},
    **{"/format": [None, 0, "1", True], "/kdf": ["scrypt"], "/kdf/name": ["argon2id"]},
    **{"/kdf/salt": [None, "AA=="], "/kdf/extra": [1], "/cipher": ["AES-256-CBC", "NONE"]},
    **{"/nonce": ["AA", "+" * 16], "/ciphertext": [[1]]},
    # An unreasonable cost, too.
    "/kdf/n": ["2", 2.0, True, 2**30, 2**18, 3, 1, 0, -2],
    **{"/kdf/r": [9, 0, 2**30, 8.0], "/kdf/p": [2, 0, True]},
}
FILES = [altered(path, value) for path, values in MALFORMED.items() for value in values]
FILES += [b"", b"{", b"[]", b'{"format": 1, "format": 1}', b"0\x82"]
FILES += [b" " * (MAX_ENVELOPE_BYTES + 1)]


@pytest.mark.parametrize("untrusted_bytes", FILES, ids=range(len(FILES)))
def test_a_malformed_file_is_refused(
    untrusted_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the key derivation is so much as prepared; no fallback to a weaker reading."""
    monkeypatch.setattr("cardsign.keys.sealed.Scrypt", lambda **_: pytest.fail("a derivation"))
    refused = fault(open_envelope, untrusted_bytes, b"passphrase")
    assert (refused.code, refused.exit_status) == ("keystore.corrupt", 2)


def test_an_envelope_opens_for_its_own_key_alone() -> None:
    """Neither under another label, nor with another private key beneath its own."""
    ours, theirs = FIRST.to_pkcs8_der(), SECOND.to_pkcs8_der()
    honest = seal(ours, b"passphrase", FIRST.public)
    assert open_sealed(honest, FIRST.public, b"passphrase", where="x").public == FIRST.public
    others = ((ours, SECOND), (theirs, FIRST), (b"no key", FIRST))
    for secret, label in others:
        envelope = seal(secret, b"passphrase", label.public)
        code = refusal(open_sealed, envelope, FIRST.public, b"passphrase", where="x")
        assert code == "signer.wrong_key"


def test_a_newer_format_is_not_guessed_at() -> None:
    """The person is told to upgrade, not that the file is broken."""
    assert refusal(open_envelope, altered("/format", 2), b"passphrase") == "keystore.newer_format"


@given(st.binary())
def test_random_bytes_raise_only_our_errors(untrusted_bytes: bytes) -> None:
    """Whatever the file holds, a person gets a code."""
    assert refusal(open_envelope, untrusted_bytes, b"passphrase") == "keystore.corrupt"
