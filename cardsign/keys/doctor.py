"""What ails a key store in a directory, and the mending of what can be mended safely.

Safe to mend is what nothing refers to, and permissions that are too wide. Nothing here decides
what became of a key: a lost private half or a broken log is told, not mended.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from cardsign.errors import FileFault, StoreFault
from cardsign.files import remove, set_mode
from cardsign.keys.audit import verify_chain
from cardsign.keys.records import KeyTimes, StoreState
from cardsign.keys.rotation import steps
from cardsign.keys.store import (
    AUDIT_FILE,
    LOCK_FILE,
    PRIVATE_DIRECTORY,
    STATE_FILE,
    DirectoryStore,
    alone,
)
from cardsign.keys.timeline import DEFAULT_SETTINGS, SHOWN_TIME, TimelineSettings

Level = Literal["alarm", "note"]

_TEMPORARY: Final = re.compile(r"\.[^/]+\.[0-9a-f]{16}\.tmp")
_KEY_FILE: Final = re.compile(r"([A-Za-z0-9_-]{43})\.key")
_SHARED_BITS: Final = 0o077
_OURS: Final = frozenset({STATE_FILE, AUDIT_FILE, LOCK_FILE, PRIVATE_DIRECTORY})


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        code: ``doctor.*``, or the code of the fault that was met.
        level: An ``alarm`` needs somebody to act; a ``note`` does not.
        message: What, in one sentence.
        path: Where; may be empty.
        mended: Whether it has been mended.
        mend: What mends it, where that is safe.
    """

    code: str
    level: Level
    message: str
    path: str = ""
    mended: bool = False
    mend: Callable[[], None] | None = None


def examine_store(
    store: DirectoryStore,
    *,
    settings: TimelineSettings,
    now: datetime,
    expires_within: timedelta = timedelta(0),
    fix: bool = False,
) -> tuple[Finding, ...]:
    """Look for everything that this module knows of, and mend what is safe to mend if asked.

    The store is held alone meanwhile, so nothing that is under way is taken for a leftover.

    Args:
        store: The store.
        settings: What is assumed of caches.
        now: The time, with its zone.
        expires_within: Also say what will be due by then.
        fix: Mend.

    Raises:
        StoreFault: ``keystore.busy``, or as :meth:`DirectoryStore.load`.
        FileFault: The directory cannot be read, or what was to be mended not be written.
    """
    with alone(store.path):
        state = store.load()
        files = [*_leftovers(store.path), *_private_halves(store, state), *_modes(store)]
        if fix:
            files = [_mended(finding) for finding in files]
    found = [*files, *_log(store, state), *_clock(state, now, settings)]
    return (*found, *_settings(settings), *_keys(state, settings, now, expires_within))


def _mended(finding: Finding) -> Finding:
    if finding.mend is None:
        return finding
    finding.mend()
    return Finding(finding.code, "note", finding.message, finding.path, mended=True)


def _leftovers(path: Path) -> Iterator[Finding]:
    """Files that a killed process left, and files that are not ours."""
    for entry in sorted(path.iterdir()):
        if _TEMPORARY.fullmatch(entry.name):
            yield _removable(entry, "a killed process left this file")
        elif entry.name not in _OURS:
            message = "this is nothing that cardsign has written"
            yield Finding("doctor.stranger", "note", message, str(entry))


def _private_halves(store: DirectoryStore, state: StoreState) -> Iterator[Finding]:
    """Private halves that nothing names, and names without one."""
    held = {key.thumbprint for key in state.keys if key.private == "held"}
    directory = store.path / PRIVATE_DIRECTORY
    for entry in sorted(directory.iterdir()) if directory.is_dir() else ():
        match = _KEY_FILE.fullmatch(entry.name)
        if match is None:
            message = "this is no private half of a key"
            yield Finding("doctor.stranger", "note", message, str(entry))
        elif match[1] not in held:
            yield _removable(entry, "this private half belongs to no key of the store")
    for key in state.keys:
        if key.private == "held" and not store.private_file(key.thumbprint).exists():
            yield Finding(
                "doctor.private_missing",
                "alarm",
                f"the private half of key {key.kid!r} is not here",
                str(store.private_file(key.thumbprint)),
            )


def _removable(entry: Path, message: str) -> Finding:
    def mend() -> None:
        remove(entry)

    return Finding("doctor.leftover", "alarm", message, str(entry), mend=mend)


def _modes(store: DirectoryStore) -> Iterator[Finding]:
    """Private files that others can reach, and links in their places."""
    directory = store.path / PRIVATE_DIRECTORY
    private = sorted(directory.iterdir()) if directory.is_dir() else []
    for entry in [store.path / AUDIT_FILE, directory, *private]:
        if entry.is_symlink():
            yield Finding("doctor.permissions", "alarm", "this is a symbolic link", str(entry))
        elif entry.exists() and entry.stat().st_mode & _SHARED_BITS:
            yield _too_open(entry)


def _too_open(entry: Path) -> Finding:
    mode = stat.S_IMODE(entry.stat().st_mode)

    def mend() -> None:
        set_mode(entry, mode & ~_SHARED_BITS)

    message = f"group or others can access this (mode {mode:04o})"
    return Finding("doctor.permissions", "alarm", message, str(entry), mend=mend)


def _log(store: DirectoryStore, state: StoreState) -> Iterator[Finding]:
    path = str(store.path / AUDIT_FILE)
    try:
        report = verify_chain(store.read_audit(), state.audit, where=path)
    except (StoreFault, FileFault) as fault:
        yield Finding(fault.code, "alarm", fault.message, fault.path)
        return
    if report.aborted:
        message = f"{report.aborted} line(s) of the log are of attempts that came to nothing"
        yield Finding("doctor.audit_aborted", "note", message, path)


def _clock(state: StoreState, now: datetime, settings: TimelineSettings) -> Iterator[Finding]:
    known = [
        time
        for key in state.keys
        for name in (field.name for field in fields(KeyTimes))
        if name != "stops_signing" and (time := getattr(key.times, name)) is not None
    ]
    known += [publication.at for publication in state.publications]
    newest = max(known, default=now)
    if newest > now + timedelta(seconds=settings.skew):
        message = f"the store knows of {newest:{SHOWN_TIME}}, and this clock says it is not yet"
        yield Finding("doctor.clock", "alarm", message)


def _settings(settings: TimelineSettings) -> Iterator[Finding]:
    for name in ("max_age", "worst_cache", "skew"):
        value, usual = getattr(settings, name), getattr(DEFAULT_SETTINGS, name)
        if value < usual:
            message = f"timeline.{name} is {value} seconds, less than the usual {usual}"
            yield Finding("doctor.timeline", "note", message, "cardsign.toml")


def _keys(
    state: StoreState, settings: TimelineSettings, now: datetime, within: timedelta
) -> Iterator[Finding]:
    """What is due or waits for a person."""
    if state.keys and not state.active_keys() and any("card" in key.roles for key in state.keys):
        yield Finding("doctor.no_active_key", "alarm", "no key signs cards")
    for step in steps(state, settings, now):
        if step.due is not None and step.due <= now + within:
            what = f"{step.action} {step.key.kid if step.key else f'the next {step.alg} key'}"
            when = "is due" if step.is_due(now) else f"will be due at {step.due:{SHOWN_TIME}}"
            yield Finding("doctor.due", "alarm" if within else "note", f"{what}: {when}")
