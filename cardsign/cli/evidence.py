"""Statements from files, as evidence: sorted by what they say they are, believed by nobody yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cardsign.cli.talk import safe, say
from cardsign.errors import InputRefused, UsageFault, of_the_user
from cardsign.files import read_bytes
from cardsign.statements.envelope import (
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
    Typ,
    read_envelope,
)
from cardsign.trust.bundle import MAX_BUNDLE_BYTES, is_bundle, read_bundle
from cardsign.trust.statements import Evidence

#: Files of one folder: all the steps of a refresh, and as many releases.
MAX_FILES: Final = 512

_Command = TypeVar("_Command", bound=Callable[..., Any])


def statements_option(command: _Command) -> _Command:
    """``--statements``: what came along with the card."""
    return click.option(
        "--statements",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE|DIR",
        help="Keyset and release statements of the issuer, in files, bundles, or those among all "
        "*.json of a folder and below. May be repeated.",
    )(command)


def read_evidence(paths: Iterable[Path]) -> Evidence:
    """Read keyset and release statements from files, bundles, and the folders among them.

    What else lies in a folder, such as the card itself, is left out, and how much is said.

    Raises:
        UsageFault: A file that was named is no statement, under its own ``statement.*`` code, or
            no sound bundle (``bundle.malformed``);
            ``usage.conflict``: a folder holds too many files, or no statement.
        FileFault: A file cannot be read.
    """
    found = Evidence()
    for path in paths:
        if path.is_dir():
            found = found.beside(_of_folder(path))
        else:
            with of_the_user(str(path)):
                found = found.beside(_of_file(path))
    return found


def _of_folder(folder: Path) -> Evidence:
    files = sorted(folder.rglob("*.json"))
    found, others = Evidence(), 0
    for file in files[: MAX_FILES + 1]:
        try:
            found = found.beside(_of_file(file))
        except InputRefused:
            others += 1
    if not others < len(files) <= MAX_FILES:
        raise UsageFault(
            "usage.conflict",
            f"expected 1 to {MAX_FILES} files (*.json) here, and statements among them; found "
            f"{len(files)}, and {others} that are none",
            path=str(folder),
        )
    if others:
        say(f"{safe(str(folder))}: of {len(files)} files {others} are no statements, and left out")
    return found


def _of_file(path: Path) -> Evidence:
    untrusted_bytes = read_bytes(path, max_bytes=MAX_BUNDLE_BYTES)
    if is_bundle(untrusted_bytes):
        return read_bundle(untrusted_bytes).evidence
    if _typ(untrusted_bytes) == TYP_KEYSET:
        return Evidence((untrusted_bytes,))
    return Evidence((), (untrusted_bytes,))


def _typ(untrusted_bytes: bytes) -> Typ:
    """Which of the two statements it says it is; whoever believes it reads it as that alone."""
    try:
        return read_envelope(untrusted_bytes, TYP_KEYSET).typ
    except StatementRefused as refusal:
        if refusal.code != "statement.typ":
            raise
        return read_envelope(untrusted_bytes, TYP_RELEASE).typ
