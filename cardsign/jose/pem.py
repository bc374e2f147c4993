"""Public keys in PEM, as JWKs: the form in which the samples of A2A publish keys."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from cardsign.errors import KeyRefused
from cardsign.jose.jwk import jose_key

_NUMBERS: Final = ("kty", "crv", "x", "y", "n", "e")
PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)")
#: id-RSASSA-PSS (RFC 4055 1.2), in DER: such a key is for PSS alone, and we sign PKCS #1 v1.5.
_PSS: Final = bytes.fromhex("06092a864886f70d01010a")
_RSA: Final = bytes.fromhex("06092a864886f70d010101")
_PBES2: Final = bytes.fromhex("2a864886f70d01050d")
_PBKDF2: Final = bytes.fromhex("2a864886f70d01050c")
_HMAC_SHA256: Final = bytes.fromhex("2a864886f70d0209")
_AES_BYTES: Final = {  # of the keys of AES-CBC, by its object identifiers
    bytes.fromhex("60864801650304012a"): 32,
    bytes.fromhex("608648016503040116"): 24,
    bytes.fromhex("608648016503040102"): 16,
}
_ALGORITHM_BYTES: Final = 64  # where a key's algorithm stands, whatever its size


def pem_labels(data: bytes) -> list[str]:
    """Return what the blocks of a PEM file say that they are."""
    return [label.decode("ascii") for label, _ in _BLOCK.findall(data)]


def pss_refusal() -> KeyRefused:
    """Return the refusal of a key that is for RSASSA-PSS alone."""
    message = "this key is for RSASSA-PSS alone (PS256), expected an RSA key for RS256"
    hint = "Make one: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072."
    return KeyRefused("key.unsupported", message, hint=hint)


def refuse_pss(data: bytes, password: bytes | None = None) -> None:
    """Refuse (``key.unsupported``) a PEM with an RSA key that is for RSASSA-PSS alone.

    cryptography reads such a key as any other RSA key. So one that `password` opens is looked
    into, and refused where it is encrypted in a way that is not known here.
    """
    for label, body in _BLOCK.findall(data):
        try:
            begin = der = base64.b64decode(b"".join(body.split()))
        except binascii.Error:
            continue
        if password is not None and label == b"ENCRYPTED PRIVATE KEY":
            begin = _decrypt_begin(der, password)
            if _RSA not in begin and _PSS not in begin:
                raise KeyRefused(
                    "key.unsupported",
                    "this RSA key is encrypted in a way that is not known here",
                    hint="Encrypt a copy anew: openssl pkey -in FILE -aes256 -out COPY.",
                )
        if label != b"CERTIFICATE" and _PSS in begin[:_ALGORITHM_BYTES]:
            raise pss_refusal()


def _decrypt_begin(der: bytes, password: bytes) -> bytes:
    """Return the first bytes of an encrypted PKCS #8 (RFC 8018 A), which has been opened before.

    It is read where PBES2, PBKDF2 and AES encrypt it, as OpenSSL does; else it is empty.
    """
    algorithm, ciphertext = _split_der(_split_der(der)[0])
    scheme, parameters = _split_der(algorithm)
    if scheme != _PBES2:
        return b""
    (derivation, settings), (cipher, iv) = map(_split_der, _split_der(parameters))
    if derivation != _PBKDF2 or cipher not in _AES_BYTES:
        return b""
    salt, rounds = _split_der(settings)[:2]
    digest = SHA256() if _HMAC_SHA256 in settings else SHA1()  # noqa: S303  the default
    kdf = PBKDF2HMAC(digest, _AES_BYTES[cipher], salt, int.from_bytes(rounds))
    decryptor = Cipher(AES(kdf.derive(password)), CBC(iv)).decryptor()
    return decryptor.update(ciphertext[:_ALGORITHM_BYTES])


def _split_der(der: bytes) -> list[bytes]:
    """Return the contents of DER elements that follow one another."""
    contents = []
    while len(der) > 1:
        size, start = der[1], 2
        if size > 0x7F:
            start += size & 0x7F
            size = int.from_bytes(der[2:start])
        contents.append(der[start : start + size])
        der = der[start + size :]
    return contents


def jwk_of_pem(untrusted_pem: bytes) -> dict[str, str]:
    """Return the public key of a PEM as a JWK, which is still to be checked as any other.

    Raises:
        KeyRefused: ``key.private_material``, ``key.malformed``, ``key.unsupported``.
    """
    if any(label in PRIVATE_LABELS for label in pem_labels(untrusted_pem)):
        raise KeyRefused(
            "key.private_material",
            "this is a private key, expected the public key",
            hint="Write its public key: openssl pkey -in FILE -pubout -out public.pem.",
        )
    refuse_pss(untrusted_pem)
    try:
        native = load_pem_public_key(untrusted_pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise KeyRefused(
            "key.malformed",
            "this PEM is no public key",
            hint="Of a certificate: openssl x509 -in FILE -pubkey -noout -out public.pem.",
        ) from exc
    kinds = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | Ed25519PublicKey
    if not isinstance(native, kinds):
        raise KeyRefused("key.unsupported", "expected an EC, RSA or Ed25519 key")
    members = jose_key(native, "RS256").as_dict(private=False)
    return {name: str(members[name]) for name in _NUMBERS if name in members}
