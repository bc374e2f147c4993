"""Where a passphrase comes from: a file, the environment, or a terminal.

Never from the command line, where every user of the machine could read it. The bytes are taken as
they come, without Unicode normalization: the UTF-8 that a terminal or an editor gives. A
passphrase that is typed on several machines is best in ASCII.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cardsign.errors import PassphraseFault
from cardsign.files import read_secret

PASSPHRASE_VARIABLE: Final = "CARDSIGN_PASSPHRASE"  # noqa: S105, where it is
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
        place, passphrase = "", ask(source.prompt, question)
    if is_new:
        check_strength(passphrase, place)
        if not place and ask(source.prompt, "The same again: ") != passphrase:
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


def ask(prompt: Prompt | None, question: str, *, name: str = "passphrase", hint: str = "") -> bytes:
    """Return what a person types; ``passphrase.none`` where nobody does."""
    place = question.removesuffix(": ")
    if prompt is None:
        message = f"no {name} was given, and there is no terminal to ask on"
        raise PassphraseFault("passphrase.none", message, path=place, hint=hint)
    try:
        return os.fsencode(prompt(question))
    except (EOFError, UnicodeError) as exc:
        message = f"no {name} could be read there"
        raise PassphraseFault("passphrase.none", message, path=place, hint=hint) from exc
