"""``pkcs11:`` (RFC 7512): keys in smart cards, HSMs and SoftHSM, by python-pkcs11.

ES256 is CKM_ECDSA over our own SHA-256, which gives r and s as JWS wants them; RS256 is
CKM_SHA256_RSA_PKCS, or CKM_RSA_PKCS over our DigestInfo where a token has only that. A session
lasts for one signature, so that nobody stays logged in.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from cryptography.hazmat.primitives.serialization import load_der_public_key

from cardsign.errors import SignerFault
from cardsign.files import read_secret
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, first_line
from cardsign.keys.signers.base import RemoteKey, attributes, check_characters, refuse_uri, require

EXTRA: Final = "pkcs11"
MAX_PIN_BYTES: Final = 1024  # a longer file is not the one that was meant

_TOKEN: Final = ("token", "manufacturer", "model", "serial")
_PATH: Final = (*_TOKEN, "object", "id", "type")
_QUERY: Final = ("module-path", "pin-source")
_SECRET: Final = re.compile(r"[?&]pin-value=")
_DIGEST_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017 9.2
_KEY_TYPES: Final = {"ES256": "EC", "RS256": "RSA"}
_LOGGED_IN: Final = threading.Lock()  # a login is the process's, not the session's

_ABSENT: Final = ("NoSuchToken", "TokenNotPresent", "TokenNotRecognised", "DeviceRemoved")
_PIN: Final = {
    "PinIncorrect": "the PIN is wrong; after a few wrong ones the token locks itself",
    "PinInvalid": "the PIN has characters that the token does not take",
    "PinLenRange": "the PIN is too short or too long for the token",
    "PinLocked": "the PIN is locked after too many wrong ones",
    "PinExpired": "the PIN has expired",
    "UserPinNotInitialized": "the token has no user PIN yet",
}


class TokenKey(RemoteKey):
    """A private key on a token.

    Attributes:
        token: Label, manufacturer, model and serial number of the token, as far as given.
        label: CKA_LABEL of the key, or None.
        id: CKA_ID of the key, or None.
        module: The library to load, by the URI's word.
        pin_source: The file that holds the PIN, by the URI's word.
    """

    def __init__(self, uri: str) -> None:
        """Take the URI apart; every attribute counts, an unknown one is refused (RFC 7512 2.3)."""
        super().__init__(uri)
        if _SECRET.search(uri):  # which is not repeated
            refuse_uri("pkcs11:...", "a PIN has no place in a URI, where others can read it")
        check_characters(uri)
        path, mark, query = uri.removeprefix("pkcs11:").partition("?")
        ids = [pair for pair in path.split(";") if pair.startswith("id=")]
        named = _named(uri, [pair for pair in path.split(";") if pair not in ids], _PATH)
        local = _named(uri, query.split("&") if mark else [], _QUERY)
        if len(ids) > 1:
            refuse_uri(uri, "the attribute 'id' is there twice")
        if named.get("type", "private") != "private":
            refuse_uri(uri, "expected type=private, or no type")
        self.token = {name: value for name, value in named.items() if name in _TOKEN}
        if not self.token or not ("object" in named or ids):
            refuse_uri(uri, "expected a token or its serial, and the object or id of a key")
        self.label = named.get("object")
        self.id = unquote_to_bytes(ids[0].removeprefix("id=")) if ids else None
        self.module = _absolute(uri, local.get("module-path"))
        source = local.get("pin-source")
        self.pin_source = _absolute(uri, source and source.removeprefix("file:"))

    @property
    def custody(self) -> str:
        """Token and key, without the library and the PIN's file, which are this machine's."""
        return self.uri.partition("?")[0]

    @property
    def needs_leave(self) -> bool:
        """Where it names a library to load, or a file to read."""
        return self.module is not None or self.pin_source is not None

    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Read the public key object that stands beside the private one."""
        with self._session(access) as (library, _, session):
            found = self._find(library, session, "PUBLIC_KEY")
            if found is None:
                what = "the token shows no public key there"
                raise SignerFault("signer.no_public", what, path=self.custody)
            spki = _encoded(library, found)
        what = "expected a key on the curve P-256, or an RSA key"
        return self.read_public(load_der_public_key, spki, kid, code="signer.no_key", what=what)

    def open(self, public: PublicKey, access: Access) -> Callable[[bytes], bytes]:
        """Look for the library at once; for the token when it is to sign."""
        self._library(access)
        return super().open(public, access)

    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        digest = hashlib.sha256(signing_input).digest()
        with self._session(access) as (library, token, session):
            key = self._find(library, session, "PRIVATE_KEY", public.alg)
            if key is None:
                what = f"the token has no private key for {public.alg} there"
                raise SignerFault("signer.no_key", what, path=self.custody)
            mechanisms = library.Mechanism
            if public.alg == "ES256":
                return bytes(key.sign(digest, mechanism=mechanisms.ECDSA))
            if mechanisms.SHA256_RSA_PKCS in _offered(token):
                return bytes(key.sign(signing_input, mechanism=mechanisms.SHA256_RSA_PKCS))
            return bytes(key.sign(_DIGEST_INFO + digest, mechanism=mechanisms.RSA_PKCS))

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
        return require("pkcs11", extra=EXTRA), module

    @contextmanager
    def _session(self, access: Access) -> Iterator[tuple[Any, Any, Any]]:
        """Log in; the one boundary at which the library's exceptions are converted."""
        library, module = self._library(access)
        with _LOGGED_IN:
            try:
                token = self._token(library, module)
                with token.open(user_pin=self._pin(library, token, access)) as session:
                    yield library, token, session
            except library.PKCS11Error as exc:
                raise self._fault(exc, module) from exc
            finally:
                _forget_errors_of_openssl()

    def _token(self, library: Any, module: Path) -> Any:
        fitting = []
        for slot in library.lib(str(module)).get_slots(token_present=True):
            try:
                token = slot.get_token()
            except (library.TokenNotPresent, library.TokenNotRecognised):
                continue
            said = {  # as a URI would spell it
                "token": str(token.label),
                "serial": bytes(token.serial).decode(errors="replace").strip(),
                "manufacturer": str(token.manufacturer_id),
                "model": str(token.model),
            }
            if self.token.items() <= said.items():
                fitting.append(token)
        if not fitting:
            raise SignerFault(
                "signer.unreachable",
                "no token of this description is present",
                path=self.custody,
                hint="Insert it, or see what is there: pkcs11-tool --module LIBRARY --list-slots.",
            )
        if len(fitting) > 1:
            raise SignerFault(
                "signer.no_key",
                f"{len(fitting)} tokens fit; add their serial to the URI",
                path=self.custody,
                hint="Name more attributes in the URI, until one key is left.",
            )
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
            raise SignerFault(
                "signer.credentials", "the PIN is no UTF-8", path=self.custody
            ) from exc

    def _find(self, library: Any, session: Any, kind: str, alg: str | None = None) -> Any:
        """The only key that fits, or None; ``signer.no_key`` if several do."""
        attribute = library.Attribute
        wanted = {attribute.CLASS: library.ObjectClass[kind]}
        if alg is not None:
            wanted[attribute.KEY_TYPE] = library.KeyType[_KEY_TYPES[alg]]
        if self.label is not None:
            wanted[attribute.LABEL] = self.label
        if self.id is not None:
            wanted[attribute.ID] = self.id
        found = list(session.get_objects(wanted))
        if len(found) > 1:
            raise SignerFault(
                "signer.no_key",
                f"{len(found)} keys on the token fit; name both object and id",
                path=self.custody,
                hint="Name more attributes in the URI, until one key is left.",
            )
        return found[0] if found else None

    def _fault(self, exc: Exception, module: Path) -> SignerFault:
        name = type(exc).__name__
        if name in _PIN:
            return SignerFault("signer.credentials", _PIN[name], path=self.custody)
        if name == "PKCS11Error":  # the only one of this very class: dlopen has failed
            text = f"the PKCS#11 library cannot be loaded: {exc}"
            return SignerFault("signer.unreachable", text, path=str(module))
        code = "signer.unreachable" if name in _ABSENT else "signer.failed"
        return SignerFault(code, f"the token answered {name}", path=self.custody)


def _named(text: str, pairs: list[str], known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in attributes(text, pairs, known):
        if name in found:
            refuse_uri(text, f"the attribute {name!r} is there twice")
        found[name] = value
    return found


def _absolute(text: str, path: str | None) -> Path | None:
    if path is None:
        return None
    if not Path(path).is_absolute():
        refuse_uri(text, "expected an absolute path in module-path and pin-source")
    return Path(path)


def _forget_errors_of_openssl() -> None:
    """Empty this thread's queue of errors, which a token's library may share with ours.

    SoftHSM leaves one there, and the next read of an open TLS connection would take it for its
    own. Python empties the queue when no cipher fits.
    """
    import ssl  # here: most commands need no TLS

    with suppress(ssl.SSLError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers("NONE")


def _offered(token: Any) -> Set[Any]:
    """The mechanisms of a token."""
    offered: Set[Any] = token.slot.get_mechanisms()
    return offered


def _encoded(library: Any, key: Any) -> bytes:
    if key.key_type == library.KeyType.RSA:
        return bytes(library.util.rsa.encode_rsa_public_key(key))
    if key.key_type == library.KeyType.EC:
        return bytes(library.util.ec.encode_ec_public_key(key))
    return b""
