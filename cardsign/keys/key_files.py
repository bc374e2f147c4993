"""Files that hold one key: those of a key store, and those that were made elsewhere.

A key store's own file is an envelope: scrypt over a passphrase, then AES-256-GCM.

::

    {"format": 1, "kid": ..., "alg": ..., "thumbprint": ...,
     "kdf": {"name": "scrypt", "n": 131072, "r": 8, "p": 1, "salt": ...},
     "cipher": "AES-256-GCM", "nonce": ..., "ciphertext": ...}

Byte strings are unpadded base64url. The plaintext is PKCS#8 DER. Every member but
``ciphertext`` is associated data, so a file cannot be given another kid, alg or cost
without the passphrase: an altered file opens as little as a wrong passphrase does, and
the two cannot be told apart.

Keys that were made elsewhere are PEM, PKCS #12 and JWK, read as what they are or refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import PublicKeyAlgorithmOID

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault, SignerFault, StoreFault
from cardsign.jose import base64url
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.jwks import read_jwks
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.jose.pem import PRIVATE_LABELS, pem_labels, pss_refusal, refuse_pss

FORMAT: Final = 1
CIPHER: Final = "AES-256-GCM"
KDF: Final = "scrypt"

MAX_ENVELOPE_BYTES: Final = 16 * 1024  # bytes; an RSA key of 8192 bits takes some 7 KiB
MAX_N: Final = 2**20
MAX_R: Final = 16
MAX_P: Final = 4
MAX_KDF_MEMORY: Final = 2**30  # bytes, 128*n*r; a file must not be able to ask for more

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


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What one guess at a passphrase costs (RFC 7914); by default some 0.7 s and 128 MiB.

    Raises:
        StoreFault: ``keystore.corrupt`` for a cost out of the bounds above, before a byte of
            memory is allocated.
    """

    n: int = 2**17
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        is_power_of_two = self.n > 0 and self.n & (self.n - 1) == 0
        is_bounded = 2 <= self.n <= MAX_N and 1 <= self.r <= MAX_R and 1 <= self.p <= MAX_P
        if not (is_power_of_two and is_bounded):
            raise _malformed(f"no scrypt here has n={self.n}, r={self.r}, p={self.p}")
        if self.memory > MAX_KDF_MEMORY:
            raise _malformed(f"scrypt would take {self.memory // 2**20} MiB of memory")

    @property
    def memory(self) -> int:
        """The bytes that one guess takes (RFC 7914 2)."""
        return 128 * self.n * self.r


DEFAULT_COST: Final = ScryptCost()


def label_of(public: PublicKey) -> dict[str, str]:
    """Return the members of an envelope that say which key it holds."""
    return {"kid": public.kid, "alg": public.alg, "thumbprint": public.thumbprint}


def seal(pkcs8: bytes, passphrase: bytes, public: PublicKey) -> bytes:
    """Return the envelope around a private key (PKCS#8 DER), as the bytes of its file.

    The label of `public` is bound to the key, and readable without the passphrase. Not checked:
    that the passphrase is long enough.
    """
    cost, salt, nonce = DEFAULT_COST, os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    kdf = {"name": KDF, "n": cost.n, "r": cost.r, "p": cost.p, "salt": base64url.encode(salt)}
    members: dict[str, Any] = {
        **{"format": FORMAT, **label_of(public), "kdf": kdf},
        **{"cipher": CIPHER, "nonce": base64url.encode(nonce)},
    }
    cipher = AESGCM(_derive(passphrase, salt, cost))
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
    cost = ScryptCost(kdf["n"], kdf["r"], kdf["p"])
    try:
        salt, nonce = base64url.decode(kdf["salt"]), base64url.decode(members["nonce"])
        ciphertext = base64url.decode(members.pop("ciphertext"))
    except base64url.Base64urlError as exc:
        raise _malformed("salt, nonce or ciphertext is not base64url") from exc
    if kdf["name"] != KDF or members["cipher"] != CIPHER or len(nonce) != _NONCE_BYTES:
        raise _malformed(f"expected {KDF}, {CIPHER} and its nonce")
    try:
        cipher = AESGCM(_derive(passphrase, salt, cost))
        pkcs8 = cipher.decrypt(nonce, ciphertext, _canonical(members))
    except InvalidTag as exc:
        what = f"the passphrase does not open key `{members['kid']}`, or its file was changed"
        raise PassphraseFault("passphrase.wrong", what) from exc
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
        what = f"the key file holds no acceptable private key: {exc.message}"
        raise SignerFault("signer.wrong_key", what, path=where) from exc
    if label != label_of(public) or private.public != public:
        what = f"the key file holds key {label['kid']!r}, not the private key of {public.kid!r}"
        raise SignerFault("signer.wrong_key", what, path=where)
    return private


