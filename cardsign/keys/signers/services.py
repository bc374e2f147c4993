"""Keys in key services: AWS KMS, Azure Key Vault, Google Cloud KMS, and Vault or OpenBao.

What is sent is always the SHA-256 of the signing input, by the library that the service gives out.
Each service has one boundary at which what its library raises is converted.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri, require

MAX_SECONDS: Final = 30  # for one request, of which boto3 makes up to three

# ``awskms:///KEY``, by boto3, whose credentials, region and endpoint serve. KEY is a key's id or
# ARN; an alias is refused, since it may move to a key that nobody has published. The digest is sent
# as such (MessageType DIGEST): KMS takes 4,096 bytes of a message, and a card may have more. ES256
# comes back in DER.

_AWS_ID: Final = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_AWS_KEY: Final = re.compile(
    rf"(?:arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{{12}}:key/)?{_AWS_ID}"
)
_AWS_ALGORITHMS: Final = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}
_AWS_CODES: Final = {
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
        self.id = parts.path.removeprefix("/")
        if "alias/" in self.id:
            refuse_uri(uri, "an alias may move to another key, expected a key's id or ARN")
        match = _AWS_KEY.fullmatch(self.id)
        if parts.authority or match is None:
            refuse_uri(uri, "expected awskms:/// and the id or ARN of a key")
        self.region: str | None = match["region"]

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask KMS for the public key (GetPublicKey)."""
        with _aws(self) as client:
            answer = client.get_public_key(KeyId=self.id)
            spki, usage = bytes(answer["PublicKey"]), answer["KeyUsage"]
        if usage != "SIGN_VERIFY":
            raise SignerFault("signer.no_key", f"the key there is for {usage}", path=self.uri)
        return self.read_public(load_der_public_key, spki, kid)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let KMS sign; ``signer.uri``: there is no region."""
        with _aws(self) as client:
            answer = client.sign(
                KeyId=self.id,
                Message=hashlib.sha256(signing_input).digest(),
                MessageType="DIGEST",
                SigningAlgorithm=_AWS_ALGORITHMS[public.alg],
            )
            signature = bytes(answer["Signature"])
        return self.from_der(public, signature)


@contextmanager
def _aws(key: AwsKey) -> Iterator[Any]:
    boto3 = require("boto3", extra="aws")
    config = require("botocore.config", extra="aws").Config(
        connect_timeout=MAX_SECONDS, read_timeout=MAX_SECONDS, retries={"total_max_attempts": 3}
    )
    exceptions = require("botocore.exceptions", extra="aws")
    client = None
    try:
        client = boto3.session.Session().client("kms", region_name=key.region, config=config)
        yield client
    except exceptions.ClientError as exc:
        name = str(exc.response.get("Error", {}).get("Code", ""))
        code = _AWS_CODES.get(name, "signer.failed")
        raise SignerFault(code, f"KMS refused: {name}", path=key.uri) from exc
    except exceptions.BotoCoreError as exc:
        name = type(exc).__name__
        code = _AWS_CODES.get(name, "signer.unreachable")
        raise SignerFault(code, f"KMS cannot be asked: {name}", path=key.uri) from exc
    except (KeyError, TypeError) as exc:
        raise SignerFault("signer.failed", "the answer is not one of KMS", path=key.uri) from exc
    finally:
        if client is not None:
            client.close()


# ``azurekms://VAULT/KEY/VERSION``, by azure-keyvault-keys. VAULT is a vault's name, or its host in
# another cloud of Azure. The credentials are those that azure-identity finds. ES256 comes back as r
# and s.


#: Only Microsoft's own: the access token that is sent there opens more than one vault.
_AZURE_HOST: Final = re.compile(
    r"[a-z0-9](?:-?[a-z0-9]){2,23}"
    r"\.(?:vault\.azure\.net|managedhsm\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net)"
)
_AZURE_NAME: Final = re.compile(r"[0-9A-Za-z-]{1,127}")
_AZURE_VERSION: Final = re.compile(r"[0-9a-f]{32}")
_AZURE_UNREACHABLE: Final = (
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
        host = parts.authority if "." in parts.authority else f"{parts.authority}.vault.azure.net"
        self.name, _, self.version = parts.path.removeprefix("/").partition("/")
        is_named = _AZURE_NAME.fullmatch(self.name) and _AZURE_VERSION.fullmatch(self.version)
        if not (_AZURE_HOST.fullmatch(host) and is_named):
            refuse_uri(uri, "expected azurekms://VAULT/KEY/VERSION, the version of 32 hex digits")
        self.vault = f"https://{host}"

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask the vault for the public key."""
        keys = require("azure.keyvault.keys", extra="azure")
        with _azure(self) as options, keys.KeyClient(self.vault, **options) as client:
            shown = client.get_key(self.name, self.version).key
            native = _native(shown.kty, shown)
        return PublicKey.from_cryptography(native, kid=kid, algorithms=STATEMENT_ALGORITHMS)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let the vault sign."""
        crypto = require("azure.keyvault.keys.crypto", extra="azure")
        algorithm = crypto.SignatureAlgorithm(public.alg)
        digest = hashlib.sha256(signing_input).digest()
        place = f"{self.vault}/keys/{self.name}/{self.version}"
        with _azure(self) as options, crypto.CryptographyClient(place, **options) as client:
            return bytes(client.sign(algorithm, digest).signature)


def _native(kind: str, numbers: Any) -> object:
    """The key as `cryptography` holds it; None if it is of another kind."""
    if numbers.crv == "P-256":
        x, y = int.from_bytes(numbers.x), int.from_bytes(numbers.y)
        return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    if kind.startswith("RSA"):
        e, n = int.from_bytes(numbers.e), int.from_bytes(numbers.n)
        return rsa.RSAPublicNumbers(e, n).public_key()
    return None


@contextmanager
def _azure(key: AzureKey) -> Iterator[dict[str, Any]]:
    """What a client is made with."""
    service = require("azure.core.exceptions", extra="azure")
    credential = require("azure.identity", extra="azure").DefaultAzureCredential()
    try:
        patience = {"connection_timeout": MAX_SECONDS, "read_timeout": MAX_SECONDS}
        yield {"credential": credential, **patience}
    except service.AzureError as exc:
        raise _azure_fault(exc, key) from exc
    except (AttributeError, TypeError, ValueError) as exc:
        raise SignerFault(
            "signer.failed", "the answer is not one of Key Vault", path=key.uri
        ) from exc
    finally:
        credential.close()


def _azure_fault(exc: Any, key: AzureKey) -> SignerFault:
    name = type(exc).__name__
    status = getattr(exc, "status_code", None)
    code = "signer.failed"
    if name in _AZURE_UNREACHABLE:
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


# ``gcpkms://projects/.../cryptoKeyVersions/N``, by Google's own client. The version is part of the
# name. Checksums (CRC32C) go with the digest and come with the answer, as Google asks its callers
# to check, and the answer must name the version that was asked. ES256 comes back in DER.


_GOOGLE_FORM: Final = "projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N"
_GOOGLE_PART: Final = r"[A-Za-z0-9_.:-]+"
_GOOGLE_NAME: Final = re.compile(
    rf"projects/{_GOOGLE_PART}/locations/{_GOOGLE_PART}/keyRings/{_GOOGLE_PART}/cryptoKeys/{_GOOGLE_PART}"
    r"/cryptoKeyVersions/[1-9][0-9]{0,8}"
)
#: What Google calls the algorithms that fit ours; a key there is for exactly one.
_GOOGLE_ALGORITHM: Final = re.compile(r"EC_SIGN_P256_SHA256|RSA_SIGN_PKCS1_[0-9]+_SHA256")
_GOOGLE_CODES: Final = {
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
        self.name = parts.authority + parts.path
        if not _GOOGLE_NAME.fullmatch(self.name):
            refuse_uri(uri, f"expected gcpkms://{_GOOGLE_FORM}")

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask KMS for the public key; ``signer.no_key`` for RSA with PSS and the like."""
        with _google(self.uri) as client:
            answer = client.get_public_key(request={"name": self.name}, timeout=MAX_SECONDS)
            algorithm, pem = answer.algorithm.name, answer.pem.encode()
            _check_google(self.uri, answer.name == self.name and answer.pem_crc32c == crc32c(pem))
        if not _GOOGLE_ALGORITHM.fullmatch(algorithm):
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
        with _google(self.uri) as client:
            answer = client.asymmetric_sign(request=request, timeout=MAX_SECONDS)
            signature = bytes(answer.signature)
            _check_google(self.uri, answer.name == self.name and answer.verified_digest_crc32c)
            _check_google(self.uri, answer.signature_crc32c == crc32c(signature))
        return self.from_der(public, signature)


