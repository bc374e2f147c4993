"""``hashivault://MOUNT/KEY?version=N``: the transit engine of Vault and of OpenBao, by hvac.

The server is the one of BAO_ADDR or VAULT_ADDR, never one that the URI chooses, and is asked
over TLS. The version is part of the URI: a key that is rotated there would else sign with a
public key that nobody has published. ES256 asks for the JWS form; RS256 for PKCS #1 v1.5, since
the engine's own choice is PSS. What is sent is the SHA-256 of the signing input.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.serialization import load_pem_public_key

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.base import RemoteKey, parse_uri, refuse_uri, require

EXTRA: Final = "vault"
MAX_SECONDS: Final = 30  # for one request
MAX_VERSION_DIGITS: Final = 9

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_FORMS: Final[dict[str, dict[str, str]]] = {
    "ES256": {"marshaling_algorithm": "jws"},
    "RS256": {"signature_algorithm": "pkcs1v15"},
}


class VaultKey(RemoteKey):
    """One version of a key. Which server is asked, is said by the user's environment."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        parts = parse_uri(uri)
        parts.only("version")
        path = [parts.authority, *parts.path.removeprefix("/").split("/")]
        if len(path) < 2 or not all(_NAME.fullmatch(name) for name in path):
            refuse_uri(uri, "expected hashivault://MOUNT/KEY?version=N")
        version = parts.one("version")
        if version is None:
            refuse_uri(uri, "expected ?version=N: a key without it changes when it is rotated")
        if not re.fullmatch(rf"[1-9][0-9]{{0,{MAX_VERSION_DIGITS - 1}}}", version):
            refuse_uri(uri, "the version is no number from 1 on")
        self.mount, self.name, self.version = "/".join(path[:-1]), path[-1], int(version)

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Read the public key of the version that the URI names."""
        with _client(access, self) as client:
            answer = client.secrets.transit.read_key(name=self.name, mount_point=self.mount)
            shown = answer["data"]["keys"].get(str(self.version))
        if shown is None:
            what = f"the key there has no version {self.version}"
            raise SignerFault("signer.no_key", what, path=self.uri)
        pem = shown.get("public_key") if isinstance(shown, dict) else None
        what = "the answer has no public key"
        return self.read_public(
            load_pem_public_key, str(pem).encode(), kid, code="signer.no_public", what=what
        )

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Let the server sign.

        Raises:
            SignerFault: As :meth:`RemoteKey.sign`; ``config.not_allowed``: no TLS;
                ``signer.wrong_key``: another version answered.
            PassphraseFault: No token can be had.
        """
        digest = base64.b64encode(hashlib.sha256(signing_input).digest()).decode()
        with _client(access, self) as client:
            answer = client.secrets.transit.sign_data(
                name=self.name,
                mount_point=self.mount,
                hash_input=digest,
                hash_algorithm="sha2-256",
                prehashed=True,
                key_version=self.version,
                **_FORMS[public.alg],
            )
            text = str(answer["data"]["signature"])
        _, version, encoded = (*text.split(":", 2), "", "")[:3]  # vault:v1:...
        if version != f"v{self.version}":
            what = f"version {version[:12]!r} signed, not v{self.version}"
            raise SignerFault("signer.wrong_key", what, path=self.uri)
        try:
            standard = encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4)
            return base64.b64decode(standard, validate=True)  # the JWS form is base64url
        except ValueError as exc:
            raise SignerFault("signer.failed", "the answer is no signature", path=self.uri) from exc


@contextmanager
def _client(access: Access, key: VaultKey) -> Iterator[Any]:
    """A connection; the one boundary at which hvac's exceptions are converted."""
    hvac = require("hvac", extra=EXTRA)
    address = _address(access, key)
    client = hvac.Client(
        url=address,
        token=access.secrets("token", address).decode("latin-1"),  # as headers are
        namespace=access.variable("BAO_NAMESPACE", "VAULT_NAMESPACE"),
        verify=access.variable("BAO_CACERT", "VAULT_CACERT", "BAO_CAPATH", "VAULT_CAPATH") or True,
        timeout=MAX_SECONDS,
        allow_redirects=False,  # the token must not travel on
    )
    try:
        yield client
    except hvac.exceptions.VaultError as exc:
        raise _fault(exc, key) from exc
    except OSError as exc:  # what requests raises are such
        what = f"{address} cannot be asked: {type(exc).__name__}"
        raise SignerFault("signer.unreachable", what, path=key.uri) from exc
    except (KeyError, TypeError, ValueError) as exc:
        raise SignerFault(
            "signer.failed", f"{address} does not answer as the transit engine does", path=key.uri
        ) from exc
    finally:
        client.adapter.close()


def _address(access: Access, key: VaultKey) -> str:
    address = access.variable("BAO_ADDR", "VAULT_ADDR")
    if address is None:
        raise SignerFault(
            "signer.uri",
            "no server is named",
            path=key.uri,
            hint="Set VAULT_ADDR or BAO_ADDR to its https URL.",
        )
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.username is not None or parts.scheme not in ("http", "https"):
        raise SignerFault(
            "signer.uri",
            "the server's address is no https URL",
            path=key.uri,
            hint="Set the environment variable that the message names.",
        )
    if parts.scheme == "http" and not (access.policy.insecure_loopback_http and host in _LOOPBACK):
        raise SignerFault(
            "config.not_allowed",
            f"{address} is asked without TLS, which would show the token to the network",
            path=key.uri,
            hint="Use https; for a test server on this machine allow insecure_loopback_http.",
        )
    return address


def _fault(exc: Exception, key: VaultKey) -> SignerFault:
    name = type(exc).__name__
    said = "; ".join(str(error) for error in getattr(exc, "errors", None) or ()) or name
    shown = " ".join("".join(char if char.isprintable() else " " for char in said).split())[:200]
    code = "signer.failed"
    if name in ("Forbidden", "Unauthorized"):
        code = "signer.credentials"
    elif name in ("VaultDown", "VaultNotInitialized", "BadGateway", "RateLimitExceeded"):
        code = "signer.unreachable"
    elif (
        name == "InvalidPath"
        or "not found" in said
        or "higher than the latest" in said
        or "minimum" in said
        or "disabled" in said
    ):
        code = "signer.no_key"
    return SignerFault(code, f"the server refused: {shown}", path=key.uri)
