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
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import load_der_public_key

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri, require

EXTRA: Final = "aws"
MAX_SECONDS: Final = 30  # for one request, of which boto3 makes up to three

_ID: Final = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_KEY: Final = re.compile(rf"(?:arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{{12}}:key/)?{_ID}")
_ALGORITHMS: Final = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}
_CODES: Final = {
    "NotFoundException": "signer.no_key",
    "InvalidKeyUsageException": "signer.no_key",
    "DisabledException": "signer.no_key",
    "KMSInvalidStateException": "signer.no_key",
    "AccessDeniedException": "signer.credentials",
    "ExpiredTokenException": "signer.credentials",
    "IncompleteSignature": "signer.credentials",
    "InvalidClientTokenId": "signer.credentials",
    "InvalidSignatureException": "signer.credentials",
    "UnrecognizedClientException": "signer.credentials",
    "NoCredentialsError": "signer.credentials",
    "PartialCredentialsError": "signer.credentials",
    "NoRegionError": "signer.uri",
    "InvalidRegionError": "signer.uri",
}


class AwsKey(RemoteKey):
    """A key by its id or ARN. Account and endpoint are those of the user's environment."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri)
        parts.only()
        self.id = parts.path.removeprefix("/")
        if "alias/" in self.id:
            refuse_uri(uri, "an alias may move to another key, expected a key's id or ARN")
        match = _KEY.fullmatch(self.id)
        if parts.authority or match is None:
            refuse_uri(uri, "expected awskms:/// and the id or ARN of a key")
        self.region: str | None = match["region"]

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask KMS for the public key (GetPublicKey)."""
        with _client(self) as client:
            answer = client.get_public_key(KeyId=self.id)
            spki, usage = bytes(answer["PublicKey"]), answer["KeyUsage"]
        if usage != "SIGN_VERIFY":
            raise SignerFault("signer.no_key", f"the key there is for {usage}", path=self.uri)
        return self.read_public(load_der_public_key, spki, kid)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let KMS sign; ``signer.uri``: there is no region."""
        with _client(self) as client:
            answer = client.sign(
                KeyId=self.id,
                Message=hashlib.sha256(signing_input).digest(),
                MessageType="DIGEST",
                SigningAlgorithm=_ALGORITHMS[public.alg],
            )
            signature = bytes(answer["Signature"])
        return self.from_der(public, signature)


@contextmanager
def _client(key: AwsKey) -> Iterator[Any]:
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
