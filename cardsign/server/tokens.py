"""Bearer tokens for the extended card, kept as digests.

A token file has one token a line: its SHA-256 in hex, then, where there is more than one
extended card, the audience whose card it opens. Blank lines and ``#`` comments are skipped.

A digest without salt is enough because a token is 256 random bits: nothing short of the token
leads back from the digest. So the file need not be secret, but it must not be writable by
others, and a password does not belong in it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cardsign.errors import ServeFault, UsageFault
from cardsign.files import read_bytes
from cardsign.generation import AUDIENCE

TOKEN_BYTES: Final = 32  # of randomness in a token
MAX_TOKEN_FILE_BYTES: Final = 1024 * 1024  # about 8000 tokens, all compared at each request
_LINE: Final = re.compile(rf"([0-9a-fA-F]{{64}})(?:[ \t]+({AUDIENCE.pattern}))?")


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One token that opens an extended card.

    Attributes:
        digest: SHA-256 of the token's ASCII bytes; 32 bytes.
        audience: Whose card it opens; None for the only one there is.
        line: Where it stands in the token file, from 1.
    """

    digest: bytes
    audience: str | None
    line: int

    def audience_among(self, audiences: Collection[str]) -> str | None:
        """The audience whose card it opens, or None if there is no such card."""
        if self.audience is not None:
            return self.audience if self.audience in audiences else None
        return next(iter(audiences)) if len(audiences) == 1 else None


@dataclass(frozen=True, slots=True)
class TokenTable:
    """All tokens that a server accepts."""

    entries: tuple[TokenEntry, ...]

    @classmethod
    def read(cls, path: Path) -> TokenTable:
        """Read a token file.

        Raises:
            FileFault: It cannot be read.
            ServeFault: ``serve.token_file``, as :meth:`from_bytes`.
        """
        return cls.from_bytes(read_bytes(path, max_bytes=MAX_TOKEN_FILE_BYTES), path=str(path))

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str = "") -> TokenTable:
        """Read the content of a token file.

        Raises:
            ServeFault: ``serve.token_file``: a line is none, or repeats a digest. The message
                never shows the line, which may be a token put there by mistake.
        """
        entries: dict[bytes, TokenEntry] = {}
        for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
            text = raw.partition("#")[0].strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None:
                problem = "this line is not a SHA-256 in hex and an optional audience"
                raise ServeFault("serve.token_file", problem, path=path, line=number, column=1)
            entry = TokenEntry(bytes.fromhex(match[1]), match[2], number)
            if first := entries.get(entry.digest):
                problem = f"this token stands in line {first.line} already"
                raise ServeFault("serve.token_file", problem, path=path, line=number, column=1)
            entries[entry.digest] = entry
        return cls(tuple(entries.values()))

    def find(self, untrusted_token: str) -> TokenEntry | None:
        """The entry of a token; takes as long for a wrong token as for any right one."""
        digest = _digest(untrusted_token)
        found = None
        for entry in self.entries:
            if hmac.compare_digest(digest, entry.digest):
                found = entry
        return found

    def check_audiences(self, audiences: Collection[str]) -> None:
        """Refuse a token for which the generation has no card, or no single one.

        Raises:
            ServeFault: ``serve.token_file``.
        """
        known = ", ".join(sorted(audiences)) or "none"
        for entry in self.entries:
            if entry.audience is not None and entry.audience not in audiences:
                raise ServeFault(
                    "serve.token_file",
                    f"the token in line {entry.line} is for audience {entry.audience}, "
                    f"but extended cards were published for: {known}",
                )
            if entry.audience is None and len(audiences) > 1:
                raise ServeFault(
                    "serve.token_file",
                    f"the token in line {entry.line} must name one of the audiences: {known}",
                )


def create_token(audience: str | None = None) -> tuple[str, str]:
    """Make a token of 256 random bits.

    Returns:
        The token, to be given to its user and kept nowhere, and the line of the token file.

    Raises:
        UsageFault: ``publish.audience_name``.
    """
    if audience is not None and not AUDIENCE.fullmatch(audience):
        raise UsageFault(
            "publish.audience_name", f"audience {audience!r} is not {AUDIENCE.pattern}"
        )
    token = secrets.token_urlsafe(TOKEN_BYTES)
    line = _digest(token).hex() + (f" {audience}" if audience else "")
    return token, line


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
