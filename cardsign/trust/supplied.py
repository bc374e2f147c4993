"""Statements at hand: what came with a card, from files, or from its server.

Nothing of it has been checked, and none of it brings trust (threat 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.errors import InputRefused, UsageFault, of_the_user
from cardsign.files import MAX_INPUT_BYTES, read_bytes
from cardsign.statements.envelope import (
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
    read_envelope,
)

#: Files of one folder: all the steps of a refresh, and as many releases.
MAX_FILES: Final = 512


@dataclass(frozen=True, slots=True)
class SuppliedStatements:
    """Statements and key sets as received: from files or from the issuer's server.

    Attributes:
        untrusted_keysets: Keyset statements, in any order; superfluous ones do no harm.
        untrusted_releases: Release statements, likewise.
        untrusted_jwks: A JWK Set.
        jwks_url: Where the JWK Set was fetched from, over TLS; None if that is not known. A
            `jwks` anchor reads a set that comes from its own URL and no other.
    """

    untrusted_keysets: tuple[bytes, ...] = ()
    untrusted_releases: tuple[bytes, ...] = ()
    untrusted_jwks: bytes | None = None
    jwks_url: str | None = None

    def joined(self, other: SuppliedStatements) -> SuppliedStatements:
        """Return what both hold; neither vouches for the other. The other's key set comes first."""
        empty = SuppliedStatements()
        if empty in (self, other):
            return other if self == empty else self
        jwks = other if other.untrusted_jwks is not None else self
        return SuppliedStatements(
            tuple(dict.fromkeys((*self.untrusted_keysets, *other.untrusted_keysets))),
            tuple(dict.fromkeys((*self.untrusted_releases, *other.untrusted_releases))),
            jwks.untrusted_jwks,
            jwks.jwks_url,
        )


NO_STATEMENTS: Final = SuppliedStatements()
#: Statements, in each form that a program may have them: a file or folder of them, their bytes in
#: any order, or sorted already.
Statements: TypeAlias = SuppliedStatements | Path | str | Sequence[bytes]


def read_supplied(statements: Statements) -> SuppliedStatements:
    """Sort the statements that a program hands over.

    Raises:
        TypeError: They are in no form of :data:`Statements`.
        UsageFault, FileFault: As :func:`load_statements`, of a path.
    """
    if isinstance(statements, SuppliedStatements):
        return statements
    if isinstance(statements, str | Path):
        return load_statements([Path(statements)])
    if isinstance(statements, list | tuple) and all(isinstance(data, bytes) for data in statements):
        supplied = NO_STATEMENTS
        for data in statements:
            try:
                supplied = supplied.joined(_sort_statement(data))
            except InputRefused:  # a peer's: the verdict says what is wrong with it
                supplied = supplied.joined(SuppliedStatements((data,)))
        return supplied
    raise TypeError(
        "statements takes the folder in which they are, or a list of their bytes: "
        "statements=[keyset, release]"
    )


def load_statements(paths: Iterable[Path]) -> SuppliedStatements:
    """Read keyset and release statements from files, and from the folders among them.

    They are sorted by what they say they are, and not verified. What else is in a folder, such as
    the card itself, is left out.

    Raises:
        UsageFault: A file that was named is no statement, under its own ``statement.*`` code;
            ``usage.conflict``: a folder holds too many files, or no statement.
        FileFault: A file cannot be read.
    """
    statements = NO_STATEMENTS
    for path in paths:
        if path.is_dir():
            statements = statements.joined(_of_folder(path))
        else:
            with of_the_user(str(path)):
                statements = statements.joined(_of_file(path))
    return statements


def _of_folder(folder: Path) -> SuppliedStatements:
    files, statements = sorted(folder.rglob("*.json")), NO_STATEMENTS
    for file in files[:MAX_FILES]:
        with suppress(InputRefused):
            statements = statements.joined(_of_file(file, is_named=False))
    if len(files) > MAX_FILES or statements == NO_STATEMENTS:
        raise UsageFault(
            "usage.conflict",
            f"expected 1 to {MAX_FILES} files (*.json) here, and statements among them; found "
            f"{len(files)} files",
            path=str(folder),
        )
    return statements


def _of_file(path: Path, *, is_named: bool = True) -> SuppliedStatements:
    return _sort_statement(read_bytes(path, max_bytes=MAX_INPUT_BYTES, is_found=not is_named))


def _sort_statement(untrusted_bytes: bytes) -> SuppliedStatements:
    try:  # which of the two statements it says it is; its reader holds it to that
        read_envelope(untrusted_bytes, TYP_KEYSET)
    except StatementRefused as refusal:
        if refusal.code != "statement.typ":
            raise
        read_envelope(untrusted_bytes, TYP_RELEASE)
        return SuppliedStatements((), (untrusted_bytes,))
    return SuppliedStatements((untrusted_bytes,))
