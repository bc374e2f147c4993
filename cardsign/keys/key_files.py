"""Keys that were made elsewhere: PEM, PKCS #12 and JWK, read as what they are or refused."""

from __future__ import annotations

import base64
import json
import re
import textwrap
from collections.abc import Callable
from typing import Final, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import pkcs12

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, KeyRefused, PassphraseFault
from cardsign.jose.algorithms import SIGNING_ALGORITHMS
from cardsign.jose.keys import PrivateKey, PublicKey

# Keys for elsewhere: public keys as JWK or PEM, private ones only encrypted.


PublicForm = Literal["jwk", "pem"]
PrivateForm = Literal["pkcs8", "pkcs12"]

ROUNDS: Final = 600_000  # of PBKDF2: what OWASP asks of HMAC-SHA-256; some 0.15 s a guess

_SALT_BYTES: Final = 16
_PBES2: Final = bytes.fromhex("06092a864886f70d01050d")
_PBKDF2: Final = bytes.fromhex("06092a864886f70d01050c")
_HMAC_SHA256: Final = bytes.fromhex("06082a864886f70d0209")
_AES256_CBC: Final = bytes.fromhex("060960864801650304012a")
_NULL: Final = b"\x05\x00"
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_INTEGER: Final = 0x02


def export_public(key: PublicKey, form: PublicForm) -> bytes:
    """Return the public key as a JWK, or as a PEM SubjectPublicKeyInfo."""
    if form == "jwk":
        return json.dumps(key.jwk(), indent=2).encode("ascii") + b"\n"
    return key.native.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def export_private(
    key: PrivateKey, form: PrivateForm, passphrase: bytes, *, random: Callable[[int], bytes]
) -> bytes:
    """Return the private key, encrypted: PKCS #8 as PEM, or PKCS #12 (RFC 7292) as DER.

    A PKCS #12 names it by its kid. Not checked: that the passphrase is long enough.
    """
    if form == "pkcs8":
        return _pkcs8(key.to_pkcs8_der(), passphrase, random)
    native = serialization.load_der_private_key(key.to_pkcs8_der(), None)
    kinds = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | Ed25519PrivateKey
    assert isinstance(native, kinds)  # noqa: S101
    how = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(ROUNDS)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(hashes.SHA256())
        .build(passphrase)
    )
    name = key.public.kid.encode("ascii")
    return pkcs12.serialize_key_and_certificates(name, native, None, None, how)


def _pkcs8(plain: bytes, passphrase: bytes, random: Callable[[int], bytes]) -> bytes:
    salt, nonce = random(_SALT_BYTES), random(algorithms.AES.block_size // 8)
    derived = PBKDF2HMAC(hashes.SHA256(), 32, salt, ROUNDS).derive(passphrase)
    padder = PKCS7(algorithms.AES.block_size).padder()
    encryptor = Cipher(algorithms.AES(derived), modes.CBC(nonce)).encryptor()
    ciphertext = encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()
    rounds = _der(_INTEGER, ROUNDS.to_bytes(3))
    prf = _der(_SEQUENCE, _HMAC_SHA256, _NULL)
    kdf = _der(_SEQUENCE, _PBKDF2, _der(_SEQUENCE, _der(_OCTETS, salt), rounds, prf))
    cipher = _der(_SEQUENCE, _AES256_CBC, _der(_OCTETS, nonce))
    scheme = _der(_SEQUENCE, _PBES2, _der(_SEQUENCE, kdf, cipher))
    encoded = base64.b64encode(_der(_SEQUENCE, scheme, _der(_OCTETS, ciphertext))).decode("ascii")
    label = "ENCRYPTED PRIVATE " + "KEY"
    lines = [f"-----BEGIN {label}-----", *textwrap.wrap(encoded, 64), f"-----END {label}-----", ""]
    return "\n".join(lines).encode("ascii")


def _der(tag: int, *contents: bytes) -> bytes:
    """One value of DER (X.690 10.1): tag, length in its shortest form, content."""
    content = b"".join(contents)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(length)]) + length + content


MAX_KEY_FILE_BYTES: Final = 64 * 1024  # bytes; a key with its certificates has some 10 KiB

