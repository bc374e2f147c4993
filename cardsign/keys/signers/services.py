"""Keys in AWS KMS, Azure Key Vault, Google Cloud KMS, Vault or OpenBao, and behind a program.

A service is always sent the SHA-256 of the signing input, by the library that it gives out. What
that library raises is converted in one place, :func:`_converted`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from cardsign import programs
from cardsign.errors import SignerFault
from cardsign.jose.base64url import encode
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import (
    ENCODED,
    RemoteKey,
    decode_part,
    read_attributes,
    require,
)

MAX_SECONDS: Final = 30  # for one request, of which boto3 makes up to three
_MAX_WORDS: Final = 200  # characters of a server's own words in a message

#: What the services and their libraries call a refusal, by what it means for the user.
_REFUSALS: Final[Mapping[str, re.Pattern[str]]] = {
    "signer.credentials": re.compile(
        "AccessDenied|Expired|Incomplete|InvalidClientToken|InvalidSignature|Unrecognized"
        "|Credentials|Refresh|PermissionDenied|Forbidden|Unauth|ClientAuthentication"
    ),
    "signer.no_key": re.compile(
        "NotFound|InvalidKeyUsage|Disabled|InvalidState|FailedPrecondition|InvalidPath"
        "|InvalidRequest"
    ),
    "signer.unreachable": re.compile(
        "DeadlineExceeded|Retry|Unavailable|Transport|ServiceRequest|ServiceResponse|VaultDown"
        "|NotInitialized|BadGateway|Connect|Timeout|SSL|Proxy|Endpoint"
    ),
    "signer.uri": re.compile("Region"),
}


@contextmanager
def _converted(uri: str, service: str, *faults: type[Exception]) -> Iterator[None]:
    """Convert what a service's library raises.

    Args:
        uri: The key's.
        service: What the message calls the service.
        faults: The library's exceptions; ``signer.failed`` where :data:`_REFUSALS` has no code.
    """
    try:
        yield
    except faults as exc:
        name = _name_refusal(exc)
        codes = (code for code, names in _REFUSALS.items() if names.search(name))
        words = "; ".join(str(error) for error in getattr(exc, "errors", None) or ())
        words = " ".join("".join(c if c.isprintable() else " " for c in words).split())
        message = f"{service} cannot be used: {name}" + (f": {words[:_MAX_WORDS]}" if words else "")
        raise SignerFault(next(codes, "signer.failed"), message, path=uri) from exc
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"the answer is not one of {service}"
        raise SignerFault("signer.failed", message, path=uri) from exc


def _name_refusal(exc: Any) -> str:
    """Return the service's own name for a refusal, or that of the exception."""
    response = getattr(exc, "response", None)
    if isinstance(response, dict):  # botocore's
        return str(response.get("Error", {}).get("Code", ""))
    if "KeyDisabled" in str(getattr(exc, "error", "")):  # Azure's
        return "KeyDisabled"
    status = {401: "Unauthorized", 403: "Forbidden"}.get(getattr(exc, "status_code", 0))
    return status or type(exc).__name__


_AWS_ID: Final = r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
_AWS_ARN: Final = r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/"
_AWS_ALGORITHMS: Final = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}


class AwsKey(RemoteKey):
    """A key of AWS KMS, by boto3, whose credentials, region and endpoint serve.

    The digest is sent as such: KMS takes 4,096 bytes of a message, and a card may have more.
    """

    FORM = re.compile(rf"awskms:///(?P<id>(?:{_AWS_ARN})?{_AWS_ID})")
    GIVES_DER = True
    EXPECTED = "awskms:/// and the id or ARN of a key, no alias, which may move to another key"

    def request_public(self) -> bytes:
        with self._client() as client:
            return bytes(client.get_public_key(KeyId=self.parts["id"])["PublicKey"])

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        with self._client() as client:
            answer = client.sign(
                KeyId=self.parts["id"],
                Message=hashlib.sha256(signing_input).digest(),
                MessageType="DIGEST",
                SigningAlgorithm=_AWS_ALGORITHMS[alg],
            )
            return bytes(answer["Signature"])

    @contextmanager
    def _client(self) -> Iterator[Any]:
        boto3 = require("boto3", extra="aws")
        config = require("botocore.config", extra="aws").Config(
            connect_timeout=MAX_SECONDS, read_timeout=MAX_SECONDS, retries={"total_max_attempts": 3}
        )
        raised = require("botocore.exceptions", extra="aws")
        with _converted(self.uri, "KMS", raised.ClientError, raised.BotoCoreError):
            session = boto3.session.Session()
            client = session.client("kms", region_name=self.parts["region"], config=config)
            with closing(client):
                yield client


