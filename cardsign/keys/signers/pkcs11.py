"""``pkcs11:`` (RFC 7512): keys in smart cards, HSMs and SoftHSM, by python-pkcs11."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from cardsign.errors import SignerFault
from cardsign.keys.signers.access import PIN_VARIABLE, Access
from cardsign.keys.signers.base import (
    ENCODED,
    RemoteKey,
    decode_part,
    read_attributes,
    refuse_uri,
    require,
)

MODULE_VARIABLE: Final = "CARDSIGN_PKCS11_MODULE"

_TOKEN: Final = ("token", "manufacturer", "model", "serial")
_DIGEST_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017 9.2
_KEY_TYPES: Final = {"ES256": "EC", "RS256": "RSA"}
_LOGGED_IN: Final = threading.Lock()  # a login is the process's, not the session's
# The last is of a library that cannot be loaded, and no other.
_ABSENT: Final = ("NoSuchToken", "TokenNotPresent", "DeviceRemoved", "PKCS11Error")


class TokenKey(RemoteKey):
    """A private key on a token; a session lasts for one signature, so nobody stays logged in.

    ES256 is CKM_ECDSA over our own SHA-256, which gives r and s as JWS wants them; RS256 is
    CKM_RSA_PKCS over our own DigestInfo.

    Attributes:
        token: Label, manufacturer, model and serial number of the token, as far as given.
        label: CKA_LABEL of the key, or None.
        id: CKA_ID of the key, or None.
    """

    FORM = re.compile(rf"pkcs11:(?P<path>{ENCODED})")
    EXPECTED = "pkcs11:token=TOKEN;object=KEY"

    def __init__(self, uri: str, access: Access) -> None:
        """Take the URI apart; every attribute counts, an unknown one is refused (RFC 7512 2.3)."""
        if "?" in uri:  # it may be a PIN, and is not repeated
            hint = f"Set {MODULE_VARIABLE} to the library, and {PIN_VARIABLE} to the PIN."
            refuse_uri("pkcs11:...", "a token's URI names no library and no PIN here", hint)
        super().__init__(uri, access)
        pairs = read_attributes(uri, self.parts["path"], ";", (*_TOKEN, "object", "id", "type"))
        encoded = dict(pairs)
        if len(encoded) < len(pairs):
            refuse_uri(uri, "an attribute is there twice")
        self.id = unquote_to_bytes(encoded.pop("id")) if "id" in encoded else None
        values = {name: decode_part(uri, value) for name, value in encoded.items()}
        if values.get("type", "private") != "private":
            refuse_uri(uri, "expected type=private, or no type")
        self.token = {name: value for name, value in values.items() if name in _TOKEN}
        self.label = values.get("object")
        if not self.token or (self.label is None and self.id is None):
            refuse_uri(uri, "expected a token or its serial, and the object or id of a key")

    def request_public(self) -> bytes:
        """Read the public key object that stands beside the private one."""
        with self._session() as (library, session):
            key = self._find(library, session, "PUBLIC_KEY")
            if key.key_type == library.KeyType.RSA:
                return bytes(library.util.rsa.encode_rsa_public_key(key))
            if key.key_type == library.KeyType.EC:
                return bytes(library.util.ec.encode_ec_public_key(key))
            return b""

    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        digest = hashlib.sha256(signing_input).digest()
        with self._session() as (library, session):
            key = self._find(library, session, "PRIVATE_KEY", alg)
            if alg == "ES256":
                return bytes(key.sign(digest, mechanism=library.Mechanism.ECDSA))
            return bytes(key.sign(_DIGEST_INFO + digest, mechanism=library.Mechanism.RSA_PKCS))

    def _module(self) -> str:
        """The library to load, by the user's word."""
        module = self.access.variable(MODULE_VARIABLE) or ""
        if not os.path.isabs(module):  # a relative one would be the repository's
            message = "no PKCS#11 library is named by the user, by its absolute path"
            hint = f"Set {MODULE_VARIABLE}=/LIBRARY.so."
            raise SignerFault("config.not_allowed", message, path=self.uri, hint=hint)
        return module

    @contextmanager
    def _session(self) -> Iterator[tuple[Any, Any]]:
        """Log in; the one boundary at which the library's exceptions are converted."""
        module, library = self._module(), require("pkcs11", extra="pkcs11")
        with _LOGGED_IN:
            try:
                token = self._token(library, module)
                with token.open(user_pin=self._pin(library, token)) as session:
                    yield library, session
            except library.PKCS11Error as exc:
                raise self._fault(exc, module) from exc
            finally:
                _forget_errors_of_openssl()

    def _token(self, library: Any, module: str) -> Any:
        fitting = []
        for token in library.lib(module).get_tokens():
            attributes = {  # as a URI would spell them
                "token": str(token.label),
                "serial": bytes(token.serial).decode(errors="replace").strip(),
                "manufacturer": str(token.manufacturer_id),
                "model": str(token.model),
            }
            if self.token.items() <= attributes.items():
                fitting.append(token)
        if not fitting:
            message = "no token of this description is present"
            hint = "Insert it, or see what is there: pkcs11-tool --module LIBRARY --list-slots."
            raise SignerFault("signer.unreachable", message, path=self.uri, hint=hint)
        if len(fitting) > 1:
            raise self._no_key(f"{len(fitting)} tokens fit; add their serial to the URI")
        return fitting[0]

    def _pin(self, library: Any, token: Any) -> Any:
        if token.flags & library.TokenFlag.PROTECTED_AUTHENTICATION_PATH:
            return library.PROTECTED_AUTH  # typed on the device itself
        try:
            return self.access.secrets("pin", f"token {token.label!r}").decode()
        except UnicodeDecodeError as exc:
            message = "the PIN is no UTF-8"
            raise SignerFault("signer.credentials", message, path=self.uri) from exc

    def _find(self, library: Any, session: Any, kind: str, alg: str | None = None) -> Any:
        """Return the only key that fits."""
        expected = {"CLASS": library.ObjectClass[kind], "LABEL": self.label, "ID": self.id}
        if alg is not None:
            expected["KEY_TYPE"] = library.KeyType[_KEY_TYPES[alg]]
        attributes = {
            library.Attribute[name]: value for name, value in expected.items() if value is not None
        }
        keys = list(session.get_objects(attributes))
        if len(keys) == 1:
            return keys[0]
        if keys:
            raise self._no_key(f"{len(keys)} keys on the token fit; name both object and id")
        if alg is not None:
            raise self._no_key(f"the token has no private key for {alg} there")
        message = "the token shows no public key there"
        raise SignerFault("signer.no_public", message, path=self.uri)

    def _no_key(self, problem: str) -> SignerFault:
        return SignerFault("signer.no_key", problem, path=self.uri)

    def _fault(self, exc: Exception, module: str) -> SignerFault:
        name = type(exc).__name__
        if "Pin" in name:
            message = (
                f"the token refuses the PIN ({name}), and after a few wrong ones it locks itself"
            )
            return SignerFault("signer.credentials", message, path=self.uri)
        code = "signer.unreachable" if name in _ABSENT else "signer.failed"
        return SignerFault(code, f"{module}: {name} {exc}".rstrip(), path=self.uri)


def _forget_errors_of_openssl() -> None:
    """Empty this thread's queue of errors, which a token's library may share with ours.

    SoftHSM leaves one there, and the next read of an open TLS connection would take it for its
    own. Python empties the queue when no cipher fits.
    """
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("NONE")
