"""What a signer may use of this machine and its user: passphrases, and what the user has allowed.

A key store is in a repository, where a stranger may propose changes. So its word is enough
to name a key, but not to choose code that runs here: that takes the user's own leave.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from cardsign.errors import FileMissing, PassphraseFault, SignerFault, UsageFault
from cardsign.files import (
    read_descriptor,
    read_secret,
    read_settings,
)

# Where a passphrase comes from: a file, a descriptor, the environment, or a terminal. Never from
# the command line, where every user of the machine could read it. The bytes are taken as they
# come, without Unicode normalization: the UTF-8 that a terminal or an editor gives. A passphrase
# that is typed on several machines is best in ASCII.


PASSPHRASE_VARIABLE: Final = "CARDSIGN_PASSPHRASE"  # noqa: S105, where it is
MIN_BYTES: Final = 8  # for new keys: scrypt makes each guess dear, but cannot save a short one
MAX_FILE_BYTES: Final = 4 * 1024  # a longer file is not the one that was meant

Prompt = Callable[[str], str]
"""Asks a question on the terminal; returns what was typed, without echo or newline."""


def terminal_prompt() -> Prompt | None:
    """Return a prompt if a person sits there: standard input and error are both terminals."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The places to look at, in this order; the first that is named decides.

    Attributes:
        file: A file (or pipe) that only its owner can read; its first line counts.
        descriptor: The number of an open file descriptor, read likewise and left open.
        environment: Where `variable` is looked up; nothing else of it is read.
        prompt: Asked last; None where there is no terminal.
    """

    file: Path | None = None
    descriptor: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    prompt: Prompt | None = None
    variable: str = PASSPHRASE_VARIABLE


def read_passphrase(source: PassphraseSource, *, question: str = "Passphrase: ") -> bytes:
    """Return the passphrase of something that exists.

    Raises:
        PassphraseFault: ``passphrase.none``, or ``passphrase.unfit`` for an empty one.
        FileFault: The file or descriptor cannot be read, or is open to others.
        UsageFault: ``usage.conflict``: both a file and a descriptor are named.
    """
    passphrase = _unasked(source)
    if passphrase is None:
        passphrase = _asked(source.prompt, question)
    if not passphrase:
        raise PassphraseFault(
            "passphrase.unfit",
            "the passphrase is empty",
            hint=_ADVICE,
        )
    return passphrase


def new_passphrase(source: PassphraseSource, *, question: str = "New passphrase: ") -> bytes:
    """Return a passphrase for something that is to be made; a terminal is asked for it twice.

    Raises:
        PassphraseFault: ``passphrase.unfit``: too short, or not the same twice.
        PassphraseFault, FileFault, UsageFault: As :func:`read_passphrase`.
    """
    passphrase = _unasked(source)
    if passphrase is not None:
        check_strength(passphrase)
        return passphrase
    passphrase = _asked(source.prompt, question)
    check_strength(passphrase)
    if _asked(source.prompt, "The same again: ") != passphrase:
        raise PassphraseFault(
            "passphrase.unfit", "the two passphrases differ", hint="Type the same one twice."
        )
    return passphrase


_ADVICE: Final = "Use at least 8 characters, best a random one from a password manager."


def check_strength(passphrase: bytes) -> None:
    """Refuse (``passphrase.unfit``) what is too short for a new key; its strength is unknown."""
    if len(passphrase) < MIN_BYTES:
        raise PassphraseFault(
            "passphrase.unfit",
            f"the passphrase is shorter than {MIN_BYTES} characters",
            hint=_ADVICE,
        )


def _unasked(source: PassphraseSource) -> bytes | None:
    """The passphrase from wherever nobody need be asked; None if no such place is named."""
    if source.file is not None and source.descriptor is not None:
        raise UsageFault("usage.conflict", "a passphrase file and a descriptor are both named")
    if source.file is not None:
        return first_line(read_secret(source.file, max_bytes=MAX_FILE_BYTES))
    if source.descriptor is not None:
        return first_line(read_descriptor(source.descriptor, max_bytes=MAX_FILE_BYTES))
    value = source.environment.get(source.variable)
    return None if value is None else os.fsencode(value)


def first_line(content: bytes) -> bytes:
    """What counts of a file with a secret: its first line, without the end of the line."""
    return content.partition(b"\n")[0].removesuffix(b"\r")


def _asked(prompt: Prompt | None, question: str) -> bytes:
    if prompt is None:
        raise PassphraseFault(
            "passphrase.none", "no passphrase was given, and there is no terminal to ask on"
        )
    try:
        return os.fsencode(prompt(question))
    except (EOFError, UnicodeError) as exc:
        raise PassphraseFault("passphrase.none", "no passphrase could be read there") from exc


# What signers may use.


SecretKind = Literal["passphrase", "pin", "token"]

Secrets: TypeAlias = Callable[[SecretKind, str], bytes]
"""Gives the passphrase, the PIN or the access token of what is named, when it is needed; raises
:class:`PassphraseFault` where it has none."""


@dataclass(frozen=True, slots=True)
class SignerPolicy:
    """What the user has allowed, on the command line or in their own file; else nothing.

    Attributes:
        allow: Signers that run or load what their URI names; compared as they are spelt.
        pkcs11_module: The library behind every ``pkcs11:`` URI that names none.
        insecure_loopback_http: A service on this machine may be asked without TLS.
        databases: Servers, ``HOST:PORT``, that a committed file may name as the key store's.
        folders: Folders outside a project that its committed file may name, with what is below.
        passphrase_files: The file with the passphrase of each role that has one of its own.
    """

    allow: frozenset[str] = frozenset()
    pkcs11_module: Path | None = None
    insecure_loopback_http: bool = False
    databases: frozenset[str] = frozenset()
    folders: frozenset[Path] = frozenset()
    passphrase_files: Mapping[str, Path] = field(default_factory=dict)


NOTHING_ALLOWED: Final = SignerPolicy()


@dataclass(frozen=True, slots=True)
class Access:
    """What signers may use.

    Attributes:
        secrets: Asked when a passphrase, a PIN or a token is needed.
        policy: What of the dangerous is allowed.
        environment: Where services' addresses are looked up, and what programs may inherit of.
        by_role: Asked instead of `secrets` for the passphrases of keys of a role.
    """

    secrets: Secrets
    policy: SignerPolicy = NOTHING_ALLOWED
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_role: Mapping[str, Secrets] = field(default_factory=dict, repr=False)

    @classmethod
    def by_passphrase(cls, passphrase: bytes) -> Access:
        """Enough for keys in files, and for nothing else."""

        def secrets(kind: SecretKind, of: str) -> bytes:
            if kind == "passphrase":
                return passphrase
            raise SignerFault("signer.credentials", f"no {kind} is at hand for {of}")

        return cls(secrets)

    def for_roles(self, roles: Iterable[str]) -> Access:
        """Return the same for keys of these roles: the first with a source of its own decides."""
        own = (self.by_role[role] for role in roles if role in self.by_role)
        return replace(self, secrets=next(own, self.secrets))

    def variable(self, *names: str) -> str | None:
        """The first of these environment variables that is set and not empty."""
        return next((value for name in names if (value := self.environment.get(name))), None)


# The secrets of a user's signers: each from its own place, asked for once.


PIN_VARIABLE: Final = "CARDSIGN_PIN"
TOKEN_VARIABLES: Final = ("BAO_TOKEN", "VAULT_TOKEN")

_OTHERS: Final[dict[SecretKind, tuple[tuple[str, ...], str]]] = {
    "pin": ((PIN_VARIABLE,), f"Set {PIN_VARIABLE}, or name a file: --key '...?pin-source=/FILE'."),
    "token": (TOKEN_VARIABLES, f"Set {' or '.join(TOKEN_VARIABLES)}."),
}


def user_secrets(source: PassphraseSource) -> Secrets:
    """Return what asks the environment, then a terminal; for passphrases `source` first.

    One passphrase is for all files; a PIN or a token is of what it is asked for.
    """
    secrets: dict[tuple[SecretKind, str], bytes] = {}

    def secret(kind: SecretKind, of: str) -> bytes:
        if kind == "passphrase":
            of = ""
        if (kind, of) not in secrets:
            secrets[kind, of] = read_passphrase(source) if kind == "passphrase" else other(kind, of)
        return secrets[kind, of]

    def other(kind: SecretKind, of: str) -> bytes:
        variables, hint = _OTHERS[kind]
        for variable in variables:
            if value := source.environment.get(variable):
                return os.fsencode(value)
        name = "PIN" if kind == "pin" else kind
        try:
            terminal = PassphraseSource(prompt=source.prompt)
            return read_passphrase(terminal, question=f"{name} of {of}: ")
        except PassphraseFault as exc:
            raise PassphraseFault(exc.code, f"no {name} could be had for {of}", hint=hint) from exc

    return secret


# ``signers.toml``: what this user allows signers on this machine, in any project.


MAX_BYTES: Final = 64 * 1024  # some lines are usual
MODULE_VARIABLE: Final = "CARDSIGN_PKCS11_MODULE"


def user_file(environment: Mapping[str, str]) -> Path | None:
    """The path of the user's own signers.toml; None if there is no place for one."""
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = Path(environment.get("HOME", ""))
    if not configured.is_absolute():
        configured = home / ".config"
    return configured / "cardsign" / "signers.toml" if configured.is_absolute() else None


def user_policy(environment: Mapping[str, str]) -> SignerPolicy:
    """What the user's own file allows; nothing where there is none; see read_signer_policy."""
    file = user_file(environment)
    return NOTHING_ALLOWED if file is None else read_signer_policy(file)


def read_signer_policy(path: Path) -> SignerPolicy:
    """Read the file; one that is not there allows nothing.

    Raises:
        UsageFault: ``config.malformed``.
        FileFault: ``file.permissions``: others have access to it;
            ``file.unreadable``.
    """
    try:
        data = read_secret(path, max_bytes=MAX_BYTES)
    except FileMissing:
        return NOTHING_ALLOWED
    from cardsign.keys.signers.settings import SignersFile  # pydantic, for those who have the file

    file = read_settings(data, path, SignersFile)
    return SignerPolicy(**file.model_dump(exclude={"format"}))
