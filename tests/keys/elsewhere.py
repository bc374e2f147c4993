"""What the tests of keys that are elsewhere have in common: to enrol, to sign, to be refused."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from cardsign.errors import CardsignError
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers import Access, check_possession, list_public_keys, open_signer

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'
#: For services whose libraries find their own credentials.
SHUT = Access(lambda kind, of: pytest.fail("asked for a secret"))


def sign(uri: str, public: PublicKey, access: Access = SHUT, payload: bytes = b"{}") -> None:
    """Sign a payload as a card's is signed."""
    sign_payload(payload, open_signer(uri, public, access), typ="JOSE")


def enrol(uri: str, access: Access = SHUT) -> PublicKey:
    """Ask the signer for its public key."""
    return list_public_keys(uri, access)[0]


def enrols_and_signs(uri: str, alg: str, access: Access = SHUT) -> None:
    """The public key is read once; the signatures verify, also of more than a service takes."""
    (public,) = list_public_keys(uri, access, kid="cards-1")
    assert (public.kid, public.alg) == ("cards-1", alg)
    sign(uri, public, access, LARGE)
    check_possession(open_signer(uri, public, access))


def fault(attempt: Callable[..., object], *arguments: Any, **how: Any) -> CardsignError:
    """What an attempt is refused with."""
    with pytest.raises(CardsignError) as caught:
        attempt(*arguments, **how)
    return caught.value


def refusal(
    attempt: Callable[..., object], *arguments: Any, match: str | None = None, **how: Any
) -> str:
    """The code that an attempt is refused with, in a message that has these words."""
    with pytest.raises(CardsignError, match=match) as caught:
        attempt(*arguments, **how)
    return caught.value.code


@contextmanager
def silent() -> Iterator[int]:
    """Listen on a loopback port, and never answer; connections wait in the queue."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield listener.getsockname()[1]


def gives_up(attempt: Callable[..., object], *arguments: Any) -> None:
    """A service that hangs is left after three tries at most, each of half a second."""
    begun = time.monotonic()
    with patch("cardsign.keys.signers.MAX_SECONDS", 0.5):
        assert refusal(attempt, *arguments) == "signer.unreachable"
    assert 0.4 < time.monotonic() - begun < 10


def alg_of(native: Any) -> str:
    """What a native key signs by."""
    return "RS256" if isinstance(native, rsa.RSAPrivateKey) else "ES256"


def sign_digest(native: Any, digest: bytes, form: Any = padding.PKCS1v15()) -> bytes:  # noqa: B008
    """A signature as a service makes it; of an elliptic curve in DER."""
    hashed = utils.Prehashed(hashes.SHA256())
    how = (form, hashed) if alg_of(native) == "RS256" else (ec.ECDSA(hashed),)
    return bytes(native.sign(digest, *how))


def public_bytes(native: Any, encoding: Encoding) -> bytes:
    """The public half of a native key, as a service hands it out."""
    spki = PublicFormat.SubjectPublicKeyInfo
    return bytes(native.public_key().public_bytes(encoding, spki))


Answer = tuple[int, dict[str, str], dict[str, Any]]


@contextmanager
def serving(answer: Callable[[str, str, Mapping[str, str], Any], Answer]) -> Iterator[int]:
    """Serve JSON on a loopback port: `answer` gets method, path, headers and the object sent."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            document = json.loads(body or b"{}")
            headers = dict(self.headers.items())
            status, more, result = answer(self.command, self.path, headers, document)
            data = json.dumps(result).encode()
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