def crc32c(data: bytes) -> int:
    """CRC32C, bit by bit: what it is for here has some hundred bytes."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def _check_google(uri: str, sound: bool) -> None:
    if not sound:
        raise SignerFault(
            "signer.failed", "the request or the answer was changed on its way", path=uri
        )


@contextmanager
def _google(uri: str) -> Iterator[Any]:
    kms = require("google.cloud.kms", extra="gcp")
    service = require("google.api_core.exceptions", extra="gcp")
    identity = require("google.auth.exceptions", extra="gcp")
    try:
        with kms.KeyManagementServiceClient() as client:
            yield client
    except service.GoogleAPIError as exc:
        name = type(exc).__name__
        code = _GOOGLE_CODES.get(name, "signer.failed")
        raise SignerFault(code, f"KMS refused: {name}", path=uri) from exc
    except identity.TransportError as exc:
        raise SignerFault("signer.unreachable", "Google cannot be asked", path=uri) from exc
    except identity.GoogleAuthError as exc:
        name = type(exc).__name__
        raise SignerFault("signer.credentials", f"no credentials: {name}", path=uri) from exc


# ``hashivault://MOUNT/KEY?version=N``: the transit engine of Vault and of OpenBao, by hvac. The
# server is the one of BAO_ADDR or VAULT_ADDR, never one that the URI chooses, and is asked over
# TLS. The version is part of the URI: a key that is rotated there would else sign with a public key
# that nobody has published. ES256 asks for the JWS form; RS256 for PKCS #1 v1.5, since the engine's
# own choice is PSS.


MAX_VERSION_DIGITS: Final = 9

_VAULT_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_VAULT_FORMS: Final[dict[str, dict[str, str]]] = {
    "ES256": {"marshaling_algorithm": "jws"},
    "RS256": {"signature_algorithm": "pkcs1v15"},
}
_VAULT_LACKS: Final = ("not found", "higher than the latest", "minimum", "disabled")


class VaultKey(RemoteKey):
    """One version of a key. Which server is asked, is said by the user's environment."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri, "version")
        path = [parts.authority, *parts.path.removeprefix("/").split("/")]
        if len(path) < 2 or not all(_VAULT_NAME.fullmatch(name) for name in path):
            refuse_uri(uri, "expected hashivault://MOUNT/KEY?version=N")
        version = parts.one("version")
        if version is None:
            refuse_uri(uri, "expected ?version=N: a key without it changes when it is rotated")
        if not re.fullmatch(rf"[1-9][0-9]{{0,{MAX_VERSION_DIGITS - 1}}}", version):
            refuse_uri(uri, "the version is no number from 1 on")
        self.mount, self.name, self.version = "/".join(path[:-1]), path[-1], int(version)

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Read the public key of the version that the URI names."""
        with _vault(access, self) as client:
            answer = client.secrets.transit.read_key(name=self.name, mount_point=self.mount)
            shown = answer["data"]["keys"].get(str(self.version))
        if shown is None:
            what = f"the key there has no version {self.version}"
            raise SignerFault("signer.no_key", what, path=self.uri)
        pem = shown.get("public_key") if isinstance(shown, dict) else None
        what = "the answer has no public key"
        return self.read_public(
            load_pem_public_key, str(pem).encode(), kid, code="signer.no_public", what=what
        )

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let the server sign.

        Raises:
            SignerFault: As :meth:`RemoteKey.sign`; ``config.not_allowed``: no TLS;
                ``signer.wrong_key``: another version answered.
            PassphraseFault: No token can be had.
        """
        digest = base64.b64encode(hashlib.sha256(signing_input).digest()).decode()
        with _vault(access, self) as client:
            answer = client.secrets.transit.sign_data(
                name=self.name,
                mount_point=self.mount,
                hash_input=digest,
                hash_algorithm="sha2-256",
                prehashed=True,
                key_version=self.version,
                **_VAULT_FORMS[public.alg],
            )
            text = str(answer["data"]["signature"])
        _, version, encoded = (*text.split(":", 2), "", "")[:3]  # vault:v1:...
        if version != f"v{self.version}":
            what = f"version {version[:12]!r} signed, not v{self.version}"
            raise SignerFault("signer.wrong_key", what, path=self.uri)
        try:
            standard = encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4)
            return base64.b64decode(standard, validate=True)  # the JWS form is base64url
        except ValueError as exc:
            raise SignerFault("signer.failed", "the answer is no signature", path=self.uri) from exc


