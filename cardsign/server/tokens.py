"""The token file: which bearer tokens open an extended card, by their digests.

The server reads it, and `cardsign tokens` edits it. The tokens themselves are kept nowhere.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.card.extensions import AUDIENCE, check_audience
from cardsign.errors import FileFault, FileMissing, ServeFault, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.times import read_stamp, stamp

TOKEN_BYTES: Final = 32  # of randomness in a token
MAX_TOKEN_FILE_BYTES: Final = 1024 * 1024  # about 8,000 tokens
LOCK_SECONDS: Final = 10.0
_LINE: Final = re.compile(
    rf"([0-9a-fA-F]{{64}})[ \t]+({AUDIENCE.pattern})(?:[ \t]+until[ \t]+(\S+))?"
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token that opens an extended card.

    Attributes:
        digest: SHA-256 of the token's ASCII bytes, in hex.
        audience: Whose card it opens, whatever else is published later.
        line: Where it stands in the token file, from 1.
        expires: From when on it opens nothing; aware; None for never.
    """

    digest: str
    audience: str
    line: int
    expires: datetime | None = None


def digest_token(untrusted_token: str) -> str:
    """Return the digest under which a token is kept."""
    return hashlib.sha256(untrusted_token.encode("utf-8", "surrogateescape")).hexdigest()


def parse_tokens(data: bytes, *, path: str = "") -> dict[str, Token]:
    """Return the tokens of a token file by their digests.

    Raises:
        ServeFault: ``serve.token_file``: a line is none, or repeats a digest. The message never
            shows the line, which may be a token put there by mistake.
    """
    tokens: dict[str, Token] = {}
    for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        text = raw.partition("#")[0].strip()
        if not text:
            continue
        try:
            match = _LINE.fullmatch(text)
            if match is None:
                raise ValueError("this line is not a SHA-256 in hex and an audience")
            expires = read_stamp(match[3]) if match[3] else None
            token = Token(match[1].lower(), match[2], number, expires)
            if token.digest in tokens:
                raise ValueError(f"this token stands in line {tokens[token.digest].line} already")
        except ValueError as exc:
            raise ServeFault(
                "serve.token_file", str(exc), path=path, line=number, column=1
            ) from exc
        tokens[token.digest] = token
    return tokens


def read_tokens(path: Path) -> dict[str, Token]:
    """Return the tokens of a file by their digests.

    Raises:
        FileFault: It cannot be read.
        ServeFault: ``serve.token_file``, as :func:`parse_tokens`.
    """
    return parse_tokens(read_bytes(path, max_bytes=MAX_TOKEN_FILE_BYTES), path=str(path))


def create_token(audience: str, expires: datetime | None = None) -> tuple[str, str]:
    """Make a token of 256 random bits, for the extended card of one audience.

    Args:
        audience: Whose card it opens.
        expires: From when on it opens nothing; aware; None for never.

    Returns:
        The token, to be given to its user and kept nowhere, and the line of the token file.

    Raises:
        UsageFault: ``publish.audience_name``.
    """
    check_audience(audience)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    while token.startswith("-"):  # on a command line it would be an option
        token = secrets.token_urlsafe(TOKEN_BYTES)
    until = f" until {stamp(expires)}" if expires else ""
    return token, f"{digest_token(token)} {audience}{until}"


@contextmanager
def edit_tokens(path: Path) -> Iterator[list[str]]:
    """Give the lines of a token file to be changed; no other process changes it meanwhile.

    Raises:
        FileFault: It cannot be read or written, or another process holds it.
        ServeFault: ``serve.token_file``: it is malformed, or would be.
    """
    busy = FileFault("file.busy", "another process is changing the tokens", path=str(path))
    with locked(path, patience=LOCK_SECONDS, busy=busy, by_directory=True):
        data = b""
        with suppress(FileMissing):
            data = read_bytes(path, max_bytes=MAX_TOKEN_FILE_BYTES)
        parse_tokens(data, path=str(path))
        text = data.decode("utf-8", "surrogateescape")
        lines = (f"{text}\n" if text and not text.endswith("\n") else text).splitlines(True)
        yield lines
        changed = "".join(lines).encode("utf-8", "surrogateescape")
        parse_tokens(changed, path=str(path))
        write_atomic(path, changed)


def remove_token(lines: list[str], name: str, path: str) -> str:
    """Remove the line of one token from those of a token file, and return the token's digest.

    Args:
        lines: Of the file.
        name: The token itself, or the beginning of its digest, as long as it takes to name one.
            No message repeats it: it may be a token of another file.
        path: Of the file, for the hint.

    Raises:
        UsageFault: ``usage.conflict``: there is no such token, or there are several.
    """
    tokens = parse_tokens("".join(lines).encode("utf-8", "surrogateescape"), path=path).values()
    matches = [token for token in tokens if token.digest == digest_token(name)]
    matches = matches or [
        token for token in tokens if name and token.digest.startswith(name.lower())
    ]
    if len(matches) != 1:
        problem = (
            f"{len(matches)} digests begin with this" if matches else "no token or digest fits"
        )
        hint = f"See their digests: cardsign tokens list --token-file {path}"
        raise UsageFault("usage.conflict", problem, hint=hint)
    del lines[matches[0].line - 1]
    return matches[0].digest
