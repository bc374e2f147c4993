"""``gcpkms://projects/.../cryptoKeyVersions/N``: keys in Google Cloud KMS, by its own client.

The version is part of the name. What is sent is the SHA-256 of the signing input; checksums
(CRC32C) go with the digest and come with the answer, as Google asks its callers to check, and
the answer must name the version that was asked. ES256 comes back in DER.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import load_pem_public_key

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri, require

EXTRA: Final = "gcp"
MAX_SECONDS: Final = 30  # for one request

_FORM: Final = "projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N"
_PART: Final = r"[A-Za-z0-9_.:-]+"
_NAME: Final = re.compile(
    rf"projects/{_PART}/locations/{_PART}/keyRings/{_PART}/cryptoKeys/{_PART}"
    r"/cryptoKeyVersions/[1-9][0-9]{0,8}"
)
#: What Google calls the algorithms that fit ours; a key there is for exactly one.
_ALGORITHM: Final = re.compile(r"EC_SIGN_P256_SHA256|RSA_SIGN_PKCS1_[0-9]+_SHA256")
_CODES: Final = {
    "NotFound": "signer.no_key",
    "FailedPrecondition": "signer.no_key",
    "Forbidden": "signer.credentials",
    "PermissionDenied": "signer.credentials",
    "Unauthenticated": "signer.credentials",
    "Unauthorized": "signer.credentials",
    "DeadlineExceeded": "signer.unreachable",
    "RetryError": "signer.unreachable",
    "ServiceUnavailable": "signer.unreachable",
}
_CRC32C: Final = 0x82F63B78  # Castagnoli's polynomial, reflected (RFC 3720 12.1)


class GoogleKey(RemoteKey):
    """One version of a key. It is Google that is asked, with the user's credentials."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri)
        parts.only()
        self.name = parts.authority + parts.path
        if not _NAME.fullmatch(self.name):
            refuse_uri(uri, f"expected gcpkms://{_FORM}")

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask KMS for the public key; ``signer.no_key`` for RSA with PSS and the like."""
        with _client(self.uri) as client:
            answer = client.get_public_key(request={"name": self.name}, timeout=MAX_SECONDS)
            algorithm, pem = answer.algorithm.name, answer.pem.encode()
            _check(self.uri, answer.name == self.name and answer.pem_crc32c == crc32c(pem))
        if not _ALGORITHM.fullmatch(algorithm):
            raise SignerFault("signer.no_key", f"the key there is for {algorithm}", path=self.uri)
        return self.read_public(load_pem_public_key, pem, kid)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let KMS sign."""
        digest = hashlib.sha256(signing_input).digest()
        request = {
            "name": self.name,
            "digest": {"sha256": digest},
            "digest_crc32c": crc32c(digest),
        }
        with _client(self.uri) as client:
            answer = client.asymmetric_sign(request=request, timeout=MAX_SECONDS)
            signature = bytes(answer.signature)
            _check(self.uri, answer.name == self.name and answer.verified_digest_crc32c)
            _check(self.uri, answer.signature_crc32c == crc32c(signature))
        return self.from_der(public, signature)


def crc32c(data: bytes) -> int:
    """CRC32C, bit by bit: what it is for here has some hundred bytes."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def _check(uri: str, sound: bool) -> None:
    if not sound:
        raise SignerFault(
            "signer.failed", "the request or the answer was changed on its way", path=uri
        )


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    """A connection; the one boundary at which Google's exceptions are converted."""
    require("google.cloud.kms", extra=EXTRA)
    service = require("google.api_core.exceptions", extra=EXTRA)
    identity = require("google.auth.exceptions", extra=EXTRA)
    try:
        with _connected() as client:
            yield client
    except service.GoogleAPIError as exc:
        name = type(exc).__name__
        code = _CODES.get(name, "signer.failed")
        raise SignerFault(code, f"KMS refused: {name}", path=uri) from exc
    except identity.TransportError as exc:
        raise SignerFault("signer.unreachable", "Google cannot be asked", path=uri) from exc
    except identity.GoogleAuthError as exc:
        name = type(exc).__name__
        raise SignerFault("signer.credentials", f"no credentials: {name}", path=uri) from exc


def _connected() -> Any:
    return require("google.cloud.kms", extra=EXTRA).KeyManagementServiceClient()
