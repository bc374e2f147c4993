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
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cardsign.errors import PassphraseFault
from cardsign.files import USER_FILE, read_secret
from cardsign.keys.ledger import ROLES
from cardsign.tomltext import read_settings

# Where a passphrase comes from: a file, the environment, or a terminal. Never from
# the command line, where every user of the machine could read it. The bytes are taken as they
# come, without Unicode normalization: the UTF-8 that a terminal or an editor gives. A passphrase
# that is typed on several machines is best in ASCII.


PASSPHRASE_VARIABLE: Final = "CARDSIGN_PASSPHRASE"  # noqa: S105, where it is
PIN_VARIABLE: Final = "CARDSIGN_PIN"
TOKEN_VARIABLES: Final = ("BAO_TOKEN", "VAULT_TOKEN")
MIN_BYTES: Final = 8  # for new keys: scrypt makes each guess dear, but cannot save a short one
MAX_FILE_BYTES: Final = 4 * 1024  # a longer file is not the one that was meant

#: Asks a question on the terminal; returns what was typed, without echo or newline.
Prompt = Callable[[str], str]


def terminal_prompt() -> Prompt | None:
    """Return a prompt if a person sits there: standard input and error are both terminals."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None


@dataclass(frozen=True, slots=True)
class PassphraseSource:
    """The places to look at, in this order; the first that is named decides.

    Attributes:
        file: A file (or pipe) that only its owner can read; its first line counts.
        environment: Where `variable` is looked up; nothing else of it is read.
        prompt: Asked last; None where there is no terminal.
    """

    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    prompt: Prompt | None = None
    variable: str = PASSPHRASE_VARIABLE


def read_passphrase(
    source: PassphraseSource, *, question: str = "Passphrase: ", is_new: bool = False
) -> bytes:
    """Return a passphrase; for something that is to be made, a terminal is asked for it twice.

    Raises:
        PassphraseFault: ``passphrase.none``, also for an empty one: a job that lacks its secret;
            ``passphrase.unfit``: a new one is too short, or not the same twice.
        FileFault: The file cannot be read, or is open to others.
    """
    place = str(source.file or source.variable)
    if source.file is not None:
        content = read_secret(source.file, max_bytes=MAX_FILE_BYTES)
        passphrase = content.partition(b"\n")[0].removesuffix(b"\r")
    elif source.variable in source.environment:
        passphrase = os.fsencode(source.environment[source.variable])
    else:
        place, passphrase = "", _ask(source.prompt, question)
    if is_new:
        check_strength(passphrase, place)
        if not place and _ask(source.prompt, "The same again: ") != passphrase:
            hint = "Type the same one twice."
            raise PassphraseFault("passphrase.unfit", "the two passphrases differ", hint=hint)
    if not passphrase:
        raise PassphraseFault("passphrase.none", "the passphrase is empty")
    return passphrase


def check_strength(passphrase: bytes, source: str = "") -> None:
    """Refuse (``passphrase.unfit``) what is too short for a new key; its strength is unknown."""
    if len(passphrase) < MIN_BYTES:
        message = f"the passphrase is shorter than {MIN_BYTES} characters"
        hint = f"Use at least {MIN_BYTES} characters, best a random one from a password manager."
        raise PassphraseFault("passphrase.unfit", message, path=source, hint=hint)


def _ask(
    prompt: Prompt | None, question: str, *, name: str = "passphrase", hint: str = ""
) -> bytes:
    place = question.removesuffix(": ")
    if prompt is None:
        message = f"no {name} was given, and there is no terminal to ask on"
        raise PassphraseFault("passphrase.none", message, path=place, hint=hint)
    try:
        return os.fsencode(prompt(question))
    except (EOFError, UnicodeError) as exc:
        message = f"no {name} could be read there"
        raise PassphraseFault("passphrase.none", message, path=place, hint=hint) from exc


# What signers may use.


SecretKind = Literal["passphrase", "new passphrase", "pin", "token"]

#: Gives the passphrase, PIN or access token of what is named, such as ``card keys``; raises
#: :class:`PassphraseFault` where it has none.
Secrets: TypeAlias = Callable[[SecretKind, str], bytes]


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("is not an absolute path")
    return path


_AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_check_absolute)]
_Role = Annotated[str, Field(pattern=f"^(?:{'|'.join(ROLES)})$")]


class SignerPolicy(BaseModel):
    """What the user has allowed in their own file, ``signers.toml``, or on the command line.

    Attributes:
        allow: Signers that run the program that their URI names; compared as they are spelt.
        insecure_loopback_http: A service on this machine may be asked without TLS.
        folders: Folders outside a project that its committed file may name, with what is below.
        passphrase_files: The file with the passphrase of each role that has one of its own.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: int = Field(ge=1, le=1)
    allow: Annotated[frozenset[str], Field(strict=False)] = frozenset()
    insecure_loopback_http: bool = False
    folders: Annotated[frozenset[_AbsolutePath], Field(strict=False)] = frozenset()
    passphrase_files: dict[_Role, _AbsolutePath] = {}


