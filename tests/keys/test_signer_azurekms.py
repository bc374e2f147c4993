"""Client-shape tests of `azurekms:`: Azure's own client against a server of ours."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from cardsign.errors import CardsignError, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer

pytestmark = pytest.mark.needs_azure

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'
HOST = "cards.vault.azure.net"
HASHED = utils.Prehashed(hashes.SHA256())
TOKEN = "token-of-the-test"


def encoded(number: int | bytes) -> str:
    """Base64url, as Key Vault writes it."""
    data = number if isinstance(number, bytes) else number.to_bytes((number.bit_length() + 7) // 8)
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Vault:
    """The keys of a vault, and what was asked of them."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.disabled: set[str] = set()
        self.secretive = False
        self.port = 0

    def make(self, native: Any) -> str:
        """The URI of a new key's version."""
        place = f"k{len(self.keys)}/{uuid4().hex}"
        self.keys[place] = native
        return f"azurekms://cards/{place}"

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """One request to the API: its status and its object."""
        _, _, name, version, *action = path.split("/")
        place = f"{name}/{version}"
        if place not in self.keys:
            return 404, {"error": {"code": "KeyNotFound", "message": "no such key"}}
        native = self.keys[place]
        if method == "GET":
            if self.secretive:
                return 403, {"error": {"code": "Forbidden", "message": "no keys/get"}}
            kid = f"https://{HOST}/keys/{place}"
            return 200, {"key": {"kid": kid, **shown(native)}, "attributes": {"enabled": True}}
        assert action == ["sign"]
        if place in self.disabled:
            inner = {"code": "KeyDisabled"}
            error = {"code": "Forbidden", "message": "not allowed", "innererror": inner}
            return 403, {"error": error}
        digest = base64.urlsafe_b64decode(body["value"] + "==")
        signature = sign_digest(native, body["alg"], digest)
        return 200, {"kid": f"https://{HOST}/keys/{place}", "value": encoded(signature)}


def shown(native: Any) -> dict[str, str]:
    """The public key as a JWK."""
    numbers = native.public_key().public_numbers()
    if isinstance(native, rsa.RSAPrivateKey):
        return {"kty": "RSA-HSM", "n": encoded(numbers.n), "e": encoded(numbers.e)}
    crv = {256: "P-256", 384: "P-384"}[native.curve.key_size]
    size = native.curve.key_size // 8
    x, y = (encoded(number.to_bytes(size)) for number in (numbers.x, numbers.y))
    return {"kty": "EC-HSM", "crv": crv, "x": x, "y": y}


def sign_digest(native: Any, algorithm: str, digest: bytes) -> bytes:
    """Sign as the documentation says: r and s, PKCS #1 v1.5, or PSS where that is asked for."""
    assert len(digest) == 32
    if algorithm == "ES256":
        r, s = utils.decode_dss_signature(native.sign(digest, ec.ECDSA(HASHED)))
        return r.to_bytes(32) + s.to_bytes(32)
    if algorithm == "PS256":
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        return bytes(native.sign(digest, pss, HASHED))
    assert algorithm == "RS256"
    return bytes(native.sign(digest, padding.PKCS1v15(), HASHED))


def handler(vault: Vault) -> type[BaseHTTPRequestHandler]:
    """Answer for the vault, after the challenge that Key Vault begins with."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {"Content-Type": "application/json"}
            if self.headers.get("Authorization") == f"Bearer {TOKEN}":
                path = urlsplit(self.path).path
                status, answer = vault.answer(self.command, path, json.loads(body or b"{}"))
            else:
                status, answer = 401, {"error": {"code": "Unauthorized", "message": "who?"}}
                headers["WWW-Authenticate"] = (
                    'Bearer authorization="https://login.microsoftonline.com/tenant", '
                    'resource="https://vault.azure.net"'
                )
            data = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    return Handler


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
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    """A vault behind a loopback port, to which the real client's requests are led."""
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpRequest

    vault = Vault()

    send = RequestsTransport.send

    def led(self: RequestsTransport, request: Any, **options: Any) -> Any:
        parts = urlsplit(request.url)
        assert (parts.scheme, parts.netloc) == ("https", HOST)
        url = parts._replace(scheme="http", netloc=f"127.0.0.1:{vault.port}").geturl()
        there = HttpRequest(request.method, url, headers=request.headers, content=request.content)
        return send(self, there, **options)

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
    monkeypatch.setattr(RequestsTransport, "send", led)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(vault)) as server:
        server.daemon_threads = True
        vault.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield vault
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def natives() -> dict[str, Any]:
    """Keys that the service holds."""
    return {
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "RS256": rsa.generate_private_key(65537, 2048),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
    }


ACCESS = Access(lambda kind, of: pytest.fail("asked for a secret"))


def sign(uri: str, public: PublicKey, payload: bytes = b"{}") -> None:
    """Sign a payload as a card's is signed."""
    sign_payload(payload, open_signer(uri, public, ACCESS), typ="JOSE")


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
@pytest.mark.parametrize("secretive", [False, True], ids=["may read", "may only sign"])
def test_the_vault_signs(alg: str, secretive: bool, vault: Vault, natives: dict[str, Any]) -> None:
    """A digest is sent; to sign takes no right to read the key."""
    uri = vault.make(natives[alg])
    public = list_public_keys(uri, ACCESS, kid="cards-1")[0]
    assert (public.kid, public.alg) == ("cards-1", alg)

    vault.secretive = secretive
    sign(uri, public, LARGE)
    check_possession(open_signer(uri, public, ACCESS))


def test_each_fault_has_its_own_code(
    vault: Vault, natives: dict[str, Any], es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disabled key, none, a token that the vault does not take."""
    uri = vault.make(natives["ES256"])
    vault.disabled.add(uri.removeprefix("azurekms://cards/"))

    def code(uri: str) -> str:
        with pytest.raises(SignerFault) as caught:
            sign(uri, es256.public)
        assert TOKEN not in str(caught.value)
        return caught.value.code

    assert code(uri) == "signer.no_key"
    assert code(f"azurekms://cards/none/{'0' * 32}") == "signer.no_key"
    monkeypatch.setattr(Credential, "token", "another")
    assert code(uri) == "signer.credentials"


@pytest.mark.parametrize(
    ("alg", "code"),
    [pytest.param("P-384", "key.unsupported", id="another curve")],
)
def test_a_public_half_that_cannot_be_enrolled(
    alg: str, code: str, vault: Vault, natives: dict[str, Any]
) -> None:
    """Of another kind, or not there."""
    with pytest.raises(CardsignError) as caught:
        list_public_keys(vault.make(natives[alg]), ACCESS)[0]
    assert caught.value.code == code
    with pytest.raises(CardsignError) as caught:
        list_public_keys(f"azurekms://cards/none/{'0' * 32}", ACCESS)[0]
    assert caught.value.code == "signer.no_key"
