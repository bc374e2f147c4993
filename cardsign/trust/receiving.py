"""Reading statements as they came, within the bounds of one refresh (K9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from cardsign.jose.keyset import KeysetStatement, read_keyset
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.jose.statements import MAX_STATEMENT_BYTES, StatementRefused, Timed
from cardsign.reasons import Reason

#: Bytes of the keyset statements of one refresh, and as much of its releases (K9).
MAX_CHAIN_BYTES: Final = 2 * 1024 * 1024
#: Bytes that each counts for at least, so that nobody fills a refresh with crumbs.
_LEAST_BYTES: Final = 1024

_Statement = TypeVar("_Statement", KeysetStatement, ReleaseStatement)


@dataclass(frozen=True, slots=True)
class Received:
    """Well-formed statements as received, each once, and why others were left out."""

    keysets: tuple[KeysetStatement, ...] = ()
    releases: tuple[ReleaseStatement, ...] = ()
    reasons: tuple[Reason, ...] = ()


def receive(untrusted_keysets: Iterable[bytes], untrusted_releases: Iterable[bytes]) -> Received:
    """Read statements as they came.

    Nothing in them raises; what is malformed is reported and left out, and so is what lies
    beyond the bounds. One that comes again, or is too large to be any, takes no room.
    """
    reasons: list[Reason] = []
    keysets = tuple(_read(untrusted_keysets, read_keyset, reasons))
    releases = tuple(_read(untrusted_releases, read_release, reasons))
    return Received(
        tuple({one.envelope: one for one in keysets}.values()),
        tuple({one.envelope: one for one in releases}.values()),
        tuple(reasons),
    )


def check_past(statement: Timed, now: datetime, skew: timedelta) -> None:
    """Check that a statement has been issued already.

    Raises:
        StatementRefused: ``statement.not_yet``.
    """
    ahead = statement.iat - now.timestamp()
    if ahead > skew.total_seconds():
        raise StatementRefused(
            "statement.not_yet", f"issued at {statement.iat}, {ahead:.0f} s from now"
        )


def reason_of(refusal: StatementRefused, statement: KeysetStatement | ReleaseStatement) -> Reason:
    """Why a statement was left, with its name."""
    return Reason.of(refusal.code, f"{name_of(statement)}: {refusal.message}", hint=refusal.hint)


def number_of(statement: KeysetStatement) -> tuple[int, int]:
    """What keyset statements are ordered by."""
    return statement.epoch, statement.version


def name_of(statement: KeysetStatement | ReleaseStatement) -> str:
    """How reasons call a statement."""
    if isinstance(statement, KeysetStatement):
        return f"keyset {statement.epoch}.{statement.version}"
    return (
        f"release {statement.seq} under keyset {statement.keyset.epoch}.{statement.keyset.version}"
    )


def _read(
    untrusted: Iterable[bytes],
    read: Callable[[bytes], _Statement],
    reasons: list[Reason],
) -> Iterator[_Statement]:
    total = 0
    for index, untrusted_bytes in enumerate(dict.fromkeys(untrusted)):
        if len(untrusted_bytes) <= MAX_STATEMENT_BYTES:
            total += max(len(untrusted_bytes), _LEAST_BYTES)
        if total > MAX_CHAIN_BYTES:
            beyond = f"they have more than {MAX_CHAIN_BYTES} bytes in all; the rest is left"
            reasons.append(Reason.of("statement.too_many", beyond))
            return
        try:
            yield read(untrusted_bytes)
        except StatementRefused as refusal:
            message = f"statement {index}: {refusal.message}"
            reasons.append(Reason.of(refusal.code, message, hint=refusal.hint))
