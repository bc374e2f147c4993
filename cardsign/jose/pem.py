"""Public keys in PEM, as JWKs: the form in which the samples of A2A publish keys."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from cardsign.errors import KeyRefused
from cardsign.jose.jwk import PUBLIC_MEMBERS, jose_key

PRIVATE_LABELS: Final = frozenset(
    {"PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"}
)
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]*)")
#: id-RSASSA-PSS (RFC 4055 1.2), in DER: such a key is for PSS alone, and we sign PKCS #1 v1.5.
_PSS: Final = bytes.fromhex("06092a864886f70d01010a")
_ALGORITHM_BYTES: Final = 64  # where a key's algorithm stands, whatever its size


def pem_labels(data: bytes) -> list[str]:
    """Return what the blocks of a PEM file say that they are."""
    return [label.decode("ascii") for label, _ in _BLOCK.findall(data)]


def pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the label and the DER of each block of a PEM file that is base64."""
    for label, body in _BLOCK.findall(data):
        with contextlib.suppress(binascii.Error):
            yield label.decode("ascii"), base64.b64decode(b"".join(body.split()))


def pss_refusal() -> KeyRefused:
    """Return the refusal of a key that is for RSASSA-PSS alone."""
    message = "this key is for RSASSA-PSS alone (PS256), expected an RSA key for RS256"
    hint = "Make one: openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072."
    return KeyRefused("key.unsupported", message, hint=hint)


def refuse_pss(data: bytes) -> None:
    """Refuse (``key.unsupported``) a PEM with an RSA key that is for RSASSA-PSS alone.

    cryptography reads such a key as any other RSA key. One that is encrypted is not looked into.
    """
    for label, der in pem_blocks(data):
        if label != "CERTIFICATE" and is_for_pss(der):
            raise pss_refusal()


def is_for_pss(der: bytes) -> bool:
    """Say whether a PrivateKeyInfo or SubjectPublicKeyInfo is of a key for RSASSA-PSS alone."""
    return _PSS in der[:_ALGORITHM_BYTES]


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
    return {name: str(members[name]) for name in PUBLIC_MEMBERS if name in members}