def is_envelope(data: bytes) -> bool:
    """Say whether bytes are meant as an envelope, which :func:`open_envelope` reads strictly."""
    return data.lstrip().startswith(b"{") and b'"ciphertext"' in data


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
        raise _malformed(f"`kdf` is not an object of {KDF} and its parameters")
    return members


def _canonical(members: Mapping[str, Json]) -> bytes:
    """The associated data."""
    # Members and values are ASCII and integers (a kid is printable ASCII, the rest is ours). For
    # such, this is the text that JCS (RFC 8785) gives.
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def _derive(passphrase: bytes, salt: bytes, cost: ScryptCost) -> bytes:
    kdf = Scrypt(salt=salt, length=_KEY_BYTES, n=cost.n, r=cost.r, p=cost.p)
    try:
        return kdf.derive(passphrase)
    except MemoryError as exc:
        needed = cost.memory // 2**20
        raise _malformed(f"opening it takes {needed} MiB of memory, which cannot be had") from exc


def _malformed(message: str) -> StoreFault:
    hint = "Put back the copy that you keep of it."
    return StoreFault("keystore.corrupt", message, hint=hint)


# Keys for elsewhere: public keys as JWK or PEM, private ones as an encrypted PEM.


def export_public(key: PublicKey, form: Literal["jwk", "pem"]) -> bytes:
    """Return the public key as a JWK, or as a PEM SubjectPublicKeyInfo."""
    if form == "jwk":
        return json.dumps(key.jwk(), indent=2).encode("ascii") + b"\n"
    return key.native.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def export_private(key: PrivateKey, passphrase: bytes) -> bytes:
    """Return the private key as an encrypted PEM (PKCS #8).

    A guess at its passphrase costs the 2,048 rounds that the library gives, so it has to be a
    random one. Not checked: the passphrase.
    """
    return serialization.load_der_private_key(key.to_pkcs8_der(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase),
    )


# Keys from elsewhere: PEM, PKCS #12 and JWK, read as what they are or refused.

MAX_KEY_FILE_BYTES: Final = 64 * 1024  # bytes; a key with its certificates has some 10 KiB

# A sequence, of whatever length, that begins with version 3 (RFC 7292 4).
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...)\x02\x01\x03", re.DOTALL)
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_MAKE: Final = (
    "If you have none, make one: "
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out card-key.pem."
)
_NOT_PEM: Final = (
    "If it is DER: openssl pkey -inform DER -in FILE -out FILE.pem (a public key: with -pubin). "
    "If it is a public key of OpenSSH: ssh-keygen -e -m PKCS8 -f FILE > FILE.pem."
)
# Told apart only to say what was given instead; of several, the first listed names it.
_OTHER_LABELS: Final = {
    "OPENSSH PRIVATE KEY": (
        "this is a private key in OpenSSH's own form",
        "Convert a copy of it: ssh-keygen -p -m PKCS8 -f COPY.",
    ),
    "PUBLIC KEY": ("this is a public key, expected the private key", _MAKE),
    "RSA PUBLIC KEY": ("this is a public key, expected the private key", _MAKE),
    "CERTIFICATE": ("this is a certificate, expected its private key", _MAKE),
}


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
    if _PKCS12.match(data):
        return _import_pkcs12(data, kid, password)
    labels = pem_labels(data)
    private = sum(label in PRIVATE_LABELS for label in labels)
    if private > 1:
        raise _refused("this file holds several private keys, expected one", "Split it.")
    if not private:
        other = next((why for label, why in _OTHER_LABELS.items() if label in labels), None)
        raise _refused(*(other or ("this is neither PEM, PKCS #12 nor a JWK", _NOT_PEM)))
    refuse_pss(data)
    try:
        return PrivateKey.from_pem(data, kid=kid)
    except PassphraseFault:
        if password is None:
            raise
    secret = password()
    key = PrivateKey.from_pem(data, secret, kid=kid)
    refuse_pss(data, secret)
    return key


