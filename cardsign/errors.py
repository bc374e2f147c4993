"""Every exception that cardsign raises.

::

    CardsignError
    ├── InputRefused             what somebody else wrote is wrong           exit 1
    │   ├── JsonRefused          bytes that are no strict JSON               json.*
    │   ├── CardRefused          JSON that is no Agent Card                  card.*
    │   ├── CanonicalizationError  a profile has no payload for the card     canonical.*
    │   ├── KeyRefused           a key or JWK Set that we do not accept      key.*, jwks.*
    │   ├── SignatureRefused     a signature that is malformed or forbidden  sig.*
    │   ├── StatementRefused     a keyset or release statement, in jose      statement.*
    │   ├── BuildRefused         a source that no card can be made of        build.*
    │   ├── SigningRefused       a signing plan that we do not carry out     sign.*
    │   └── PublishRefused       a publication that would not verify         publish.*
    ├── VerificationError        the card was not returned, in cardsign.verify
    │   ├── NotTrusted           it is not trusted; its report says why          exit 1
    │   └── NoVerdict            nobody can say yet; its report says why         exit 3
    ├── LocalFault               this machine, this command line             exit 2
    │   ├── UsageFault           options and settings that do not fit        usage.*, config.*,
    │   │                        policies and credentials among them         policy.*, lock.*,
    │   │                                                                    credential.*
    │   ├── FileFault            a file that cannot be read or written       file.*
    │   ├── PassphraseFault      no passphrase, or the wrong one             passphrase.*
    │   ├── StoreFault           the key store is absent, corrupt or newer   keystore.*
    │   ├── SignerFault          a signer that fails or answers wrongly      signer.*
    │   └── ServeFault           a server that cannot start                  serve.*
    ├── FetchFailed              a peer that cannot be asked safely          fetch.*, exit 3
    └── CallFailed               a trusted peer that gives no answer         call.*, exit 3

The class says whose fault it is, the code what it is about: what users hand over themselves
(a key set, a publication directory) is refused under the same code, as a local fault.

Each instance carries a :class:`~cardsign.findings.Finding`: a stable code (of ``codes.toml``), the
message, the place, and what to do.
"""

from __future__ import annotations

import copyreg
import importlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar, get_args

from cardsign.findings import Finding, Place, describe_code

EXIT_OK: Final = 0
EXIT_NOT_TRUSTED: Final = 1
EXIT_LOCAL_FAULT: Final = 2
EXIT_NO_VERDICT: Final = 3
#: What a hint of the command line has: an option, or a command.
_TYPED: Final = re.compile(r"--[a-z]|\bcardsign [a-z]")


