"""Recovery keys: made once, under a passphrase of their own, and not kept in a key store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cardsign.errors import PassphraseFault, StoreFault
from cardsign.files import read_bytes
from cardsign.jose.keys import PrivateKey
from cardsign.keys.envelope import DEFAULT_COST, MAX_ENVELOPE_BYTES, KeyLabel, open_envelope, seal


def make_recovery_key(
    passphrase: bytes,
    *,
    new_key: Callable[[], PrivateKey] = lambda: PrivateKey.generate("ES256"),
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = new_key()
    label = KeyLabel.of(private.public)
    data = private.to_pkcs8_der()
    return private, seal(data, passphrase, label=label, cost=DEFAULT_COST, random=random)


def open_recovery_key(file: Path, passphrase: bytes) -> PrivateKey:
    """Open a recovery key that was printed or written by ``init``.

    Raises:
        StoreFault: ``keystore.corrupt``.
        PassphraseFault: ``passphrase.wrong``.
        FileFault: It cannot be read.
    """
    data = read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        pkcs8, label = open_envelope(data, passphrase)
    except (StoreFault, PassphraseFault) as fault:
        raise type(fault)(fault.code, fault.message, path=str(file), hint=fault.hint) from fault
    private = PrivateKey.from_pkcs8_der(pkcs8, kid=label.kid)
    if KeyLabel.of(private.public) != label:
        raise StoreFault(
            "keystore.corrupt",
            "it holds another key than it says",
            path=str(file),
            hint="Restore it from a backup: cardsign keys restore FILE -i IDENTITY.",
        )
    return private
