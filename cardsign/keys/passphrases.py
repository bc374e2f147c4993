"""Passphrases: where one comes from (a file, the environment, a terminal), and the keys it seals.

Never from the command line, where every user of the machine could read it. The bytes are taken as
they come, without Unicode normalization: the UTF-8 that a terminal or an editor gives. A
passphrase that is typed on several machines is best in ASCII.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cardsign.card.strictjson import parse_object
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, StoreFault
from cardsign.files import read_secret
from cardsign.jose.jwk import decode_base64url, encode_base64url
from cardsign.jose.keys import PrivateKey, PublicKey

PASSPHRASE_VARIABLE: Final = "CARDSIGN_PASSPHRASE"  # noqa: S105, where it is
MIN_BYTES: Final = 8  # for new keys: scrypt makes each guess dear, but cannot save a short one
MAX_FILE_BYTES: Final = 4 * 1024  # a longer file is not the one that was meant

#: Asks a question on the terminal; returns what was typed, without echo or newline.
Prompt = Callable[[str], str]


def terminal_prompt() -> Prompt | None:
    """Return a prompt if a person sits there: standard input and error are both terminals."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The places to look at, in this order; the first that is named decides.

    Attributes:
        file: A file (or pipe) that only its owner can read. Of it, as of a variable, the first line
            counts.
        environment: Where `variable` is looked up; nothing else of it is read.
        prompt: Asked last; None where there is no terminal.
    """

    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    prompt: Prompt | None = None
    variable: str = PASSPHRASE_VARIABLE


def read_passphrase(
    source: PassphraseSource, *, question: str = "Passphrase: ", is_new: bool = False
) -> bytes:
    """Return a passphrase; for something that is to be made, a terminal is asked for it twice.

    Raises:
        PassphraseFault: ``passphrase.none``, also for an empty one: a job that lacks its secret;
            ``passphrase.unfit``: a new one is too short, or not the same twice.
        FileFault: The file cannot be read, or is open to others.
    """
    place = str(source.file or source.variable)
    if source.file is not None:
        content = read_secret(source.file, max_bytes=MAX_FILE_BYTES)
    elif source.variable in source.environment:
        content = os.fsencode(source.environment[source.variable])
    else:
        place, content = "", ask(source.prompt, question)
    passphrase = content.partition(b"\n")[0].removesuffix(b"\r")  # as an editor or CI ends it
    if is_new:
        check_strength(passphrase, place)
        if not place and ask(source.prompt, "The same again: ") != passphrase:
            hint = "Type the same one twice."
            raise PassphraseFault("passphrase.unfit", "the two passphrases differ", hint=hint)
    if not passphrase:
        place = place or question.removesuffix(": ")
        message = f"the passphrase{f' in {source.file}' if source.file else ''} is empty"
        raise PassphraseFault("passphrase.none", message, path=place)
    return passphrase


def check_strength(passphrase: bytes, source: str = "") -> None:
    """Refuse (``passphrase.unfit``) what is too short for a new key; its strength is unknown."""
    if len(passphrase) < MIN_BYTES:
        message = f"the passphrase is shorter than {MIN_BYTES} characters"
        raise PassphraseFault("passphrase.unfit", message, path=source)


def ask(prompt: Prompt | None, question: str, *, name: str = "passphrase", hint: str = "") -> bytes:
    """Return what a person types; ``passphrase.none`` where nobody does."""
    problem = "was given, and there is no terminal to ask on"
    if prompt is not None:
        problem = "could be read there"
        with suppress(EOFError, UnicodeError):
            return os.fsencode(prompt(question))
    place = question.removesuffix(": ")
    raise PassphraseFault("passphrase.none", f"no {name} {problem}", path=place, hint=hint)


# Sealed private keys, as a key store holds them: scrypt over a passphrase, then AES-256-GCM.
#
#     {"format": 1, "kid": ..., "alg": ..., "thumbprint": ...,
#      "kdf": {"name": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": ...},
#      "cipher": "AES-256-GCM", "nonce": ..., "ciphertext": ...}
#
# Byte strings are unpadded base64url. The plaintext is PKCS#8 DER. Every member but
# `ciphertext` is associated data, so a file cannot be given another kid, alg or cost
# without the passphrase: an altered file opens as little as a wrong passphrase does, and
# the two cannot be told apart.


FORMAT: Final = 1
MAX_ENVELOPE_BYTES: Final = 16 * 1024  # bytes; an RSA key of 8192 bits takes some 7 KiB

#: What one guess at a passphrase costs (RFC 7914), by OWASP's guidance: some 0.7 s and 128 MiB.
SCRYPT_N: Final = 2**17
_R: Final = 8
_P: Final = 1
#: What a file may ask for: no more memory than ours take.
_COSTS: Final = frozenset(2**power for power in range(1, 18))
_NONCE_BYTES: Final = 12  # NIST SP 800-38D 8.2; the key is fresh with each salt


def seal(private: PrivateKey, passphrase: bytes) -> bytes:
    """Return the envelope around a private key, as the bytes of its file.

    Its label is bound to the key, and readable without the passphrase. Not checked: that the
    passphrase is long enough.
    """
    salt, nonce = os.urandom(16), os.urandom(_NONCE_BYTES)
    members = _bound_members(label_of(private.public), SCRYPT_N, salt, nonce)
    cipher = AESGCM(_derive(passphrase, salt, SCRYPT_N))
    sealed = cipher.encrypt(nonce, private.to_pkcs8_der(), _canonical(members))
    document = {**members, "ciphertext": encode_base64url(sealed)}
    return (json.dumps(document, indent=2) + "\n").encode("ascii")


def open_envelope(untrusted_bytes: bytes, passphrase: bytes) -> PrivateKey:
    """Return the private key in an envelope, which is the one that its label names.

    Raises:
        PassphraseFault: ``passphrase.wrong``: not this passphrase, or the file was changed.
        StoreFault: ``keystore.newer_format``, or ``keystore.corrupt``: malformed, or of an
            unreasonable cost, which is refused before any of it is spent.
        SignerFault: ``signer.wrong_key``: the envelope holds another key, or none that we accept.
    """
    try:
        document = parse_object(untrusted_bytes, max_bytes=MAX_ENVELOPE_BYTES, max_depth=2)
        members = dict[str, Any](document)
        version = members.get("format")
        if type(version) is int and version > FORMAT:
            raise StoreFault("keystore.newer_format", f"this key file is of format {version}")
        ciphertext = decode_base64url(members.pop("ciphertext"))
        nonce = decode_base64url(members["nonce"])
        n, salt = int(members["kdf"]["n"]), decode_base64url(members["kdf"]["salt"])
        label = {name: str(members[name]) for name in ("kid", "alg", "thumbprint")}
        bound = _canonical(_bound_members(label, n, salt, nonce))
        if _canonical(members) != bound or n not in _COSTS or len(nonce) != _NONCE_BYTES:
            raise ValueError("these members are not what is written here")
    except (JsonRefused, ValueError, KeyError, TypeError, AttributeError) as exc:
        message = f"this is not a sealed key of format {FORMAT}, or it costs too much to open"
        raise StoreFault("keystore.corrupt", message) from exc
    try:
        pkcs8 = AESGCM(_derive(passphrase, salt, n)).decrypt(nonce, ciphertext, bound)
    except InvalidTag as exc:
        message = f"the passphrase does not open key `{label['kid']}`, or its file was changed"
        raise PassphraseFault("passphrase.wrong", message) from exc
    with suppress(KeyRefused):
        private = PrivateKey.from_pkcs8_der(pkcs8, kid=label["kid"])
        if label_of(private.public) == label:
            return private
    message = f"the key file of {label['kid']!r} does not hold that private key"
    raise SignerFault("signer.wrong_key", message)


def label_of(public: PublicKey) -> dict[str, str]:
    """Return the members of an envelope that say which key it holds."""
    return {"kid": public.kid, "alg": public.alg, "thumbprint": public.thumbprint}


def _bound_members(label: Mapping[str, str], n: int, salt: bytes, nonce: bytes) -> dict[str, Any]:
    """Return the members of an envelope but the ciphertext, to which they are bound."""
    kdf = {"name": "scrypt", "n": n, "r": _R, "p": _P, "salt": encode_base64url(salt)}
    bound = {"format": FORMAT, **label, "kdf": kdf}
    return {**bound, "cipher": "AES-256-GCM", "nonce": encode_base64url(nonce)}


def _canonical(members: Mapping[str, Any]) -> bytes:
    """Return members as text, in which ``1``, ``1.0`` and ``true`` differ, for associated data."""
    # Members and values are ASCII and integers (a kid is printable ASCII, the rest is ours). For
    # such, this is the text that JCS (RFC 8785) gives.
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def _derive(passphrase: bytes, salt: bytes, n: int) -> bytes:
    return Scrypt(salt=salt, length=32, n=n, r=_R, p=_P).derive(passphrase)
