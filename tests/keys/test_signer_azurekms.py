"""Client-shape tests of `azurekms:`: Azure's own client against a server of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from cardsign.jose import base64url
from cardsign.jose.jwk import jwk_of
from cardsign.jose.keys import PrivateKey, raw_from_der
from tests.keys.elsewhere import (
    Answer,
    enrol,
    enrols_and_signs,
    gives_up,
    refusal,
    serving,
    sign,
    silent,
)

pytestmark = pytest.mark.needs_azure

HOST = "cards.vault.azure.net"
HASHED = utils.Prehashed(hashes.SHA256())
TOKEN = "token-of-the-test"
ABSENT = f"azurekms://cards/none/{'0' * 32}"
JSON = {"Content-Type": "application/json"}
#: With which Key Vault answers a request that has no token yet.
CHALLENGE = 'Bearer authorization="https://login.microsoftonline.com/tenant", '
CHALLENGE += 'resource="https://vault.azure.net"'


class Vault:
    """The keys of a vault, and whether they may be read."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.disabled: set[str] = set()
        self.is_secretive = False
        self.port = 0

    def make(self, native: Any) -> str:
        """The URI of a new key's version."""
        place = f"k{len(self.keys)}/{uuid4().hex}"
        self.keys[place] = native
        return f"azurekms://cards/{place}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], request: Any) -> Answer:
        """One request to the API."""
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {**JSON, "WWW-Authenticate": CHALLENGE}, {"error": {"code": "Unauthorized"}}
        _, _, name, version, *action = urlsplit(path).path.split("/")
        place = f"{name}/{version}"
        if place not in self.keys:
            return 404, JSON, {"error": {"code": "KeyNotFound", "message": "no such key"}}
        native, kid = self.keys[place], f"https://{HOST}/keys/{place}"
        if method == "GET" and self.is_secretive:
            return 403, JSON, {"error": {"code": "Forbidden", "message": "no keys/get"}}
        if method == "GET":
            jwk = jwk_of(native.public_key())
            key = {**jwk, "kid": kid, "kty": f"{jwk['kty']}-HSM"}
            return 200, JSON, {"key": key, "attributes": {"enabled": True}}
        assert action == ["sign"]
        if place in self.disabled:
            error = {"code": "Forbidden", "innererror": {"code": "KeyDisabled"}}
            return 403, JSON, {"error": error}
        signature = sign_digest(native, request["alg"], base64url.decode(request["value"]))
        return 200, JSON, {"kid": kid, "value": base64url.encode(signature)}


def sign_digest(native: Any, algorithm: str, digest: bytes) -> bytes:
    """Sign as the documentation says: r and s, or PKCS #1 v1.5."""
    if isinstance(native, rsa.RSAPrivateKey):
        assert algorithm == "RS256"
        return native.sign(digest, padding.PKCS1v15(), HASHED)
    assert algorithm == "ES256"
    return raw_from_der(native.sign(digest, ec.ECDSA(HASHED)))


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

    vault, send = Vault(), RequestsTransport.send
    with serving(vault.answer) as vault.port:

        def led(self: RequestsTransport, request: Any, **options: Any) -> Any:
            parts = urlsplit(request.url)
            assert (parts.scheme, parts.netloc) == ("https", HOST)
            url = parts._replace(scheme="http", netloc=f"127.0.0.1:{vault.port}").geturl()
            content = {"headers": request.headers, "content": request.content}
            return send(self, HttpRequest(request.method, url, **content), **options)

        monkeypatch.setattr("azure.identity.DefaultAzureCredential", Credential)
        monkeypatch.setattr(RequestsTransport, "send", led)
        yield vault


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_the_vault_signs(alg: str, vault: Vault, natives: dict[str, Any]) -> None:
    """A digest is sent; to sign takes no right to read the key."""
    uri = vault.make(natives[alg])
    enrols_and_signs(uri, alg)
    public = enrol(uri)
    vault.is_secretive = True
    sign(uri, public)


def test_a_vault_that_hangs_is_given_up(vault: Vault, es256: PrivateKey) -> None:
    """Nothing is signed, and the job ends."""
    with silent() as vault.port:
        gives_up(sign, ABSENT, es256.public)


def test_each_fault_has_its_own_code(
    vault: Vault, natives: dict[str, Any], es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disabled key, none, a token that the vault does not take."""
    uri = vault.make(natives["ES256"])
    vault.disabled.add(uri.removeprefix("azurekms://cards/"))
    for place in (uri, ABSENT):
        assert refusal(sign, place, es256.public) == "signer.no_key"
    assert refusal(enrol, ABSENT) == "signer.no_key"
    monkeypatch.setattr(Credential, "token", "another")
    assert refusal(sign, uri, es256.public, match=f"^(?!.*{TOKEN})") == "signer.credentials"
