"""Where a passphrase comes from: a file, a descriptor, the environment, or a terminal.

Never from the command line, where every user of the machine could read it. The bytes are taken
as they come, without Unicode normalization: the UTF-8 that a terminal or an editor gives. A
passphrase that is typed on several machines is best in ASCII.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from cardsign.errors import PassphraseFault, UsageFault
from cardsign.files import read_descriptor, read_secret
from cardsign.records import dataclass

VARIABLE: Final = "CARDSIGN_PASSPHRASE"
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
        file: A file (or pipe) to which nobody else has access; its first line counts.
        descriptor: The number of an open file descriptor, read likewise and left open.
        environment: Where `variable` is looked up; nothing else of it is read.
        prompt: Asked last; None where there is no terminal.
    """

    file: Path | None = None
    descriptor: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    prompt: Prompt | None = None
    variable: str = VARIABLE

    @property
    def name(self) -> str:
        """Which place decides, as a message says it; never what is there."""
        if self.file is not None:
            return f"file {self.file}"
        if self.descriptor is not None:
            return f"descriptor {self.descriptor}"
        return f"variable {self.variable}" if self.variable in self.environment else "terminal"


def read_passphrase(source: PassphraseSource, *, question: str = "Passphrase: ") -> bytes:
    """Return the passphrase of something that exists.

    Raises:
        PassphraseFault: ``passphrase.none``, or ``passphrase.unfit`` for an empty one.
        FileFault: The file or descriptor cannot be read, or is open to others.
        UsageFault: ``usage.conflict``: both a file and a descriptor are named.
    """
    passphrase = _unasked(source)
    if passphrase is None:
        passphrase = _ask(source.prompt, question)
    if not passphrase:
        raise PassphraseFault(
            "passphrase.unfit",
            "the passphrase is empty",
            hint="Use at least 8 characters, best a random one from a password manager.",
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
    passphrase = _ask(source.prompt, question)
    check_strength(passphrase)
    if _ask(source.prompt, "The same again: ") != passphrase:
        raise PassphraseFault(
            "passphrase.unfit", "the two passphrases differ", hint="Type the same one twice."
        )
    return passphrase


def check_strength(passphrase: bytes) -> None:
    """Refuse (``passphrase.unfit``) what is too short for a new key; its strength is unknown."""
    if len(passphrase) < MIN_BYTES:
        raise PassphraseFault(
            "passphrase.unfit",
            f"the passphrase is shorter than {MIN_BYTES} characters",
            hint="Use at least 8 characters, best a random one from a password manager.",
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


def _ask(prompt: Prompt | None, question: str) -> bytes:
    if prompt is None:
        raise PassphraseFault(
            "passphrase.none", "no passphrase was given, and there is no terminal to ask on"
        )
    try:
        return os.fsencode(prompt(question))
    except (EOFError, UnicodeError) as exc:
        raise PassphraseFault("passphrase.none", "no passphrase could be read there") from exc
