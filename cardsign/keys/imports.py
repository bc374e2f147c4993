"""Keys that were made elsewhere, or go there: PEM, PKCS #12 and JWK.

Each is read as what it is, by cryptography and joserfc, or refused with what to do about it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

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
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault
from cardsign.jose.jwk import PRIVATE_LABELS, SIGNING_ALGORITHMS, pem_blocks, refuse_pss
from cardsign.jose.keys import PrivateKey, PublicKey, read_jwks

MAX_KEY_FILE_BYTES: Final = 64 * 1024  # bytes; a key with its certificates has some 10 KiB

# What to do about an input, by what it is.
_DER: Final = "From DER: openssl pkey -inform DER -in FILE -out FILE.pem; -pubin for a public key."
_OPENSSH: Final = (
    "ssh-keygen -p -m PKCS8 -f COPY converts an RSA or ECDSA key. For Ed25519 make another: "
    "openssl genpkey -algorithm ed25519 -out new-key.pem."
)
_MAKE: Final = (
    "Make one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out new-key.pem."
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


#: An AES initial vector of other than 16 bytes, on which cryptography panics.
_SHORT_VECTOR: Final = re.compile(rb"DEK-Info: *AES-[^,\n]*,(?![0-9A-Fa-f]{32})")


def _import_pem(data: bytes, password: bytes | None, kid: str | None) -> PrivateKey:
    blocks = list(pem_blocks(data))
    labels = [label for label, _ in blocks]
    if sum(label in PRIVATE_LABELS for label in labels) != 1:
        content = f"a PEM of: {', '.join(labels).lower()[:_MAX_LABELS] or 'nothing'}"
        hint = _OPENSSH if "OPENSSH PRIVATE KEY" in labels else _MAKE
        raise _refused(content, _PUBLIC if "PUBLIC KEY" in labels else hint)
    ((label, der),) = (block for block in blocks if block[0] in PRIVATE_LABELS)
    if label == "ENCRYPTED PRIVATE KEY":
        _refuse_costly(der)
    if _SHORT_VECTOR.search(data):
        raise _refused("a PEM whose DEK-Info was cut short", _ENCRYPT_ANEW)
    key = PrivateKey.from_pem(data, password, kid=kid)
    if key.public.alg == "RS256":
        refuse_pss(_decrypt(der, password or b"") if label == "ENCRYPTED PRIVATE KEY" else der)
    return key


_INTEGER: Final = 0x02  # tags of DER
_OCTETS: Final = 0x04
_NAME: Final = 0x06
#: What it may cost to open one, in rounds, or for scrypt in blocks of 128 bytes, so at most 1 GiB.
#: OpenSSL itself writes 2,048 rounds, other tools up to a million.
_MAX_COST: Final = 2**23
# Object identifiers by which an encrypted PKCS #8 says how to open it (PBES2, RFC 8018), in DER.
_SCRYPT: Final = bytes.fromhex("2b06010401da47040b")
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
    scrypt calls N, r and p. The length of the key may come after them, and costs nothing.
    """
    runs: list[list[int]] = []
    is_after_salt = False
    for tag, content in _primitives(der, nested=True):
        if tag == _OCTETS:
            runs.append([])
            is_after_salt = True
        elif tag == _INTEGER and is_after_salt:
            runs[-1].append(max(int.from_bytes(content), 1))
        elif tag:  # else the end of a value whose length was not said
            is_after_salt = False
    costs = [math.prod(run[:3]) if len(run) > 2 else sum(run[:1]) for run in runs]
    if sum(costs) > _MAX_COST:  # together: a PKCS #12 may hold hundreds of parts
        message = "to open this encrypted key costs more than any honest one does"
        raise KeyRefused("key.unsupported", message, hint=_ENCRYPT_ANEW)


