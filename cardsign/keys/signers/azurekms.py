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
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, Ask, refuse_uri, require
from cardsign.keys.signers.uri import parse_uri

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


def custody(uri: str) -> str:
    """The whole URI: it holds nothing of one machine."""
    _Key.parse(uri)
    return uri


def needs_leave(uri: str) -> bool:
    """Never: it is Microsoft that is asked, with the user's credentials."""
    return False


def fetch_public(uri: str, access: Access, *, kid: str | None) -> PublicKey:
    """Ask the vault for the public half.

    Raises:
        SignerFault: As :func:`open` and its signer.
        KeyRefused: As :meth:`PublicKey.from_cryptography`.
    """
    key = _Key.parse(uri)
    keys = require("azure.keyvault.keys", extra=EXTRA)
    with _options(key) as options, keys.KeyClient(key.vault, **options) as client:
        shown = client.get_key(key.name, key.version).key
        native = _native(shown.kty, shown)
    return PublicKey.from_cryptography(native, kid=kid)


def open(uri: str, public: PublicKey, access: Access) -> Ask:
    """Return what lets the vault sign.

    Raises:
        SignerFault: ``signer.uri``. The signer: ``signer.not_installed``, ``signer.unreachable``,
            ``signer.credentials``, ``signer.no_key``, ``signer.disabled``, ``signer.failed``.
    """
    key = _Key.parse(uri)
    return lambda signing_input: _sign(key, public, signing_input)


@dataclass(frozen=True, slots=True)
class _Key:
    uri: str
    vault: str
    name: str
    version: str

    @classmethod
    def parse(cls, uri: str) -> _Key:
        parts = parse_uri(uri)
        parts.only()
        host = parts.authority if "." in parts.authority else f"{parts.authority}.vault.azure.net"
        name, _, version = parts.path.removeprefix("/").partition("/")
        if not (_HOST.fullmatch(host) and _NAME.fullmatch(name) and _VERSION.fullmatch(version)):
            refuse_uri(uri, "expected azurekms://VAULT/KEY/VERSION, the version of 32 hex digits")
        return cls(uri, f"https://{host}", name, version)

    @property
    def id(self) -> str:
        return f"{self.vault}/keys/{self.name}/{self.version}"


def _sign(key: _Key, public: PublicKey, signing_input: bytes) -> bytes:
    crypto = require("azure.keyvault.keys.crypto", extra=EXTRA)
    algorithm = crypto.SignatureAlgorithm(public.alg)
    digest = hashlib.sha256(signing_input).digest()
    with _options(key) as options, crypto.CryptographyClient(key.id, **options) as client:
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
def _options(key: _Key) -> Iterator[dict[str, Any]]:
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


def _fault(exc: Any, key: _Key) -> SignerFault:
    name = type(exc).__name__
    status = getattr(exc, "status_code", None)
    code = "signer.failed"
    if name in _UNREACHABLE:
        code = "signer.unreachable"
    elif "KeyDisabled" in str(getattr(exc, "error", "")) or "disabled" in str(exc):
        code = "signer.disabled"
    elif status in (401, 403) or name in (
        "ClientAuthenticationError",
        "CredentialUnavailableError",
    ):
        code = "signer.credentials"
    elif status == 404:
        code = "signer.no_key"
    return SignerFault(code, f"Key Vault refused: {name}", path=key.uri)
