"""Client-shape tests of `awskms:`, `azurekms:` and `gcpkms:`, with the makers' own libraries.

What answers is ours, as each service is documented: for boto3 and Azure's client a server on this
machine, for Google's messages and errors an object in the place of the connected client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from cardsign.jose.jwk import decode_base64url, encode_base64url, jwk_of
from cardsign.jose.keys import raw_from_der
from tests.keys import aws, elsewhere
from tests.keys.elsewhere import Answer, alg_of, enrol, enrols_and_signs, refusal, sign, sign_digest
from tests.keys.states import FIRST

# AWS.


@pytest.fixture
def awskms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[aws.Kms]:
    """An account, and the environment of one of its users."""
    with aws.running() as kms:
        for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", kms.endpoint)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDKNOWN")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
        yield kms


NOBODY = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "unknown credentials": ({"AWS_ACCESS_KEY_ID": "AKIDX"}, "signer.credentials", "they may"),
    "no credentials": (NOBODY, "signer.credentials", "AWS_SECRET_ACCESS_KEY"),
    "no region": ({"AWS_DEFAULT_REGION": ""}, "signer.uri", "AWS_DEFAULT_REGION"),
    "nobody there": ({"AWS_ENDPOINT_URL_KMS": "http://127.0.0.1:1"}, "signer.unreachable", ""),
}


@pytest.mark.needs_boto3
@pytest.mark.parametrize(("changes", "code", "hint"), FAULTS.values(), ids=FAULTS)
@pytest.mark.usefixtures("awskms")
def test_what_is_wrong_with_the_environment_of_aws(
    changes: dict[str, str], code: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the secret key is in none of the messages."""
    for name, value in changes.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    exc = elsewhere.fault(sign, aws.Kms.ABSENT, FIRST.public)
    assert (exc.code, hint in exc.hint, "secret-of-the" in str(exc)) == (code, True, False)


@pytest.mark.needs_boto3
def test_a_key_of_aws_is_named_by_its_arn_too(awskms: aws.Kms, natives: dict[str, Any]) -> None:
    uri = awskms.make(natives["ES256"]).replace("awskms:///", f"awskms:///{aws.ACCOUNT}")
    enrols_and_signs(uri, "ES256")


# Azure.

HOST, TOKEN = "cards.vault.azure.net", "token-of-the-test"
JSON = {"Content-Type": "application/json"}
#: With which Key Vault answers a request that has no token yet.
CHALLENGE = 'Bearer authorization="https://login.microsoftonline.com/tenant", '
CHALLENGE += 'resource="https://vault.azure.net"'


class Vault:
    """The keys of a vault, each with what is said of one out of use; and whether they are shown."""

    ABSENT = f"azurekms://cards/none/{'0' * 32}"

    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.is_secretive = False
        self.port = 0

    def make(self, native: Any, fault: str = "") -> str:
        """The URI of a new key's version."""
        place = f"k/{len(self.keys):032}"
        self.keys[place] = native, fault
        return f"azurekms://cards/{place}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], request: Any) -> Answer:
        """One request to the API."""
        _, _, name, version, *action = urlsplit(path).path.split("/")
        kid = f"https://{HOST}/keys/{name}/{version}"
        native, fault = self.keys.get(f"{name}/{version}", (None, ""))
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {**JSON, "WWW-Authenticate": CHALLENGE}, {"error": {"code": "Unauthorized"}}
        if native is None:
            return 404, JSON, {"error": {"code": "KeyNotFound", "message": "no such key"}}
        if fault or (method == "GET" and self.is_secretive):
            error = {"code": "Forbidden", "innererror": {"code": fault or "no keys/get"}}
            return 403, JSON, {"error": error}
        if method == "GET":
            jwk = jwk_of(native.public_key())
            key = {**jwk, "kid": kid, "kty": f"{jwk['kty']}-HSM"}
            return 200, JSON, {"key": key, "attributes": {"enabled": True}}
        assert (action, request["alg"]) == (["sign"], alg_of(native))
        signature = sign_digest(native, decode_base64url(request["value"]))
        raw = raw_from_der(signature) if alg_of(native) == "ES256" else signature
        return 200, JSON, {"kid": kid, "value": encode_base64url(raw)}


class Credential:
    """Gives a token for every scope, as a signed-in user's does."""

    token = TOKEN

    def get_token(self, *scopes: str, **options: Any) -> Any:
        """The token, for an hour."""
        from azure.core.credentials import AccessToken

        return AccessToken(self.token, int(time.time()) + 3600)

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def azurekms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    """A vault behind a loopback port, to which the real client's requests are led."""
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpRequest

    vault, send = Vault(), RequestsTransport.send
    with elsewhere.serving(vault.answer) as vault.port:

        def led(self: RequestsTransport, request: Any, **options: Any) -> Any:
            parts = urlsplit(request.url)
            assert (parts.scheme, parts.netloc) == ("https", HOST)
            url = parts._replace(scheme="http", netloc=f"127.0.0.1:{vault.port}").geturl()
            content = {"headers": request.headers, "content": request.content}
            return send(self, HttpRequest(request.method, url, **content), **options)

        monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
        monkeypatch.setattr(RequestsTransport, "send", led)
        yield vault


