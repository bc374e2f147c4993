"""What is wrong with the files of a key store, and the fixes that are safe.

Safe to fix is what nothing refers to, and permissions that are too wide. Nothing here decides
what became of a key: a lost private key or a broken log is reported, not fixed.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.errors import FileFault, StoreFault
from cardsign.files import file_faults, remove
from cardsign.findings import Finding, Place
from cardsign.keys.folder import (
    BLOB,
    LOCK_FILE,
    LOG_FILE,
    PRIVATE_FOLDER,
    STATEMENTS_FOLDER,
    FolderStore,
)
from cardsign.keys.model import (
    ENDED,
    StoreState,
    private_blob,
)
from cardsign.keys.store import KeyStore


def _alarm(code: str, message: str, path: str = "") -> Finding:
    """Return what a person should act upon."""
    return Finding(code, message, Place(path), severity="error")


def _note(code: str, message: str, path: str = "") -> Finding:
    """Return what a person should know."""
    return Finding(code, message, Place(path), severity="note")


#: What the folder shows, and what repairs it where that is safe.
_Found: TypeAlias = tuple[Finding, Callable[[], None] | None]
_TEMPORARY: Final = re.compile(r"\.[^/]+\.[0-9a-f]{16}\.tmp")
_SHARED_BITS: Final = 0o077
_WRITABLE_BITS: Final = 0o022
_OURS: Final = frozenset({LOG_FILE, LOCK_FILE, PRIVATE_FOLDER, STATEMENTS_FOLDER})


def examine_store(
    store: KeyStore, *, fix: bool = False, is_behind: bool = False
) -> tuple[Finding, ...]:
    """Look at the log and at the files, and fix what is safe to fix if asked.

    Where the log `is_behind` what is published, a private key that it does not name is no leftover.

    A store in files is held alone meanwhile, so nothing that is under way is taken for a
    leftover. A database holds nothing that is half done.

    Raises:
        StoreFault: ``file.busy``.
        FileFault: The directory cannot be read, or what was to be fixed not be written.
    """
    findings: list[_Found] = []
    with store.alone() if isinstance(store, FolderStore) else nullcontext():
        private = store.list_blobs()  # first: what is there is named by then, or is a leftover
        try:
            state = store.load(moved=True)
        except (StoreFault, FileFault) as fault:
            findings.append((_alarm(fault.code, fault.message, fault.path), None))
        else:
            if state.moved_to is not None:
                findings.append((_moved(store, state.moved_to), None))
            else:
                findings += _private_keys(store, state, private, is_behind)
        if isinstance(store, FolderStore):
            findings = [*_leftovers(store), *findings, *_modes(store)]
        return tuple(_repair(finding, repair if fix else None) for finding, repair in findings)


def _repair(finding: Finding, repair: Callable[[], None] | None) -> Finding:
    if repair is None:
        return finding
    repair()
    message, fix = f"fixed: {finding.message}", "Nothing is left to do."
    return replace(finding, message=message, fix=fix, severity="note")


def _moved(store: KeyStore, to: str) -> Finding:
    """A store that moved, and the private keys that a thief of this machine still finds."""
    message, private = f"this key store moved to {to}", _private_of(store)
    if private:
        where = store.place_of(f"{PRIVATE_FOLDER}/*.key")
        message += (
            f"; its private keys ({len(private)}) still lie here, encrypted. Once the new one has "
            f"signed and has a backup, destroy them: delete {where}"
        )
    return (_alarm if private else _note)("doctor.moved", message, store.place)


def _private_of(store: KeyStore) -> frozenset[str]:
    return frozenset(name for name in store.list_blobs() if name.startswith(PRIVATE_FOLDER))


def _leftovers(store: FolderStore) -> Iterator[_Found]:
    """Files that a killed process left, and files that are not ours."""
    for folder in (store.path, store.path / PRIVATE_FOLDER, store.path / STATEMENTS_FOLDER):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = entry.relative_to(store.path).as_posix()
            if _TEMPORARY.fullmatch(entry.name):
                # No alarm: nothing refers to it, and no later command is hindered by it.
                message = "a killed process left this file"
                yield _note("doctor.leftover", message, str(entry)), partial(remove, entry)
            elif name not in _OURS and not BLOB.fullmatch(name):
                message = "cardsign did not write this"
                yield _note("doctor.stranger", message, str(entry)), None


def _private_keys(
    store: KeyStore, state: StoreState, blobs: frozenset[str], is_behind: bool
) -> Iterator[_Found]:
    """Private keys that nothing names, and names without one; an ended key needs none."""
    private = {name for name in blobs if name.startswith(PRIVATE_FOLDER)}
    for name in sorted(private - state.private_blobs()):
        message = "no key in the log has this private key"
        finding = _alarm("doctor.leftover", message, store.place_of(name))
        if is_behind:
            fix = "Put back the newest log, which names it: more is published than this one says."
            yield replace(finding, fix=fix), None
        else:
            yield finding, partial(store.drop_blobs, [name])
    for key in state.keys:
        name = private_blob(key.blob or "")
        if key.private == "held" and key.state not in ENDED and name not in private:
            message = f"the private key of {' and '.join(key.roles)} key {key.kid!r} is not here"
            where = store.place_of(name)
            yield _alarm("doctor.private_missing", message, where), None


def _modes(store: FolderStore) -> Iterator[_Found]:
    """Private files that others can reach, told together, and links in their places."""
    directory = store.path / PRIVATE_FOLDER
    private = sorted(directory.iterdir()) if directory.is_dir() else []
    writable: dict[Path, int] = {}
    readable: dict[Path, int] = {}  # key files are encrypted, and a checkout by git is readable
    for entry in [store.log, directory, *private]:
        if entry.is_symlink():
            yield _alarm("doctor.symlink", "this is a symbolic link", str(entry)), None
        elif entry.exists() and (mode := stat.S_IMODE(entry.stat().st_mode)) & _SHARED_BITS:
            (writable if mode & _WRITABLE_BITS else readable)[entry] = mode
    for report, modes in ((_alarm, writable), (_note, readable)):
        if modes:
            first, message = _too_open(modes)
            yield report("doctor.permissions", message, str(first)), partial(_close_modes, modes)


def _close_modes(modes: Mapping[Path, int]) -> None:
    for entry, mode in modes.items():
        if entry.exists():  # it may have been a leftover, which is gone by now
            with file_faults(entry, "file.unwritable"):
                entry.chmod(mode & ~_SHARED_BITS)


def _too_open(modes: Mapping[Path, int]) -> tuple[Path, str]:
    first, *more = modes
    message = f"group or others can access this (mode {modes[first]:04o})"
    if more:
        others = "another file" if len(more) == 1 else f"{len(more)} other files"
        message += f", and {others} of the key store"
    return first, message