def _decrypt(der: bytes, password: bytes) -> bytes:
    """Return the content of an encrypted PKCS #8, which cryptography has opened by `password`.

    cryptography does not say what an RSA key in it is for.
    """
    values: dict[int, list[bytes]] = {}
    for tag, content in _primitives(der, nested=False):
        values.setdefault(tag, []).append(content)
    names = values[_NAME]
    hash_name = names[2] if len(names) > 3 else b""
    if names[-1] not in _CIPHERS or hash_name not in _HASHES:
        message = "an RSA key that is encrypted in this way may be for RSASSA-PSS alone"
        raise KeyRefused("key.unsupported", message, hint=_ENCRYPT_ANEW)
    salt, initial, ciphertext = values[_OCTETS]
    algorithm, size = _CIPHERS[names[-1]]
    numbers = [int.from_bytes(number) for number in values[_INTEGER]]
    if names[1] == _SCRYPT:
        n, r, p = numbers[:3]
        key = Scrypt(salt=salt, length=size, n=n, r=r, p=p).derive(password)
    else:
        key = PBKDF2HMAC(_HASHES[hash_name](), size, salt, numbers[0]).derive(password)
    return Cipher(algorithm(key), CBC(initial)).decryptor().update(ciphertext)


def _primitives(der: bytes, *, nested: bool, depth: int = 64) -> Iterator[tuple[int, bytes]]:
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
            yield from _primitives(content, nested=nested, depth=depth - 1)
        if not tag & 0x20:
            yield tag, content


def _import_pkcs12(data: bytes, password: bytes | None, kid: str | None) -> PrivateKey:
    """Read the one key of a PKCS #12 file, which opens without a passphrase if that is empty."""
    _refuse_costly(data)
    try:
        native, certificate, _ = pkcs12.load_key_and_certificates(data, password)
    except ValueError as exc:
        if "password" not in str(exc):
            content = "something else, or it is damaged" if data else "an empty file"
            raise _refused(content, _DER if data.startswith(b"\x30") else _MAKE) from exc
        # The library does not tell a wrong passphrase from a damaged file.
        code = "passphrase.none" if password is None else "passphrase.wrong"
        message = "the passphrase does not open the PKCS #12 file, or it is damaged"
        raise PassphraseFault(code, message) from exc
    except UnsupportedAlgorithm as exc:
        raise KeyRefused("key.unsupported", "the file's encryption is unknown here") from exc
    if native is None:
        raise _refused("a PKCS #12 file without its key", _MAKE)
    # cryptography does not say what an RSA key is for; its certificate does.
    oid = certificate and certificate.public_key_algorithm_oid
    if isinstance(native, RSAPrivateKey) and oid != PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5:
        message = "this RSA key in PKCS #12 is, or may be, for RSASSA-PSS alone"
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
        if "d" not in jwk:
            hint = _MAKE if jwk.get("kty", "oct") == "oct" else _PUBLIC
            raise _refused("JSON without `d`, the private part of a JWK", hint)
        return PrivateKey.from_jwk(jwk, kid=kid)
    # The scanner's message and pointer repeat parts of the text, and here that is a private key.
    # Raised outside the handler, so that no traceback shows them as the cause.
    message = "this JWK is not strict JSON (what is there is not shown: it is part of a key)"
    raise JsonRefused(code, message, line=place.line, column=place.column)


def _choose(jwks: list[Any], kid: str | None) -> Mapping[str, Json]:
    """Return the only JWK, or the one that `kid` names."""
    keys = [jwk for jwk in jwks if isinstance(jwk, dict)]
    named = keys if len(keys) == 1 else [jwk for jwk in keys if jwk.get("kid") == kid]
    if len(named) == 1:
        return named[0]
    kids = [jwk["kid"] for jwk in keys if isinstance(jwk.get("kid"), str)]
    message = f"this is a JWK Set of {len(keys)} keys, expected one"
    message += f" with the kid {kid!r}" if kid else ""
    hint = f"Name one: --kid {kids[0]}." if kids and kid not in kids else ""
    raise KeyRefused("key.malformed", message, hint=hint)


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
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.native.public_bytes(serialization.Encoding.PEM, spki)
