"""The audit log: hash-chained JSON lines, of which the store's state holds the head.

::

    {"actor": ..., "details": {...}, "event": ..., "generation": 5, "id": ..., "kid": ...,
     "prev": "<SHA-256 of the line before>", "seq": 7, "time": "2026-11-21T22:00:00Z"}

A line is written before the state that it tells of is committed. So what counts is what the
head reaches by `prev`; any other line is of an attempt that came to nothing. `generation` is
that of the commit: a state of which the log knows a much newer one was put back. The chain shows
that a line was changed or lost since the head was made, not that the head is genuine: for
that, a release statement carries it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused, StoreFault
from cardsign.keys.model import TIME_FORMAT, AuditHead, Publication, StoreState

MAX_LINE_BYTES: Final = 64 * 1024  # bytes; a publication of many cards is the longest line

_MEMBERS: Final = frozenset(
    {"actor", "details", "event", "generation", "id", "kid", "prev", "seq", "time"}
)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something that happened to a key or the store.

    Attributes:
        event: What, in the past tense: ``key-activated``.
        kid: The key's kid, or None where it is about no single key.
        details: Whatever else there is to know; public data only.
    """

    event: str
    kid: str | None = None
    details: Mapping[str, Json] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the log that counts."""

    seq: int
    time: str
    actor: str
    event: str
    kid: str | None
    details: Mapping[str, Json] = field(hash=False)
    generation: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A log whose chain is whole.

    Attributes:
        lines: Those that the head reaches, oldest first.
        raw: The same as they are written.
        aborted: How many others there are: attempts that were never committed.
    """

    lines: tuple[AuditLine, ...]
    raw: bytes = field(repr=False)
    aborted: int


def extend(
    head: AuditHead,
    events: Iterable[AuditEvent],
    *,
    generation: int,
    now: datetime,
    actor: str,
    random: Callable[[int], bytes],
) -> tuple[AuditHead, bytes]:
    """Return the lines for `events`, and the head that the log has with them.

    Args:
        head: That of the log so far.
        events: What happened, in order.
        generation: Of the state that is to be committed.
        now: The time of all of it, with its zone.
        actor: Who did it, as the operating system calls them; proves nothing.
        random: Gives that many fresh bytes: ``os.urandom``.
    """
    lines = bytearray()
    for event in events:
        line = _canonical(
            {
                "actor": actor,
                "details": dict(event.details),
                "event": event.event,
                "generation": generation,
                "id": str(_uuid7(now, random)),
                "kid": event.kid,
                "prev": head.digest,
                "seq": head.seq + 1,
                "time": now.astimezone(UTC).strftime(TIME_FORMAT),
            }
        )
        head = AuditHead(head.seq + 1, _sha256(line))
        lines += line + b"\n"
    return head, bytes(lines)


def verify_chain(untrusted_log: bytes, head: AuditHead, *, where: str) -> AuditReport:
    """Check the log from the head back to its first line.

    Args:
        untrusted_log: The whole log.
        head: What the state says of it.
        where: The log's path, for errors.

    Raises:
        StoreFault: ``keystore.audit_broken``: a line that counts is missing or was changed.
    """
    known = {_sha256(line): line for line in untrusted_log.split(b"\n") if line}
    total = sum(1 for line in untrusted_log.split(b"\n") if line)
    found: list[AuditLine] = []
    raw: list[bytes] = []
    digest, seq = head.digest, head.seq
    while digest is not None:
        line = known.get(digest)
        if line is None or seq < 1:
            raise _broken(f"line {seq} is missing or was changed", where)
        members = _parsed(line, seq, where)
        if members["seq"] != seq:
            raise _broken(f"line {seq} says that it is line {members['seq']}", where)
        found.append(_line(members))
        raw.append(line + b"\n")
        prev = members["prev"]
        digest, seq = prev if isinstance(prev, str) else None, seq - 1
    if seq:
        raise _broken(f"it begins with line {seq + 1}", where)
    return AuditReport(tuple(reversed(found)), b"".join(reversed(raw)), aborted=total - len(found))


def publication_digest(publication: Publication) -> str:
    """Return what a line says of all that is on record of a publication: SHA-256, in hex."""
    members = {**asdict(publication), "at": publication.at.strftime(TIME_FORMAT)}
    return _sha256(_canonical(members))


def check_not_put_back(untrusted_tail: bytes, state: StoreState, *, where: str) -> None:
    """Check that a state is not older than the end of the log, which was read before it.

    A line is written for the next generation only. So the last one is at most one ahead, of an
    attempt that came to nothing; and where it is the state's own, it names the state's.

    Not checked: all else, see :func:`verify_chain`. A state that was put back by one commit
    looks like an attempt that came to nothing.

    Raises:
        StoreFault: ``keystore.rolled_back``.
    """
    line = untrusted_tail.removesuffix(b"\n").rpartition(b"\n")[2]
    try:
        logged = parse_object(line, max_bytes=MAX_LINE_BYTES)["generation"]
    except (JsonRefused, KeyError):
        return  # none yet, or a torn one; doctor tells what else it may be
    own = state.audit.digest == _sha256(line)
    if isinstance(logged, int) and (
        logged > state.generation + 1 or (own and logged != state.generation)
    ):
        message = f"the state is of generation {state.generation}, and its log knows {logged}"
        raise StoreFault("keystore.rolled_back", message, path=where)


def check_witnessed(untrusted_log: bytes, digest: str, *, witness: str, where: str) -> None:
    """Check that the log holds the line that something else has called its newest.

    Whoever can write both the log and the state can write both anew, but not what was published.

    Args:
        untrusted_log: The whole log, the chain of which is whole.
        digest: SHA-256 of the line, lower-case hex.
        witness: What has named it: ``release 12``.
        where: The log's path, for errors.

    Raises:
        StoreFault: ``keystore.audit_broken``.
    """
    if all(_sha256(line) != digest for line in untrusted_log.split(b"\n") if line):
        raise _broken(f"the line that {witness} names as the newest of its time is gone", where)


def _parsed(line: bytes, seq: int, where: str) -> dict[str, Json]:
    try:
        members = parse_object(line, max_bytes=MAX_LINE_BYTES)
    except JsonRefused as exc:
        raise _broken(f"line {seq} is not strict JSON: {exc.message}", where) from exc
    if members.keys() != _MEMBERS or not isinstance(members["details"], dict):
        raise _broken(f"line {seq} has other members than a line of the log", where)
    return members


def _line(members: Mapping[str, Json]) -> AuditLine:
    details, kid = members["details"], members["kid"]
    return AuditLine(
        seq=int(str(members["seq"])),
        time=str(members["time"]),
        actor=str(members["actor"]),
        event=str(members["event"]),
        kid=None if kid is None else str(kid),
        details=details if isinstance(details, dict) else {},
        generation=generation if isinstance(generation := members["generation"], int) else 0,
    )


def _uuid7(now: datetime, random: Callable[[int], bytes]) -> UUID:
    """A time-ordered identifier (RFC 9562 5.7)."""
    milliseconds = int(now.timestamp() * 1000) & (1 << 48) - 1
    noise = int.from_bytes(random(10))
    number = milliseconds << 80 | 7 << 76 | (noise >> 62 & 0xFFF) << 64 | 2 << 62
    return UUID(int=number | noise & (1 << 62) - 1)


def _canonical(members: Mapping[str, Json]) -> bytes:
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _broken(message: str, where: str) -> StoreFault:
    return StoreFault("keystore.audit_broken", f"the audit log is broken: {message}", path=where)
