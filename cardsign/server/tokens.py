"""Bearer tokens for the extended cards (RFC 6750), kept as digests."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cardsign.card.extensions import AUDIENCE, check_audience
from cardsign.errors import ServeFault, UsageFault
from cardsign.files import read_bytes
from cardsign.times import read_stamp, second, stamp

if TYPE_CHECKING:
    from cardsign.keys.doctor import Concern

TOKEN_BYTES: Final = 32  # of randomness in a token
MAX_TOKEN_FILE_BYTES: Final = 1024 * 1024  # about 8000 tokens, all compared at each request
MAX_NAMED: Final = 10  # tokens that one line for the operator names
_LINE: Final = re.compile(
    rf"([0-9a-fA-F]{{64}})[ \t]+({AUDIENCE.pattern})(?:[ \t]+until[ \t]+(\S+))?"
)


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """One token that opens an extended card.

    Attributes:
        digest: SHA-256 of the token's ASCII bytes; 32 bytes.
        audience: Whose card it opens, whatever else is published later.
        line: Where it stands in the token file, from 1.
        expires: From when on it opens nothing; aware; None for never.
    """

    digest: bytes
    audience: str
    line: int
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class TokenTable:
    """All tokens that a server accepts.

    Attributes:
        entries: One for each.
        path: The file that they are from, which a server follows; None for a fixed table.
    """

    entries: tuple[TokenEntry, ...]
    path: Path | None = None

    @classmethod
    def read(cls, path: Path) -> TokenTable:
        """Read a token file.

        Raises:
            FileFault: It cannot be read.
            ServeFault: ``serve.token_file``, as :meth:`from_bytes`.
        """
        data = read_bytes(path, max_bytes=MAX_TOKEN_FILE_BYTES)
        return cls(cls.from_bytes(data, path=str(path)).entries, path)

    @classmethod
    def from_bytes(cls, data: bytes, *, path: str = "") -> TokenTable:
        """Read the content of a token file.

        Raises:
            ServeFault: ``serve.token_file``: a line is none, or repeats a digest. The message
                never shows the line, which may be a token put there by mistake.
        """
        entries: dict[bytes, TokenEntry] = {}
        number = 0

        def bad(problem: str) -> ServeFault:
            return ServeFault("serve.token_file", problem, path=path, line=number, column=1)

        for number, raw in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
            text = raw.partition("#")[0].strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None:
                raise bad("this line is not a SHA-256 in hex and an audience")
            try:
                end = read_stamp(match[3]) if match[3] else None
            except ValueError:
                raise bad("what follows `until` is no time YYYY-MM-DDThh:mm:ssZ") from None
            entry = TokenEntry(bytes.fromhex(match[1]), match[2], number, end)
            if first := entries.get(entry.digest):
                raise bad(f"this token stands in line {first.line} already")
            entries[entry.digest] = entry
        return cls(tuple(entries.values()))

    def find(self, untrusted_token: str, *, now: float) -> TokenEntry | None:
        """The entry of a token that has not expired; as slow for a wrong token as for a right one.

        Args:
            untrusted_token: As the caller sent it.
            now: Unix seconds.
        """
        digest = _digest(untrusted_token)
        found = None
        for entry in self.entries:
            if hmac.compare_digest(digest, entry.digest):
                found = entry
        if found is None or found.expires is None or now < found.expires.timestamp():
            return found
        return None

    def without_card(self, audiences: Collection[str]) -> str:
        """Which tokens open nothing since their audience has no card, as one line; else empty."""
        idle = [one for one in self.entries if one.audience not in audiences]
        if not idle:
            return ""
        known = ", ".join(sorted(audiences)) or "none"
        shown = ", ".join(f"line {one.line} ({one.audience})" for one in idle[:MAX_NAMED])
        more = f" and {len(idle) - MAX_NAMED} more" if len(idle) > MAX_NAMED else ""
        return (
            f"no extended card is published for the audience of the tokens in {shown}{more}; "
            f"the audiences that have one: {known}"
        )


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
    until = f" until {stamp(expires)}" if expires else ""
    return token, f"{_digest(token).hex()} {audience}{until}"


def ending_tokens(file: Path, before: datetime) -> Iterator[Concern]:
    """The tokens of a file that open nothing from some moment `before` then on.

    Raises:
        FileFault, ServeFault: As :meth:`TokenTable.read`.
    """
    from cardsign.keys.doctor import make_concern  # which serving does not need

    for one in TokenTable.read(file).entries:
        if one.expires is not None and one.expires <= before:
            name = one.digest.hex()[:12]
            message = (
                f"token {name} opens the card of {one.audience} until "
                f"{second(one.expires)}: cardsign tokens create --audience "
                f"{one.audience} --token-file {file} makes another; then cardsign tokens revoke "
                f"{name} --token-file {file}"
            )
            yield make_concern("doctor.token_ends", "error", message, str(file), real=one.expires)


def without_token(data: bytes, digest: str, path: str = "FILE") -> bytes:
    """The content of a token file without the line of one token.

    Args:
        data: The content.
        digest: The beginning of the token's digest, in hex, as long as it takes to name one.
        path: Of the file, for the hint.

    Raises:
        ServeFault: ``serve.token_file``: the file is malformed.
        UsageFault: ``usage.conflict``: there is no such token, or there are several.
    """
    entries = TokenTable.from_bytes(data).entries
    found = [one for one in entries if digest and one.digest.hex().startswith(digest.lower())]
    if len(found) != 1:
        raise UsageFault(
            "usage.conflict",
            f"{len(found)} tokens have a digest {digest}..., not 1",
            hint=f"See their digests: cardsign tokens list --token-file {path}",
        )
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(lines[: found[0].line - 1] + lines[found[0].line :]).encode()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
