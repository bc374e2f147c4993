"""A private key that is elsewhere: what each kind of signer has to offer, and what checks it."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey, check_answer, raw_from_der
from cardsign.keys.signers.access import Access
from cardsign.records import dataclass

Ask = Callable[[bytes], bytes]
"""Takes ``protected.payload`` to the signer, and gives its JWS signature:
for ES256 r and s, 32 bytes each; for RS256 PKCS #1 v1.5. Nobody has verified it yet."""


class RemoteKey(ABC):
    """A private key that is elsewhere, named by a URI; each kind of signer is a subclass.

    Making one takes the URI apart, and asks nobody.

    Attributes:
        uri: As it was given.

    Raises:
        SignerFault: ``signer.uri`` where the URI cannot be understood.
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
        """Sign with the private key of `public`; nobody has verified the answer yet.

        Raises:
            SignerFault: ``usage.not_installed``, ``signer.uri``,
                ``config.not_allowed``, ``signer.unreachable``, ``signer.credentials``,
                ``signer.no_key``, ``signer.no_key``, ``signer.failed``, and what a kind says.
            PassphraseFault: A secret cannot be had.
        """

    def open(self, public: PublicKey, access: Access) -> Ask:
        """Return what signs with the private key of `public`."""
        return lambda signing_input: self.sign(signing_input, public, access)

    def read_public(
        self, load: Callable[[bytes], object], untrusted_bytes: bytes, kid: str | None
    ) -> PublicKey:
        """Read the public key of an answer by a function of `cryptography`.

        Raises:
            SignerFault: ``signer.failed``.
            KeyRefused: As :meth:`PublicKey.from_cryptography`.
        """
        try:
            native = load(untrusted_bytes)
        except (ValueError, UnsupportedAlgorithm) as exc:
            raise SignerFault(
                "signer.failed", "the answer is no public key", path=self.uri
            ) from exc
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
    """Import the library that a signer needs.

    Raises:
        SignerFault: ``usage.not_installed``.
    """
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
    ask: Ask

    def sign(self, signing_input: bytes) -> bytes:
        """Let the private key sign ``protected.payload``.

        Raises:
            SignerFault: ``signer.wrong_key``, or what the signer itself raises.
        """
        answer = self.ask(signing_input)
        check_answer(self.public, signing_input, answer)
        return answer
