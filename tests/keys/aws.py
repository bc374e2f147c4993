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

from cryptography.hazmat.primitives.serialization import Encoding

from tests.keys.elsewhere import Answer, alg_of, public_bytes, serving, sign_digest

ACCOUNT = "arn:aws:kms:eu-north-1:111122223333:key/"
JSON = {"Content-Type": "application/x-amz-json-1.1"}
ALGORITHMS = {"ES256": "ECDSA_SHA_256", "RS256": "RSASSA_PKCS1_V1_5_SHA_256"}


@dataclass
class Kms:
    """The keys of an account; `faults` has what the service says of a key that may not be used."""

    ABSENT = "awskms:///01234567-89ab-cdef-0123-456789abcdef"
    keys: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""

    def make(self, native: Any, fault: str = "") -> str:
        """The URI of a new key."""
        name = str(uuid4())
        self.keys[name], self.faults[name] = native, fault
        return f"awskms:///{name}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], request: Any) -> Answer:
        """One request to the API: a fault by its documented name, a public key or a signature.

        A digest is all that we send; a whole card may be more than KMS takes.
        """
        name = request["KeyId"].rpartition("/")[2]
        native, fault = self.keys.get(name), self.faults.get(name)
        if "AKIDKNOWN" not in headers.get("Authorization", ""):
            fault = "UnrecognizedClientException"
        elif native is None:
            fault = "NotFoundException"
        elif headers["X-Amz-Target"] == "TrentService.GetPublicKey":
            spki = base64.b64encode(public_bytes(native, Encoding.DER)).decode()
            return 200, JSON, {"KeyId": ACCOUNT + name, "PublicKey": spki}
        elif (request["MessageType"], request["SigningAlgorithm"]) != (
            "DIGEST",
            ALGORITHMS[alg_of(native)],
        ):
            fault = "ValidationException"
        if fault:
            return 400, JSON, {"__type": fault, "message": "no"}
        signature = sign_digest(native, base64.b64decode(request["Message"]))
        encoded = base64.b64encode(signature).decode()
        return 200, JSON, {"KeyId": ACCOUNT + name, "Signature": encoded}


@contextmanager
def running() -> Iterator[Kms]:
    """Serve an account on a loopback port."""
    kms = Kms()
    with serving(kms.answer) as port:
        kms.endpoint = f"http://127.0.0.1:{port}"
        yield kms