NOTHING_ALLOWED: Final = SignerPolicy(format=1)


@dataclass(frozen=True, slots=True)
class Access:
    """What signers may use.

    Attributes:
        secrets: Asked when a passphrase, a PIN or a token is needed.
        policy: What of the dangerous is allowed.
        environment: Where services' addresses are looked up, and what programs may inherit of.
        by_role: Asked instead of `secrets` for the passphrases of keys of a role.
        opened: The passphrases that have opened a custody, so that each is typed once.
    """

    secrets: Secrets
    policy: SignerPolicy = NOTHING_ALLOWED
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_role: Mapping[str, Secrets] = field(default_factory=dict, repr=False)
    opened: dict[tuple[Secrets, str], bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def by_passphrase(cls, passphrase: bytes) -> Access:
        """Enough for keys in files, and for nothing else."""

        environment = {PASSPHRASE_VARIABLE: os.fsdecode(passphrase)}
        return cls(user_secrets(PassphraseSource(environment=environment)))

    def for_roles(self, roles: Iterable[str]) -> Access:
        """Return the same for keys of these roles: the first with a source of its own decides."""
        own = (self.by_role[role] for role in roles if role in self.by_role)
        return replace(self, secrets=next(own, self.secrets))

    def passphrase(self, custody: str, of: str) -> bytes:
        """Return the passphrase of a custody, which is asked for by the name of its keys."""
        return self.opened.get((self.secrets, custody)) or self.secrets("passphrase", of)

    def remember(self, custody: str, passphrase: bytes) -> None:
        """Remember what has opened a custody."""
        self.opened[self.secrets, custody] = passphrase

    def variable(self, *names: str) -> str | None:
        """Return the first of these environment variables that is set and not empty."""
        return next((value for name in names if (value := self.environment.get(name))), None)


# The secrets of a user's signers: each from its own place, asked for once.


def user_secrets(source: PassphraseSource) -> Secrets:
    """Return what asks the environment, then a terminal; for passphrases `source` first.

    One passphrase that nobody types is for all files; any other secret is of what it is asked for.
    Each is asked for once.
    """
    is_typed = source.file is None and source.variable not in source.environment

    @cache
    def secret(kind: SecretKind, of: str) -> bytes:
        if kind.endswith("passphrase"):
            question, is_new = f"{kind.capitalize()} of the {of}: ", kind == "new passphrase"
            return read_passphrase(source, question=question, is_new=is_new)
        name, variables = ("PIN", (PIN_VARIABLE,)) if kind == "pin" else (kind, TOKEN_VARIABLES)
        if value := next(filter(None, map(source.environment.get, variables)), None):
            return os.fsencode(value)
        hint = f"Set {' or '.join(variables)}."
        return _ask(source.prompt, f"{name} of {of}: ", name=name, hint=hint)

    def get(kind: SecretKind, of: str) -> bytes:
        if is_typed or not kind.endswith("passphrase"):
            return secret(kind, of)
        passphrase = secret("passphrase", "")
        if kind == "new passphrase":
            check_strength(passphrase)
        return passphrase

    return get


# ``signers.toml``: what this user allows signers on this machine, in any project.


MAX_BYTES: Final = 64 * 1024  # some lines are usual


def user_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the user's own signers.toml; None if there is no place for one."""
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = Path(environment.get("HOME", ""))
    if not configured.is_absolute():
        configured = home / ".config"
    return configured / "cardsign" / USER_FILE if configured.is_absolute() else None


def user_policy(environment: Mapping[str, str]) -> SignerPolicy:
    """Read what the user's own file allows: nothing where there is none.

    Raises:
        UsageFault: ``config.malformed``.
        FileFault: ``file.permissions``: others have access to it;
            ``file.unreadable``.
    """
    file = user_file(environment)
    if file is None or not os.path.exists(file):
        return NOTHING_ALLOWED
    return read_settings(read_secret(file, max_bytes=MAX_BYTES), file, SignerPolicy)
