"""What a signer may use of this machine and its user, and what a kind of signer has to offer.

A key store lies in a repository, where a stranger may propose changes. So its word is enough
to name a key, but not to choose code that runs here: that takes the user's own leave.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, Protocol

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey

SecretKind = Literal["passphrase", "pin", "token"]

Ask = Callable[[bytes], bytes]
"""Takes ``protected.payload`` to whatever holds the private half, and gives its JWS signature:
for ES256 r and s, 32 bytes each; for RS256 PKCS #1 v1.5. Nobody has verified it yet."""


class Secrets(Protocol):
    """Gives secrets, each when it is needed; raises :class:`PassphraseFault` where it has none."""

    def __call__(self, kind: SecretKind, of: str) -> bytes:
        """Return the passphrase, the PIN or the access token of what is called `of`."""
        ...


@dataclass(frozen=True, slots=True)
class SignerPolicy:
    """What the user has allowed, on the command line or in a file of his own; else nothing.

    Attributes:
        uris: Signers that run or load what their URI names; compared as they are spelt.
        pkcs11_module: The library behind every ``pkcs11:`` URI that names none.
        insecure_loopback_http: A service on this machine may be asked without TLS.
        databases: Servers, ``HOST:PORT``, that a committed file may name as the key store's.
    """

    uris: frozenset[str] = frozenset()
    pkcs11_module: Path | None = None
    insecure_loopback_http: bool = False
    databases: frozenset[str] = frozenset()


NOTHING_ALLOWED: Final = SignerPolicy()


@dataclass(frozen=True, slots=True)
class Access:
    """What signers may use.

    Attributes:
        secrets: Asked when a passphrase, a PIN or a token is needed.
        policy: What of the dangerous is allowed.
        environment: Where services' addresses are looked up, and what programs may inherit of.
    """

    secrets: Secrets
    policy: SignerPolicy = NOTHING_ALLOWED
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def by_passphrase(cls, passphrase: bytes) -> Access:
        """Enough for keys in files, and for nothing else."""

        def secrets(kind: SecretKind, of: str) -> bytes:
            if kind == "passphrase":
                return passphrase
            raise SignerFault("signer.credentials", f"no {kind} is at hand for {of}")

        return cls(secrets)

    def variable(self, *names: str) -> str | None:
        """The first of these environment variables that is set and not empty."""
        return next((value for name in names if (value := self.environment.get(name))), None)


class Scheme(Protocol):
    """One kind of signer; a module, or an object that an entry point names.

    Each function gets a URI of this scheme and raises :class:`SignerFault`: ``signer.uri``
    where it cannot be understood.
    """

    def custody(self, uri: str) -> str:
        """Return the part of `uri` to store with the key: what holds on every machine."""
        ...

    def needs_leave(self, uri: str) -> bool:
        """Say whether `uri` chooses what runs, is loaded or is read on this machine."""
        ...

    def fetch_public(self, uri: str, access: Access, *, kid: str | None) -> PublicKey:
        """Ask for the public half, once, when a key is enrolled; never when it signs.

        Raises:
            SignerFault: ``signer.no_public`` where a public half cannot be had this way.
            KeyRefused: It is weak, or for neither algorithm.
        """
        ...

    def open(self, uri: str, public: PublicKey, access: Access) -> Ask:
        """Return what signs with the private half of `public`."""
        ...


def require(module: str, *, extra: str) -> Any:
    """Import the library that a signer needs.

    Raises:
        SignerFault: ``signer.not_installed``.
    """
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        raise SignerFault(
            "signer.not_installed",
            f"the library {module} cannot be loaded: {exc}",
            hint=f"pip install 'cardsign[{extra}]'",
        ) from exc


def refuse_uri(uri: str, what: str) -> NoReturn:
    """Say what is wrong with the URI of a signer."""
    raise SignerFault("signer.uri", what, path=uri)