#: Only Microsoft's own: the access token that is sent there opens more than one vault.
_AZURE_HOSTS: Final = (
    r"vault\.azure\.net|managedhsm\.azure\.net|vault\.azure\.cn|vault\.usgovcloudapi\.net"
)


class AzureKey(RemoteKey):
    """One version of a key of Azure Key Vault, with the credentials that azure-identity finds."""

    FORM = re.compile(
        rf"azurekms://(?P<vault>[a-z0-9](?:-?[a-z0-9]){{2,23}})(?:\.(?P<host>{_AZURE_HOSTS}))?"
        r"/(?P<name>[0-9A-Za-z-]{1,127})/(?P<version>[0-9a-f]{32})"
    )
    EXPECTED = "azurekms://VAULT/KEY/VERSION, the version of 32 hex digits"

    def request_public(self) -> bytes:
        keys = require("azure.keyvault.keys", extra="azure")
        with self._options() as (vault, options), keys.KeyClient(vault, **options) as client:
            key = client.get_key(self.parts["name"], self.parts["version"]).key
            members = {name: getattr(key, name) for name in ("x", "y", "n", "e")}
            jwk = {name: encode(value) for name, value in members.items() if value}
            jwk["kty"] = key.kty.removesuffix("-HSM")
            return json.dumps(jwk if key.crv is None else {**jwk, "crv": key.crv}).encode()

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        crypto = require("azure.keyvault.keys.crypto", extra="azure")
        digest = hashlib.sha256(signing_input).digest()
        with self._options() as (vault, options):
            place = f"{vault}/keys/{self.parts['name']}/{self.parts['version']}"
            with crypto.CryptographyClient(place, **options) as client:
                algorithm = crypto.SignatureAlgorithm(alg)
                return bytes(client.sign(algorithm, digest).signature)

    @contextmanager
    def _options(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The vault, and what a client is made with."""
        raised = require("azure.core.exceptions", extra="azure")
        identity = require("azure.identity", extra="azure")
        vault = f"https://{self.parts['vault']}.{self.parts['host'] or 'vault.azure.net'}"
        patience = {"connection_timeout": MAX_SECONDS, "read_timeout": MAX_SECONDS}
        with (
            _converted(self.uri, "Key Vault", raised.AzureError),
            closing(identity.DefaultAzureCredential()) as credential,
        ):
            yield vault, {"credential": credential, **patience}


_GOOGLE_PART: Final = r"[A-Za-z0-9_.:-]+"
_GOOGLE_FOLDERS: Final = ("projects", "locations", "keyRings", "cryptoKeys")


class GoogleKey(RemoteKey):
    """One version of a key of Google Cloud KMS, with Google's default credentials."""

    FORM = re.compile(
        "gcpkms://(?P<name>"
        + "".join(f"{folder}/{_GOOGLE_PART}/" for folder in _GOOGLE_FOLDERS)
        + "cryptoKeyVersions/[1-9][0-9]{0,8})"
    )
    GIVES_DER = True
    EXPECTED = "gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/N"

    def request_public(self) -> bytes:
        with self._client() as client:
            answer = client.get_public_key(request=self.parts, timeout=MAX_SECONDS)
            return str(answer.pem).encode()

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        digest = {"sha256": hashlib.sha256(signing_input).digest()}
        with self._client() as client:
            request = {**self.parts, "digest": digest}
            answer = client.asymmetric_sign(request=request, timeout=MAX_SECONDS)
            return bytes(answer.signature)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        kms = require("google.cloud.kms", extra="gcp")
        service = require("google.api_core.exceptions", extra="gcp").GoogleAPIError
        identity = require("google.auth.exceptions", extra="gcp").GoogleAuthError
        with (
            _converted(self.uri, "KMS", service, identity),
            kms.KeyManagementServiceClient() as client,
        ):
            yield client


_VAULT_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_SERVER: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?(?:/[!->@-~]*)?"
)
_LOOPBACK: Final = ("127.0.0.1", "[::1]", "localhost")
#: What is asked for; by itself the engine answers in DER, and pads RSA by PSS.
_VAULT_FORMS: Final = {
    "ES256": {"marshaling_algorithm": "jws"},
    "RS256": {"signature_algorithm": "pkcs1v15"},
}


