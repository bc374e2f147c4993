"""A server of our own on this machine that answers as AWS KMS is documented to.

It shows that our requests and boto3's wire format fit the documentation, not how AWS behaves.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

ACCOUNT = "arn:aws:kms:eu-north-1:111122223333:key/"
MAX_RAW_BYTES = 4096  # "Sign", request parameter Message

Native = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Refused(Exception):
    """An error of the service, by its documented name."""


@dataclass
class Kms:
    """The keys of an account, and what was asked of them."""

    keys: dict[str, Native] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    endpoint: str = ""

    def make(self, native: Native) -> str:
        """The URI of a new key."""
        name = str(uuid4())
        self.keys[name] = native
        return f"awskms:///{name}"

    def answer(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """One request to the API."""
        self.asked.append({"Action": action, **request})
        name = request["KeyId"].rpartition("/")[2]
        if name not in self.keys:
            raise Refused("NotFoundException")
        if self.states.get(name) == "Disabled":
            raise Refused("DisabledException")
        if self.states.get(name) == "PendingDeletion":
            raise Refused("KMSInvalidStateException")
        native = self.keys[name]
        known = {"KeyId": ACCOUNT + name, "KeyUsage": self.states.get(name, "SIGN_VERIFY")}
        if action == "GetPublicKey":
            spki = native.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            return {**known, "PublicKey": base64.b64encode(spki).decode()}
        if known["KeyUsage"] != "SIGN_VERIFY":
            raise Refused("InvalidKeyUsageException")
        signature = sign(native, request)
        return {
            "KeyId": ACCOUNT + name,
            "SigningAlgorithm": request["SigningAlgorithm"],
            "Signature": base64.b64encode(signature).decode(),
        }


def sign(native: Native, request: dict[str, Any]) -> bytes:
    """Sign as the documentation says, refusals included."""
    message = base64.b64decode(request["Message"])
    hashed: hashes.HashAlgorithm | utils.Prehashed = hashes.SHA256()
    if request.get("MessageType", "RAW") == "DIGEST":
        if len(message) != 32:
            raise Refused("ValidationException")
        hashed = utils.Prehashed(hashes.SHA256())
    elif len(message) > MAX_RAW_BYTES:
        raise Refused("ValidationException")
    match request["SigningAlgorithm"], native:
        case "ECDSA_SHA_256", ec.EllipticCurvePrivateKey():
            return native.sign(message, ec.ECDSA(hashed))
        case "RSASSA_PKCS1_V1_5_SHA_256", rsa.RSAPrivateKey():
            return native.sign(message, padding.PKCS1v15(), hashed)
        case "RSASSA_PSS_SHA_256", rsa.RSAPrivateKey():
            pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
            return native.sign(message, pss, hashed)
    raise Refused("InvalidKeyUsageException")


@contextmanager
def running() -> Iterator[Kms]:
    """Serve an account on a loopback port."""
    kms = Kms()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = self.headers["X-Amz-Target"].removeprefix("TrentService.")
            status = 200
            try:
                if "AKIDKNOWN" not in self.headers.get("Authorization", ""):
                    raise Refused("UnrecognizedClientException")
                answer = kms.answer(action, request)
            except Refused as refusal:
                status, answer = 400, {"__type": str(refusal), "message": "no"}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kms.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield kms
        server.shutdown()
        thread.join()
