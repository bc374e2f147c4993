"""Client-shape tests of `gcpkms:`: Google's own client against a gRPC server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from cardsign.errors import CardsignError, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer

pytestmark = pytest.mark.needs_gcp

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'
RING = "projects/p/locations/europe-north1/keyRings/r/cryptoKeys"
SERVICE = "google.cloud.kms.v1.KeyManagementService"
HASHED = utils.Prehashed(hashes.SHA256())


def unasked(kind: str, of: str) -> bytes:
    """Google's client finds its own credentials."""
    pytest.fail("asked for a secret")


ACCESS = Access(unasked)


class Kms:
    """The keys of a project."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.disabled: set[str] = set()

    def make(self, native: Any, algorithm: str) -> str:
        """The URI of a new key's first version."""
        name = f"{RING}/k{len(self.keys)}/cryptoKeyVersions/1"
        self.keys[name] = (native, algorithm)
        return f"gcpkms://{name}"

    def found(self, name: str, context: Any) -> tuple[Any, str]:
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

        native, _ = self.found(request.name, context)
        pem = native.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return kms.PublicKey(name=request.name, pem=pem.decode())

    def asymmetric_sign(self, request: Any, context: Any) -> Any:
        """AsymmetricSign: the key's own algorithm decides."""
        from google.cloud import kms

        native, algorithm = self.found(request.name, context)
        digest = request.digest.sha256
        if algorithm.startswith("EC"):
            signature = native.sign(digest, ec.ECDSA(HASHED))
        elif "PSS" in algorithm:
            signature = native.sign(digest, padding.PSS(padding.MGF1(hashes.SHA256()), 32), HASHED)
        else:
            signature = native.sign(digest, padding.PKCS1v15(), HASHED)
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


@pytest.fixture(scope="module")
def natives() -> dict[str, Any]:
    """Keys that the service holds."""
    return {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "RS256": rsa.generate_private_key(65537, 3072),
    }


ALGORITHMS = {"ES256": "EC_SIGN_P256_SHA256", "RS256": "RSA_SIGN_PKCS1_3072_SHA256"}


def sign(uri: str, public: PublicKey, payload: bytes = b"{}") -> None:
    """Sign a payload as a card's is signed."""
    sign_payload(payload, open_signer(uri, public, ACCESS), typ="JOSE")


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_kms_signs(alg: str, service: Kms, natives: dict[str, Any]) -> None:
    """A digest is sent, whatever the size; the signature comes back in the form of JWS."""
    uri = service.make(natives[alg], ALGORITHMS[alg])
    public = list_public_keys(uri, ACCESS, kid="cards-1")[0]
    assert (public.kid, public.alg) == ("cards-1", alg)

    sign(uri, public, LARGE)
    check_possession(open_signer(uri, public, ACCESS))


def test_a_key_for_pss_signs_nothing(service: Kms, natives: dict[str, Any]) -> None:
    """Google binds the padding to the key."""
    uri = service.make(natives["RS256"], "RSA_SIGN_PSS_3072_SHA256")
    public = list_public_keys(uri, ACCESS)[0]
    with pytest.raises(SignerFault, match="PSS") as caught:
        sign(uri, public)
    assert caught.value.code == "signer.wrong_key"


def test_a_version_that_is_disabled_or_absent(
    service: Kms, natives: dict[str, Any], es256: PrivateKey
) -> None:
    """Each has its own code, to enrol and to sign."""
    uri = service.make(natives["ES256"], ALGORITHMS["ES256"])
    service.disabled.add(uri.removeprefix("gcpkms://"))
    absent = uri.replace("cryptoKeyVersions/1", "cryptoKeyVersions/9")
    for place, code in ((uri, "signer.no_key"), (absent, "signer.no_key")):
        with pytest.raises(CardsignError) as signing:
            sign(place, es256.public)
        with pytest.raises(CardsignError) as enrolling:
            list_public_keys(place, ACCESS)[0]
        assert [signing.value.code, enrolling.value.code] == [code, code]


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, es256: PrivateKey, tmp_path: Path) -> None:
    """Google's client, left to itself, looks for some and says so."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    with pytest.raises(SignerFault) as caught:
        sign(f"gcpkms://{RING}/k/cryptoKeyVersions/1", es256.public)
    assert caught.value.code == "signer.credentials"
