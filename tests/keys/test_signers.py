"""A signer is opened by the URI of its custody."""

from __future__ import annotations

import pytest

from cardsign.errors import SignerFault
from cardsign.keys.signers import open_signer


def unasked() -> bytes:
    pytest.fail("asked for a secret")


def test_the_file_is_found_below_the_store(store, es256):
    """Its path is relative; the passphrase is asked for when it is needed."""
    record = store.add(es256)
    asked = []

    def secrets() -> bytes:
        asked.append(True)
        return store.DEFAULTS["passphrase"]

    signer = open_signer(record.custody, record.public, secrets, base=store.path)

    record.public.check(b"input", signer.sign(b"input"))
    assert asked == [True]


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("pkcs11:token=cards;object=k1", "not in this version"),
        ("awskms:///alias/cards", "not in this version"),
        ("exec:/bin/sh", "not in this version"),
        ("ftp://host/key", "no scheme"),
        ("private/key.key", "no scheme"),
        ("", "no scheme"),
    ],
)
def test_another_custody_is_named_and_not_tried(uri, fault, es256, tmp_path):
    """Nobody is asked for a PIN, and nothing is run."""
    with pytest.raises(SignerFault, match=fault) as caught:
        open_signer(uri, es256.public, unasked, base=tmp_path)

    assert (caught.value.code, caught.value.exit_status) == ("signer.unsupported", 2)
