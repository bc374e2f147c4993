"""Recovery keys: made once, under a passphrase of their own, and kept by nobody here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cardsign.jose.keys import PrivateKey
from cardsign.keys.envelope import DEFAULT_COST, KeyLabel, seal
from cardsign.keys.passphrase import VARIABLE as PASSPHRASE_VARIABLE
from cardsign.keys.passphrase import PassphraseSource, terminal_prompt

VARIABLE: Final = "CARDSIGN_RECOVERY_PASSPHRASE"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def recovery_file_options(command: _Command) -> _Command:
    """``--recovery-file`` and the passphrase of it."""
    command = recovery_passphrase_option(command)
    return click.option(
        "--recovery-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Sign with the recovery key that was printed or written to this file.",
    )(command)


def recovery_passphrase_option(command: _Command) -> _Command:
    """``--recovery-passphrase-file``."""
    return click.option(
        "--recovery-passphrase-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"The recovery key's own passphrase [default: {VARIABLE}, then a prompt].",
    )(command)


def recovery_source(file: Path | None) -> PassphraseSource:
    """Where the recovery key's passphrase comes from; never from where the others do."""
    named = os.environ.get(VARIABLE)
    environment = {} if named is None else {PASSPHRASE_VARIABLE: named}
    return PassphraseSource(file, None, environment, terminal_prompt())


def make_recovery(passphrase: bytes) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = PrivateKey.generate("ES256")
    label = KeyLabel.of(private.public)
    data = private.to_pkcs8_der()
    return private, seal(data, passphrase, label=label, cost=DEFAULT_COST, random=os.urandom)
