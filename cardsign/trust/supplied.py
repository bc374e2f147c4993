"""Supplied statements: what came with a card, in a bundle, in files or from the issuer's server.

Nothing of it has been checked, and none of it brings trust (threat 16).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cardsign.card.document import Card
from cardsign.card.strictjson import MAX_CARD_BYTES, object_or_none, parse_object
from cardsign.card.values import Json
from cardsign.errors import (
    BundleRefused,
    CardRefused,
    InputRefused,
    JsonRefused,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    TYP_KEYSET,
    TYP_RELEASE,
    StatementRefused,
    read_envelope,
)
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release

#: Keyset statements of one refresh (K9): twenty years of quarterly renewals, and some over.
MAX_STEPS: Final = 256
#: Bytes of the keyset statements of one refresh, and as much of its releases (K9).
MAX_CHAIN_BYTES: Final = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SuppliedStatements:
    """Statements and key sets as received: from a bundle, from files, from the issuer's server.

    Attributes:
        untrusted_keysets: Keyset statements, in any order; superfluous ones do no harm.
        untrusted_releases: Release statements, likewise.
        untrusted_jwks: A JWK Set.
        jwks_url: Where the JWK Set was fetched from, over TLS; None if that is not known. A
            `jwks` anchor reads a set that comes from its own URL and no other.
        jwks_once: A person handed the JWK Set over for one verdict, and it is not remembered.
        origin: The origin from which all of this was fetched over TLS, such as
            ``https://agent.example``; None for files and bundles. First contact needs it. Of
            plain HTTP only this machine itself counts, which no fetch asks without leave.
    """

    untrusted_keysets: tuple[bytes, ...] = ()
    untrusted_releases: tuple[bytes, ...] = ()
    untrusted_jwks: bytes | None = None
    jwks_url: str | None = None
    origin: str | None = None
    jwks_once: bool = False

    def __post_init__(self) -> None:
        # What is resolved by them is kept, so they must not change in the hands of the caller.
        for name in ("untrusted_keysets", "untrusted_releases"):
            object.__setattr__(self, name, tuple(map(bytes, getattr(self, name))))
        if self.untrusted_jwks is not None:
            object.__setattr__(self, "untrusted_jwks", bytes(self.untrusted_jwks))

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        statements = (*self.untrusted_keysets, *self.untrusted_releases)
        return sum(map(len, statements)) + len(self.untrusted_jwks or b"")

    def joined(self, other: SuppliedStatements) -> SuppliedStatements:
        """What both hold; neither vouches for the other. A key set is the other's first.

        Together they were fetched from nowhere unless both were from the same origin: what stands
        in a file makes no first contact because something else came from the issuer.
        """
        empty = SuppliedStatements()
        if empty in (self, other):
            return other if self == empty else self
        jwks = other if other.untrusted_jwks is not None else self
        return SuppliedStatements(
            (*self.untrusted_keysets, *other.untrusted_keysets),
            (*self.untrusted_releases, *other.untrusted_releases),
            jwks.untrusted_jwks,
            jwks.jwks_url,
            self.origin if self.origin == other.origin else None,
            jwks.jwks_once,
        )


NO_STATEMENTS: Final = SuppliedStatements()


# A bundle: a card with the statements that show what it is worth, in one file, for a verifier
# without a network. Texts are carried exactly, because digests are of bytes.
# `docs/reference/formats.md` specifies it.


BUNDLE_FORMAT: Final = "cardsign-bundle/1"
#: Bytes. JSON texts hold nothing that needs more than one backslash in a string, so that their
#: escaping doubles them at most; the rest is for member names and white space.
MAX_BUNDLE_BYTES: Final = 2 * (MAX_CARD_BYTES + MAX_CHAIN_BYTES + MAX_STATEMENT_BYTES) + 64 * 1024

#: Files of one folder: all the steps of a refresh, and as many releases.
MAX_FILES: Final = 512

_MEMBERS: Final = ("format", "card", "keysets", "release")
_ANY_VERSION: Final = "cardsign-bundle/"
_DEPTH: Final = 2  # levels: the bundle and its list
# What is counted before anything is parsed. A bundle has less; the rest is for a later format,
# which is to be called by its name.
_MAX_TEXTS: Final = 4 * MAX_STEPS
_MAX_MARKS: Final = 4 * _MAX_TEXTS  # bytes between the texts, without white space
#: Escapes in texts. Beyond, a fault in the JSON has no place: the reader that finds it is slow.
_MAX_ESCAPES: Final = 64 * 1024


def write_bundle(card: bytes, keysets: Iterable[bytes], release: bytes | None) -> bytes:
    """Put a card and statements about it into one file.

    Checked is what each of them is, so that nothing else travels along. Not checked: any
    signature, whether the statements belong together or to the card, and what a recipient still
    lacks.

    Returns:
        UTF-8 JSON that ends in a newline, each keyset once and in the order of their numbers; the
        same for the same contents.

    Raises:
        JsonRefused, CardRefused: `card` is no Agent Card.
        StatementRefused: One of the others is not the statement that it should be.
        BundleRefused: ``bundle.malformed``: they are too many, or too large.
    """
    if not Card.from_bytes(card).has_endpoint:
        raise CardRefused("card.not_agent_card", "the object names no endpoint")
    read = {data: read_keyset(data) for data in keysets}
    chain = sorted(read, key=lambda data: (read[data].epoch, read[data].version, data))
    if release is not None:
        read_release(release)
    _check_bounds(chain)
    members = {
        "format": BUNDLE_FORMAT,
        "card": card.decode(),
        "keysets": [data.decode() for data in chain],
        "release": None if release is None else release.decode(),
    }
    return json.dumps(members, ensure_ascii=False, indent=2).encode() + b"\n"


def is_bundle(untrusted_bytes: bytes) -> bool:
    """Whether bytes say that they are a bundle, of whatever version; that is no promise.

    What is larger than any card is taken at its word, without being parsed.
    """
    if _ANY_VERSION.encode() not in untrusted_bytes:
        return False
    if len(untrusted_bytes) > MAX_CARD_BYTES:
        return True
    members = object_or_none(untrusted_bytes)
    return members is not None and str(members.get("format")).startswith(_ANY_VERSION)


def read_bundle(untrusted_bytes: bytes) -> tuple[bytes, SuppliedStatements]:
    """Take a bundle apart.

    Nothing in it has been checked: the card and the statements are as if they had come alone.

    Returns:
        The card as its publisher served it, and the statements that came along.

    Raises:
        BundleRefused: ``bundle.malformed``: it is not as `docs/reference/formats.md` has it.
    """
    members = _parsed(untrusted_bytes)
    if members.get("format") != BUNDLE_FORMAT:
        raise _malformed("/format", repr(BUNDLE_FORMAT))
    if set(members) != set(_MEMBERS):
        raise _malformed("", f"exactly the members {', '.join(_MEMBERS)}")
    keysets, release = members["keysets"], members["release"]
    if not isinstance(keysets, list):
        raise _malformed("/keysets", "a list of texts")
    chain = [_text(text, f"/keysets/{at}") for at, text in enumerate(keysets)]
    _check_bounds(chain)
    releases = () if release is None else (_text(release, "/release", MAX_STATEMENT_BYTES),)
    card = _text(members["card"], "/card", MAX_CARD_BYTES)
    return card, SuppliedStatements(tuple(chain), releases)


def _parsed(untrusted_bytes: bytes) -> dict[str, Json]:
    """The members; counts come first, so that no size costs more than its bytes."""
    if len(untrusted_bytes) <= MAX_BUNDLE_BYTES:
        # Without escaped backslashes and quotes, every quote begins or ends a text.
        bare = untrusted_bytes.replace(rb"\\", b"").replace(rb"\"", b"")
        if bare.count(b'"') > 2 * _MAX_TEXTS:
            raise _malformed("", f"at most {_MAX_TEXTS} texts")
        marks = b"".join(bare.split(b'"')[::2]).translate(None, b" \t\r\n")
        if len(marks) > _MAX_MARKS:
            raise _malformed("", "an object of few members")
        members = object_or_none(untrusted_bytes, max_depth=_DEPTH)
        if members is not None:
            return members
        if untrusted_bytes.count(b"\\") > _MAX_ESCAPES:
            raise _malformed("", "strict JSON")
    try:
        return parse_object(untrusted_bytes, max_bytes=MAX_BUNDLE_BYTES, max_depth=_DEPTH)
    except JsonRefused as exc:
        raise BundleRefused(
            "bundle.malformed", exc.message, path=exc.path, line=exc.line, column=exc.column
        ) from exc


def _check_bounds(chain: list[bytes]) -> None:
    if len(chain) > MAX_STEPS or sum(map(len, chain)) > MAX_CHAIN_BYTES:
        most = f"at most {MAX_STEPS} statements of {MAX_CHAIN_BYTES} bytes in all"
        raise _malformed("/keysets", most)


def _text(value: Json, path: str, max_bytes: int | None = None) -> bytes:
    if not isinstance(value, str):
        raise _malformed(path, "a text")
    data = value.encode()
    if max_bytes is not None and len(data) > max_bytes:
        raise _malformed(path, f"at most {max_bytes} bytes")
    return data


def _malformed(path: str, expected: str) -> BundleRefused:
    return BundleRefused("bundle.malformed", f"expected {expected}", path=path)


# Statements from files, sorted by what they say they are; nothing is verified.


def read_statements(paths: Iterable[Path], tell: Callable[[str], object]) -> SuppliedStatements:
    """Read keyset and release statements from files, bundles, and the folders among them.

    What else is in a folder, such as the card itself, is left out.

    `tell` takes a line that says how much of a folder was left out.

    Raises:
        UsageFault: A file that was named is no statement, under its own ``statement.*`` code, or
            no sound bundle (``bundle.malformed``);
            ``usage.conflict``: a folder holds too many files, or no statement.
        FileFault: A file cannot be read.
    """
    found = SuppliedStatements()
    for path in paths:
        if path.is_dir():
            found = found.joined(_of_folder(path, tell))
        else:
            with of_the_user(str(path)):
                found = found.joined(_of_file(path))
    return found


def _of_folder(folder: Path, tell: Callable[[str], object]) -> SuppliedStatements:
    files = sorted(folder.rglob("*.json"))
    found, others = SuppliedStatements(), 0
    for file in files[: MAX_FILES + 1]:
        try:
            found = found.joined(_of_file(file, found=True))
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
        tell(f"{folder}: of {len(files)} files {others} are no statements, and left out")
    return found


def _of_file(path: Path, *, found: bool = False) -> SuppliedStatements:
    untrusted_bytes = read_bytes(path, max_bytes=MAX_BUNDLE_BYTES, found=found)
    if is_bundle(untrusted_bytes):
        return read_bundle(untrusted_bytes)[1]
    try:  # which of the two statements it says it is; its reader holds it to that
        read_envelope(untrusted_bytes, TYP_KEYSET)
    except StatementRefused as refusal:
        if refusal.code != "statement.typ":
            raise
        read_envelope(untrusted_bytes, TYP_RELEASE)
        return SuppliedStatements((), (untrusted_bytes,))
    return SuppliedStatements((untrusted_bytes,))
