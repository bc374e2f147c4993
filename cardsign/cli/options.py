"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar, cast, get_args

import click

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.config import CONFIG_FILE, ProjectConfig, read_config
from cardsign.errors import InputRefused, PassphraseFault, StoreFault, UsageFault
from cardsign.files import read_bytes, write_atomic
from cardsign.jose.keys import Alg
from cardsign.keys.passphrase import PassphraseSource, terminal_prompt
from cardsign.keys.signers.access import user_file, user_policy
from cardsign.keys.stores.address import DatabaseUrl, is_database_url, parse_database_url
from cardsign.keys.stores.directory import VARIABLE as KEYSTORE_VARIABLE
from cardsign.keys.stores.directory import holds_store, locate_keystore
from cardsign.keys.stores.opening import AnyStore, Place, open_store

STDIO: Final = "-"
ALGORITHMS: Final[tuple[Alg, ...]] = get_args(Alg)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def option_group(
    made: type[Any], into: str, *options: Callable[[Any], Any]
) -> Callable[[_Command], _Command]:
    """Options that belong together: the command gets one frozen value made of them.

    Args:
        made: A dataclass, with a field for each option's parameter.
        into: The parameter of the command that takes it.
        options: What adds the options, in the order of the help text; a group may be among them,
            and is then the value of one field.
    """
    names = [one.name for one in fields(made) if one.init]

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def gathering(*args: Any, **given: Any) -> Any:
            given[into] = made(**{name: given.pop(name) for name in names})
            return command(*args, **given)

        decorated: Any = gathering
        for option in reversed(options):
            decorated = option(decorated)
        return cast("_Command", decorated)

    return decorate


def json_option(command: _Command) -> _Command:
    """``--json``: print data for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(command)


def alg_option(command: _Command) -> _Command:
    """``--alg``: what a new key is for."""
    return click.option(
        "--alg",
        type=click.Choice(ALGORITHMS),
        default="ES256",
        show_default=True,
        help="ES256: P-256, small and fast; RS256: RSA, where a verifier knows nothing else.",
    )(command)


def read_place(text: str) -> Place:
    """A directory, or the URL of a database.

    Raises:
        UsageFault: ``usage.invalid``: nothing is named, as by a variable that is not set.
    """
    if not text:
        raise UsageFault("usage.invalid", "no key store has an empty name")
    return parse_database_url(text) if is_database_url(text) else Path(text)


def keystore_option(command: _Command) -> _Command:
    """``--keystore``: which key store."""
    return click.option(
        "--keystore",
        type=read_place,
        metavar="DIR",
        help="The key store, or the URL of its database "
        f"[default: {KEYSTORE_VARIABLE}, then {CONFIG_FILE}, then ./keys].",
    )(command)


def passphrase_options(command: _Command) -> _Command:
    """``--passphrase-file`` and ``--passphrase-fd``."""
    command = click.option(
        "--passphrase-fd",
        type=click.IntRange(min=0),
        metavar="N",
        help="Read the passphrase from an open descriptor.",
    )(command)
    return click.option(
        "--passphrase-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Read the passphrase from a file of mode 0600 [default: CARDSIGN_PASSPHRASE, "
        "then a prompt on a terminal].",
    )(command)


@contextmanager
def passphrase_option(option: str) -> Iterator[None]:
    """Name the option of a passphrase that only it and a terminal can give."""
    try:
        yield
    except PassphraseFault as fault:
        if fault.code != "passphrase.none":
            raise
        raise PassphraseFault(fault.code, fault.message, hint=f"Use {option} FILE.") from fault


def passphrase_source(file: Path | None, descriptor: int | None) -> PassphraseSource:
    """Where a command may get the passphrase from."""
    return PassphraseSource(file, descriptor, os.environ, terminal_prompt())


def project_config() -> ProjectConfig:
    """The settings of ``cardsign.toml`` in the working directory; empty where there is none."""
    return read_config(Path.cwd() / CONFIG_FILE)


def keystore_place(option: Place | None, *, create: bool = False) -> Place:
    """Where the key store is: option, environment, ``cardsign.toml``, ``./keys``.

    Raises:
        StoreFault: ``keystore.not_allowed``: ``cardsign.toml`` names a database, and nobody else.
    """
    if option is None:
        named = os.environ.get(KEYSTORE_VARIABLE)
        if named and is_database_url(named):
            return parse_database_url(named)
        configured = project_config().keystore
        if KEYSTORE_VARIABLE not in os.environ and configured is not None:
            return _allowed(configured)
    if isinstance(option, DatabaseUrl):
        return option
    return locate_keystore(option, os.environ, Path.cwd(), create=create)


def _allowed(configured: Place) -> Place:
    """What ``cardsign.toml`` names, if the user has allowed it: a database is told his password."""
    if isinstance(configured, Path) or configured.server in user_policy(os.environ).databases:
        return configured
    raise StoreFault(
        "keystore.not_allowed",
        f"the database's server is none that you have allowed; {leave(configured)}",
        path=CONFIG_FILE,
    )


def leave(database: DatabaseUrl) -> str:
    """How the user allows a committed file to name the server of this database."""
    file = user_file(os.environ) or "signers.toml"
    return f'databases = ["{database.server}"] in {file} (mode 0600, format = 1) allows it'


def open_keystore(option: Place | None) -> AnyStore:
    """Open the key store that a command is about, wherever it lies."""
    return open_store(keystore_place(option), actor=actor())


def actor() -> str:
    """Who the audit log shall say it was: the account and the machine."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # a container's user has often no name
        account = f"uid {os.getuid()}"
    return f"{account}@{os.uname().nodename}"


def own_keystore(option: Place | None) -> AnyStore | None:
    """The key store if there is one; for commands that only profit from it."""
    named = os.environ.get(KEYSTORE_VARIABLE)
    configured = project_config().keystore
    places = (option, named and read_place(named), configured, Path.cwd() / "keys")
    for place in places:
        if isinstance(place, DatabaseUrl) or (place and holds_store(place)):
            place = _allowed(place) if place is configured else place
            return open_store(place, actor=actor())
    return None


@contextmanager
def of_the_user(name: str) -> Iterator[None]:
    """What the user himself hands over is no stranger's card: refusing it is a local fault."""
    try:
        yield
    except InputRefused as refusal:
        raise UsageFault(
            refusal.code,
            refusal.message,
            path=f"{name}{refusal.path}",
            line=refusal.line,
            column=refusal.column,
            hint=refusal.hint,
        ) from refusal


def read_input(name: str, *, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """A file's bytes, or standard input's for ``-``; one byte over the limit is read at most."""
    if name == STDIO:
        return sys.stdin.buffer.read(max_bytes + 1)
    return read_bytes(Path(name), max_bytes=max_bytes)


def write_output(name: str, data: bytes) -> None:
    """Write a file whole or not at all; ``-`` is standard output."""
    if name == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomic(Path(name), data)
