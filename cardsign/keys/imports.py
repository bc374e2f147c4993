"""Keys that were made elsewhere, or go there: PEM, PKCS #12 and JWK, in a file or a variable.

Each is read as what it is, by cryptography and joserfc, or refused with what to do about it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import PublicKeyAlgorithmOID

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, of_the_user
from cardsign.files import read_secret
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.jwk import (
    PRIVATE_LABELS,
    is_for_pss,
    pem_blocks,
    pem_labels,
    pss_refusal,
    refuse_pss,
)
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey, read_jwks
from cardsign.keys.secrets import Access

MAX_KEY_FILE_BYTES: Final = 64 * 1024  # bytes; a key with its certificates has some 10 KiB

# What to do about an input, by what it is.
_DER: Final = "From DER: openssl pkey -inform DER -in FILE -out FILE.pem; -pubin for a public key."
_OPENSSH: Final = (
    "ssh-keygen -p -m PKCS8 -f COPY converts an RSA or ECDSA key. For Ed25519 make another: "
    "openssl genpkey -algorithm ed25519 -out card-key.pem."
)
_MAKE: Final = (
    "Make one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out card-key.pem."
)
_ENCRYPT_ANEW: Final = "Encrypt it anew: openssl pkey -in FILE -aes256 -out FILE.new."
_PUBLIC: Final = f"It is a public key: store the private one. {_MAKE}"
_MAX_LABELS: Final = 60  # characters of what a PEM says it holds


def import_private_key(
    data: bytes, *, kid: str | None = None, password: Callable[[], bytes] | None = None
) -> PrivateKey:
    """Read a private key for ES256, RS256 or EdDSA.

    A JWK keeps its own kid, under which peers look the key up; otherwise the kid is the
    thumbprint.

    It may be PEM (PKCS #8, SEC 1 or PKCS #1, encrypted or not; certificates beside the key are
    passed over), PKCS #12 (RFC 7292), one private JWK, or a JWK Set of which `kid` names one.

    Raises:
        KeyRefused: ``key.malformed`` (also a public key, a certificate, a JWK Set of several
            keys without `kid`, DER, or something else), ``key.unsupported``, ``key.weak_rsa``,
            ``key.use``, ``key.alg_mismatch``.
        JsonRefused: A JWK that is not strict JSON.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what `password` raises.
    """
    if data.lstrip().startswith(b"{"):
        return _import_jwk(data, kid)
    read = _import_pem if b"-----BEGIN " in data else _import_pkcs12
    try:
        return read(data, None, kid)
    except PassphraseFault:
        if password is None:
            raise
    return read(data, password(), kid)


def _import_pem(data: bytes, password: bytes | None, kid: str | None) -> PrivateKey:
    labels = pem_labels(data)
    if sum(label in PRIVATE_LABELS for label in labels) != 1:
        content = f"a PEM of: {', '.join(labels).lower()[:_MAX_LABELS] or 'nothing'}"
        hint = _OPENSSH if "OPENSSH PRIVATE KEY" in labels else _MAKE
        raise _refused(content, _PUBLIC if "PUBLIC KEY" in labels else hint)
    for label, der in pem_blocks(data):
        if label == "ENCRYPTED PRIVATE KEY":
            _refuse_costly(der)
    key = PrivateKey.from_pem(data, password, kid=kid)
    if key.public.alg == "RS256":
        refuse_pss(data)
        for label, der in pem_blocks(data):
            if label == "ENCRYPTED PRIVATE KEY" and is_for_pss(_decrypt(der, password or b"")):
                raise pss_refusal()
    return key


_INTEGER: Final = 0x02  # tags of DER
_OCTETS: Final = 0x04
_NAME: Final = 0x06
# Object identifiers by which an encrypted PKCS #8 says how to open it (PBES2, RFC 8018), in DER.
_SCRYPT: Final = bytes.fromhex("2b06010401da47040b")
#: What it may cost to open one; OpenSSL itself writes 2,048 rounds, other tools up to a million.
_MAX_ROUNDS: Final = 10_000_000
_MAX_SCRYPT_BYTES: Final = 1024**3
_HASHES: Final[Mapping[bytes, Callable[[], hashes.HashAlgorithm]]] = {
    b"": hashes.SHA1,  # RFC 8018 A.2: the default
    bytes.fromhex("2a864886f70d0207"): hashes.SHA1,
    bytes.fromhex("2a864886f70d0209"): hashes.SHA256,
    bytes.fromhex("2a864886f70d020a"): hashes.SHA384,
    bytes.fromhex("2a864886f70d020b"): hashes.SHA512,
}
_CIPHERS: Final = {
    bytes.fromhex("608648016503040102"): (AES, 16),
    bytes.fromhex("608648016503040116"): (AES, 24),
    bytes.fromhex("60864801650304012a"): (AES, 32),
    bytes.fromhex("2a864886f70d0307"): (TripleDES, 24),
}


def _refuse_costly(der: bytes) -> None:
    """Refuse a PKCS #8 or PKCS #12 that would take minutes, or all memory, to open.

    Wherever a key is derived from a passphrase, the costs follow the salt: the rounds, or what
    scrypt calls N, r and p; the length of the key may come after them.
    """
    runs: list[list[int]] = []
    is_after_salt = False
    for tag, content in _primitives(der, nested=True):
        if tag == _OCTETS:
            runs.append([])
            is_after_salt = True
        elif tag == _INTEGER and is_after_salt:
            runs[-1].append(int.from_bytes(content))
        elif tag:  # else the end of a value whose length was not said
            is_after_salt = False
    # Together: a PKCS #12 may hold hundreds of parts, each with a key of its own.
    rounds = sum(costs[0] for costs in runs if 0 < len(costs) < 3)
    scrypt_bytes = sum(128 * math.prod(costs[:3]) for costs in runs if len(costs) > 2)
    if rounds > _MAX_ROUNDS or scrypt_bytes > _MAX_SCRYPT_BYTES:
        message = "to open this encrypted key costs more than any honest one does"
        raise KeyRefused("key.unsupported", message, hint=_ENCRYPT_ANEW)


def _decrypt(der: bytes, password: bytes) -> bytes:
    """Return the content of an encrypted PKCS #8, which cryptography has opened by `password`.

    cryptography does not say what an RSA key in it is for.
    """
    values: dict[int, list[bytes]] = {}
    for tag, content in _primitives(der):
        values.setdefault(tag, []).append(content)
    names = values.get(_NAME, [b""])
    numbers = [int.from_bytes(number) for number in values.get(_INTEGER, ())]
    hash_name = names[2] if len(names) > 3 else b""
    if names[-1] not in _CIPHERS or hash_name not in _HASHES:
        message = "an RSA key that is encrypted in this way may be for RSASSA-PSS alone"
        raise KeyRefused("key.unsupported", message, hint=_ENCRYPT_ANEW)
    salt, initial, ciphertext = values[_OCTETS]
    algorithm, size = _CIPHERS[names[-1]]
    if names[1] == _SCRYPT:
        n, r, p = numbers[:3]
        key = Scrypt(salt=salt, length=size, n=n, r=r, p=p).derive(password)
    else:
        key = PBKDF2HMAC(_HASHES[hash_name](), size, salt, numbers[0]).derive(password)
    return Cipher(algorithm(key), CBC(initial)).decryptor().update(ciphertext)


def _primitives(
    der: bytes, depth: int = 64, *, nested: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each primitive value in DER.

    With `nested` also what is in an OCTET STRING, and then that itself. The DER need not be
    well-formed.

    Raises:
        KeyRefused: ``key.unsupported``: it is deeper than any certificate; OpenSSL follows it.
    """
    if not depth:
        message = "this encrypted key is nested deeper than any honest one"
        raise KeyRefused("key.unsupported", message, hint=_ENCRYPT_ANEW)
    while len(der) > 1:
        tag, size, start = der[0], der[1], 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(der[2:start])
        content, der = der[start : start + size], der[start + size :]
        if tag & 0x20 or (nested and tag == _OCTETS and content.startswith(b"\x30")):
            yield from _primitives(content, depth - 1, nested=nested)
        if not tag & 0x20:
            yield tag, content


