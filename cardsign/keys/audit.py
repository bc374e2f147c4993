"""The audit log: hash-chained JSON lines, of which the store's state holds the head.

::

    {"actor": ..., "details": {...}, "event": ..., "generation": 5, "kid": ...,
     "prev": "<SHA-256 of the line before>", "seq": 7, "state": "<SHA-256 of the state>",
     "time": "2026-11-21T22:00:00Z"}

A line is written before the state that it tells of is committed. So what counts is what the
head reaches by `prev`; any other line is of an attempt that came to nothing. `generation` is
that of the commit: a state of which the log knows a much newer one was put back. `state` is what
the commit made (:func:`cardsign.keys.model.state_digest`): an edited state has another digest.

Anyone who can edit both the state and the log can write both anew. Two things outside the
store tell that: the head that this user saw last (:class:`SeenHeads`), and the head that a
published release statement carries.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json
from cardsign.errors import FileFault, FileMissing, JsonRefused, StoreFault
from cardsign.files import make_directory, read_bytes, remove, write_atomic
from cardsign.keys.model import AuditHead, StoreState, state_digest
from cardsign.times import stamp

MAX_LINE_BYTES: Final = 64 * 1024  # bytes; a publication of many cards is the longest line

NO_LINE: Final = AuditHead()
"""The head of an empty log."""

_MEMBERS: Final = frozenset(
    {"actor", "details", "event", "generation", "kid", "prev", "seq", "state", "time"}
)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something that happened to a key or the store.

    Attributes:
        event: What, in the past tense: ``key-activated``.
        kid: The key's kid, or None where it is about no single key.
        details: Whatever else there is to know; public data only.
        seq: The number of its line; 0 as long as it is not logged, and so the others.
    """

    event: str
    kid: str | None = None
    details: Mapping[str, Json] = field(default_factory=dict, hash=False)
    seq: int = 0
    time: str = ""
    actor: str = ""


def extend(
    state: StoreState,
    events: Iterable[AuditEvent],
    *,
    now: datetime,
    actor: str,
) -> tuple[StoreState, bytes]:
    """Return a state that names the lines for `events` as the newest of its log, and the lines.

    `state` is of the generation to commit, and its `audit` the head of the log so far. `actor` is
    what the operating system calls who did it; it proves nothing.
    """
    lines, head, digest = bytearray(), state.audit, state_digest(state)
    for event in events:
        members = {
            "actor": actor,
            "details": dict(event.details),
            "event": event.event,
            "generation": state.generation,
            "kid": event.kid,
            "prev": head.digest,
            "seq": head.seq + 1,
            "state": digest,
            "time": stamp(now),
        }
        line = json.dumps(members, sort_keys=True, separators=(",", ":")).encode("ascii")
        head = AuditHead(head.seq + 1, _sha256(line))
        lines += line + b"\n"
    return replace(state, audit=head), bytes(lines)


def verify_chain(
    untrusted_log: bytes, head: AuditHead, *, where: str
) -> tuple[tuple[AuditEvent, ...], bytes, int]:
    """Check the log from the head back to its first line.

    Returns:
        The events that the head reaches, oldest first; their lines; and how many other lines
        there are: of attempts that were never committed.

    Raises:
        StoreFault: ``keystore.audit_broken``: a line that counts is missing or was changed.
    """
    lines = [line for line in untrusted_log.split(b"\n") if line]
    known = {_sha256(line): line for line in lines}
    found: list[AuditEvent] = []
    raw: list[bytes] = []
    digest, seq = head.digest, head.seq
    while digest is not None:
        line = known.get(digest)
        if line is None or seq < 1:
            raise _broken(f"line {seq} is missing or was changed", where)
        members = _parsed(line, seq, where)
        if members["seq"] != seq:
            raise _broken(f"line {seq} says that it is line {members['seq']}", where)
        details, kid, prev = members["details"], members["kid"], members["prev"]
        event = AuditEvent(
            str(members["event"]),
            None if kid is None else str(kid),
            details if isinstance(details, dict) else {},
            seq,
            str(members["time"]),
            str(members["actor"]),
        )
        found.append(event)
        raw.append(line + b"\n")
        digest, seq = prev if isinstance(prev, str) else None, seq - 1
    if seq:
        raise _broken(f"it begins with line {seq + 1}", where)
    return tuple(reversed(found)), b"".join(reversed(raw)), len(lines) - len(found)


