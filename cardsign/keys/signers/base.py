"""What each kind of signer is made of: a URI, read strictly, and a key that is elsewhere."""

from __future__ import annotations

import importlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn
from urllib.parse import unquote_to_bytes

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey, check_answer, raw_from_der

if TYPE_CHECKING:
    from cardsign.keys.signers.access import Access

MAX_URI_CHARS: Final = 2048
_PLAIN: Final = re.compile(r"(?:[!\"$&-~]|%[0-9A-Fa-f]{2})*")  # no space, no '#', no lone '%'

# What a message shows of a value that may be the private key itself, given by mistake:
# ``--key "$(cat key.pem)"``.
NOT_SHOWN: Final = "not shown: it may be a key"
_MAX_SHOWN: Final = 80  # characters; of keys only Ed25519 in base64 has less, 64
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
# The last is how DER begins in base64: a sequence.
_NEVER_SHOWN: Final = re.compile(r"\s|\{|-----|:M[A-P][A-Za-z0-9+/=]{38}")


def scheme_of(uri: str) -> str:
    """Return the scheme with which a value begins, or an empty text."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Say whether a message may repeat what a user gave as the URI of a private key."""
    return bool(scheme_of(uri)) and len(uri) < _MAX_SHOWN and not _NEVER_SHOWN.search(uri)


def shown(uri: str) -> str:
    """Return what a message calls a signer of which nobody has read the URI yet."""
    if is_shown(uri):
        return uri
    scheme = scheme_of(uri)
    return f"{scheme}:... {NOT_SHOWN}" if scheme else f"a value without a scheme ({NOT_SHOWN})"


def refuse_uri(uri: str, what: str) -> NoReturn:
    """Raise ``signer.uri``, which repeats the URI only as :func:`shown` does."""
    raise SignerFault("signer.uri", what, path=shown(uri))


def decode_part(uri: str, part: str) -> str:
    """Percent-decode a part of a URI, which must be printable UTF-8."""
    try:
        decoded = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        refuse_uri(uri, "a part is not UTF-8")
    if not decoded.isprintable():
        refuse_uri(uri, "a part has control characters")
    return decoded


def read_attributes(
    uri: str, pairs: Iterable[str], names: Collection[str], *, repeated: bool = False
) -> dict[str, list[str]]:
    """Read ``NAME=VALUE`` pairs of a URI, and refuse a name that is unknown or there twice.

    Args:
        uri: For the message.
        pairs: As they stand in the URI.
        names: The names that are known.
        repeated: Whether a name may be there several times.
    """
    values = dict[str, list[str]]()
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            refuse_uri(uri, "expected attributes of the form NAME=VALUE")
        if name not in names:
            refuse_uri(uri, f"an attribute is unknown; known are {', '.join(names)}")
        if name in values and not repeated:
            refuse_uri(uri, f"the attribute {name!r} is there twice")
        values.setdefault(name, []).append(decode_part(uri, value))
    return values


def require(module: str, *, extra: str) -> Any:
    """Import the library that a signer needs; raises ``usage.not_installed``."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise SignerFault(
            "usage.not_installed",
            f"the library {module} cannot be loaded: {exc}",
            hint=f"pip install 'cardsign[{extra}]'",
        ) from exc


class RemoteKey(ABC):
    """A private key that is elsewhere; each kind of signer is a subclass.

    Making one takes the URI apart (``signer.uri`` if that cannot be done), and asks nobody.

    Attributes:
        FORM: What a URI of this kind is, as a whole.
        EXPECTED: The same in words, for a message.
        GIVES_DER: Whether signatures for ES256 come in DER.
        parts: The groups of `FORM`, as they stand in the URI.
    """

    FORM: ClassVar[re.Pattern[str]]
    EXPECTED: ClassVar[str]
    GIVES_DER: ClassVar[bool] = False

    def __init__(self, uri: str) -> None:
        if len(uri) > MAX_URI_CHARS:
            refuse_uri(uri, f"a signer's URI has at most {MAX_URI_CHARS} characters")
        if not _PLAIN.fullmatch(uri):
            refuse_uri(uri, "expected printable ASCII without spaces, '#' or a lone '%'")
        match = self.FORM.fullmatch(uri)
        if match is None:
            refuse_uri(uri, f"expected {self.EXPECTED}")
        self.uri, self.parts = uri, match.groupdict()

    @property
    def custody(self) -> str:
        """The part of the URI to store with the key: what holds on every machine."""
        return self.uri

    @property
    def needs_leave(self) -> bool:
        """Whether the URI chooses what runs, is loaded or is read on this machine."""
        return False

    @abstractmethod
    def show_public(self, access: Access) -> bytes:
        """Ask for the public key, once, when it is enrolled; never when it signs.

        Returned is a SubjectPublicKeyInfo in PEM or DER, or a JWK.

        Raises:
            SignerFault: ``signer.no_public`` where it cannot be had this way; as :meth:`sign`.
        """

    @abstractmethod
    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Return the signature of ``protected.payload`` by the private key of `public`.

        Nothing of it is believed: :class:`BoundSigner` verifies it.

        Raises:
            SignerFault: ``usage.not_installed``, ``signer.uri``, ``config.not_allowed``,
                ``signer.unreachable``, ``signer.credentials``, ``signer.no_key``,
                ``signer.failed``.
            PassphraseFault: A secret cannot be had.
        """


def fetch_public(key: RemoteKey, access: Access, *, kid: str | None) -> PublicKey:
    """Return the public key that a signer shows.

    Raises:
        SignerFault: ``signer.no_public``; what the signer raises.
        KeyRefused: It is weak, or for neither ES256 nor RS256.
    """
    shown_key = key.show_public(access)
    try:
        if shown_key.startswith(b"{"):
            jwk = {**json.loads(shown_key), "kid": kid or "shown"}
            native: object = PublicKey.from_jwk(jwk, algorithms=STATEMENT_ALGORITHMS).native
        elif shown_key.startswith(b"-----"):
            native = load_pem_public_key(shown_key)
        else:
            native = load_der_public_key(shown_key)
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the answer is no public key for ES256 or RS256"
        raise SignerFault("signer.no_public", message, path=key.custody) from exc
    return PublicKey.from_cryptography(native, kid=kid, algorithms=STATEMENT_ALGORITHMS)


@dataclass(frozen=True, slots=True)
class BoundSigner:
    """A signer elsewhere, whose every answer is verified with the key that it is known by."""

    public: PublicKey
    key: RemoteKey
    access: Access

    def sign(self, signing_input: bytes) -> bytes:
        """Let the private key sign ``protected.payload``, as JWS wants it.

        For ES256 that is r and s, 32 bytes each; for RS256 PKCS #1 v1.5.

        Raises:
            SignerFault: ``signer.wrong_key``, or what the signer itself raises.
        """
        answer = self.key.sign(signing_input, self.public, self.access)
        if self.key.GIVES_DER and self.public.alg == "ES256":
            try:
                answer = raw_from_der(answer, size=self.public.signature_bytes // 2)
            except ValueError as exc:
                message = f"the answer: {exc}"
                raise SignerFault("signer.failed", message, path=self.key.uri) from exc
        # A wrong key, version, padding or form is found here, and not by a peer.
        check_answer(self.public, signing_input, answer)
        return answer
