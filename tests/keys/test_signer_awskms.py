"""Client-shape tests of `awskms:`: the real boto3 against a server of ours, not against AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from cardsign.errors import CardsignError, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer
from tests.keys import aws

pytestmark = pytest.mark.needs_boto3

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'


def unasked(kind: str, of: str) -> bytes:
    """boto3 finds its own credentials."""
    pytest.fail("asked for a secret")


ACCESS = Access(unasked)


@pytest.fixture
def kms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[aws.Kms]:
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


@pytest.fixture(scope="module")
def natives() -> dict[str, Any]:
    """Keys that the service holds."""
    return {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "RS256": rsa.generate_private_key(65537, 2048),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
    }


def sign(uri: str, public: PublicKey, payload: bytes = b"{}") -> None:
    """Sign a payload as a card's is signed."""
    sign_payload(payload, open_signer(uri, public, ACCESS), typ="JOSE")


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
@pytest.mark.parametrize("by_arn", [False, True], ids=["by id", "by ARN"])
def test_kms_signs(alg: str, by_arn: bool, kms: aws.Kms, natives: dict[str, Any]) -> None:
    """A digest is sent, whatever the size; the signature comes back in the form of JWS."""
    uri = kms.make(natives[alg])
    if by_arn:
        uri = uri.replace("awskms:///", f"awskms:///{aws.ACCOUNT}")
    public = list_public_keys(uri, ACCESS, kid="cards-1")[0]
    assert (public.kid, public.alg) == ("cards-1", alg)

    sign(uri, public, LARGE)
    check_possession(open_signer(uri, public, ACCESS))
    signed = [request for request in kms.asked if request["Action"] == "Sign"]
    assert {request["MessageType"] for request in signed} == {"DIGEST"}


def test_the_server_refuses_what_kms_refuses(kms: aws.Kms, natives: dict[str, Any]) -> None:
    """The twin of the digest: as RAW, a card of this size is not signed."""
    import boto3
    from botocore.exceptions import ClientError

    key = kms.make(natives["ES256"]).removeprefix("awskms:///")
    client = boto3.client("kms")
    with pytest.raises(ClientError, match="ValidationException"):
        client.sign(KeyId=key, Message=LARGE, MessageType="RAW", SigningAlgorithm="ECDSA_SHA_256")
    client.close()


@pytest.mark.parametrize("state", ["Disabled", "PendingDeletion"])
def test_a_key_that_is_out_of_use(state: str, kms: aws.Kms, es256: PrivateKey) -> None:
    """Disabled, or waiting for its deletion."""
    uri = kms.make(ec.generate_private_key(ec.SECP256R1()))
    kms.states[uri.rpartition("/")[2]] = state
    with pytest.raises(SignerFault) as caught:
        sign(uri, es256.public)
    assert caught.value.code == "signer.no_key"


FAULTS = {
    "credentials that are unknown": ({"AWS_ACCESS_KEY_ID": "AKIDOTHER"}, "signer.credentials"),
    "no credentials": (
        {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
        "signer.credentials",
    ),
    "no region": ({"AWS_DEFAULT_REGION": None}, "signer.uri"),
    "nobody there": ({"AWS_ENDPOINT_URL_KMS": "http://127.0.0.1:1"}, "signer.unreachable"),
    "no such key": ({}, "signer.no_key"),
}


@pytest.mark.parametrize(("changes", "code"), FAULTS.values(), ids=FAULTS)
def test_each_fault_has_its_own_code(
    changes: dict[str, str | None],
    code: str,
    kms: aws.Kms,
    es256: PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the secret key is in none of them."""
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(SignerFault) as caught:
        sign("awskms:///01234567-89ab-cdef-0123-456789abcdef", es256.public)
    assert caught.value.code == code
    assert "secret-of-the-test" not in str(caught.value)


def test_a_key_for_another_purpose_is_not_enrolled(kms: aws.Kms, natives: dict[str, Any]) -> None:
    """Another curve shows in the public key; a key that encrypts refuses to sign."""
    with pytest.raises(CardsignError) as caught:
        list_public_keys(kms.make(natives["P-384"]), ACCESS)[0]
    assert caught.value.code == "key.unsupported"
    uri = kms.make(natives["RS256"])
    kms.states[uri.rpartition("/")[2]] = "ENCRYPT_DECRYPT"
    with pytest.raises(SignerFault) as refused:
        check_possession(open_signer(uri, list_public_keys(uri, ACCESS)[0], ACCESS))
    assert refused.value.code == "signer.no_key"
