"""What ails a key store, and the mending of what can be mended safely.

Safe to mend is what nothing refers to, and permissions that are too wide. Nothing here decides
what became of a key: a lost private half or a broken log is told, not mended.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, StoreFault
from cardsign.files import read_bytes, remove, set_mode
from cardsign.jose.statements import MAX_STATEMENT_BYTES
from cardsign.keys.account import differences
from cardsign.keys.audit import check_witnessed, verify_chain
from cardsign.keys.findings import Finding
from cardsign.keys.interface import KINDS
from cardsign.keys.ledger import Ledger
from cardsign.keys.opening import AnyStore
from cardsign.keys.outlook import Known, outlook
from cardsign.keys.records import StoreState
from cardsign.keys.shelf import DIRECTORY as SHELF_DIRECTORY
from cardsign.keys.store import (
    AUDIT_FILE,
    LOCK_FILE,
    PRIVATE_DIRECTORY,
    PRIVATE_FILE,
    STATE_FILE,
    DirectoryStore,
    alone,
)
from cardsign.keys.timeline import TimelineSettings

_TEMPORARY: Final = re.compile(r"\.[^/]+\.[0-9a-f]{16}\.tmp")
_SHARED_BITS: Final = 0o077
_OURS: Final = frozenset({STATE_FILE, AUDIT_FILE, LOCK_FILE, PRIVATE_DIRECTORY, SHELF_DIRECTORY})


def examine_store(
    store: AnyStore,
    *,
    settings: TimelineSettings,
    now: datetime,
    expires_within: timedelta = timedelta(0),
    draft: Path | None = None,
    fix: bool = False,
) -> tuple[Finding, ...]:
    """Look for everything that this module knows of, and mend what is safe to mend if asked.

    A store in files is held alone meanwhile, so nothing that is under way is taken for a
    leftover; in a database there is nothing half done.

    Args:
        store: The store.
        settings: What is assumed of caches.
        now: The time, with its zone.
        expires_within: Also say what will be due by then.
        draft: Where a keyset statement may wait for the roots.
        fix: Mend.

    Raises:
        StoreFault: ``keystore.busy``, or as :meth:`DirectoryStore.load`.
        FileFault: The directory cannot be read, or what was to be mended not be written.
    """
    with alone(store.path) if isinstance(store, DirectoryStore) else nullcontext():
        state, halves = _of_one_moment(store)
        found = [*_private_halves(store, state, halves)]
        if isinstance(store, DirectoryStore):
            found = [*_leftovers(store), *_strange_halves(store), *found, *_modes(store)]
        if fix:
            found = [_mended(finding) for finding in found]
    known, broken = _known(store, state, draft)
    found += [*broken, *_log(store, known)]
    return (*found, *outlook(known, settings, now, expires_within))


def _of_one_moment(store: AnyStore) -> tuple[StoreState, frozenset[str]]:
    """The state, and the private halves that lay there with it."""
    while True:
        state, halves = store.load(), store.private_halves()
        if store.load().generation == state.generation:
            return state, halves


def _mended(finding: Finding) -> Finding:
    if finding.mend is None:
        return finding
    finding.mend()
    return Finding(finding.code, "note", finding.message, finding.path, mended=True)


def _leftovers(store: DirectoryStore) -> Iterator[Finding]:
    """Files that a killed process left, and files that are not ours."""
    shelf = store.shelf.path
    for folder in (store.path, shelf, *(shelf / kind for kind in KINDS)):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if _TEMPORARY.fullmatch(entry.name):
                message = "a killed process left this file"
                mend = partial(remove, entry)
                yield Finding("doctor.leftover", "alarm", message, str(entry), mend=mend)
            elif folder == store.path and entry.name not in _OURS:
                message = "this is nothing that cardsign has written"
                yield Finding("doctor.stranger", "note", message, str(entry))


def _strange_halves(store: DirectoryStore) -> Iterator[Finding]:
    directory = store.path / PRIVATE_DIRECTORY
    for entry in sorted(directory.iterdir()) if directory.is_dir() else ():
        if not PRIVATE_FILE.fullmatch(entry.name):
            message = "this is no private half of a key"
            yield Finding("doctor.stranger", "note", message, str(entry))


def _private_halves(
    store: AnyStore, state: StoreState, halves: frozenset[str]
) -> Iterator[Finding]:
    """Private halves that nothing names, and names without one."""
    held = {key.thumbprint: key for key in state.keys if key.private == "held"}
    for thumbprint in sorted(halves - held.keys()):
        message = "this private half belongs to no key of the store"
        where = store.private_place(thumbprint)
        mend = partial(store.remove_private, thumbprint)
        yield Finding("doctor.leftover", "alarm", message, where, mend=mend)
    for thumbprint, key in held.items():
        if thumbprint not in halves:
            message = f"the private half of key {key.kid!r} is not here"
            where = store.private_place(thumbprint)
            yield Finding("doctor.private_missing", "alarm", message, where)


def _modes(store: DirectoryStore) -> Iterator[Finding]:
    """Private files that others can reach, and links in their places."""
    directory = store.path / PRIVATE_DIRECTORY
    private = sorted(directory.iterdir()) if directory.is_dir() else []
    for entry in [store.path / AUDIT_FILE, directory, *private]:
        if entry.is_symlink():
            yield Finding("doctor.symlink", "alarm", "this is a symbolic link", str(entry))
        elif entry.exists() and entry.stat().st_mode & _SHARED_BITS:
            yield _too_open(entry)


def _too_open(entry: Path) -> Finding:
    mode = stat.S_IMODE(entry.stat().st_mode)

    def mend() -> None:
        set_mode(entry, mode & ~_SHARED_BITS)

    message = f"group or others can access this (mode {mode:04o})"
    return Finding("doctor.permissions", "alarm", message, str(entry), mend=mend)


def _log(store: AnyStore, known: Known) -> Iterator[Finding]:
    path, release = store.log_place, known.release
    try:
        log = store.read_audit()
        report = verify_chain(log, known.state.audit, where=path)
        if release is not None and release.audit_head is not None:
            witness = f"release {release.seq}"
            check_witnessed(log, release.audit_head, witness=witness, where=path)
    except (StoreFault, FileFault) as fault:
        yield Finding(fault.code, "alarm", fault.message, fault.path)
        return
    for what in differences(known.state, report, log):
        yield Finding("keystore.audit_differs", "alarm", what, store.place)
    if report.aborted:
        message = f"{report.aborted} line(s) of the log are of attempts that came to nothing"
        yield Finding("doctor.audit_aborted", "note", message, path)


def _known(
    store: AnyStore, state: StoreState, draft: Path | None
) -> tuple[Known, tuple[Finding, ...]]:
    """The store with the statements beside it; without them if they cannot be relied on."""
    ledger = Ledger(store.shelf, state.statements)
    try:
        keyset, release = ledger.newest_keyset(), ledger.newest_release()
        waiting = None
        if draft is not None and keyset is not None and draft.is_file():
            waiting = read_bytes(draft, max_bytes=MAX_STATEMENT_BYTES)
    except (StoreFault, FileFault) as fault:
        return Known(state), (Finding(fault.code, "alarm", fault.message, fault.path),)
    return Known(state, keyset, release, waiting, str(draft or "")), ()