@contextmanager
def _vault(access: Access, key: VaultKey) -> Iterator[Any]:
    hvac = require("hvac", extra="vault")
    address = _vault_address(access, key)
    client = hvac.Client(
        url=address,
        token=access.secrets("token", address).decode("latin-1"),  # as headers are
        namespace=access.variable("BAO_NAMESPACE", "VAULT_NAMESPACE"),
        verify=access.variable("BAO_CACERT", "VAULT_CACERT", "BAO_CAPATH", "VAULT_CAPATH") or True,
        timeout=MAX_SECONDS,
        allow_redirects=False,  # the token must not travel on
    )
    try:
        yield client
    except hvac.exceptions.VaultError as exc:
        raise _vault_fault(exc, key) from exc
    except OSError as exc:  # what requests raises are such
        what = f"{address} cannot be asked: {type(exc).__name__}"
        raise SignerFault("signer.unreachable", what, path=key.uri) from exc
    except (KeyError, TypeError, ValueError) as exc:
        raise SignerFault(
            "signer.failed", f"{address} does not answer as the transit engine does", path=key.uri
        ) from exc
    finally:
        client.adapter.close()


def _vault_address(access: Access, key: VaultKey) -> str:
    address = access.variable("BAO_ADDR", "VAULT_ADDR")
    if address is None:
        raise SignerFault(
            "signer.uri",
            "no server is named",
            path=key.uri,
            hint="Set VAULT_ADDR or BAO_ADDR to its https URL.",
        )
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.username is not None or parts.scheme not in ("http", "https"):
        raise SignerFault(
            "signer.uri",
            "the server's address is no https URL",
            path=key.uri,
            hint="Set the environment variable that the message names.",
        )
    if parts.scheme == "http" and not (access.policy.insecure_loopback_http and host in _LOOPBACK):
        raise SignerFault(
            "config.not_allowed",
            f"{address} is asked without TLS, which would show the token to the network",
            path=key.uri,
            hint="Use https; for a test server on this machine allow insecure_loopback_http.",
        )
    return address


def _vault_fault(exc: Exception, key: VaultKey) -> SignerFault:
    name = type(exc).__name__
    said = "; ".join(str(error) for error in getattr(exc, "errors", None) or ()) or name
    shown = " ".join("".join(char if char.isprintable() else " " for char in said).split())[:200]
    code = "signer.failed"
    if name in ("Forbidden", "Unauthorized"):
        code = "signer.credentials"
    elif name in ("VaultDown", "VaultNotInitialized", "BadGateway", "RateLimitExceeded"):
        code = "signer.unreachable"
    elif name == "InvalidPath" or any(words in said for words in _VAULT_LACKS):
        code = "signer.no_key"
    return SignerFault(code, f"the server refused: {shown}", path=key.uri)
