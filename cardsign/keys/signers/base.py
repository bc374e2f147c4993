"""What each kind of signer is made of: a URI, read strictly, and a key that is elsewhere."""

from __future__ import annotations

import importlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn
from urllib.parse import unquote

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from cardsign.errors import SignerFault, install_hint
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey, check_answer, raw_from_der

if TYPE_CHECKING:
    from cardsign.keys.signers.access import Access

MAX_URI_CHARS: Final = 2048
#: A part of a URI in printable ASCII, without a space, '#', '?' or a lone '%'.
ENCODED: Final = r"(?:[!\"$&->@-~]|%[0-9A-Fa-f]{2})*"

# What a message shows of a value that may be the private key itself, given by mistake:
# ``--key "$(cat key.pem)"``. Of keys only Ed25519 in base64 has fewer than 80 characters, 64; DER,
# a sequence, begins with MA to MP there.
NOT_SHOWN: Final = "not shown: it may be a key"
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
_SHOWN: Final = re.compile(r"(?!.*(?:-----|:M[A-P][A-Za-z0-9+/=]{38}))[a-z][a-z0-9+.-]+:[^\s{]*")


def scheme_of(uri: str) -> str:
    """Return the scheme with which a value begins, or an empty text."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Say whether a message may repeat what a user gave as the URI of a private key."""
    return len(uri) < 80 and bool(scheme_of(uri) and _SHOWN.fullmatch(uri))


def refuse_uri(uri: str, problem: str, hint: str = "") -> NoReturn:
    """Raise ``signer.uri``, which repeats the URI only where it cannot be a key."""
    path = uri if is_shown(uri) else f"{scheme_of(uri) or 'a value'}:... ({NOT_SHOWN})"
    raise SignerFault("signer.uri", problem, path=path, hint=hint)


def decode_part(uri: str, part: str) -> str:
    """Percent-decode a part of a URI, which must be printable UTF-8."""
    decoded = unquote(part, errors="surrogateescape")
    if not decoded.isprintable():
        refuse_uri(uri, "expected printable UTF-8")
    return decoded


def read_attributes(
    uri: str, text: str, separator: str, names: Collection[str]
) -> list[tuple[str, str]]:
    """Read the ``NAME=VALUE`` pairs of a part of a URI; the values are still encoded."""
    pairs = []
    for pair in text.split(separator) if text else ():
        name, equals, value = pair.partition("=")
        if not equals or name not in names:
            refuse_uri(uri, f"expected attributes NAME=VALUE, of the names {', '.join(names)}")
        pairs.append((name, value))
    return pairs


def require(module: str, *, extra: str) -> Any:
    """Import the library that a signer needs; raises ``usage.not_installed``."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        message = f"the library {module} cannot be loaded: {exc}"
        raise SignerFault("usage.not_installed", message, hint=install_hint(extra)) from exc


class RemoteKey(ABC):
    """A signer whose private key is elsewhere; each kind is a subclass.

    Making one takes the URI apart (``signer.uri`` if that cannot be done), and asks nobody.

    Attributes:
        FORM: What a URI of this kind is, as a whole.
        EXPECTED: The same in words, for a message.
        GIVES_DER: Whether signatures for ES256 come in DER.
        parts: The groups of `FORM`, as they stand in the URI.
        public: The key that it is known by; who opens it to sign sets it beforehand.
    """

    FORM: ClassVar[re.Pattern[str]]
    EXPECTED: ClassVar[str]
    GIVES_DER: ClassVar[bool] = False

    public: PublicKey

    def __init__(self, uri: str, access: Access) -> None:
        match = self.FORM.fullmatch(uri)
        if match is None or len(uri) > MAX_URI_CHARS:
            refuse_uri(uri, f"expected {self.EXPECTED}, percent-encoded")
        self.uri, self.access, self.parts = uri, access, match.groupdict()

    def sign(self, signing_input: bytes) -> bytes:
        """Let the private key sign ``protected.payload``, as JWS wants it.

        For ES256 that is r and s, 32 bytes each; for RS256 PKCS #1 v1.5.

        Raises:
            SignerFault: ``signer.wrong_key``; as :meth:`request_signature`.
            PassphraseFault: A secret cannot be had.
        """
        answer = self.request_signature(signing_input, self.public.alg)
        if self.GIVES_DER and self.public.alg == "ES256":
            try:
                answer = raw_from_der(answer, size=self.public.signature_bytes // 2)
            except ValueError as exc:
                raise SignerFault("signer.failed", f"the answer: {exc}", path=self.uri) from exc
        # A wrong key, version, padding or form is found here, and not by a peer.
        check_answer(self.public, signing_input, answer)
        return answer

    def fetch_public(self, kid: str | None = None) -> PublicKey:
        """Return the public key that the signer shows.

        Raises:
            SignerFault: ``signer.no_public``; as :meth:`request_public`.
            KeyRefused: It is weak, or for neither ES256 nor RS256.
        """
        shown = self.request_public()
        try:
            if shown.startswith(b"{"):
                jwk = {**json.loads(shown), "kid": kid or "shown"}
                native: object = PublicKey.from_jwk(jwk, algorithms=STATEMENT_ALGORITHMS).native
            elif shown.startswith(b"-----"):
                native = load_pem_public_key(shown)
            else:
                native = load_der_public_key(shown)
        except (ValueError, UnsupportedAlgorithm) as exc:
            message = "the answer is no public key for ES256 or RS256"
            raise SignerFault("signer.no_public", message, path=self.uri) from exc
        return PublicKey.from_cryptography(native, kid=kid, algorithms=STATEMENT_ALGORITHMS)

    @abstractmethod
    def request_public(self) -> bytes:
        """Ask for the public key: a SubjectPublicKeyInfo in PEM or DER, or a JWK.

        Raises:
            SignerFault: ``signer.no_public`` where it cannot be had this way; as
                :meth:`request_signature`.
        """

    @abstractmethod
    def request_signature(self, signing_input: bytes, alg: str) -> bytes:
        """Ask for a signature of ``protected.payload``, of which nothing is believed.

        Raises:
            SignerFault: ``usage.not_installed``, ``signer.uri``, ``config.not_allowed``,
                ``signer.unreachable``, ``signer.credentials``, ``signer.no_key``,
                ``signer.failed``.
            PassphraseFault: A secret cannot be had.
        """
