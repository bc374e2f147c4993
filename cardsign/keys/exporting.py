"""Keys for elsewhere: public halves as JWK or PEM, private ones only encrypted.

PKCS #8 is encrypted as PBES2 (RFC 8018): PBKDF2 with HMAC-SHA-256, AES-256-CBC. The structure
is written here, because the library's own writer keeps to 2048 rounds.
"""

from __future__ import annotations

import base64
import json
import textwrap
from collections.abc import Callable
from typing import Final, Literal

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import pkcs12

from cardsign.jose.keys import PrivateKey, PublicKey

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
    """Return the public half as a JWK, or as a PEM SubjectPublicKeyInfo."""
    if form == "jwk":
        return json.dumps(key.jwk(), indent=2).encode("ascii") + b"\n"
    return key.native.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def export_private(
    key: PrivateKey, form: PrivateForm, passphrase: bytes, *, random: Callable[[int], bytes]
) -> bytes:
    """Return the private half, encrypted: PKCS #8 as PEM, or PKCS #12 (RFC 7292) as DER.

    Args:
        key: The key; a PKCS #12 names it by its kid.
        form: Which of the two.
        passphrase: Any bytes; whether they are long enough is not checked here.
        random: Gives that many fresh bytes: ``os.urandom``. PKCS #12 takes its own.
    """
    if form == "pkcs8":
        return _pkcs8(key.to_pkcs8_der(), passphrase, random)
    native = serialization.load_der_private_key(key.to_pkcs8_der(), None)
    assert isinstance(native, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)  # noqa: S101
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
