"""Client-shape tests of `gcpkms:`: Google's own client against a gRPC server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, utils

from cardsign.jose.keys import PrivateKey
from tests.keys.elsewhere import enrol, enrols_and_signs, refusal, sign

pytestmark = pytest.mark.needs_gcp

RING = "projects/p/locations/europe-north1/keyRings/r/cryptoKeys"
SERVICE = "google.cloud.kms.v1.KeyManagementService"
HASHED = utils.Prehashed(hashes.SHA256())
SHA256 = hashes.SHA256()
#: Google binds the padding to the key.
PADDINGS = {"RS256": padding.PKCS1v15(), "PSS": padding.PSS(padding.MGF1(SHA256), 32)}


class Kms:
    """The keys of a project."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.disabled: set[str] = set()

    def make(self, native: Any, alg: str) -> str:
        """The URI of a new key's first version."""
        name = f"{RING}/k{len(self.keys)}/cryptoKeyVersions/1"
        self.keys[name] = (native, alg)
        return f"gcpkms://{name}"

    def find(self, name: str, context: Any) -> tuple[Any, str]:
        """A key that may be used."""
        import grpc

        if name not in self.keys:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such version")
        if name in self.disabled:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "DISABLED")
        return self.keys[name]

    def get_public_key(self, request: Any, context: Any) -> Any:
        """GetPublicKey."""
        from google.cloud import kms

        pem = (
            self.find(request.name, context)[0]
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return kms.PublicKey(name=request.name, pem=pem.decode())

    def asymmetric_sign(self, request: Any, context: Any) -> Any:
        """AsymmetricSign: the key's own algorithm decides."""
        from google.cloud import kms

        native, alg = self.find(request.name, context)
        how = (ec.ECDSA(HASHED),) if alg == "ES256" else (PADDINGS[alg], HASHED)
        signature = native.sign(request.digest.sha256, *how)
        return kms.AsymmetricSignResponse(name=request.name, signature=signature)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kms]:
    """A project behind a loopback port, to which the real client is sent."""
    import grpc
    from google.cloud import kms
    from google.cloud.kms_v1.services.key_management_service import transports

    project = Kms()
    methods = {
        "AsymmetricSign": (project.asymmetric_sign, kms.AsymmetricSignRequest),
        "GetPublicKey": (project.get_public_key, kms.GetPublicKeyRequest),
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=request.deserialize,
            response_serializer=lambda answer: type(answer).serialize(answer),
        )
        for name, (method, request) in methods.items()
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    client = kms.KeyManagementServiceClient

    def connected() -> kms.KeyManagementServiceClient:
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        return client(transport=transports.KeyManagementServiceGrpcTransport(channel=channel))

    monkeypatch.setattr(kms, "KeyManagementServiceClient", connected)
    yield project
    server.stop(None).wait()


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_kms_signs(alg: str, service: Kms, natives: dict[str, Any]) -> None:
    """A digest is sent, whatever the size; the signature comes back in the form of JWS."""
    enrols_and_signs(service.make(natives[alg], alg), alg)


def test_a_key_for_pss_signs_nothing(service: Kms, natives: dict[str, Any]) -> None:
    """Its public key looks like any other."""
    uri = service.make(natives["RS256"], "PSS")
    assert refusal(sign, uri, enrol(uri), match="does not fit") == "signer.wrong_key"


def test_a_version_that_is_disabled_or_absent(
    service: Kms, natives: dict[str, Any], es256: PrivateKey
) -> None:
    """Each has its own code, to enrol and to sign."""
    uri = service.make(natives["ES256"], "ES256")
    service.disabled.add(uri.removeprefix("gcpkms://"))
    for place in (uri, uri.replace("cryptoKeyVersions/1", "cryptoKeyVersions/9")):
        codes = [refusal(sign, place, es256.public), refusal(enrol, place)]
        assert codes == ["signer.no_key", "signer.no_key"]


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, es256: PrivateKey, tmp_path: Path) -> None:
    """Google's client, left to itself, looks for some and says so."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    uri = f"gcpkms://{RING}/k/cryptoKeyVersions/1"
    assert refusal(sign, uri, es256.public) == "signer.credentials"
