"""An envelope opens with its passphrase, unaltered, and in no other way."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import CardsignError, PassphraseFault, StoreFault
from cardsign.keys.sealed import (
    MAX_ENVELOPE_BYTES,
    SCRYPT_N,
    open_envelope,
    seal,
)
from tests.support import cheap_envelopes

LABEL = {"kid": "card-2026", "alg": "ES256", "thumbprint": "t" * 43}
SECRET = b"a private key that must not be seen"


class Untouchable:
    """A key derivation that must not be reached."""

    def __init__(self, **_: object) -> None:
        pytest.fail("the key derivation was reached")


class Starved:
    """A key derivation on a machine without memory."""

    def __init__(self, **_: object) -> None: ...

    def derive(self, _: bytes) -> bytes:
        raise MemoryError


def sealed(passphrase: bytes = b"passphrase", *, secret: bytes = SECRET, **label: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        cheap_envelopes(patch)
        return seal(secret, passphrase, SimpleNamespace(**{**LABEL, **label}))


def edited(path: str, value: Any) -> bytes:
    """An envelope of which one member, `kdf.n` say, has been replaced."""
    document = json.loads(sealed())
    *parents, name = path.split(".")
    place = document
    for parent in parents:
        place = place[parent]
    if value is None:
        del place[name]
    else:
        place[name] = value
    return json.dumps(document).encode()


@given(
    st.binary(min_size=1), st.binary(), st.text(st.characters(min_codepoint=32, max_codepoint=126))
)
def test_what_was_sealed_comes_out(passphrase, secret, kid):
    """Any bytes, under any passphrase and kid."""
    envelope = sealed(passphrase, secret=secret, kid=kid, alg="RS256")

    assert open_envelope(envelope, passphrase) == (secret, {**LABEL, "kid": kid, "alg": "RS256"})


def test_the_file_is_readable_and_says_its_format():
    """Its members are those of the documentation; the secret is not among them."""
    document = json.loads(sealed())

    assert document["format"] == 1
    assert (document["kid"], document["alg"]) == (LABEL["kid"], LABEL["alg"])
    assert document["kdf"].keys() == {"name", "n", "r", "p", "salt"}
    assert SECRET not in sealed()


def test_two_envelopes_share_neither_salt_nor_nonce():
    """So the same passphrase never gives the same key and nonce."""
    one, other = json.loads(sealed()), json.loads(sealed())

    assert one["kdf"]["salt"] != other["kdf"]["salt"]
    assert one["nonce"] != other["nonce"]


@pytest.mark.parametrize(
    "passphrase", [b"", b"Passphrase", b"passphrase ", b"passphrase\n", b"passphras"]
)
def test_a_wrong_passphrase_opens_nothing(passphrase):
    """Close is not enough."""
    with pytest.raises(PassphraseFault) as caught:
        open_envelope(sealed(), passphrase)

    assert caught.value.code == "passphrase.wrong"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kid", "card-2027"),
        ("alg", "RS256"),
        ("thumbprint", "u" * 43),
        ("kdf.n", 4),
        ("kdf.salt", "A" * 22),
        ("nonce", "A" * 16),
        ("ciphertext", "A" * 80),
        ("ciphertext", ""),
    ],
)
def test_an_altered_file_does_not_open(path, value):
    """Every member is bound; the alteration looks like a wrong passphrase."""
    with pytest.raises(PassphraseFault) as caught:
        open_envelope(edited(path, value), b"passphrase")

    assert caught.value.code == "passphrase.wrong"
    assert "or its file was changed" in caught.value.message


def test_the_private_half_of_one_key_cannot_pass_for_another():
    """All that is encrypted of one file, under the label of the other, opens nothing."""
    one = json.loads(sealed())
    other = json.loads(sealed(kid="card-2027", thumbprint="u" * 43))
    mixed = {**one, **{name: other[name] for name in ("kdf", "nonce", "ciphertext")}}

    with pytest.raises(PassphraseFault):
        open_envelope(json.dumps(mixed).encode(), b"passphrase")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kid", None),
        ("kid", 1),
        ("thumbprint", None),
        ("extra", "member"),
        ("format", None),
        ("format", 0),
        ("format", "1"),
        ("format", True),
        ("kdf", "scrypt"),
        ("kdf.name", "argon2id"),
        ("kdf.salt", None),
        ("kdf.salt", "AA=="),
        ("kdf.extra", 1),
        ("kdf.n", "2"),
        ("kdf.n", 2.0),
        ("cipher", "AES-256-CBC"),
        ("cipher", "NONE"),
        ("nonce", "AA"),
        ("nonce", "+" * 16),
        ("ciphertext", [1]),
    ],
)
def test_a_malformed_file_is_refused(path, value):
    """Before the passphrase is tried; no fallback to a weaker reading."""
    with pytest.raises(StoreFault) as caught:
        open_envelope(edited(path, value), b"passphrase")

    assert caught.value.code == "keystore.corrupt"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "untrusted_bytes",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="half-written"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"format": 1, "format": 1}', id="a member twice"),
        pytest.param(b" " * (MAX_ENVELOPE_BYTES + 1), id="too large"),
        pytest.param(b"\x30\x82\x01", id="DER"),
    ],
)
def test_what_is_no_envelope_is_refused(untrusted_bytes):
    """As a damaged file, not as a wrong passphrase."""
    with pytest.raises(StoreFault) as caught:
        open_envelope(untrusted_bytes, b"passphrase")

    assert caught.value.code == "keystore.corrupt"


def test_a_newer_format_is_not_guessed_at():
    """The person is told to upgrade, not that the file is broken."""
    with pytest.raises(StoreFault) as caught:
        open_envelope(edited("format", 2), b"passphrase")

    assert caught.value.code == "keystore.newer_format"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kdf.n", 2**30),
        ("kdf.n", 2**18),
        ("kdf.n", 3),
        ("kdf.n", 1),
        ("kdf.n", 0),
        ("kdf.n", -2),
        ("kdf.r", 9),
        ("kdf.r", 0),
        ("kdf.r", 2**30),
        ("kdf.p", 2),
        ("kdf.p", 0),
    ],
)
def test_a_file_cannot_ask_for_an_unreasonable_cost(path, value, monkeypatch):
    """The bomb is refused before the key derivation is so much as prepared."""
    bomb = edited(path, value)
    monkeypatch.setattr("cardsign.keys.sealed.Scrypt", Untouchable)

    with pytest.raises(StoreFault) as caught:
        open_envelope(bomb, b"passphrase")

    assert caught.value.code == "keystore.corrupt"


def test_memory_that_cannot_be_had_is_no_traceback(monkeypatch):
    """A small machine says so."""
    envelope = sealed()
    monkeypatch.setattr("cardsign.keys.sealed.Scrypt", Starved)

    with pytest.raises(StoreFault, match="cannot be had"):
        open_envelope(envelope, b"passphrase")


def test_the_default_cost_is_what_the_guidance_asks_for():
    """OWASP's scrypt parameters: N=2^17, r=8, p=1."""
    kdf = json.loads(sealed())["kdf"]
    assert (SCRYPT_N, kdf["name"], kdf["r"], kdf["p"]) == (2**17, "scrypt", 8, 1)


@given(st.binary())
def test_random_bytes_raise_only_our_errors(untrusted_bytes):
    """Whatever the file holds, a person gets a code."""
    with pytest.raises(CardsignError):
        open_envelope(untrusted_bytes, b"passphrase")
