"""What a kind of signer is made of: its URI, read strictly, and a private key that is elsewhere.

A URI has one spelling, and nothing of it is silently passed over.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import unquote_to_bytes

from cryptography.exceptions import UnsupportedAlgorithm

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey, check_answer, raw_from_der

if TYPE_CHECKING:
    from cardsign.keys.signers.access import Access

MAX_URI_CHARS: Final = 2048
_URI: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?:\?(?P<query>.*))?"
)
_PLAIN: Final = re.compile(r"(?:[!\"$&-~]|%[0-9A-Fa-f]{2})*")  # no space, no '#', no lone '%'


@dataclass(frozen=True, slots=True)
class SignerUri:
    """The parts of a URI, percent-decoded but for the authority.

    Attributes:
        authority: What stands between ``//`` and the path; empty where there is none.
        path: With its leading slash.
        query: Names and values in their order; a name may come several times.
    """

    text: str
    authority: str
    path: str
    query: tuple[tuple[str, str], ...]

    def one(self, name: str) -> str | None:
        """The value of an attribute, or None; refused (``signer.uri``) if it is there twice."""
        values = self.all(name)
        if len(values) > 1:
            refuse_uri(self.text, f"the attribute {name!r} is there twice")
        return values[0] if values else None

    def all(self, name: str) -> tuple[str, ...]:
        """The values of an attribute that may come several times."""
        return tuple(value for key, value in self.query if key == name)


def parse_uri(text: str, *names: str) -> SignerUri:
    """Take a URI apart whose query may have attributes of these names.

    Raises:
        SignerFault: ``signer.uri``.
    """
    check_characters(text)
    match = _URI.fullmatch(text)
    if match is None:
        refuse_uri(text, "expected SCHEME:PATH or SCHEME://AUTHORITY/PATH")
    query = match["query"]
    pairs = attributes(text, query.split("&"), names) if query is not None else ()
    return SignerUri(text, match["authority"] or "", _decoded(text, match["path"]), pairs)


def check_characters(text: str) -> None:
    """Refuse (``signer.uri``) spaces, controls, a fragment, and ``%`` without two digits."""
    if len(text) > MAX_URI_CHARS:
        refuse_uri(text, f"a signer's URI has at most {MAX_URI_CHARS} characters")
    if not _PLAIN.fullmatch(text):
        refuse_uri(text, "expected printable ASCII without spaces, '#' or a lone '%'")


def attributes(
    text: str, pairs: Collection[str], names: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Read the ``name=value`` pairs of the URI `text`; refuses (``signer.uri``) other names."""
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            refuse_uri(text, "expected attributes of the form NAME=VALUE")
        if name not in names:
            known = f"known are {', '.join(names)}" if names else "there are none"
            refuse_uri(text, f"an attribute is unknown; {known}")
        found.append((name, _decoded(text, value)))
    return tuple(found)


def _decoded(text: str, part: str) -> str:
    try:
        decoded = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        refuse_uri(text, "a part is not UTF-8")
    if not decoded.isprintable():
        refuse_uri(text, "a part has control characters")
    return decoded


# What a message shows of a value that may be the private key itself, given by mistake:
# ``--key "$(cat key.pem)"``.


NOT_SHOWN: Final = "not shown: it may be a key"
_MAX_SHOWN: Final = 80  # characters; of keys only Ed25519 in base64 has less, 64
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
# The last is how DER begins in base64: a sequence.
_NEVER_SHOWN: Final = re.compile(r"\s|\{|-----|:M[A-P][A-Za-z0-9+/=]{38}")


def scheme_of(uri: str) -> str:
    """The scheme with which a value begins; empty where it has none."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Whether a message may repeat what a user gave as the URI of a private key."""
    return bool(scheme_of(uri)) and len(uri) < _MAX_SHOWN and not _NEVER_SHOWN.search(uri)