_PEM_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
# A sequence, of whatever length, that begins with version 3 (RFC 7292 4).
_PKCS12: Final = re.compile(rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...)\x02\x01\x03", re.DOTALL)
_PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE", b"Proc-Type: 4,ENCRYPTED")
_MAKE: Final = (
    "If you have none, make one: "
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out card-key.pem."
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
        return _from_jwk(data, kid)
    if _PKCS12.match(data):
        return _from_pkcs12(data, kid, password)
    _check_labels(data)
    try:
        return PrivateKey.from_pem(data, kid=kid)
    except PassphraseFault:
        if password is None:
            raise
    return PrivateKey.from_pem(data, password(), kid=kid)


def _from_jwk(data: bytes, kid: str | None) -> PrivateKey:
    jwk = _one_jwk(data, kid, is_secret=True)
    if jwk.get("kty") == "oct":
        raise KeyRefused(
            "key.unsupported",
            "this is a symmetric (HMAC) key: everyone who can verify with it can also sign",
            path="/kty",
            hint=_MAKE,
        )
    if jwk.get("kty") in ("EC", "OKP", "RSA") and "d" not in jwk:
        raise _refused("this JWK is a public key, expected the private key", _MAKE)
    return PrivateKey.from_jwk(jwk, kid=kid)


def _one_jwk(data: bytes, kid: str | None, *, is_secret: bool = False) -> dict[str, Json]:
    """The JWK that is there, or the one of a JWK Set that `kid` names."""
    try:
        jwk = parse_object(data, max_bytes=MAX_KEY_FILE_BYTES)
    except JsonRefused as refusal:
        if not is_secret:
            raise
        found = refusal
    else:
        return _chosen(jwk, kid)
    # The scanner's message and pointer repeat parts of the text, and here that is a private key.
    # Raised outside the handler, so that no traceback shows them as the cause.
    raise JsonRefused(
        found.code,
        "this JWK is not strict JSON (what is there is not shown: it is part of a key)",
        line=found.line,
        column=found.column,
    )


def _chosen(jwk: dict[str, Json], kid: str | None) -> dict[str, Json]:
    keys = jwk.get("keys")
    if "kty" in jwk or not isinstance(keys, list):
        return jwk
    found = [key for key in keys if isinstance(key, dict)]
    named = found if len(found) == 1 else [key for key in found if key.get("kid") == kid]
    if len(named) == 1:
        return named[0]
    kids = [key["kid"] for key in found if isinstance(key.get("kid"), str)]
    raise _refused(
        f"this is a JWK Set of {len(found)} keys, expected one",
        f"Name one of them: --kid {kids[0]}." if kids else _MAKE,
    )


def _from_pkcs12(data: bytes, kid: str | None, password: Callable[[], bytes] | None) -> PrivateKey:
    """The one key of a PKCS #12 file, which always has a passphrase, be it an empty one."""
    try:
        native, _, _ = pkcs12.load_key_and_certificates(data, password() if password else b"")
    except ValueError as exc:  # it does not tell a wrong passphrase from a damaged file
        raise PassphraseFault(
            "passphrase.wrong", "the passphrase does not open the PKCS #12 file, or it is damaged"
        ) from exc
    except UnsupportedAlgorithm as exc:
        raise KeyRefused("key.unsupported", "the file's encryption is unknown here") from exc
    if native is None:
        raise _refused("this PKCS #12 file holds no private key", "Export it with its key.")
    plain = native.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return PrivateKey.from_pkcs8_der(plain, kid=kid)


def is_encrypted(data: bytes) -> bool:
    """Say whether a key file shows no private key to those who can read it."""
    return any(mark in data for mark in _ENCRYPTED) or bool(_PKCS12.match(data))


def import_public_key(data: bytes, *, kid: str | None = None) -> PublicKey:
    """Read a public key: a JWK, a JWK Set of which `kid` names one, or PEM.

    Raises:
        KeyRefused: ``key.private_material``: it is a private key; else as
            :meth:`PublicKey.from_jwk`.
        JsonRefused: Neither PEM nor strict JSON.
    """
    labels = [label.decode("ascii") for label in _PEM_BEGIN.findall(data)]
    if not labels:
        return PublicKey.from_jwk(_one_jwk(data, kid), kid=kid, algorithms=SIGNING_ALGORITHMS)
    if any(label in _PRIVATE_LABELS for label in labels):
        raise KeyRefused(
            "key.private_material",
            "this is a private key, expected the public key",
            hint="Write its public key: openssl pkey -in FILE -pubout -out public.pem.",
        )
    try:
        native = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise _refused(
            "this PEM is no public key",
            "Of a certificate: openssl x509 -in FILE -pubkey -noout -out public.pem.",
        ) from exc
    return PublicKey.from_cryptography(native, kid=kid)


def _check_labels(data: bytes) -> None:
    """Refuse a file unless just one of its PEM blocks is called a private key."""
    labels = [label.decode("ascii") for label in _PEM_BEGIN.findall(data)]
    private = sum(label in _PRIVATE_LABELS for label in labels)
    if private > 1:
        raise _refused("this file holds several private keys, expected one", "Split it.")
    if private:
        return
    for label, refusal in _OTHER_LABELS.items():
        if label in labels:
            raise _refused(*refusal)
    raise _refused(
        "this is neither a PEM private key nor a JWK",
        "If it is DER: openssl pkey -inform DER -in FILE -out FILE.pem.",
    )


def _refused(message: str, hint: str) -> KeyRefused:
    return KeyRefused("key.malformed", message, hint=hint)
