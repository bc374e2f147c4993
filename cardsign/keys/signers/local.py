"""Private keys that this process reads by itself: ``env:NAME`` and ``file:PATH``.

A variable or file holds one private key: PEM (PKCS #8, SEC 1 or PKCS #1, encrypted or not),
PKCS #12, a JWK, or a JWK Set of which `kid` names one. A variable may hold the base64 of any of
these, as some CI systems mask only values of one line. A file may be one of a key store.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cardsign.errors import FileMissing, KeyRefused, PassphraseFault, SignerFault, of_the_user
from cardsign.files import read_secret
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.envelope import is_envelope, open_envelope
from cardsign.keys.key_files import MAX_KEY_FILE_BYTES, import_private_key, is_encrypted
from cardsign.keys.passphrase import VARIABLE as PASSPHRASE_VARIABLE
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.uri import NOT_SHOWN, is_shown, refuse_uri, shown

ENV: Final = "env"
FILE: Final = "file"

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1


def is_local(uri: str) -> bool:
    """Say whether this process reads the private key there itself."""
    return uri.partition(":")[0] in (ENV, FILE)


def read_local_key(
    uri: str, access: Access, *, kid: str | None = None, base: Path = Path()
) -> PrivateKey:
    """Read the private key that ``env:`` or ``file:`` names.

    Args:
        uri: ``env:NAME`` or ``file:PATH``.
        access: Gives the variables, and the passphrase of an encrypted key.
        kid: The published kid [default: a JWK's own, else the thumbprint].
        base: What a relative path starts from.

    Raises:
        SignerFault: ``signer.uri``; ``signer.no_key``: the variable is not set, or empty.
        UsageFault: ``key.*`` or ``json.*``: it is no private key that can sign a card.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what the secrets raise.
        FileFault: ``file.not_found``, ``file.unreadable``; ``file.permissions``: others can read
            a key that is not encrypted.
        StoreFault: ``keystore.corrupt``, ``keystore.newer_format``: a damaged file of a key store.
    """
    scheme, _, name = uri.partition(":")
    data = _variable(uri, name, access.environment) if scheme == ENV else _file(uri, base / name)

    def password() -> bytes:
        return access.secrets("passphrase", uri)

    with of_the_user(uri):
        if is_envelope(data):
            pkcs8, label = open_envelope(data, password())
            return PrivateKey.from_pkcs8_der(pkcs8, kid=kid or label.kid)
        try:
            return import_private_key(data, kid=kid, password=password)
        except PassphraseFault as fault:
            if fault.code != "passphrase.none":
                raise
            raise PassphraseFault(
                fault.code,
                "this private key is encrypted, and no passphrase was given",
                path=uri,
                hint=f"Set {PASSPHRASE_VARIABLE}, or name a file of mode 0600: "
                "--passphrase-file FILE.",
            ) from fault
        except KeyRefused as refusal:
            if scheme == ENV and b"-----BEGIN" in data and b"\n" not in data.strip():
                raise KeyRefused(
                    "key.malformed",
                    "this PEM has lost its line breaks",
                    hint=f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                    f'of base64: export {name}="$(base64 -w 0 key.pem)".',
                ) from refusal
            raise


def open_local(uri: str, public: PublicKey, access: Access, *, base: Path = Path()) -> PrivateKey:
    """Read the private key there, which must be that of `public`.

    Raises:
        SignerFault: ``signer.wrong_key``, or as :func:`read_local_key`.
        UsageFault, PassphraseFault, FileFault, StoreFault: As :func:`read_local_key`.
    """
    private = read_local_key(uri, access, kid=public.kid, base=base)
    if private.public != public:
        raise SignerFault(
            "signer.wrong_key",
            f"there is another private key, not that of {public.kid!r}",
            path=uri,
        )
    return private


def _file(uri: str, path: Path) -> bytes:
    if not uri.partition(":")[2]:
        refuse_uri(uri, "expected file:PATH, such as file:card-key.pem")
    if not is_shown(uri) and not os.path.exists(path):
        raise FileMissing(
            "file.not_found",
            f"there is no such file ({NOT_SHOWN})",
            path=shown(uri).partition(" ")[0],
            hint="file: takes the path of a key file; a key that is in a variable: env:NAME.",
        )
    return read_secret(
        path,
        max_bytes=MAX_KEY_FILE_BYTES,
        is_encrypted=lambda data: is_envelope(data) or is_encrypted(data),
    )


def _variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        raise SignerFault("signer.uri", "expected env: and the name of an environment variable")
    value = environment.get(name, "").strip()
    if not value:
        what = "is empty" if name in environment else "is not set"
        raise SignerFault(
            "signer.no_key",
            f"the environment variable {name} {what}",
            path=uri,
            hint=f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
            "and a pull request from a fork gets none.",
        )
    try:
        data = value.encode("ascii")
    except UnicodeEncodeError as exc:
        raise SignerFault(
            "signer.no_key", f"the environment variable {name} holds no key", path=uri
        ) from exc
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data
