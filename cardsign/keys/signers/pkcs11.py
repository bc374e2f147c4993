"""``pkcs11:`` (RFC 7512): keys in smart cards, HSMs and SoftHSM, by python-pkcs11."""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from cardsign.errors import SignerFault
from cardsign.files import read_secret
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, first_line
from cardsign.keys.signers.base import RemoteKey, read_attributes, refuse_uri, require

MAX_PIN_BYTES: Final = 1024  # a longer file is not the one that was meant

_TOKEN: Final = ("token", "manufacturer", "model", "serial")
_QUERY: Final = ("module-path", "pin-source")
_DIGEST_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017 9.2
_KEY_TYPES: Final = {"ES256": "EC", "RS256": "RSA"}
_LOGGED_IN: Final = threading.Lock()  # a login is the process's, not the session's
_ABSENT: Final = ("NoSuchToken", "TokenNotPresent", "TokenNotRecognised", "DeviceRemoved")


class TokenKey(RemoteKey):
    """A private key on a token; a session lasts for one signature, so nobody stays logged in.

    ES256 is CKM_ECDSA over our own SHA-256, which gives r and s as JWS wants them; RS256 is
    CKM_RSA_PKCS over our own DigestInfo.

    Attributes:
        token: Label, manufacturer, model and serial number of the token, as far as given.
        label: CKA_LABEL of the key, or None.
        id: CKA_ID of the key, or None.
        module: The library to load, by the URI's word.
        pin_source: The file that holds the PIN, by the URI's word.
    """

    FORM = re.compile(r"pkcs11:(?P<path>[^?]*)(?:\?(?P<query>.*))?")
    EXPECTED = "pkcs11:token=TOKEN;object=KEY"

    def __init__(self, uri: str) -> None:
        """Take the URI apart; every attribute counts, an unknown one is refused (RFC 7512 2.3)."""
        if re.search("[?&]pin-value=", uri):  # which is not repeated
            refuse_uri("pkcs11:...", "a PIN has no place in a URI, where others can read it")
        super().__init__(uri)
        pairs, query = self.parts["path"].split(";"), self.parts["query"]
        ids = [pair for pair in pairs if pair.startswith("id=")]
        rest = [pair for pair in pairs if pair not in ids]
        named = read_attributes(uri, rest, (*_TOKEN, "object", "type"))
        if len(ids) > 1:
            refuse_uri(uri, "the attribute 'id' is there twice")
        if named.get("type", ["private"]) != ["private"]:
            refuse_uri(uri, "expected type=private, or no type")
        self.token = {name: values[0] for name, values in named.items() if name in _TOKEN}
        if not self.token or not ("object" in named or ids):
            refuse_uri(uri, "expected a token or its serial, and the object or id of a key")
        self.label = named.get("object", [None])[0]
        self.id = unquote_to_bytes(ids[0].removeprefix("id=")) if ids else None
        self.module, self.pin_source = _read_paths(uri, query)

    @property
    def custody(self) -> str:
        """Token and key, without the library and the PIN's file, which are this machine's."""
        return self.uri.partition("?")[0]

    @property
    def needs_leave(self) -> bool:
        """Where it names a library to load, or a file to read."""
        return self.module is not None or self.pin_source is not None

    def show_public(self, access: Access) -> bytes:
        """Read the public key object that stands beside the private one."""
        with self._session(access) as (library, session):
            key = self._find(library, session, "PUBLIC_KEY")
            if key.key_type == library.KeyType.RSA:
                return bytes(library.util.rsa.encode_rsa_public_key(key))
            if key.key_type == library.KeyType.EC:
                return bytes(library.util.ec.encode_ec_public_key(key))
            return b""

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        digest = hashlib.sha256(signing_input).digest()
        with self._session(access) as (library, session):
            key = self._find(library, session, "PRIVATE_KEY", public.alg)
            if public.alg == "ES256":
                return bytes(key.sign(digest, mechanism=library.Mechanism.ECDSA))
            return bytes(key.sign(_DIGEST_INFO + digest, mechanism=library.Mechanism.RSA_PKCS))

    def _library(self, access: Access) -> tuple[Any, Path]:
        """python-pkcs11, and the library that it is to load."""
        module = self.module or access.policy.pkcs11_module
        if module is None:
            raise SignerFault(
                "config.not_allowed",
                "no PKCS#11 library is named by the user",
                path=self.custody,
                hint="Set CARDSIGN_PKCS11_MODULE=/LIBRARY.so, or give module-path in --key.",
            )
        return require("pkcs11", extra="pkcs11"), module

    @contextmanager
    def _session(self, access: Access) -> Iterator[tuple[Any, Any]]:
        """Log in; the one boundary at which the library's exceptions are converted."""
        library, module = self._library(access)
        with _LOGGED_IN:
            try:
                token = self._token(library, module)
                with token.open(user_pin=self._pin(library, token, access)) as session:
                    yield library, session
            except library.PKCS11Error as exc:
                raise self._fault(exc, module) from exc
            finally:
                _forget_errors_of_openssl()

    def _token(self, library: Any, module: Path) -> Any:
        fitting = []
        for token in library.lib(str(module)).get_tokens():
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
            raise SignerFault("signer.unreachable", message, path=self.custody, hint=hint)
        if len(fitting) > 1:
            raise self._no_key(f"{len(fitting)} tokens fit; add their serial to the URI")
        return fitting[0]

    def _pin(self, library: Any, token: Any, access: Access) -> Any:
        if token.flags & library.TokenFlag.PROTECTED_AUTHENTICATION_PATH:
            return library.PROTECTED_AUTH  # typed on the device itself
        if self.pin_source is not None:
            pin = first_line(read_secret(self.pin_source, max_bytes=MAX_PIN_BYTES))
        else:
            pin = access.secrets("pin", f"token {token.label!r}")
        try:
            return pin.decode()
        except UnicodeDecodeError as exc:
            message = "the PIN is no UTF-8"
            raise SignerFault("signer.credentials", message, path=self.custody) from exc

    def _find(self, library: Any, session: Any, kind: str, alg: str | None = None) -> Any:
        """The only key that fits."""
        attribute = library.Attribute
        attributes = {
            attribute.CLASS: library.ObjectClass[kind],
            attribute.KEY_TYPE: alg and library.KeyType[_KEY_TYPES[alg]],
            attribute.LABEL: self.label,
            attribute.ID: self.id,
        }
        attributes = {name: value for name, value in attributes.items() if value is not None}
        keys = list(session.get_objects(attributes))
        if len(keys) > 1:
            raise self._no_key(f"{len(keys)} keys on the token fit; name both object and id")
        if not keys and alg is None:
            message = "the token shows no public key there"
            raise SignerFault("signer.no_public", message, path=self.custody)
        if not keys:
            raise self._no_key(f"the token has no private key for {alg} there")
        return keys[0]

    def _no_key(self, what: str) -> SignerFault:
        return SignerFault("signer.no_key", what, path=self.custody)

    def _fault(self, exc: Exception, module: Path) -> SignerFault:
        name = type(exc).__name__
        if "Pin" in name:
            message = (
                f"the token refuses the PIN ({name}), and after a few wrong ones it locks itself"
            )
            return SignerFault("signer.credentials", message, path=self.custody)
        if name == "PKCS11Error":  # the only one of this very class: dlopen has failed
            text = f"the PKCS#11 library cannot be loaded: {exc}"
            return SignerFault("signer.unreachable", text, path=str(module))
        code = "signer.unreachable" if name in _ABSENT else "signer.failed"
        return SignerFault(code, f"the token answered {name}", path=self.custody)


def _read_paths(uri: str, query: str | None) -> list[Path | None]:
    """Return the library and the PIN's file that a URI names."""
    local = read_attributes(uri, query.split("&") if query else (), _QUERY)
    paths = [
        Path(local[name][0].removeprefix("file:")) if name in local else None for name in _QUERY
    ]
    if any(path is not None and not path.is_absolute() for path in paths):
        refuse_uri(uri, "expected an absolute path in module-path and pin-source")
    return paths


def _forget_errors_of_openssl() -> None:
    """Empty this thread's queue of errors, which a token's library may share with ours.

    SoftHSM leaves one there, and the next read of an open TLS connection would take it for its
    own. Python empties the queue when no cipher fits.
    """
    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("NONE")