def check_not_put_back(untrusted_end: bytes, state: StoreState, *, where: str) -> None:
    """Check that a state is not older than the end of the log, which was read before it.

    Not checked: a state that was put back by one commit; it looks like an attempt that came to
    nothing, whose line is one generation ahead.

    Raises:
        StoreFault: ``keystore.rolled_back``.
    """
    line = untrusted_end.removesuffix(b"\n").rpartition(b"\n")[2]
    try:
        logged = parse_object(line, max_bytes=MAX_LINE_BYTES)["generation"]
    except (JsonRefused, KeyError):
        return  # none yet, or a torn one
    if isinstance(logged, int) and logged > state.generation + 1:
        raise _rolled_back(state, logged, where)


def check_vouched(
    untrusted_end: bytes, state: StoreState, *, since: AuditHead = NO_LINE, where: str
) -> bool:
    """Check that a state is the one that the newest line which counts was written for.

    The log must also lead back to `since`, a head that it had before.

    Returns:
        Whether `untrusted_end` holds the lines that are needed; if not, nothing was checked.

    Raises:
        StoreFault: ``keystore.rolled_back``: the line is of another generation;
            ``keystore.audit_broken``: it is of another state, or cannot be read;
            ``keystore.other_history``: the log does not lead back to `since`.
    """
    if state.audit.digest is None:
        if state != StoreState(0, ()):
            what = "the state names no line of its log, and is not that of a new store"
            raise _edited(what, where)
        if since.digest is not None:
            raise _other_history(since, where)
        return True
    known = {_sha256(line): line for line in untrusted_end.split(b"\n") if line}
    newest = known.get(state.audit.digest)
    if newest is None:
        return False
    members = _parsed(newest, state.audit.seq, where)
    if members["generation"] != state.generation:
        raise _rolled_back(state, members["generation"], where)
    if members["state"] != state_digest(state) or members["seq"] != state.audit.seq:
        raise _edited(f"line {state.audit.seq} of its log was written for another state", where)
    if since.digest is None:
        return True
    head: Json = state.audit.digest
    for seq in range(state.audit.seq, since.seq, -1):
        line = known.get(str(head))
        if line is None:
            return False
        head = _parsed(line, seq, where)["prev"]
    if head != since.digest or state.audit.seq < since.seq:
        raise _other_history(since, where)
    return True


def holds_line(untrusted_log: bytes, digest: str | None) -> bool:
    """Whether a log has the line of this SHA-256; every log has none of it."""
    return digest is None or any(_sha256(line) == digest for line in untrusted_log.split(b"\n"))


def _parsed(line: bytes, seq: int, where: str) -> dict[str, Json]:
    try:
        members = parse_object(line, max_bytes=MAX_LINE_BYTES)
    except JsonRefused as exc:
        raise _broken(f"line {seq} is not strict JSON: {exc.message}", where) from exc
    if members.keys() != _MEMBERS or not isinstance(members["details"], dict):
        raise _broken(f"line {seq} has other members than a line of the log", where)
    return members


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _rolled_back(state: StoreState, logged: Json, where: str) -> StoreFault:
    message = f"the state is of generation {state.generation}, and its log knows {logged}"
    return StoreFault("keystore.rolled_back", message, path=where)


def _edited(message: str, where: str) -> StoreFault:
    hint = (
        "Somebody edited the state: restore a backup, and find out who can write to the key store."
    )
    return StoreFault("keystore.audit_broken", message, path=where, hint=hint)


def _other_history(since: AuditHead, where: str) -> StoreFault:
    message = (
        f"the audit log does not continue from line {since.seq}, the newest that was seen here"
    )
    return StoreFault("keystore.other_history", message, path=where)


def _broken(message: str, where: str) -> StoreFault:
    return StoreFault("keystore.audit_broken", f"the audit log is broken: {message}", path=where)


