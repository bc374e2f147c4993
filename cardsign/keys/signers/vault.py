"""``hashivault://MOUNT/KEY?version=N``: the transit engine of Vault and of OpenBao, by hvac.

The server is the one of BAO_ADDR or VAULT_ADDR, never one that the URI chooses, and is asked
over TLS. The version is part of the URI: a key that is rotated there would else sign with a
public half that nobody has published. ES256 asks for the JWS form; RS256 for PKCS #1 v1.5, since
the engine's own choice is PSS. What is sent is the SHA-256 of the signing input.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, Ask, refuse_uri, require
from cardsign.keys.signers.uri import parse_uri

EXTRA: Final = "vault"
MAX_SECONDS: Final = 30  # for one request
MAX_VERSION_DIGITS: Final = 9

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_FORMS: Final[dict[str, dict[str, str]]] = {
    "ES256": {"marshaling_algorithm": "jws"},
    "RS256": {"signature_algorithm": "pkcs1v15"},
}


def custody(uri: str) -> str:
    """The whole URI: it holds nothing of one machine."""
    _Key.parse(uri)
    return uri


def needs_leave(uri: str) -> bool:
    """Never: which server is asked, is said by the user's environment."""
    return False


def fetch_public(uri: str, access: Access, *, kid: str | None) -> PublicKey:
    """Read the public half of the version that `uri` names.

    Raises:
        SignerFault: As :func:`open` and its signer; ``signer.no_public`` where what is there is
            no P-256 or RSA key.
        KeyRefused: As :meth:`PublicKey.from_cryptography`.
    """
    key = _Key.parse(uri)
    with _client(access, key) as client:
        answer = client.secrets.transit.read_key(name=key.name, mount_point=key.mount)
        shown = answer["data"]["keys"].get(str(key.version))
    if shown is None:
        raise SignerFault(
            "signer.no_key", f"the key there has no version {key.version}", path=key.uri
        )
    try:
        native = load_pem_public_key(shown["public_key"].encode())
    except (KeyError, TypeError, AttributeError, ValueError, UnsupportedAlgorithm) as exc:
        raise SignerFault("signer.no_public", "the key there has no public half", path=uri) from exc
    return PublicKey.from_cryptography(native, kid=kid)


def open(uri: str, public: PublicKey, access: Access) -> Ask:
    """Return what lets the server sign.

    Raises:
        SignerFault: ``signer.uri``. The signer: ``signer.not_installed``, ``signer.not_configured``
            (no address), ``signer.not_allowed`` (no TLS), ``signer.unreachable``,
            ``signer.credentials`` (the token), ``signer.no_key``, ``signer.disabled``,
            ``signer.wrong_key`` (another version answered), ``signer.failed``.
        PassphraseFault: No token can be had; raised by the signer.
    """
    key = _Key.parse(uri)
    return lambda signing_input: _sign(key, public, access, signing_input)


@dataclass(frozen=True, slots=True)
class _Key:
    uri: str
    mount: str
    name: str
    version: int

    @classmethod
    def parse(cls, uri: str) -> _Key:
        parts = parse_uri(uri)
        parts.only("version")
        path = [parts.authority, *parts.path.removeprefix("/").split("/")]
        if len(path) < 2 or not all(_NAME.fullmatch(name) for name in path):
            refuse_uri(uri, "expected hashivault://MOUNT/KEY?version=N")
        version = parts.one("version")
        if version is None:
            refuse_uri(uri, "expected ?version=N: a key without it changes when it is rotated")
        if not re.fullmatch(rf"[1-9][0-9]{{0,{MAX_VERSION_DIGITS - 1}}}", version):
            refuse_uri(uri, f"the version {version!r} is no number from 1 on")
        return cls(uri, "/".join(path[:-1]), path[-1], int(version))


def _sign(key: _Key, public: PublicKey, access: Access, signing_input: bytes) -> bytes:
    digest = base64.b64encode(hashlib.sha256(signing_input).digest()).decode()
    with _client(access, key) as client:
        answer = client.secrets.transit.sign_data(
            name=key.name,
            mount_point=key.mount,
            hash_input=digest,
            hash_algorithm="sha2-256",
            prehashed=True,
            key_version=key.version,
            **_FORMS[public.alg],
        )
        text = str(answer["data"]["signature"])
    _, version, encoded = (*text.split(":", 2), "", "")[:3]  # vault:v1:...
    if version != f"v{key.version}":
        raise SignerFault(
            "signer.wrong_key", f"version {version[:12]!r} signed, not v{key.version}", path=key.uri
        )
    try:
        standard = encoded.replace("-", "+").replace("_", "/") + "=" * (-len(encoded) % 4)
        return base64.b64decode(standard, validate=True)  # the JWS form is base64url, others not
    except ValueError as exc:
        raise SignerFault("signer.failed", "the answer is no signature", path=key.uri) from exc


@contextmanager
def _client(access: Access, key: _Key) -> Iterator[Any]:
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


def _address(access: Access, key: _Key) -> str:
    address = access.variable("BAO_ADDR", "VAULT_ADDR")
    if address is None:
        raise SignerFault(
            "signer.not_configured",
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
            "signer.not_configured", "the server's address is no https URL", path=key.uri
        )
    if parts.scheme == "http" and not (access.policy.insecure_loopback_http and host in _LOOPBACK):
        raise SignerFault(
            "signer.not_allowed",
            f"{address} is asked without TLS, which would show the token to the network",
            path=key.uri,
            hint="Use https; for a test server on this machine allow insecure_loopback_http.",
        )
    return address


def _fault(exc: Exception, key: _Key) -> SignerFault:
    name = type(exc).__name__
    said = "; ".join(str(error) for error in getattr(exc, "errors", None) or ()) or name
    shown = " ".join("".join(char if char.isprintable() else " " for char in said).split())[:200]
    code = "signer.failed"
    if name in ("Forbidden", "Unauthorized"):
        code = "signer.credentials"
    elif name in ("VaultDown", "VaultNotInitialized", "BadGateway", "RateLimitExceeded"):
        code = "signer.unreachable"
    elif name == "InvalidPath" or "not found" in said or "higher than the latest" in said:
        code = "signer.no_key"
    elif "minimum" in said or "disabled" in said:
        code = "signer.disabled"
    return SignerFault(code, f"the server refused: {shown}", path=key.uri)