class CardsignError(Exception):
    """The root; catch it to catch everything that cardsign raises.

    Attributes:
        finding: Its code, message, place and fix, as reports have them.
        others: What else is wrong, such as further mistakes in a settings file.
        exit_status: What a command that ends with this error exits with.
    """

    exit_status: int = EXIT_LOCAL_FAULT
    others: Sequence[Finding] = ()

    def __init__(
        self,
        code: str,
        message: str,
        *,
        path: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.finding = Finding(code, message, Place(path, line, column), hint)

    @property
    def code(self) -> str:
        """Stable, from ``codes.toml``; safe to match on."""
        return self.finding.code

    @property
    def message(self) -> str:
        """One sentence without a final period: what, and what was expected."""
        return self.finding.message

    @property
    def path(self) -> str:
        """Where: a JSON pointer (``/skills/0/id``), a file, a header member; may be empty."""
        return self.finding.path

    @property
    def hint(self) -> str:
        """What a program does next; what a person types is the hint of :attr:`finding`."""
        own = self.finding.hint
        return describe_code(self.code).python or own if _TYPED.search(own) else own

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as it is, whatever the constructor of its class takes."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        place = f" ({self.finding.place})" if str(self.finding.place) else ""
        return f"{self.code}: {self.message}{place}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class InputRefused(CardsignError):
    """What somebody else wrote is wrong: a finding, not a fault of this machine."""

    exit_status = EXIT_NOT_TRUSTED


class JsonRefused(InputRefused):
    """Bytes that are not one strict JSON object (RFC 8259, RFC 7493)."""


class CardRefused(InputRefused):
    """A JSON object that is not an Agent Card, or an ambiguous one."""


class CanonicalizationError(InputRefused):
    """The card has no payload under the profile asked for."""


class KeyRefused(InputRefused):
    """A key or JWK Set that is weak, malformed, ambiguous or of an unknown type."""


class SignatureRefused(InputRefused):
    """A signature entry that is malformed, or that uses what we forbid."""


class BuildRefused(InputRefused):
    """A source that no card can be made of: it is malformed, or lacks what a card needs."""


class SigningRefused(InputRefused):
    """A signing plan that we do not carry out; nothing was signed."""


class PublishRefused(InputRefused):
    """A publication that a peer could not verify; nothing was written."""


class LocalFault(CardsignError):
    """A fault of this machine or of the command line; says nothing about the card."""


class UsageFault(LocalFault):
    """Options, arguments or settings that are missing or contradict one another."""


class FileFault(LocalFault):
    """A file that cannot be read or written as asked."""


class FileMissing(FileFault):
    """There is no such file."""


class PassphraseFault(LocalFault):
    """There is no passphrase, or it does not open the key."""


class StoreFault(LocalFault):
    """The key store is absent, corrupt, locked, or of a newer format."""


class SignerFault(LocalFault):
    """A signer failed, or its signature does not verify with the stored public key."""


class ServeFault(LocalFault):
    """A server that cannot start: port, publication directory, token file."""


class FetchFailed(CardsignError):
    """A document was not fetched: no answer, a bad one, or a request that is not allowed."""

    exit_status = EXIT_NO_VERDICT


class CallFailed(CardsignError):
    """A trusted peer that cannot be called, or gives no answer."""

    exit_status = EXIT_NO_VERDICT


_Kind = TypeVar("_Kind", bound="CardsignError")


def place_below(refusal: InputRefused, prefix: str, kind: type[_Kind]) -> _Kind:
    """Return the refusal as an error of class `kind`, with a file or place before its own place."""
    error = kind(refusal.code, refusal.message)
    error.finding = refusal.finding.at(f"{prefix}{refusal.path}")
    return error


@contextmanager
def of_the_user(name: str) -> Iterator[None]:
    """Turn the refusal of what the user hands over into a local fault, which names it."""
    try:
        yield
    except PassphraseFault as fault:
        fault.finding = fault.finding.at(name)
        raise
    except InputRefused as refusal:
        raise place_below(refusal, name, UsageFault) from refusal


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name the file in which a card, or other JSON, is refused."""
    try:
        yield
    except (CardRefused, JsonRefused) as refusal:
        refusal.finding = refusal.finding.at(f"{name}{refusal.path}")
        raise


def install_hint(extra: str) -> str:
    """Return how to install what an optional part of cardsign needs."""
    # No name of a package index: until the first release that name is anybody's to register.
    return f"install the extra {extra}; in the checkout: pip install '.[{extra}]'"


def require(module: str, *, extra: str, kind: type[LocalFault] = UsageFault) -> Any:
    """Return the library that an optional part needs; raises ``usage.not_installed``."""
    try:
        return importlib.import_module(module)
    except ImportError as exc:
        message = f"the library {module} cannot be loaded: {exc}"
        raise kind("usage.not_installed", message, hint=install_hint(extra)) from exc


def check_types(example: str, **arguments: tuple[object, Any]) -> None:
    """Raise `TypeError` for an argument of another type, with a call that is right.

    Args:
        example: The call.
        arguments: Each value with the types that it may have, by its name.
    """
    for name, (value, kinds) in arguments.items():
        if not isinstance(value, kinds):
            names = " or ".join(kind.__name__ for kind in get_args(kinds) or (kinds,))
            takes = f"{name} takes {names.replace('NoneType', 'None')}"
            raise TypeError(f"{takes}, not {type(value).__name__}: {example}")


def closest(value: object, names: Iterable[str]) -> str:
    """Return what was probably meant, as the end of a sentence; empty where nothing is near."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(str(value).lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
