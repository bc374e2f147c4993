"""Signers by URI: whatever holds a private half, behind the one protocol of ``jose.jws``.

A signer is bound to the stored public half, with which :func:`cardsign.jose.jws.sign_payload`
verifies its every answer: a wrong key, version or padding is found here and not by a peer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cardsign.errors import SignerFault
from cardsign.jose.jws import Signer as Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.file import Secrets as Secrets
from cardsign.keys.signers.file import open_file

PLANNED: Final = ("pkcs11", "hashivault", "awskms", "gcpkms", "azurekms", "exec")
"""The schemes that are reserved for custodies to come."""


def open_signer(uri: str, public: PublicKey, secrets: Secrets, *, base: Path) -> Signer:
    """Return the signer that `uri` names, bound to the stored public half.

    Args:
        uri: Where the private half lies; ``file:`` and a path are all that this version has.
        public: The key that the signer must turn out to hold.
        secrets: Asked for the passphrase or PIN when it is needed.
        base: The directory to which the path of a ``file:`` is relative.

    Raises:
        SignerFault: ``signer.unsupported``, or ``signer.wrong_key``.
        PassphraseFault: ``passphrase.wrong``, or whatever `secrets` raises.
        FileFault: The key file is missing, unreadable or open to others.
        StoreFault: The key file is malformed or newer.
    """
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        return open_file(base / rest, public, secrets)
    known = "is not in this version" if scheme in PLANNED else "is no scheme of a signer"
    raise SignerFault(
        "signer.unsupported", f"key {public.kid!r} lies behind `{scheme}:`, which {known}"
    )