# What this user saw last of a key store's log, in the user's own state folder: one small file for
# each store, {"format": 1, "store": "/srv/issuer/keys", "seq": 7, "digest": "<SHA-256 of line 7>"}.


HEADS_FOLDER: Final = "cardsign/keystores"
HEAD_FORMAT: Final = 1
MAX_HEAD_BYTES: Final = 16 * 1024  # a path and a digest


@dataclass(slots=True)
class SeenHeads:
    """The newest lines that this user saw of the logs of key stores.

    Anyone who can edit a store can write its state and its log anew, so that the two agree. They
    cannot edit these files as well, unless they are the user. A log that does not lead back to the
    line that was seen is refused (``keystore.other_history``).

    Not found out: what was done to a store before this user opened it for the first time on this
    machine, or before it was moved to its present place.

    Attributes:
        warn: Told once if a head cannot be remembered; that keeps nobody from signing.
        store: Which store: its real path, or its address in a database. See :meth:`of`.
    """

    folder: Path
    warn: Callable[[str], None]
    store: str = ""
    _told: bool = field(default=False, repr=False)

    @classmethod
    def find(cls, environment: Mapping[str, str], warn: Callable[[str], None]) -> SeenHeads | None:
        """Those of a user, under XDG_STATE_HOME or HOME; None if there is no place for them."""
        configured = Path(environment.get("XDG_STATE_HOME", ""))
        if not configured.is_absolute():
            configured = Path(environment.get("HOME", "")) / ".local/state"
        return cls(configured / HEADS_FOLDER, warn) if configured.is_absolute() else None

    def of(self, store: str) -> SeenHeads:
        """Return what the user saw of one store."""
        return SeenHeads(self.folder, self.warn, store)

    @property
    def file(self) -> Path:
        """Where the head is remembered."""
        return self.folder / f"{hashlib.sha256(self.store.encode()).hexdigest()[:32]}.json"

    def read(self) -> AuditHead:
        """Return the head that was seen last; that of an empty log if none was.

        That the file cannot be reached, as in a container without a home, is told and no more. One
        that is not ours is refused (``keystore.corrupt``).
        """
        try:
            untrusted_bytes = read_bytes(self.file, max_bytes=MAX_HEAD_BYTES)
        except FileMissing:
            return AuditHead()
        except FileFault as fault:
            self._tell(fault, "it is not known which line of the log was the newest before")
            return AuditHead()
        try:
            members = parse_object(untrusted_bytes, max_bytes=MAX_HEAD_BYTES, max_depth=1)
        except JsonRefused as exc:
            raise self._damaged(exc.message) from exc
        match members:
            case {"format": 1, "store": self.store, "seq": int(seq), "digest": str(digest)} if (
                len(members) == 4
            ):
                return AuditHead(seq, digest)
        raise self._damaged("it is not what cardsign writes about this key store")

    def note(self, head: AuditHead, known: AuditHead) -> None:
        """Remember a head, which the log now has; `known` is remembered already.

        Where it cannot be written, the check of the next command begins at an older line.
        """
        if head == known or head.digest is None:
            return
        document = {
            "format": HEAD_FORMAT,
            "store": self.store,
            "seq": head.seq,
            "digest": head.digest,
        }
        try:
            make_directory(self.folder, mode=0o700)
            write_atomic(self.file, json.dumps(document).encode("ascii") + b"\n", mode=0o600)
        except FileFault as fault:
            self._tell(fault, "the newest line of the log cannot be remembered")

    def forget(self) -> None:
        """Begin anew: the user is making the store at this place, or restoring it."""
        try:
            remove(self.file)
        except FileFault as fault:
            self._tell(fault, "what was remembered of an earlier key store here cannot be removed")

    def _tell(self, fault: FileFault, what: str) -> None:
        if not self._told:
            self._told = True
            self.warn(f"{fault.code}: {what} ({self.file}: {fault.message})")

    def _damaged(self, what: str) -> StoreFault:
        return StoreFault("keystore.corrupt", what, path=str(self.file), hint="Remove the file.")