def shown(uri: str) -> str:
    """What a message calls a signer of which nobody has read the URI yet."""
    if is_shown(uri):
        return uri
    scheme = scheme_of(uri)
    return f"{scheme}:... {NOT_SHOWN}" if scheme else f"a value without a scheme ({NOT_SHOWN})"


def refuse_uri(uri: str, what: str) -> NoReturn:
    """Say what is wrong with the URI of a signer, which is repeated only as by :func:`shown`."""
    raise SignerFault("signer.uri", what, path=shown(uri))


class RemoteKey(ABC):
    """A private key that is elsewhere, named by a URI; each kind of signer is a subclass.

    Making one takes the URI apart (``signer.uri`` if that cannot be done), and asks nobody.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @property
    def custody(self) -> str:
        """The part of the URI to store with the key: what holds on every machine."""
        return self.uri

    @property
    def needs_leave(self) -> bool:
        """Whether the URI chooses what runs, is loaded or is read on this machine."""
        return False

    @abstractmethod
    def fetch_public(self, access: Access, *, kid: str | None) -> PublicKey:
        """Ask for the public key, once, when it is enrolled; never when it signs.

        Raises:
            SignerFault: ``signer.no_public`` where it cannot be had this way; as :meth:`sign`.
            KeyRefused: It is weak, or for neither algorithm.
        """

    @abstractmethod
    def sign(self, signing_input: bytes, public: PublicKey, access: Access) -> bytes:
        """Return the JWS signature of ``protected.payload`` by the private key of `public`.

        For ES256 that is r and s, 32 bytes each; for RS256 PKCS #1 v1.5. Not checked here:
        that it verifies; :class:`BoundSigner` does that.

        Raises:
            SignerFault: ``usage.not_installed``, ``signer.uri``, ``config.not_allowed``,
                ``signer.unreachable``, ``signer.credentials``, ``signer.no_key``,
                ``signer.failed``, and what a kind says.
            PassphraseFault: A secret cannot be had.
        """

    def open(self, public: PublicKey, access: Access) -> Callable[[bytes], bytes]:
        """Return what signs with the private key of `public`."""
        return lambda signing_input: self.sign(signing_input, public, access)

    def read_public(
        self,
        load: Callable[[bytes], object],
        untrusted_bytes: bytes,
        kid: str | None,
        *,
        code: str = "signer.failed",
        what: str = "the answer is no public key",
    ) -> PublicKey:
        """Read the public key of an answer by a function of `cryptography`.

        Raises:
            SignerFault: `code`, saying `what`.
            KeyRefused: As :meth:`PublicKey.from_cryptography`.
        """
        try:
            native = load(untrusted_bytes)
        except (ValueError, UnsupportedAlgorithm) as exc:
            raise SignerFault(code, what, path=self.custody) from exc
        return PublicKey.from_cryptography(native, kid=kid, algorithms=STATEMENT_ALGORITHMS)

    def from_der(self, public: PublicKey, answer: bytes) -> bytes:
        """The signature as JWS wants it, from a service that gives ES256 in DER.

        Raises:
            SignerFault: ``signer.failed``.
        """
        if public.alg != "ES256":
            return answer
        try:
            return raw_from_der(answer, size=public.signature_bytes // 2)
        except ValueError as exc:
            raise SignerFault("signer.failed", f"the answer: {exc}", path=self.uri) from exc


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


@dataclass(frozen=True, slots=True)
class BoundSigner:
    """A signer elsewhere, whose every answer is verified with the key that it is known by."""

    public: PublicKey
    ask: Callable[[bytes], bytes]

    def sign(self, signing_input: bytes) -> bytes:
        """Let the private key sign ``protected.payload``.

        Raises:
            SignerFault: ``signer.wrong_key``, or what the signer itself raises.
        """
        answer = self.ask(signing_input)
        # A wrong key, version, padding or form is found here, and not by a peer.
        check_answer(self.public, signing_input, answer)
        return answer