def _import_pkcs12(data: bytes, password: bytes | None, kid: str | None) -> PrivateKey:
    """Read the one key of a PKCS #12 file, which opens without a passphrase if that is empty."""
    _refuse_costly(data)
    try:
        native, certificate, _ = pkcs12.load_key_and_certificates(data, password)
    except ValueError as exc:
        if "password" not in str(exc):
            hint = _DER if data.startswith(b"\x30") else _MAKE
            raise _refused("something else, or it is damaged", hint) from exc
        # The library does not tell a wrong passphrase from a damaged file.
        code = "passphrase.none" if password is None else "passphrase.wrong"
        message = "the passphrase does not open the PKCS #12 file, or it is damaged"
        raise PassphraseFault(code, message) from exc
    except UnsupportedAlgorithm as exc:
        raise KeyRefused("key.unsupported", "the file's encryption is unknown here") from exc
    if native is None:
        raise _refused("a PKCS #12 file without its key", _MAKE)
    if certificate and certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        raise pss_refusal()
    if certificate is None and isinstance(native, RSAPrivateKey):
        message = "an RSA key without its certificate in PKCS #12 may be for RSASSA-PSS alone"
        hint = "Take it out: openssl pkcs12 -in FILE -nocerts -out FILE.pem."
        raise KeyRefused("key.unsupported", message, hint=hint)
    return PrivateKey.from_cryptography(native, kid=kid)


