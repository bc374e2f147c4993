"""What a store's state says, held against what its audit log tells. Pure.

The chain of :mod:`cardsign.keys.audit` shows that the log is whole; here its lines are told
again, and where the state says something else, somebody has edited the state. Not seen: what no
line tells (a holder, until when a retiring key signs, since when it is not needed), keys of a
store that is older than its log, and the last change undone together with the head, which
looks like an attempt that came to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused
from cardsign.keys.audit import MAX_LINE_BYTES, AuditLine, AuditReport, publication_digest
from cardsign.keys.model import ENDED, ROTATING, TIME_FORMAT, KeyRecord, StoreState

_TELLS: Final[Mapping[str, str]] = {"activated": "active"}
_STEPS: Final = ("prepublished", "activated", "retiring", "retired", "revoked", "destroyed")
_TIMED: Final = ("prepublished", "activated", "retired", "revoked", "destroyed")


@dataclass(slots=True)
class _Key:
    """A key as the log tells of it; `entered` is None where it is older than the log."""

    entered: AuditLine | None = None
    state: str | None = None
    times: dict[str, str] = field(default_factory=dict)
    reason: Json = None


@dataclass(slots=True)
class _Published:
    """The publications that the log tells of.

    Attributes:
        newest: Of each series the digest, the kids and the time.
        digests: Of all of them.
        seen: Since when every newest one holds a kid.
        is_whole: No line is of a cardsign that did not say of which series it was.
    """

    newest: dict[str, tuple[Json, list[Json], str]] = field(default_factory=dict)
    digests: set[Json] = field(default_factory=set)
    seen: dict[str, str] = field(default_factory=dict)
    is_whole: bool = True


def differences(state: StoreState, report: AuditReport, untrusted_log: bytes) -> tuple[str, ...]:
    """Say where a state differs from what its log tells, a sentence each; none: it does not.

    Args:
        state: The state.
        report: What :func:`cardsign.keys.audit.verify_chain` makes of the log with its head.
        untrusted_log: The whole log.
    """
    if not report.lines:
        cut = state.generation and any(
            generation <= state.generation for generation in _generations(untrusted_log)
        )
        untold = state.generation == 0 and (state.keys or state.publications)
        return (
            ("the state names no line of the log, and there are some",)
            if cut
            else (("the state is that of a new store, and holds something",) if untold else ())
        )
    return (
        *_of_generations(state, report.lines),
        *_of_keys(state, report.lines),
        *_of_publications(state, report.lines),
        *_of_statements(state, report.lines),
    )


def _generations(untrusted_log: bytes) -> Iterator[int]:
    for line in untrusted_log.split(b"\n"):
        try:
            generation = parse_object(line, max_bytes=MAX_LINE_BYTES).get("generation")
        except JsonRefused:
            continue
        if isinstance(generation, int):
            yield generation


def _of_generations(state: StoreState, lines: tuple[AuditLine, ...]) -> Iterator[str]:
    told = lines[-1].generation
    if told != state.generation:
        yield f"the state is of generation {state.generation}, and its line of the log of {told}"


def _of_keys(state: StoreState, lines: tuple[AuditLine, ...]) -> Iterator[str]:
    told = _told_of_keys(lines)
    is_complete = lines[0].generation == 1  # else the store is older than its log
    for key in state.keys:
        one = told.pop(key.thumbprint, None)
        if one is None or one.entered is None:
            if is_complete or key.created.strftime(TIME_FORMAT) >= lines[0].time:
                yield f"key {key.kid!r} is in the state, and no line of the log says it was entered"
                continue
        else:
            yield from _of_entry(key, one.entered)
        if one is not None:
            yield from _of_life(key, one)
    for thumbprint, one in told.items():
        name = (one.entered and one.entered.kid) or thumbprint
        yield f"the log tells of key {name!r}, and the state has none"


def _told_of_keys(lines: tuple[AuditLine, ...]) -> dict[str, _Key]:
    told: dict[str, _Key] = {}
    for line in lines:
        subject, _, what = line.event.partition("-")
        if subject != "key":
            continue
        key = told.setdefault(str(line.details.get("thumbprint")), _Key())
        if what == "entered":
            key.entered, key.state = line, str(line.details.get("state"))
            roles = line.details.get("roles")
            rotates = isinstance(roles, list) and not ROTATING.isdisjoint(map(str, roles))
            if key.state == "active":
                key.times["activated"] = line.time
            if key.state == "prepublished" or (key.state == "active" and rotates):
                key.times["prepublished"] = line.time
        elif what in _STEPS:
            key.times[what] = line.time
            key.reason = line.details.get("reason", key.reason)
            if what != "destroyed":
                key.state = _TELLS.get(what, what)
    return told


def _of_entry(key: KeyRecord, line: AuditLine) -> Iterator[str]:
    said: dict[str, Json] = {
        "kid": key.kid,
        "custody": key.custody,
        "roles": list(key.roles),
        "time": key.created.strftime(TIME_FORMAT),
    }
    told = {**line.details, "kid": line.kid, "time": line.time}
    for name, value in said.items():
        if told.get(name) != value:
            yield (
                f"key {key.kid!r} was entered with the {name} {told.get(name)}, "
                f"and the state says {value}"
            )


def _of_life(key: KeyRecord, told: _Key) -> Iterator[str]:
    if key.state != told.state and not (told.entered is None and told.state is None):
        yield f"key {key.kid!r} is {told.state} by the log, and {key.state} by the state"
        return
    if key.revoked_because != told.reason:
        yield (
            f"key {key.kid!r} was revoked because {told.reason} by the log, "
            f"and {key.revoked_because} by the state"
        )
    for name in _TIMED:
        time, at = told.times.get(name), getattr(key.times, name)
        said = at.strftime(TIME_FORMAT) if at else None
        if said != time and (told.entered is not None or time is not None):
            yield f"key {key.kid!r} was {name} at {time} by the log, and at {said} by the state"


def _of_publications(state: StoreState, lines: tuple[AuditLine, ...]) -> Iterator[str]:
    told = _told_of_publications(state, lines)
    if not told.is_whole:
        return
    newest = {one.series: one for one in state.newest_publications()}
    for one in state.publications:
        if publication_digest(one) not in told.digests:
            yield f"no line of the log tells of generation {one.generation} of {one.series!r}"
    for series, (digest, _, _) in told.newest.items():
        if series not in newest or publication_digest(newest[series]) != digest:
            yield f"the newest publication of {series!r} is another by the log"
    for key in state.keys:
        if key.state in ENDED:
            continue
        since = told.seen.get(key.kid)
        said = key.times.seen.strftime(TIME_FORMAT) if key.times.seen else None
        if said != since:
            yield f"key {key.kid!r} was seen since {since} by the log, and {said} by the state"


def _told_of_publications(state: StoreState, lines: tuple[AuditLine, ...]) -> _Published:
    """Tell the publications again, and the marks that `cardsign.keys.lifecycle` made of them."""
    told = _Published()
    entered = {line.kid for line in lines if line.event == "key-entered"}
    kids = {key.kid for key in state.keys if key.kid not in entered}
    for line in lines:
        at, details = line.time, line.details
        if line.event == "key-entered" and line.kid is not None:
            kids.add(line.kid)
        elif line.event == "publication-withdrawn":
            told.newest.pop(str(details.get("series")), None)
        elif line.event == "publication-recorded":
            if "digest" not in details:
                told.is_whole = False
                continue
            held = details["kids"]
            told.digests.add(details["digest"])
            told.newest[str(details["series"])] = (
                details["digest"],
                held if isinstance(held, list) else [],
                str(details["at"]),
            )
            at = max(time for _, _, time in told.newest.values())
        else:
            continue
        for kid in kids:
            if told.newest and all(kid in held for _, held, _ in told.newest.values()):
                told.seen.setdefault(kid, at)
            else:
                told.seen.pop(kid, None)
    return told


def _of_statements(state: StoreState, lines: tuple[AuditLine, ...]) -> Iterator[str]:
    """What was signed may be known better from elsewhere, but not be forgotten."""
    held = state.statements
    kept = [line.details for line in lines if line.event == "keyset.kept"]
    if kept:
        number, digest = kept[-1].get("number"), kept[-1].get("digest")
        said = held.keyset and f"{held.keyset.epoch}.{held.keyset.version}"
        if held.keyset is None or (said, held.keyset.digest) != (number, digest):
            yield f"the newest keyset is {number} by the log, and {said} by the state"
    signed = [line.details.get("seq") for line in lines if line.event == "release.signed"]
    newest = max((seq for seq in signed if isinstance(seq, int)), default=0)
    if held.release_seq < newest:
        yield f"release {newest} was signed by the log, and {held.release_seq} is the state's"