def _import_jwk(data: bytes, kid: str | None) -> PrivateKey:
    try:
        document = parse_object(data, max_bytes=MAX_KEY_FILE_BYTES)
    except JsonRefused as refusal:
        code, place = refusal.code, refusal.finding.place
    else:
        keys = document.get("keys")
        jwk = _choose(keys, kid) if isinstance(keys, list) else document
        if jwk.get("kty") == "oct":
            what = "this is a symmetric (HMAC) key: everyone who can verify with it can also sign"
            raise KeyRefused("key.unsupported", what, path="/kty", hint=_MAKE)
        if jwk.get("kty") in ("EC", "OKP", "RSA") and "d" not in jwk:
            raise _refused("this JWK is a public key, expected the private key", _MAKE)
        return PrivateKey.from_jwk(jwk, kid=kid)
    # The scanner's message and pointer repeat parts of the text, and here that is a private key.
    # Raised outside the handler, so that no traceback shows them as the cause.
    what = "this JWK is not strict JSON (what is there is not shown: it is part of a key)"
    raise JsonRefused(code, what, line=place.line, column=place.column)


def _choose(jwks: list[Any], kid: str | None) -> Mapping[str, Json]:
    """The only JWK, or the one that `kid` names."""
    jwks = [jwk for jwk in jwks if isinstance(jwk, dict)]
    named = jwks if len(jwks) == 1 else [jwk for jwk in jwks if jwk.get("kid") == kid]
    if len(named) == 1:
        only: Mapping[str, Json] = named[0]
        return only
    kids = [jwk["kid"] for jwk in jwks if isinstance(jwk.get("kid"), str)]
    raise _refused(
        f"this is a JWK Set of {len(jwks)} keys, expected one",
        f"Name one of them: --kid {kids[0]}." if kids else _MAKE,
    )


def _import_pkcs12(
    data: bytes, kid: str | None, password: Callable[[], bytes] | None
) -> PrivateKey:
    """The one key of a PKCS #12 file, which always has a passphrase, be it an empty one."""
    try:
        secret = password() if password else b""
        native, certificate, _ = pkcs12.load_key_and_certificates(data, secret)
    except ValueError as exc:  # it does not tell a wrong passphrase from a damaged file
        what = "the passphrase does not open the PKCS #12 file, or it is damaged"
        raise PassphraseFault("passphrase.wrong", what) from exc
    except UnsupportedAlgorithm as exc:
        raise KeyRefused("key.unsupported", "the file's encryption is unknown here") from exc
    if native is None:
        raise _refused("this PKCS #12 file holds no private key", "Export it with its key.")
    if certificate and certificate.public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        raise pss_refusal()
    return PrivateKey.from_cryptography(native, kid=kid)


def is_encrypted(data: bytes) -> bool:
    """Say whether a key file shows no private key to those who can read it."""
    return any(mark in data for mark in _ENCRYPTED) or bool(_PKCS12.match(data))


def import_public_key(data: bytes, *, kid: str | None = None) -> PublicKey:
    """Read a public key in any form that :func:`cardsign.jose.jwks.read_jwks` reads.

    `kid` names one of several keys, or the one that has no kid.

    Raises:
        KeyRefused: ``key.private_material``: it is a private key; else as
            :meth:`PublicKey.from_jwk`.
    """
    jwk = _choose(list(read_jwks(data)), kid)
    return PublicKey.from_jwk(jwk, kid=kid, algorithms=SIGNING_ALGORITHMS)


def _refused(message: str, hint: str) -> KeyRefused:
    return KeyRefused("key.malformed", message, hint=hint)
