"""A server of our own on this machine that answers as AWS KMS is documented to.

It shows that our requests and boto3's wire format fit the documentation, not how AWS behaves.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tests.keys.elsewhere import Answer, serving

ACCOUNT = "arn:aws:kms:eu-north-1:111122223333:key/"
JSON = {"Content-Type": "application/x-amz-json-1.1"}

Native = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Refused(Exception):
    """An error of the service, by its documented name."""


@dataclass
class Kms:
    """The keys of an account; `faults` has what the service says of a key that may not be used."""

    keys: dict[str, Native] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""

    def make(self, native: Native, fault: str = "") -> str:
        """The URI of a new key."""
        name = str(uuid4())
        self.keys[name], self.faults[name] = native, fault
        return f"awskms:///{name}"

    def answer(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """One request to the API."""
        name = request["KeyId"].rpartition("/")[2]
        if name not in self.keys:
            raise Refused("NotFoundException")
        if action == "GetPublicKey":
            spki = (
                self.keys[name]
                .public_key()
                .public_bytes(
                    serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
                )
            )
            return {"KeyId": ACCOUNT + name, "PublicKey": base64.b64encode(spki).decode()}
        if fault := self.faults.get(name):
            raise Refused(fault)
        signature = sign(self.keys[name], request)
        return {"KeyId": ACCOUNT + name, "Signature": base64.b64encode(signature).decode()}


def sign(native: Native, request: dict[str, Any]) -> bytes:
    """Sign a digest, which is all that we send; a whole card may be more than KMS takes."""
    digest = base64.b64decode(request["Message"])
    if request.get("MessageType") != "DIGEST" or len(digest) != 32:
        raise Refused("ValidationException")
    hashed = utils.Prehashed(hashes.SHA256())
    match request["SigningAlgorithm"], native:
        case "ECDSA_SHA_256", ec.EllipticCurvePrivateKey():
            return native.sign(digest, ec.ECDSA(hashed))
        case "RSASSA_PKCS1_V1_5_SHA_256", rsa.RSAPrivateKey():
            return native.sign(digest, padding.PKCS1v15(), hashed)
    raise Refused("InvalidKeyUsageException")


@contextmanager
def running() -> Iterator[Kms]:
    """Serve an account on a loopback port."""
    kms = Kms()

    def answer(method: str, path: str, headers: Mapping[str, str], request: Any) -> Answer:
        action = headers["X-Amz-Target"].removeprefix("TrentService.")
        try:
            if "AKIDKNOWN" not in headers.get("Authorization", ""):
                raise Refused("UnrecognizedClientException")
            return 200, JSON, kms.answer(action, request)
        except Refused as refusal:
            return 400, JSON, {"__type": str(refusal), "message": "no"}

    with serving(answer) as port:
        kms.endpoint = f"http://127.0.0.1:{port}"
        yield kms
