"""``azurekms://VAULT/KEY/VERSION``: keys in Azure Key Vault, by azure-keyvault-keys.

VAULT is a vault's name, or its host in another cloud of Azure. The credentials are those that
azure-identity finds. What is sent is the SHA-256 of the signing input; ES256 comes back as r
and s.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri, require

EXTRA: Final = "azure"
MAX_SECONDS: Final = 30  # for one request

#: Only Microsoft's own: the access token that is sent there opens more than one vault.
_HOST: Final = re.compile(
    r"[a-z0-9](?:-?[a-z0-9]){2,23}"
    r"\.(?:vault\.azure\.net|managedhsm\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net)"
)
_NAME: Final = re.compile(r"[0-9A-Za-z-]{1,127}")
_VERSION: Final = re.compile(r"[0-9a-f]{32}")
_UNREACHABLE: Final = (
    "ServiceRequestError",
    "ServiceRequestTimeoutError",
    "ServiceResponseError",
    "ServiceResponseTimeoutError",
)


class AzureKey(RemoteKey):
    """One version of a key. It is Microsoft that is asked, with the user's credentials."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri)
        parts.only()
        host = parts.authority if "." in parts.authority else f"{parts.authority}.vault.azure.net"
        self.name, _, self.version = parts.path.removeprefix("/").partition("/")
        is_named = _NAME.fullmatch(self.name) and _VERSION.fullmatch(self.version)
        if not (_HOST.fullmatch(host) and is_named):
            refuse_uri(uri, "expected azurekms://VAULT/KEY/VERSION, the version of 32 hex digits")
        self.vault = f"https://{host}"

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask the vault for the public key."""
        keys = require("azure.keyvault.keys", extra=EXTRA)
        with _options(self) as options, keys.KeyClient(self.vault, **options) as client:
            shown = client.get_key(self.name, self.version).key
            native = _native(shown.kty, shown)
        return PublicKey.from_cryptography(native, kid=kid, algorithms=STATEMENT_ALGORITHMS)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let the vault sign."""
        crypto = require("azure.keyvault.keys.crypto", extra=EXTRA)
        algorithm = crypto.SignatureAlgorithm(public.alg)
        digest = hashlib.sha256(signing_input).digest()
        place = f"{self.vault}/keys/{self.name}/{self.version}"
        with _options(self) as options, crypto.CryptographyClient(place, **options) as client:
            return bytes(client.sign(algorithm, digest).signature)


def _native(kind: str, numbers: Any) -> object:
    """The key as `cryptography` holds it; None if it is of another kind."""
    if kind.startswith("EC") and numbers.crv == "P-256":
        x, y = int.from_bytes(numbers.x), int.from_bytes(numbers.y)
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    if kind.startswith("RSA"):
        e, n = int.from_bytes(numbers.e), int.from_bytes(numbers.n)
        return rsa.RSAPublicNumbers(e, n).public_key()
    return None


@contextmanager
def _options(key: AzureKey) -> Iterator[dict[str, Any]]:
    """What a client is made with; the one boundary at which its exceptions are converted."""
    service = require("azure.core.exceptions", extra=EXTRA)
    credential = _credential()
    try:
        yield {
            "credential": credential,
            "connection_timeout": MAX_SECONDS,
            "read_timeout": MAX_SECONDS,
            **_transport(),
        }
    except service.AzureError as exc:
        raise _fault(exc, key) from exc
    except (AttributeError, TypeError, ValueError) as exc:
        raise SignerFault(
            "signer.failed", "the answer is not one of Key Vault", path=key.uri
        ) from exc
    finally:
        credential.close()


def _credential() -> Any:
    return require("azure.identity", extra=EXTRA).DefaultAzureCredential()


def _transport() -> dict[str, Any]:
    return {}  # the client's own


def _fault(exc: Any, key: AzureKey) -> SignerFault:
    name = type(exc).__name__
    status = getattr(exc, "status_code", None)
    code = "signer.failed"
    if name in _UNREACHABLE:
        code = "signer.unreachable"
    elif "KeyDisabled" in str(getattr(exc, "error", "")) or "disabled" in str(exc):
        code = "signer.no_key"
    elif status in (401, 403) or name in (
        "ClientAuthenticationError",
        "CredentialUnavailableError",
    ):
        code = "signer.credentials"
    elif status == 404:
        code = "signer.no_key"
    return SignerFault(code, f"Key Vault refused: {name}", path=key.uri)