class VaultKey(RemoteKey):
    """One version of a key in the transit engine of Vault or OpenBao, by hvac.

    The user's environment says which server is asked, never the URI. The version is part of the
    URI: a key that is rotated there would else sign with one that nobody has published.
    """

    FORM = re.compile(
        rf"hashivault://(?P<mount>{_VAULT_NAME}(?:/{_VAULT_NAME})*)/(?P<name>{_VAULT_NAME})"
        r"\?version=(?P<version>[1-9][0-9]{0,8})"
    )
    EXPECTED = "hashivault://MOUNT/KEY?version=N, a number from 1 on"

    def request_public(self) -> bytes:
        with self._engine() as (engine, place):
            version = engine.read_key(**place)["data"]["keys"].get(self.parts["version"])
            if version is None:
                message = f"the key there has no version {self.parts['version']}"
                raise SignerFault("signer.no_key", message, path=self.uri)
            shown = version.get("public_key", "") if isinstance(version, dict) else ""
            return str(shown).encode()

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        digest = base64.b64encode(hashlib.sha256(signing_input).digest()).decode()
        with self._engine() as (engine, place):
            answer = engine.sign_data(
                hash_input=digest,
                hash_algorithm="sha2-256",
                prehashed=True,
                key_version=int(self.parts["version"]),
                **_VAULT_FORMS[alg],
                **place,
            )
            encoded = str(answer["data"]["signature"]).rpartition(":")[2]  # vault:v1:...
            standard = encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4)
            return base64.b64decode(standard, validate=True)  # the JWS form is base64url

    @contextmanager
    def _engine(self) -> Iterator[tuple[Any, dict[str, str]]]:
        """The engine, and which key of it."""
        hvac = require("hvac", extra="vault")
        address = self._address()
        faults = hvac.exceptions.VaultError, OSError
        client = hvac.Client(
            url=address,
            token=self.access.secrets("token", address).decode("latin-1"),  # as headers are
            namespace=self.access.variable("BAO_NAMESPACE", "VAULT_NAMESPACE"),
            verify=self.access.variable("BAO_CACERT", "VAULT_CACERT", "BAO_CAPATH", "VAULT_CAPATH")
            or True,
            timeout=MAX_SECONDS,
            allow_redirects=False,  # the token must not travel on
        )
        with closing(client.adapter), _converted(self.uri, address, *faults):
            place = {"name": self.parts["name"], "mount_point": self.parts["mount"]}
            yield client.secrets.transit, place

    def _address(self) -> str:
        address = self.access.variable("BAO_ADDR", "VAULT_ADDR") or ""
        match = _SERVER.fullmatch(address)
        if match is None:
            message = "BAO_ADDR or VAULT_ADDR names no server by its https URL"
            hint = "Set it: export VAULT_ADDR=https://vault.example:8200."
            raise SignerFault("signer.uri", message, path=self.uri, hint=hint)
        is_allowed = self.access.policy.insecure_loopback_http and match["host"] in _LOOPBACK
        if match["scheme"] == "http" and not is_allowed:
            message = f"{address} is asked without TLS, which would show the token to the network"
            hint = "Use https; for a test server on this machine allow insecure_loopback_http."
            raise SignerFault("config.not_allowed", message, path=self.uri, hint=hint)
        return address


class ProgramKey(RemoteKey):
    """A program, by its path and its arguments. It always needs the user's leave.

    ``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
    working directory, and of the environment only what every program inherits
    (:data:`cardsign.programs.INHERITED`), the variables that ``env=`` names, and CARDSIGN_ALG,
    CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

    On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
    nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
    """

    FORM = re.compile(rf"exec:(?P<path>/(?!/){ENCODED})(?:\?(?P<query>{ENCODED}))?")
    EXPECTED = "exec: and the absolute path of a program"
    MAX_SECONDS: Final = 60.0  # a person may have to touch a device
    MAX_SIGNATURE_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits

    def __init__(self, uri: str, access: Access) -> None:
        super().__init__(uri, access)
        pairs = read_attributes(uri, self.parts["query"] or "", "&", ("arg", "env"))
        values = [(name, decode_part(uri, value)) for name, value in pairs]
        self.path = decode_part(uri, self.parts["path"])
        self.arguments = tuple(value for name, value in values if name == "arg")
        self.variables = [value for name, value in values if name == "env"]

    def request_public(self) -> bytes:
        """Refuse: a program only signs."""
        message = "a program cannot be asked for its public key"
        raise SignerFault("signer.no_public", message, path=self.uri)

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        """Run the program, once for each signature."""
        environment = {
            **programs.inherited(self.access.environment, *self.variables),
            "CARDSIGN_ALG": alg,
            "CARDSIGN_KID": self.public.kid,
            "CARDSIGN_THUMBPRINT": self.public.thumbprint,
        }
        bounds = self.MAX_SECONDS, self.MAX_SIGNATURE_BYTES
        try:
            program = programs.Program(self.path, self.arguments, environment, *bounds)
            return programs.run(program, signing_input)
        except programs.ProgramError as exc:
            code = "signer.failed" if exc.was_started else "signer.unreachable"
            words = f"; it said: {exc.complaint}" if exc.complaint else ""
            raise SignerFault(code, f"the program {exc.what}{words}", path=self.path) from exc