def _import_jwk(data: bytes, kid: str | None) -> PrivateKey:
    try:
        document = parse_object(data, max_bytes=MAX_KEY_FILE_BYTES)
    except JsonRefused as refusal:
        code, place = refusal.code, refusal.finding.place
    else:
        keys = document.get("keys")
        jwk = _choose(keys, kid) if isinstance(keys, list) else document
        if "kty" in jwk and "d" not in jwk:
            hint = _MAKE if jwk["kty"] == "oct" else _PUBLIC
            raise _refused("a JWK without `d`, its private part", hint)
        return PrivateKey.from_jwk(jwk, kid=kid)
    # The scanner's message and pointer repeat parts of the text, and here that is a private key.
    # Raised outside the handler, so that no traceback shows them as the cause.
    message = "this JWK is not strict JSON (what is there is not shown: it is part of a key)"
    raise JsonRefused(code, message, line=place.line, column=place.column)


def _choose(jwks: list[Any], kid: str | None) -> Mapping[str, Json]:
    """Return the only JWK, or the one that `kid` names."""
    jwks = [jwk for jwk in jwks if isinstance(jwk, dict)]
    named = jwks if len(jwks) == 1 else [jwk for jwk in jwks if jwk.get("kid") == kid]
    if len(named) == 1:
        only: Mapping[str, Json] = named[0]
        return only
    if named and kid is not None:
        message = f"{len(named)} keys of this JWK Set have the kid {kid!r}, expected one"
        raise KeyRefused("key.malformed", message, hint="Leave the others out of it.")
    message = f"this is a JWK Set of {len(jwks)} keys, expected one"
    kids = [jwk["kid"] for jwk in jwks if isinstance(jwk.get("kid"), str)]
    raise KeyRefused("key.malformed", message, hint=f"Name one: --kid {kids[0]}." if kids else "")


def import_public_key(data: bytes, *, kid: str | None = None) -> PublicKey:
    """Read a public key in any form that :func:`cardsign.jose.keys.read_jwks` reads.

    `kid` names one of several keys, or the one that has no kid.

    Raises:
        KeyRefused: ``key.private_material``: it is a private key; else as
            :meth:`PublicKey.from_jwk`.
    """
    jwk = _choose([jwk for _, jwk in read_jwks(data)], kid)
    return PublicKey.from_jwk(jwk, kid=kid, algorithms=SIGNING_ALGORITHMS)


def _refused(content: str, hint: str) -> KeyRefused:
    message = f"expected one private key in PEM, PKCS #12 or JWK, found {content}"
    return KeyRefused("key.malformed", message, hint=hint)


def export_public(key: PublicKey, form: Literal["jwk", "pem"]) -> bytes:
    """Return the public key as a JWK, or as a PEM SubjectPublicKeyInfo."""
    if form == "jwk":
        return json.dumps(key.jwk(), indent=2).encode("ascii") + b"\n"
    return key.native.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


# Keys in a file or a variable of this process: ``file:PATH`` and ``env:NAME``.

# What a message shows of a value that may be the private key itself, given by mistake:
# ``--key "$(cat key.pem)"``. Of keys only Ed25519 in base64 has fewer than 80 characters, 64; DER,
# a sequence, begins with MA to MP there.
NOT_SHOWN: Final = "not shown: it may be a key"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
_SHOWN: Final = re.compile(r"(?!.*(?:-----|:M[A-P][A-Za-z0-9+/=]{38}))[a-z][a-z0-9+.-]+:[^\s{]*")


def scheme_of(uri: str) -> str:
    """Return the scheme with which a value begins, or an empty text."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Say whether a message may repeat what a user gave as the URI of a private key."""
    return len(uri) < 80 and bool(scheme_of(uri) and _SHOWN.fullmatch(uri))


