"""``awskms:///KEY``: keys in AWS KMS, by boto3, whose credentials, region and endpoint serve.

KEY is a key's id or ARN; an alias is refused, since it may move to a key that nobody has
published. What is sent is always the SHA-256 of the signing input (MessageType DIGEST): KMS
takes 4,096 bytes of a message, and a card may have more. ES256 comes back in DER.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey, raw_from_der
from cardsign.keys.signers.access import Access, Ask, refuse_uri, require
from cardsign.keys.signers.uri import parse_uri

EXTRA: Final = "aws"
MAX_SECONDS: Final = 30  # for one request, of which boto3 makes up to three

_ID: Final = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_KEY: Final = re.compile(rf"(?:arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{{12}}:key/)?{_ID}")
_ALGORITHMS: Final = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}
_CODES: Final = {
    "NotFoundException": "signer.no_key",
    "InvalidKeyUsageException": "signer.no_key",
    "DisabledException": "signer.disabled",
    "KMSInvalidStateException": "signer.disabled",
    "AccessDeniedException": "signer.credentials",
    "ExpiredTokenException": "signer.credentials",
    "IncompleteSignature": "signer.credentials",
    "InvalidClientTokenId": "signer.credentials",
    "InvalidSignatureException": "signer.credentials",
    "UnrecognizedClientException": "signer.credentials",
    "NoCredentialsError": "signer.credentials",
    "PartialCredentialsError": "signer.credentials",
    "NoRegionError": "signer.not_configured",
    "InvalidRegionError": "signer.not_configured",
}


def custody(uri: str) -> str:
    """The whole URI: it holds nothing of one machine."""
    _Key.parse(uri)
    return uri


def needs_leave(uri: str) -> bool:
    """Never: account and endpoint are those of the user's environment."""
    return False


def fetch_public(uri: str, access: Access, *, kid: str | None) -> PublicKey:
    """Ask KMS for the public half (GetPublicKey).

    Raises:
        SignerFault: As :func:`open` and its signer.
        KeyRefused: As :meth:`PublicKey.from_cryptography`.
    """
    key = _Key.parse(uri)
    with _client(key) as client:
        answer = client.get_public_key(KeyId=key.id)
        spki, usage = bytes(answer["PublicKey"]), answer["KeyUsage"]
    if usage != "SIGN_VERIFY":
        raise SignerFault("signer.no_key", f"the key there is for {usage}", path=uri)
    try:
        native = load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise SignerFault("signer.failed", "the answer is no public key", path=uri) from exc
    return PublicKey.from_cryptography(native, kid=kid)


def open(uri: str, public: PublicKey, access: Access) -> Ask:
    """Return what lets KMS sign.

    Raises:
        SignerFault: ``signer.uri``. The signer: ``signer.not_installed``, ``signer.not_configured``
            (no region), ``signer.unreachable``, ``signer.credentials``, ``signer.no_key``,
            ``signer.disabled``, ``signer.failed``.
    """
    key = _Key.parse(uri)
    return lambda signing_input: _sign(key, public, signing_input)


@dataclass(frozen=True, slots=True)
class _Key:
    uri: str
    id: str
    region: str | None

    @classmethod
    def parse(cls, uri: str) -> _Key:
        parts = parse_uri(uri)
        parts.only()
        name = parts.path.removeprefix("/")
        if "alias/" in name:
            refuse_uri(uri, "an alias may move to another key, expected a key's id or ARN")
        match = _KEY.fullmatch(name)
        if parts.authority or match is None:
            refuse_uri(uri, "expected awskms:/// and the id or ARN of a key")
        return cls(uri, name, match["region"])


def _sign(key: _Key, public: PublicKey, signing_input: bytes) -> bytes:
    with _client(key) as client:
        answer = client.sign(
            KeyId=key.id,
            Message=hashlib.sha256(signing_input).digest(),
            MessageType="DIGEST",
            SigningAlgorithm=_ALGORITHMS[public.alg],
        )
        signature = bytes(answer["Signature"])
    if public.alg != "ES256":
        return signature
    try:
        return raw_from_der(signature, size=public.signature_bytes // 2)
    except ValueError as exc:
        raise SignerFault("signer.failed", f"the answer: {exc}", path=key.uri) from exc


@contextmanager
def _client(key: _Key) -> Iterator[Any]:
    """A connection; the one boundary at which botocore's exceptions are converted."""
    boto3 = require("boto3", extra=EXTRA)
    config = require("botocore.config", extra=EXTRA).Config(
        connect_timeout=MAX_SECONDS, read_timeout=MAX_SECONDS, retries={"total_max_attempts": 3}
    )
    exceptions = require("botocore.exceptions", extra=EXTRA)
    client = None
    try:
        client = boto3.session.Session().client("kms", region_name=key.region, config=config)
        yield client
    except exceptions.ClientError as exc:
        name = str(exc.response.get("Error", {}).get("Code", ""))
        code = _CODES.get(name, "signer.failed")
        raise SignerFault(code, f"KMS refused: {name}", path=key.uri) from exc
    except exceptions.BotoCoreError as exc:
        name = type(exc).__name__
        code = _CODES.get(name, "signer.unreachable")
        raise SignerFault(code, f"KMS cannot be asked: {name}", path=key.uri) from exc
    except (KeyError, TypeError) as exc:
        raise SignerFault("signer.failed", "the answer is not one of KMS", path=key.uri) from exc
    finally:
        if client is not None:
            client.close()
