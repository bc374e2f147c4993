"""Client-shape tests of `awskms:`: the real boto3 against a server of ours, not against AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardsign.jose.keys import PrivateKey
from tests.keys import aws
from tests.keys.elsewhere import enrol, enrols_and_signs, gives_up, refusal, sign, silent

pytestmark = pytest.mark.needs_boto3


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


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
@pytest.mark.parametrize("before", ["", aws.ACCOUNT], ids=["by id", "by ARN"])
def test_kms_signs(alg: str, before: str, kms: aws.Kms, natives: dict[str, Any]) -> None:
    """A digest is sent, whatever the size; the signature comes back in the form of JWS."""
    uri = kms.make(natives[alg]).replace("awskms:///", f"awskms:///{before}")
    enrols_and_signs(uri, alg)


@pytest.mark.parametrize(
    "fault", ["DisabledException", "KMSInvalidStateException", "InvalidKeyUsageException"]
)
def test_a_key_that_is_out_of_use(fault: str, kms: aws.Kms, natives: dict[str, Any]) -> None:
    """Disabled, waiting for its deletion, or for another purpose."""
    uri = kms.make(natives["RS256"], fault)
    assert refusal(sign, uri, enrol(uri)) == "signer.no_key"


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
@pytest.mark.usefixtures("kms")
def test_each_fault_has_its_own_code(
    changes: dict[str, Any], code: str, es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the secret key is in none of them."""
    for name, value in changes.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    uri, silent = "awskms:///01234567-89ab-cdef-0123-456789abcdef", "^(?!.*secret-of-the-test)"
    assert refusal(sign, uri, es256.public, match=silent) == code


@pytest.mark.usefixtures("kms")
def test_a_service_that_hangs_is_given_up(
    es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is signed, and the job ends."""
    with silent() as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{port}")
        gives_up(sign, "awskms:///01234567-89ab-cdef-0123-456789abcdef", es256.public)