def refuse_uri(uri: str, problem: str, hint: str = "") -> NoReturn:
    """Raise ``signer.uri``, which repeats the URI only where it cannot be a key."""
    path = uri if is_shown(uri) else f"{scheme_of(uri) or 'a value'}:... ({NOT_SHOWN})"
    raise SignerFault("signer.uri", problem, path=path, hint=hint)


#: What a PEM says that no one reads without its passphrase.
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # POSIX, Base Definitions 8.1


def list_local_keys(uri: str, access: Access, kid: str | None) -> tuple[PublicKey, ...]:
    """Return the public keys of what ``env:NAME`` or ``file:PATH`` names, private or public.

    Raises:
        CardsignError: As :func:`read_local_key`.
    """
    data = _read_local(uri, access)
    if not _is_public(data):
        return (read_local_key(uri, access, kid).public,)
    with of_the_user(uri):
        if kid is not None:
            return (import_public_key(data, kid=kid),)
        jwks = JwkSet.from_bytes(data)
        if jwks.skipped or not jwks.keys:
            message = "here is a key of another kind, such as Azure's EC-HSM, or none"
            raise KeyRefused("key.unsupported", message)
        return jwks.keys


def read_local_key(uri: str, access: Access, kid: str | None) -> PrivateKey:
    """Read the private key that ``env:NAME`` or ``file:PATH`` names.

    It is PEM, PKCS #12, a JWK, or a JWK Set of which `kid` names one. A variable may hold the
    base64 of any of these, as some CI systems mask only values of one line.

    Raises:
        SignerFault: ``signer.uri``; ``signer.no_key``: the variable is not set, or empty.
        UsageFault: As :func:`import_private_key` refuses.
        PassphraseFault: As :func:`import_private_key`.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
    """
    data = _read_local(uri, access)
    name = uri.removeprefix("env:")
    with of_the_user(uri):
        try:
            password = partial(access.secrets, "passphrase", uri)
            return import_private_key(data, kid=kid, password=password)
        except PassphraseFault as fault:
            raise PassphraseFault(fault.code, fault.message, path=uri) from fault
        except KeyRefused as refusal:
            if name != uri and b"-----BEGIN" in data and b"\n" not in data.strip():
                hint = f'Keep them by quotes: export {name}="$(cat key.pem)"; or give one line '
                hint += f'of base64: export {name}="$(base64 -w 0 key.pem)".'
                message = "this PEM has lost its line breaks"
                raise KeyRefused("key.malformed", message, hint=hint) from refusal
            raise


def _is_public(data: bytes) -> bool:
    """Say whether a key file is meant as public; what is read as such is refused if it is not."""
    if data.lstrip().startswith(b"{"):
        return not re.search(rb'"d"\s*:', data)
    labels = pem_labels(data)
    return any("PUBLIC" in label for label in labels) and PRIVATE_LABELS.isdisjoint(labels)


def _read_local(uri: str, access: Access) -> bytes:
    if uri.startswith("env:"):
        return _read_variable(uri, uri.removeprefix("env:"), access.environment)
    path = Path(uri.removeprefix("file:"))
    if uri == "file:" or not (is_shown(uri) or os.path.exists(path)):
        hint = "file: takes the path of a key file; a key that is in a variable: env:NAME."
        refuse_uri(uri, "there is no such file; expected file:PATH, as file:card-key.pem", hint)

    def may_be_shared(data: bytes) -> bool:
        return _is_public(data) or any(mark in data for mark in _ENCRYPTED)

    return read_secret(path, max_bytes=MAX_KEY_FILE_BYTES, is_encrypted=may_be_shared)


def _read_variable(uri: str, name: str, environment: Mapping[str, str]) -> bytes:
    if not _VARIABLE.fullmatch(name) or (name not in environment and not is_shown(uri)):
        # Not repeated: someone may have written the key itself where its variable's name goes.
        message = "expected env: and the name of an environment variable"
        raise SignerFault("signer.uri", message)
    value = environment.get(name, "").strip()
    if not value:
        problem = "is empty" if name in environment else "is not set"
        hint = f'Set it: export {name}="$(cat key.pem)". In CI the job must name the secret, '
        hint += "and a pull request from a fork gets none."
        message = f"the environment variable {name} {problem}"
        raise SignerFault("signer.no_key", message, path=uri, hint=hint)
    data = os.fsencode(value)
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error:
        return data
    return decoded if decoded.lstrip().startswith((b"-----BEGIN", b"{", b"\x30")) else data