@pytest.mark.needs_azure
def test_what_a_token_of_azure_opens(
    azurekms: Vault, natives: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To sign takes no right to read the key; one that is not taken is not shown, or missed."""
    from azure.identity import ChainedTokenCredential, EnvironmentCredential

    uri = azurekms.make(natives["ES256"])
    public = enrol(uri)
    azurekms.is_secretive = True
    sign(uri, public)
    monkeypatch.setattr(Credential, "token", "another")
    assert refusal(sign, uri, public, match=f"^(?!.*{TOKEN})") == "signer.credentials"
    nobody, azurekms.port = ChainedTokenCredential(EnvironmentCredential()), 1
    monkeypatch.setattr(Credential, "get_token", nobody.get_token)
    exc = elsewhere.fault(sign, uri, public)
    assert (exc.code, "AZURE_CLIENT_ID" in exc.hint) == ("signer.credentials", True)


# Google.

RING = "projects/p/locations/europe-north1/keyRings/r/cryptoKeys"
PSS = padding.PSS(padding.MGF1(SHA256()), 32)


class Project:
    """A client of Google's that is connected to these keys."""

    ABSENT = f"gcpkms://{RING}/none/cryptoKeyVersions/1"

    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.form: Any = padding.PKCS1v15()  # Google binds the padding to the key

    def make(self, native: Any, fault: str = "") -> str:
        """The URI of a new key's first version."""
        name = f"{RING}/k{len(self.keys)}/cryptoKeyVersions/1"
        self.keys[name] = native, fault
        return f"gcpkms://{name}"

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def _find(self, name: str) -> Any:
        from google.api_core import exceptions

        native, fault = self.keys.get(name, (None, ""))
        if native is None:
            raise exceptions.NotFound("no such version")
        if fault:
            raise exceptions.FailedPrecondition(fault)
        return native

    def get_public_key(self, request: Any, timeout: float) -> Any:
        """GetPublicKey."""
        from google.cloud import kms

        native = self._find(kms.GetPublicKeyRequest(request).name)
        return kms.PublicKey(pem=elsewhere.public_bytes(native, Encoding.PEM).decode())

    def asymmetric_sign(self, request: Any, timeout: float) -> Any:
        """AsymmetricSign: the key's own algorithm decides."""
        from google.cloud import kms

        asked = kms.AsymmetricSignRequest(request)
        signature = sign_digest(self._find(asked.name), asked.digest.sha256, self.form)
        return kms.AsymmetricSignResponse(signature=signature)


@pytest.fixture
def gcpkms(monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project, to which the client is connected."""
    project = Project()
    monkeypatch.setattr("google.cloud.kms.KeyManagementServiceClient", lambda: project)
    return project


@pytest.mark.needs_gcp
def test_a_key_for_pss_signs_nothing(gcpkms: Project, natives: dict[str, Any]) -> None:
    """Its public key looks like any other."""
    uri, gcpkms.form = gcpkms.make(natives["RS256"]), PSS
    assert refusal(sign, uri, enrol(uri), match="does not fit") == "signer.wrong_key"


@pytest.mark.needs_gcp
def test_google_finds_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its client, left to itself, looks for some and says so."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    assert refusal(sign, Project.ABSENT, FIRST.public) == "signer.credentials"


# Each of them.

CLOUDS = [
    pytest.param("awskms", marks=pytest.mark.needs_boto3),
    pytest.param("azurekms", marks=pytest.mark.needs_azure),
    pytest.param("gcpkms", marks=pytest.mark.needs_gcp),
]


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> Any:
    """A service and its user."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_a_cloud_signs(alg: str, cloud: Any, natives: dict[str, Any]) -> None:
    """A digest is sent, whatever the size; the signature comes back in the form of JWS."""
    enrols_and_signs(cloud.make(natives[alg]), alg)


#: What is said of a key that is disabled, waits for its deletion, or has another purpose.
OUT_OF_USE = {
    aws.Kms: ("DisabledException", "KMSInvalidStateException", "InvalidKeyUsageException"),
    Vault: ("KeyDisabled",),
    Project: ("DISABLED",),
}


def test_a_key_that_is_out_of_use_or_absent(cloud: Any, natives: dict[str, Any]) -> None:
    """One code, to enrol and to sign."""
    assert refusal(enrol, cloud.ABSENT) == "signer.no_key"
    uris = [cloud.make(natives["ES256"], fault) for fault in OUT_OF_USE[type(cloud)]]
    assert {refusal(sign, uri, FIRST.public) for uri in (*uris, cloud.ABSENT)} == {"signer.no_key"}


@pytest.mark.parametrize("cloud", CLOUDS[:2], indirect=True)
def test_a_service_that_hangs_is_given_up(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is signed, and the job ends; Google's client is told its time with each call."""
    with elsewhere.silent() as cloud.port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{cloud.port}")
        elsewhere.gives_up(sign, cloud.ABSENT, FIRST.public)
