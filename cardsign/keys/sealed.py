"""Sealed private keys, as a key store holds them: scrypt over a passphrase, then AES-256-GCM.

::

    {"format": 1, "kid": ..., "alg": ..., "thumbprint": ...,
     "kdf": {"name": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": ...},
     "cipher": "AES-256-GCM", "nonce": ..., "ciphertext": ...}

Byte strings are unpadded base64url. The plaintext is PKCS#8 DER. Every member but
``ciphertext`` is associated data, so a file cannot be given another kid, alg or cost
without the passphrase: an altered file opens as little as a wrong passphrase does, and
the two cannot be told apart.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, StoreFault
from cardsign.jose import base64url
from cardsign.jose.keys import PrivateKey, PublicKey

FORMAT: Final = 1
CIPHER: Final = "AES-256-GCM"
MAX_ENVELOPE_BYTES: Final = 16 * 1024  # bytes; an RSA key of 8192 bits takes some 7 KiB

#: What one guess at a passphrase costs (RFC 7914), by OWASP's guidance: some 0.7 s and 128 MiB.
SCRYPT_N: Final = 2**17
_SCRYPT: Final = ("scrypt", 8, 1)  # its name, r and p
#: What a file may ask for: no more memory than ours take.
_COSTS: Final = frozenset(2**power for power in range(1, 18))

_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12  # NIST SP 800-38D 8.2; the key is fresh with each salt
_MAX_DEPTH: Final = 2

_LABEL: Final = ("kid", "alg", "thumbprint")
_FORM: Final = {
    **{"format": int, "kid": str, "alg": str, "thumbprint": str, "kdf": dict},
    **{"cipher": str, "nonce": str, "ciphertext": str},
}
_KDF_FORM: Final = {"name": str, "n": int, "r": int, "p": int, "salt": str}


def label_of(public: PublicKey) -> dict[str, str]:
    """Return the members of an envelope that say which key it holds."""
    return {"kid": public.kid, "alg": public.alg, "thumbprint": public.thumbprint}


def seal(pkcs8: bytes, passphrase: bytes, public: PublicKey) -> bytes:
    """Return the envelope around a private key (PKCS#8 DER), as the bytes of its file.

    The label of `public` is bound to the key, and readable without the passphrase. Not checked:
    that the passphrase is long enough.
    """
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    name, r, p = _SCRYPT
    kdf = {"name": name, "n": SCRYPT_N, "r": r, "p": p, "salt": base64url.encode(salt)}
    members: dict[str, Any] = {
        **{"format": FORMAT, **label_of(public), "kdf": kdf},
        **{"cipher": CIPHER, "nonce": base64url.encode(nonce)},
    }
    cipher = AESGCM(_derive(passphrase, salt, SCRYPT_N))
    ciphertext = cipher.encrypt(nonce, pkcs8, _canonical(members))
    members["ciphertext"] = base64url.encode(ciphertext)
    return (json.dumps(members, indent=2) + "\n").encode("ascii")


def open_envelope(untrusted_bytes: bytes, passphrase: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the private key (PKCS#8 DER) and the label that is bound to it.

    Not checked: that the label is the one expected, or that the private key is that key's; see
    :func:`open_sealed`.

    Raises:
        PassphraseFault: ``passphrase.wrong``: not this passphrase, or the file was changed.
        StoreFault: ``keystore.newer_format``, or ``keystore.corrupt``: malformed, or of an
            unreasonable cost, which is refused before any of it is spent.
    """
    members = _read_members(untrusted_bytes)
    kdf = members["kdf"]
    try:
        salt, nonce = base64url.decode(kdf["salt"]), base64url.decode(members["nonce"])
        ciphertext = base64url.decode(members.pop("ciphertext"))
    except base64url.Base64urlError as exc:
        raise _malformed("salt, nonce or ciphertext is not base64url") from exc
    is_known = (kdf["name"], kdf["r"], kdf["p"]) == _SCRYPT and kdf["n"] in _COSTS
    if not is_known or members["cipher"] != CIPHER or len(nonce) != _NONCE_BYTES:
        raise _malformed(f"expected scrypt at most at our cost, {CIPHER} and its nonce")
    try:
        cipher = AESGCM(_derive(passphrase, salt, kdf["n"]))
        pkcs8 = cipher.decrypt(nonce, ciphertext, _canonical(members))
    except InvalidTag as exc:
        message = f"the passphrase does not open key `{members['kid']}`, or its file was changed"
        raise PassphraseFault("passphrase.wrong", message) from exc
    return pkcs8, {name: members[name] for name in _LABEL}


def open_sealed(
    untrusted_bytes: bytes, public: PublicKey, passphrase: bytes, *, where: str
) -> PrivateKey:
    """Return the private key in an envelope, which must be that of `public`.

    Raises:
        SignerFault: ``signer.wrong_key``: the envelope is, or holds, another key's.
        StoreFault, PassphraseFault: As :func:`open_envelope`.
    """
    pkcs8, label = open_envelope(untrusted_bytes, passphrase)
    try:
        private = PrivateKey.from_pkcs8_der(pkcs8, kid=public.kid)
    except KeyRefused as exc:
        message = f"the key file holds no acceptable private key: {exc.message}"
        raise SignerFault("signer.wrong_key", message, path=where) from exc
    if label != label_of(public) or private.public != public:
        message = f"the key file holds key {label['kid']!r}, not the private key of {public.kid!r}"
        raise SignerFault("signer.wrong_key", message, path=where)
    return private


def _read_members(untrusted_bytes: bytes) -> dict[str, Any]:
    """Parse the file as a strict object of exactly our members, types and format."""
    try:
        members: dict[str, Any] = {
            **parse_object(untrusted_bytes, max_bytes=MAX_ENVELOPE_BYTES, max_depth=_MAX_DEPTH)
        }
    except JsonRefused as exc:
        raise _malformed(f"not strict JSON: {exc.message}") from exc
    version = members.get("format")
    if type(version) is int and version > FORMAT:
        raise StoreFault("keystore.newer_format", f"this key file is of format {version}")
    # Types are compared themselves, as a bool is an int as well.
    if {name: type(value) for name, value in members.items()} != _FORM or version != FORMAT:
        raise _malformed(f"its members are not those of format {FORMAT}")
    if {name: type(value) for name, value in members["kdf"].items()} != _KDF_FORM:
        raise _malformed("`kdf` is not an object of scrypt and its parameters")
    return members


def _canonical(members: Mapping[str, Json]) -> bytes:
    """Return the associated data: every member but the ciphertext."""
    # Members and values are ASCII and integers (a kid is printable ASCII, the rest is ours). For
    # such, this is the text that JCS (RFC 8785) gives.
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def _derive(passphrase: bytes, salt: bytes, n: int) -> bytes:
    _, r, p = _SCRYPT
    try:
        return Scrypt(salt=salt, length=_KEY_BYTES, n=n, r=r, p=p).derive(passphrase)
    except MemoryError as exc:
        needed = 128 * n * r // 2**20
        raise _malformed(f"opening it takes {needed} MiB of memory, more than there is") from exc


def _malformed(message: str) -> StoreFault:
    hint = "Put back the copy that you keep of it."
    return StoreFault("keystore.corrupt", message, hint=hint)
